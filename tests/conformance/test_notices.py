"""Notices: who is told of what, from the commit that gives rise to it, at least once, under one id; on every store."""

from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.dump import dump
from wakeful import App, DurableObject, Machine, RetryPolicy, action, errors
from wakeful.notices import Notice, deliveries
from wakeful.notices.deliveries import CLASS
from wakeful.notices.feature import DESCRIBE, SEND_TEST
from wakeful.notices.notice import decode_notice
from wakeful.operations.acts import Acts, Which
from wakeful.store.protocol import Query
from wakeful.values.ids import ObjectId
from wakeful.views.timer_names import parked_words
from wakeful.webhooks import new_secret, verify

KEY, MARKER = "acme/alice@example.org", "marker-7f3a"
SECRET, OLD = new_secret(), new_secret()
HOOK = "https://hooks.example.com/T0/secret-path?token=x"
ONCE = RetryPolicy(1)


class Office:
    """An app whose invoices fail as the test says, and what was told of them."""

    def __init__(self, url: str = "memory:", **options: Any) -> None:
        self.url = url
        self.app = App(**options)
        self.told: list[Notice] = []
        self.failing: BaseException | None = None
        self.Invoice: Any = self.app.object(_invoice())

    def world(self, **options: Any) -> Any:
        return self.app.world(store=self.url, **options)

    def listen(self, *kinds: str, **options: Any) -> None:
        async def hear(notice: Notice) -> None:
            self.told.append(notice)
            if self.failing is not None:
                raise self.failing

        self.app.on(kinds, hear, **options)

    def of(self, key: str = KEY) -> Any:
        return self.app.get(self.Invoice, key)

    async def fail_job(self, key: str = KEY, count: int = 1, **options: Any) -> None:
        for _ in range(count):
            await self.app.jobs.schedule(self.of(key).charge, retry=ONCE, **options)

    @property
    def ids(self) -> list[str]:
        return [notice.id for notice in self.told]

    @property
    def kinds(self) -> list[str]:
        return [notice.kind for notice in self.told]


def _invoice() -> type:
    class Invoice(DurableObject):
        async def begin(self, seconds: int = 60) -> None:
            await self.storage.set_alarm(timedelta(seconds=seconds))

        async def alarm(self) -> None:
            raise ConnectionError(MARKER)

        async def charge(self) -> None:
            raise ValueError(MARKER)

        async def fine(self) -> None:
            await self.storage.put("ran", True)

        async def repeat(self, **options: Any) -> None:
            await self.schedules.add("0 * * * *", "fine", name="hourly", **options)

    return Invoice


@pytest.fixture
def office(stage: Any) -> Office:
    return Office(stage.url)


# what gives rise to one


async def test_a_parked_alarm_is_told_of_with_what_happened(office: Office) -> None:
    office.listen("parked")
    async with office.world() as world:
        await office.of().begin()
        await world.advance(minutes=10)
        [notice] = office.told
        assert (notice.kind, notice.object, notice.timer) == ("parked", ObjectId("Invoice", KEY), "alarm")
        assert (notice.what, notice.name, notice.attempts) == ("alarm", "alarm", 7)
        assert notice.error is not None
        assert (notice.error.type, notice.error.message) == ("ConnectionError", MARKER)
        assert notice.at <= world.now()
        assert notice.node == world.node.name
        assert str(notice) == f"Invoice/{KEY} alarm parked after 7 attempts: ConnectionError: {MARKER}"


async def test_a_job_that_failed_for_good_is_told_of_once_also_to_who_wants_both(office: Office) -> None:
    office.listen("failed", "parked")
    async with office.world() as world:
        await office.fail_job()
        await world.settle()
        assert [(one.kind, one.what, one.name) for one in office.told] == [("failed", "job", "charge")]


async def test_who_wants_what_is_parked_hears_of_failed_jobs_and_not_the_other_way(office: Office) -> None:
    office.listen("parked", name="all")
    jobs: list[Notice] = []
    office.app.on("failed", jobs.append, name="jobs")
    async with office.world() as world:
        await office.of().begin(1)
        await office.fail_job()
        await world.advance(minutes=10)
        assert (sorted(office.kinds), [one.kind for one in jobs]) == (["failed", "parked"], ["failed"])


async def test_an_action_of_a_machine_goes_by_its_name(office: Office) -> None:
    class NoticedOrder(Machine):
        chart = {
            "initial": "open",
            "states": {"open": {"on": {"DUE": {"target": "due", "actions": "collect"}}}, "due": {}},
        }
        retry = ONCE

        @action
        async def collect(self, context: Any, event: Any) -> None:
            raise ConnectionError(MARKER)

    office.app.object(NoticedOrder)
    office.listen("parked")
    async with office.world() as world:
        await world.get(NoticedOrder, KEY).send("DUE")
        await world.settle()
        (notice,) = office.told
        assert (notice.what, notice.name, notice.timer) == ("action", "collect", "machine-do:collect")
        assert str(notice).startswith(f"NoticedOrder/{KEY} action collect parked after 1 attempt")


async def test_an_attempt_that_is_tried_again_is_no_news(office: Office) -> None:
    office.listen("parked", "failed")
    async with office.world() as world:
        await office.of().begin(1)
        await world.advance(seconds=10)
        assert office.told == []


async def test_occurrences_that_nobody_ran_are_told_of_together(office: Office) -> None:
    office.listen("missed")
    async with office.world() as world:
        await office.of().repeat(catch_up="skip")
        await world.crash()
        await world.restart(after="5h30m")
        await world.advance(hours=2)
        [notice] = office.told
        assert (notice.kind, notice.what, notice.name, notice.count) == ("missed", "schedule", "hourly", 5)
        assert notice.since is not None
        assert notice.since.hour == 1


async def test_what_a_person_cancels_is_no_news(office: Office) -> None:
    office.listen("missed", "failed", "parked")
    async with office.world() as world:
        job = await office.app.jobs.schedule(office.of().charge, after="1h")
        await office.app.jobs.cancel(job.id)
        await world.advance(hours=2)
        assert office.told == []


async def test_a_run_that_comes_late_is_told_of_from_its_own_threshold_on(office: Office) -> None:
    office.listen("late", late="10m")
    async with office.world() as world:
        await office.app.jobs.schedule(office.of("a").fine, after="1m")
        await office.app.jobs.schedule(office.of("b").fine, after="30m")
        await world.crash()
        await world.restart(after="35m")
        await world.advance(seconds=1)
        assert [one.object for one in office.told] == [ObjectId("Invoice", "a")]
        assert office.told[0].lateness is not None
        assert timedelta(minutes=34) <= office.told[0].lateness <= timedelta(minutes=35)


async def test_a_late_run_that_is_tried_again_is_late_once(office: Office) -> None:
    office.listen("late", "parked", late="1m")
    async with office.world() as world:
        due = world.now() + timedelta(minutes=1)
        await office.app.schedules(office.Invoice, "a").add(due, "charge", name="once", retry=RetryPolicy(3))
        await world.crash()
        await world.restart(after="35m")  # it stands for an occurrence that was missed, so it is as late as that was
        await world.advance(hours=1)
        assert office.kinds == ["late", "parked"]
        assert str(office.told[0]).startswith("Invoice/a schedule once ran 34 minutes ")
        await Acts.of_node(world.node, "ada").redrive(Which(is_all=True))
        await world.advance(hours=1)
        assert office.kinds == ["late", "parked", "parked"]


async def test_a_timer_that_is_redriven_is_not_late_and_fails_under_another_id(office: Office) -> None:
    office.listen("late", "parked", late="1s")
    async with office.world() as world:
        await office.fail_job()
        await world.advance(hours=1)
        job = next(iter(await office.app.jobs.list()))
        await office.app.jobs.redrive(job.id)
        await world.settle()
        assert office.kinds == ["failed", "failed"]
        assert len(set(office.ids)) == 2


async def test_an_outage_is_told_of_at_once_and_when_it_is_over(office: Office) -> None:
    office.listen("outage")
    async with office.world() as world:
        await office.of().fine()
        world.faults.is_down = True
        with pytest.raises(errors.Unavailable):
            await office.of().fine()
        await world.settle()
        assert [one.is_over for one in office.told] == [False]
        world.faults.is_down = False
        await world.advance(minutes=1)
        assert [(one.kind, one.is_over) for one in office.told] == [("outage", False), ("outage", True)]
        assert office.told[1].since == office.told[0].since


# to whom


async def test_by_class_and_by_the_beginning_of_the_key(office: Office) -> None:
    other: Any = office.app.object(name="Order")(_invoice())
    office.listen("parked", cls=office.Invoice, prefix="acme/")
    async with office.world() as world:
        for stub in (office.of(), office.of("beta/1"), office.app.get(other, KEY)):
            await office.app.jobs.schedule(stub.charge, retry=ONCE)
        await world.settle()
        assert [one.object for one in office.told] == [ObjectId("Invoice", KEY)]


async def test_without_anybody_who_listens_nothing_is_written(office: Office) -> None:
    async with office.world() as world:
        await office.fail_job()
        await world.advance(minutes=5)
        assert await world.store.find_objects(Query(cls=CLASS)) == []
        assert world.node.notices is None


async def test_plain_functions_and_handlers_of_a_running_app(office: Office) -> None:
    async with office.world() as world:
        told: list[Notice] = []
        office.app.on("failed", told.append, name="plain")
        await office.fail_job()
        await world.settle()
        assert [one.kind for one in told] == ["failed"]


@pytest.mark.parametrize("kinds", ["broken", ("parked", "gone"), (), None])
def test_a_kind_that_is_none_is_refused_with_those_that_there_are(kinds: Any) -> None:
    with pytest.raises(errors.BadOption, match="parked, failed, missed, late, outage") as caught:
        App().on(kinds, print)
    assert caught.value.code == "notice.kind"


def test_handlers_that_can_t_be_told_and_names_that_are_taken_are_refused() -> None:
    app = App()
    with pytest.raises(errors.BadHandler):
        app.on("parked", lambda: None, name="none")
    with pytest.raises(errors.BadName):
        app.on("parked", lambda notice: None)
    app.on("parked", print, name="one")
    with pytest.raises(errors.BadOption, match="already"):
        app.on("parked", repr, name="one")


# how surely


async def test_a_handler_that_fails_is_tried_again_under_the_same_id(office: Office) -> None:
    office.listen("failed")
    office.failing = OSError("mail is down")
    async with office.world() as world:
        await office.fail_job()
        await world.advance(seconds=3)
        assert len(office.told) == 2
        office.failing = None
        await world.advance(minutes=1)
        assert len(office.told) == 3
        assert len(set(office.ids)) == 1


async def test_what_can_t_be_delivered_is_parked_without_a_notice_about_it(office: Office) -> None:
    office.listen("parked", "failed", "late", "missed", retry=RetryPolicy(3))
    office.failing = OSError("mail is down")
    async with office.world() as world:
        await office.fail_job()
        await world.advance(minutes=2)
        assert len(office.told) == 3
        assert sorted(one.timer.id.cls for one in await world.parked()) == ["Invoice", CLASS]
        assert await world.due() == []
        office.failing = None
        [parked] = [one for one in await world.parked() if one.timer.id.cls == CLASS]
        assert parked_words(parked.timer).startswith(f"delivery of: Invoice/{KEY} ")
        await world.node.send(parked.timer.id, "timers.redrive", (parked.timer.name, parked.number), {})
        await world.settle()
        assert len(set(office.ids)) == 1
        assert len(office.told) == 4


async def test_killed_at_every_trip_to_disk_each_parked_timer_is_told_of_under_one_id() -> None:
    """In memory: the trips are the same on every store."""
    for crash_at in range(1, 200):
        office = Office()
        office.listen("parked")
        async with office.world() as world:
            await office.of("x").fine()
            seen = 0

            def probe(name: str, _: int, world: Any = world, crash_at: int = crash_at) -> None:
                nonlocal seen
                seen += 1
                if seen == crash_at:
                    world.kill()

            world.faults.on_probe = probe
            try:
                await office.fail_job("a")
                await office.of("b").begin(1)
                await world.advance(minutes=10)
            except errors.Unavailable:
                pass
            world.faults.on_probe = None
            if seen < crash_at:
                assert crash_at > 40
                return
            await world.restart(after="1s")
            await world.advance(minutes=10)
            parked = {(one.timer.id, one.timer.name) for one in await world.parked()}
            assert {(one.object, one.timer) for one in office.told} == parked, crash_at
            assert len(set(office.ids)) == len(parked), crash_at
            assert await world.due() == [], crash_at
    raise AssertionError("there were more trips than that")


async def test_it_goes_with_the_commit_also_from_another_store() -> None:
    office = Office(stores={"acme/": "memory:"})
    office.listen("failed")
    async with office.world() as world:
        await office.fail_job()
        await world.advance(seconds=5)
        assert [one.object for one in office.told] == [ObjectId("Invoice", KEY)]


async def test_it_waits_on_its_way_while_the_store_that_delivers_is_away() -> None:
    office = Office(stores={"acme/": "memory:"})
    office.listen("failed")
    async with office.world() as world:
        world.faults.is_down = True  # of the main store, where it is to go
        await office.fail_job()
        await world.advance(seconds=5)
        world.faults.is_down = False
        await world.advance(minutes=1)
        assert [one.object for one in office.told] == [ObjectId("Invoice", KEY)]


async def test_a_cluster_tells_it_once_when_nobody_dies() -> None:
    office = Office()
    office.listen("failed", "parked")
    async with office.world(nodes=3) as world:
        for number in range(12):
            await office.fail_job(f"k{number}")
        await world.advance(seconds=10)
        assert len(office.told) == len(set(office.ids)) == 12


async def test_a_flood_is_one_notice_with_a_count_and_the_first_few(office: Office) -> None:
    office.listen("failed", "parked", at_most="1m")
    async with office.world() as world:
        for number in range(40):
            await office.fail_job(f"k{number}")
        await world.settle()
        assert [one.count for one in office.told] == [1]
        await world.advance(minutes=5)
        assert [one.count for one in office.told] == [1, 39]
        many = office.told[1]
        assert (many.kind, many.object, len(many.first)) == ("failed", None, 10)
        assert many.first[0].object is not None
        assert str(many).startswith("39 × failed; Invoice/k")
        await office.fail_job("later")
        await world.settle()
        assert office.told[2].object == ObjectId("Invoice", "later")
        assert await world.due() == []


async def test_a_flood_is_counted_over_a_crash(office: Office) -> None:
    office.listen("failed", at_most="1m")
    async with office.world() as world:
        for number in range(5):
            await office.fail_job(f"k{number}")
        await world.advance(seconds=5)
        await world.crash()
        await world.restart(after="2s")
        await world.advance(minutes=2)
        assert [one.count for one in office.told] == [1, 4]


# webhooks


async def test_a_webhook_is_signed_as_the_standard_says_and_tells_no_data(office: Office) -> None:
    office.app.webhook(HOOK, on="failed", secret=[SECRET, OLD])
    async with office.world() as world:
        await office.fail_job()
        await world.settle()
        [sent] = world.webhooks.sent
        assert sent.url == HOOK
        now = world.now().timestamp()
        id = verify(SECRET, sent.headers, sent.body, now=now)
        assert verify(OLD, {name.upper(): value for name, value in sent.headers.items()}, sent.body, now=now) == id
        assert sent.json["type"] == "wakeful.failed"
        data = sent.json["data"]
        assert (data["id"], data["class"], data["key"], data["name"]) == (id, "Invoice", KEY, "charge")
        assert data["error"] == {"type": "ValueError", "code": None}
        assert MARKER.encode() not in sent.body


async def test_what_errors_said_goes_along_when_it_is_asked_for(office: Office) -> None:
    office.app.webhook(HOOK, on="failed", secret=SECRET, messages=True)
    async with office.world() as world:
        await office.fail_job()
        await world.settle()
        assert world.webhooks.sent[0].json["data"]["error"]["message"] == MARKER


async def test_a_receiver_that_does_not_take_it_is_asked_again_under_the_same_id(office: Office) -> None:
    office.app.webhook(HOOK, on="failed", secret=SECRET)
    async with office.world() as world:
        for status in (500, 302, 404, None):
            world.webhooks.status = status
            if status == 500:
                await office.fail_job()
            await world.advance(minutes=2)
        world.webhooks.status = 204
        await world.advance(hours=2)
        sent = world.webhooks.sent
        assert len(sent) > 4
        assert len({one.headers["webhook-id"] for one in sent}) == 1
        assert len({one.headers["webhook-timestamp"] for one in sent}) == len(sent)
        assert [one.timer.id.cls for one in await world.parked()] == ["Invoice"]
        count = len(sent)
        await world.advance(days=1)
        assert len(world.webhooks.sent) == count


async def test_a_receiver_that_is_gone_is_not_asked_again_for_that_one(office: Office) -> None:
    office.app.webhook(HOOK, on="failed", secret=SECRET)
    async with office.world() as world:
        world.webhooks.status = 410
        await office.fail_job()
        await world.advance(days=2)
        assert len(world.webhooks.sent) == 1
        assert sorted(one.timer.id.cls for one in await world.parked()) == ["Invoice", CLASS]


async def test_a_test_says_what_came_back_and_looking_wakes_nothing(office: Office) -> None:
    office.app.webhook(HOOK, secret=SECRET, name="chat")
    office.listen("parked", name="mail")
    async with office.world() as world:
        ask = lambda key: world.node.send(ObjectId(CLASS, key), SEND_TEST, (), {})  # noqa: E731
        found = await ask("chat")
        assert (found["ok"], found["status"]) == (True, 204)
        assert world.webhooks.sent[0].json["type"] == "wakeful.test"
        world.webhooks.status = 500
        found = await ask("chat")
        assert found["ok"] is False
        assert "answered 500" in found["error"]
        assert "secret-path" not in found["error"]
        with pytest.raises(errors.Conflict, match="no webhook"):
            await ask("mail")
        rows = await world.node.send(ObjectId(CLASS, "all"), DESCRIBE, (), {})
        assert [(row["name"], row["kind"], row["url"]) for row in rows] == [
            ("chat", "webhook", "https://hooks.example.com/…"),
            ("mail", "handler", None),
        ]
        assert not world.node.awake or all(id.cls == CLASS for id in world.node.awake)
        assert world.node.meter.wakes.value == 0
        with pytest.raises(errors.UnknownObject, match="nobody called"):
            await ask("nobody")


# forgetting


@pytest.mark.parametrize("how", ["each", "at most"])
async def test_what_was_not_delivered_of_a_forgotten_object_is_nowhere(office: Office, how: str) -> None:
    office.listen("failed", at_most="1h" if how == "at most" else None)
    office.failing = OSError("mail is down")
    async with office.world() as world:
        await office.fail_job(KEY)
        await office.fail_job(KEY)
        await office.fail_job("other")
        await world.advance(seconds=5)
        assert KEY.encode() in dump(world, office.url)
        assert await office.app.forget(office.Invoice, KEY)
        assert KEY.encode() not in dump(world, office.url)
        office.failing, office.told = None, []
        await world.advance(hours=2)
        assert {one.object for one in office.told} <= {ObjectId("Invoice", "other")}
        assert office.told
        assert KEY.encode() not in dump(world, office.url)


async def test_one_of_many_and_one_that_is_parked_go_too(office: Office) -> None:
    office.listen("failed", at_most="10s", retry=RetryPolicy(1))
    office.failing = OSError("mail is down")
    async with office.world() as world:
        for key in ("other", KEY, "third"):
            await office.fail_job(key)
        await world.advance(minutes=5)
        assert len([one for one in await world.parked() if one.timer.id.cls == CLASS]) == 2
        await office.app.forget(office.Invoice, KEY)
        assert KEY.encode() not in dump(world, office.url)


async def test_a_handler_may_have_the_object_forgotten(office: Office) -> None:
    async def forget(notice: Notice) -> None:
        assert notice.object is not None
        await office.app.forget(office.Invoice, notice.object.key)

    office.app.on("failed", forget)
    async with office.world() as world:
        await office.fail_job()
        await world.advance(minutes=2)
        assert KEY.encode() not in dump(world, office.url)
        assert [one for one in await world.parked() if one.timer.id.cls == CLASS] == []


async def test_a_forget_reads_none_of_the_notices_of_others_and_lets_the_loop_go_between_pages(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.listen("failed", retry=RetryPolicy(1))
    office.failing = OSError("mail is down")
    decoded: list[Any] = []
    async with office.world() as world:
        for number in range(7):
            await office.fail_job(f"other{number}")
        await office.fail_job(KEY)
        await world.advance(minutes=5)
        assert len([one for one in await world.parked() if one.timer.id.cls == CLASS]) == 8
        pages = watch_pages(world.node, monkeypatch)
        monkeypatch.setattr(deliveries, "PAGE", 3)
        monkeypatch.setattr(deliveries, "decode_notice", lambda data: decoded.append(data) or decode_notice(data))
        await office.app.forget(office.Invoice, KEY)
        assert {decode_notice(data).object for data in decoded} <= {ObjectId("Invoice", KEY)}
        assert KEY.encode() not in dump(world, office.url)
        assert pages[:5] == ["page", "breath", "page", "breath", "page"]


def watch_pages(node: Any, patch: pytest.MonkeyPatch) -> list[str]:
    """Pages of the parked that are read of all subscriptions, and pauses between."""
    seen: list[str] = []
    find, sleep = node.store.find_parked, type(node.clock).sleep

    async def find_parked(query: Query) -> Any:
        if query.cls == CLASS and query.key is None:
            seen.append("page")
        return await find(query)

    async def pause(self: Any, length_ms: int) -> None:
        if seen:
            seen.append("breath")
        await sleep(self, length_ms)

    patch.setattr(node.store, "find_parked", find_parked)
    patch.setattr(type(node.clock), "sleep", pause)
    return seen


@pytest.mark.parametrize("secret", [5, b"whsec_x", {"a": 1}.keys()])
def test_a_secret_of_another_kind_is_refused_with_words(secret: Any) -> None:
    with pytest.raises(errors.BadOption, match="secret"):
        App().webhook("https://hooks.example.com/x", on="parked", secret=secret)


@pytest.mark.parametrize("url", ["https://h/a\r\nX-Evil: y", f"https://h/{'a' * 3_000}"])
def test_an_address_that_would_be_another_one_is_refused(url: str) -> None:
    with pytest.raises(errors.BadOption) as found:
        App().webhook(url, on="parked", secret=SECRET)
    assert found.value.code == "webhook.url"
