"""The client: the same stubs, jobs and schedules as in the program itself, with the same values and errors."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from tests.http.client_stage import client_of, served
from tests.http.http_stage import Address, Line, make_app
from wakeful import App, Client, DurableObject, JobSpec, RetryPolicy, errors, every, fixed
from wakeful.security.tokens import ALL, PREFIX, Token, new_secret

AT = datetime(2099, 1, 1, tzinfo=UTC)


async def test_calls_by_class_and_by_name_keep_every_type() -> None:
    async with served() as shop, client_of(shop) as client:
        bob = client.get(shop.cls, "bob")
        assert await bob.add(5) == 5
        assert await client.get("Shop", "bob").add(amount=2) == 7
        assert await bob.total() == 7
        value = {
            "at": AT, "bytes": b"\x00\xff", "set": {1, 2}, "tuple": (1, None), "big": 2**90, "length": timedelta(days=1),
            "id": UUID(int=7), "money": Decimal("1.10"), 3: "number", "text": "ü\u2028",
        }  # fmt: skip
        assert await bob.echo(value) == value
        given = await bob.order(Line("tea", 3), AT, to=Address("s"), blob=b"x")
        assert given["kinds"] == ["Line", "datetime", "Colour", "NoneType", "NoneType", "bytes", "Address"]
        assert (given["line"], given["to"]) == (Line("tea", 3), Address("s"))


@pytest.mark.parametrize("key", ["a/b", "..", ".", "a%2Fb", "ü€", "a b", "?x=1", "#", "+", "//", "../../etc/passwd"])
async def test_a_key_may_be_anything(key: str) -> None:
    async with served() as shop, client_of(shop) as client:
        assert await client.get("Shop", key).add(3) == 3
        assert [row["key"] for row in await client.objects("Shop")] == [key]
        assert (await client.object("Shop", key))["key"] == key


class Declined(Exception):
    def __init__(self, why: str, *, customer: str) -> None:
        super().__init__(why, customer)
        self.code, self.customer = why, customer


async def test_of_an_error_the_client_gets_type_and_words_and_nothing_of_what_it_holds() -> None:
    app = App()

    @app.object
    class Card(DurableObject):
        async def pay(self) -> None:
            raise Declined("no cover", customer="c1")

    async with served(app) as shop, client_of(shop) as client:
        with pytest.raises(Declined) as caught:
            await client.get(Card, "a").pay()
        assert caught.value.args == ("Declined: ('no cover', 'c1')",)
        assert caught.value.code == "turn.failed"
        assert not hasattr(caught.value, "customer")


async def test_what_the_object_raised_is_of_its_type() -> None:
    async with served() as shop, client_of(shop) as client:
        with pytest.raises(ValueError, match="bad luck") as caught:
            await client.get(shop.cls, "a").fails("bad luck")
        assert isinstance(caught.value, errors.TurnFailed)
        assert (caught.value.remote_type, caught.value.code) == ("ValueError", "turn.failed")
        assert "bad luck" in caught.value.remote_traceback  # nobody needs a token here, so anybody is an operator
        assert await client.get("Shop", "a").total() == 0


@pytest.mark.parametrize(
    ("cls", "method", "args", "kind", "code"),
    [
        ("Shop", "nothing", (), errors.UnknownMethod, "method.unknown"),
        ("Shop", "inside", (), errors.UnknownMethod, "method.unknown"),
        ("Nothing", "add", (), errors.UnknownClass, "class.unknown"),
        ("Shop", "add", ("x",), errors.BadValue, "arguments.type"),
        ("Shop", "add", (1, 2), errors.BadValue, "arguments.many"),
        ("Shop", "echo", ("x" * (1 << 20),), errors.LimitExceeded, "limit.arguments"),
    ],
)
async def test_errors_have_the_classes_and_codes_of_the_server(
    cls: str, method: str, args: tuple[Any, ...], kind: type[errors.WakefulError], code: str
) -> None:
    async with served() as shop, client_of(shop) as client:
        with pytest.raises(kind) as caught:
            await getattr(client.get(cls, "a"), method)(*args)
        assert (type(caught.value), caught.value.code) == (kind, code)


async def test_a_stub_of_a_class_knows_its_methods_and_any_stub_what_is_private() -> None:
    async with served() as shop, client_of(shop) as client:
        with pytest.raises(errors.UnknownMethod):
            client.get(shop.cls, "a").nothing  # noqa: B018
        with pytest.raises(errors.UnknownMethod):
            client.get("Shop", "a")._private  # noqa: B018
        with pytest.raises(errors.BadName):
            client.get("Shop", "")
        with pytest.raises(errors.BadValue):
            await client.get("Shop", "a").echo(object())


async def test_a_class_goes_by_the_name_it_is_registered_under() -> None:
    app = make_app()
    shop_class = app.deployment.registry.by_name("Shop").cls
    other = type("Kiosk", (shop_class,), {})
    app.object(name="Stall")(other)
    async with served(app) as shop, client_of(shop) as client:
        await client.get(other, "k").add(1)
        assert [row["class"] for row in await client.objects()] == ["Stall"]


async def test_a_deadline_is_the_servers_too() -> None:
    async with served() as shop, client_of(shop) as client:
        with pytest.raises(errors.DeadlineExceeded) as caught:
            await client.get("Shop", "a", deadline="50ms").slow(30)
        assert caught.value.code == "call.deadline"
        with pytest.raises(errors.BadOption):
            client.get("Shop", "a", deadline="1h")


async def test_request_keys_of_ones_own() -> None:
    async with served() as shop, client_of(shop) as client:
        with pytest.raises(errors.BadOption):
            await client.get("Shop", "a", request_key="two words").add(1)
        for key in ("k1", 'some"quotes', '"quoted"', "k" * 255):
            once = client.get("Shop", key, request_key=key)
            assert [await once.add(1), await once.add(1)] == [1, 1]
            with pytest.raises(errors.KeyTaken):
                await once.add(2)


async def test_lists_of_jobs_leave_out_large_results_and_get_has_them() -> None:
    async with served() as shop, client_of(shop) as client:
        large = await client.jobs.schedule(client.get(shop.cls, "large").echo, "x" * 100_000)
        small = await client.jobs.schedule(client.get(shop.cls, "small").echo, "x" * 100)
        for job in (large, small):
            await client.jobs.wait(job, timeout="20s")
        seen = {job.id: job for job in await client.jobs.list(state="done")}
        assert (seen[small.id].result, seen[small.id].left_out) == ("x" * 100, 0)
        assert seen[large.id].result is None
        assert 100_000 < seen[large.id].left_out < 100_010
        whole = await client.jobs.get(large.id)
        assert (whole.result, whole.left_out) == ("x" * 100_000, 0)


async def test_jobs() -> None:
    async with served() as shop, client_of(shop) as client:
        stub = client.get(shop.cls, "a")
        job = await client.jobs.schedule(stub.echo, {"b": b"x"}, metadata={"n": 1}, tags=["t"])
        assert await client.jobs.wait(job, timeout="20s") == {"b": b"x"}
        found = await client.jobs.get(job.id)
        assert (found.state, found.result, found.metadata, found.tags) == ("done", {"b": b"x"}, {"n": 1}, ("t",))
        later = await client.jobs.schedule(
            stub.add, 1, at=AT, key="mine", priority=3, retry=RetryPolicy(2, fixed("1s"))
        )
        assert (later.key, later.due_at, later.state, later.priority) == ("mine", AT, "scheduled", 3)
        assert (await client.jobs.schedule(stub.add, 1, at=AT, key="mine", priority=3)).id == later.id
        with pytest.raises(errors.KeyTaken):
            await client.jobs.schedule(stub.add, 2, at=AT, key="mine")
        assert (await client.jobs.schedule(stub.add, 2, at=AT, key="mine", replace=True)).id == later.id
        assert [one.id for one in await client.jobs.list(state="scheduled", cls=shop.cls, name="add")] == [later.id]
        assert await client.jobs.cancel(later) is True
        assert await client.jobs.cancel(later) is False
        with pytest.raises(errors.JobCancelled):
            await client.jobs.wait(later)
        with pytest.raises(errors.UnknownJob):
            await client.jobs.get("Shop/a/none")
        with pytest.raises(errors.DeadlineExceeded):
            await client.jobs.wait(await client.jobs.schedule(stub.add, at=AT), timeout="30ms")
        with pytest.raises(errors.BadHandler):
            await client.jobs.schedule(len)


async def test_many_jobs_and_a_batch() -> None:
    async with served() as shop, client_of(shop) as client:
        stub = client.get("Shop", "a")
        made = await client.jobs.schedule_many([JobSpec(stub.add, (n,), after="1h") for n in range(5)])
        assert len({job.id for job in made}) == 5
        with pytest.raises(errors.BadValue, match=r"jobs\[1\]"):
            await client.jobs.schedule_many([JobSpec(stub.add, (1,)), JobSpec(stub.add, ("x",))])
        wrong = [JobSpec(stub.add, (1,)), JobSpec(stub.add, "12")]  # type: ignore[arg-type]
        with pytest.raises(errors.BadOption, match=r"jobs\[1\]: args must be a list or tuple, not '12'"):
            await client.jobs.schedule_many(wrong)
        with pytest.raises(errors.BadOption, match=r"then: args must be"):
            await client.jobs.batch(wrong[:1], then=wrong[1])
        batch = await client.jobs.batch([JobSpec(stub.add, (1,)), JobSpec(stub.add, (2,))], then=JobSpec(stub.total))
        assert await client.jobs.wait(batch.then, timeout="20s") == 3
        page = await client.jobs.list(limit=3, state="scheduled")
        rest = await client.jobs.list(limit=3, state="scheduled", after=page.next)
        assert {job.id for job in [*page, *rest]} == {job.id for job in made}


async def test_schedules() -> None:
    async with served() as shop, client_of(shop) as client:
        own = client.schedules(shop.cls, "a")
        made = await own.add(
            every.day.at("09:00", zone="Europe/Paris"), shop.cls.nightly, 7, name="n", tags=["t"],
            retry=RetryPolicy(3, fixed("5s"), on=ValueError), grace="1h", metadata={"at": "x"},
        )  # fmt: skip
        assert (made.name, made.state, made.tags, made.handler) == ("n", "active", ("t",), "nightly")
        assert made == await own.get("n")
        kept = await shop.app.schedules(shop.cls, "a").get("n")
        assert (kept.text, kept.metadata) == (made.text, {"at": "x"})
        assert await own.pause("n", note="holiday", until=AT) == 1
        paused = await own.get("n")
        assert (paused.state, paused.note, paused.paused_until) == ("paused", "holiday", AT)
        assert await own.resume(tag="t") == 1
        assert await own.resume("n") == 0
        again = await own.reschedule("n", "0 3 * * *", grace="2h")
        assert (again.version, again.handler, again.tags) == (2, "nightly", ("t",))
        assert again.text == "cron 0 3 * * * in Europe/Paris"
        spread = await own.reschedule("n", "0 3 * * *", jitter=timedelta(minutes=5), gap="skip")
        assert spread.text.startswith("(cron 0 3 * * * in Europe/Paris gap=skip) spread 5m seed ")
        plain = await own.reschedule("n", "0 3 * * *", jitter=None, zone=None, gap="shift")
        assert plain.text == "cron 0 3 * * * in UTC"
        assert len(await own.next("n", 3)) == 3
        start = datetime(2026, 1, 1, tzinfo=UTC)
        assert len(await own.backfill("n", start, start + timedelta(days=3), dry_run=True)) == 3
        [run_id] = await own.trigger("n")
        await _until(lambda: client.ledger(shop.cls, "a"))
        [run] = await own.history("n")
        assert (run.id, run.verdict) == (run_id, "run")
        assert [row["value"] for row in await client.storage("Shop", "a", prefix="night")] == [7]
        assert [one.name for one in await own.list(tag="t")] == ["n"]
        assert await own.cancel("n") is True
        assert await own.cancel("n") is False
        with pytest.raises(errors.UnknownSchedule):
            await own.get("n")
        with pytest.raises(errors.BadSpec):
            await own.add("every blue moon", "nightly")
        with pytest.raises(errors.BadOption):
            await own.pause()


async def test_a_schedule_without_a_name_goes_when_it_is_done() -> None:
    async with served() as shop, client_of(shop) as client:
        own = client.schedules("Shop", "a")
        made = await own.add(timedelta(milliseconds=20), "nightly", 5)
        assert made.name.startswith("nightly-")
        await _until(lambda: client.ledger("Shop", "a"))
        assert await own.list() == []
        with pytest.raises(errors.BadHandler):
            await own.add("0 3 * * *", shop.cls.nightly)  # nobody here knows the class


async def test_looks() -> None:
    async with served() as shop, client_of(shop) as client:
        for number in range(5):
            await client.get("Shop", f"k{number}").add(number)
        first = await client.objects(shop.cls, limit=3)
        rest = await client.objects(shop.cls, limit=3, cursor=first.next)
        assert [row["key"] for row in [*first, *rest]] == [f"k{number}" for number in range(5)]
        assert rest.next is None
        await client.get("Shop", "k1").alarm_soon(3600.0)
        assert [row["key"] for row in await client.due("Shop")] == ["k1"]
        assert "Shop" in [row["class"] for row in await client.classes()]
        assert len(await client.nodes()) == 1
        assert "k3" in str(await client.search("k3"))
        assert await client.parked() == []
        assert await client.parked(prefix="b", error="x", older_than="1s") == []
        assert await client.redrive(7) == [
            {"number": 7, "class": None, "key": None, "timer": None, "ok": False, "problem": "is not parked"}
        ]
        assert [row["act"] for row in await client.audit()] == ["redrive"]
        assert await client.calls("Shop", "k3") == []
        with pytest.raises(errors.Conflict, match="had ended"):
            await client.cancel_call("Shop/k3@0123456789ab")
        await client.get("Lamp", "l").send({"type": "TOGGLE"})
        assert (await client.chart("Lamp", "l")).startswith("<svg")
        with pytest.raises(errors.UnknownObject):
            await client.object("Shop", "nobody")
        with pytest.raises(errors.BadOption):
            await client.objects(cursor="rubbish")


async def test_objects_are_forgotten() -> None:
    async with served() as shop, client_of(shop) as client:
        for key in ("acme/1", "acme/2", "b"):
            await client.get("Shop", key).add(1)
        assert (await client.holdings(prefix="acme/"))["objects"] == 2
        assert (await client.forget(shop.cls, "b"), await client.forget("Shop", "b")) == (True, False)
        assert await client.forget_all("acme/", "Shop") == 2
        assert await client.objects("Shop") == []
        with pytest.raises(errors.BadOption):
            await client.forget_all("")


async def test_events_as_they_happen() -> None:
    async with served() as shop, client_of(shop) as client:
        events = client.events("run")
        first = asyncio.ensure_future(anext(events))
        await _until(lambda: _is(bool(shop.app.deployment.node.events.is_heard)))
        await client.get("Shop", "a").alarm_soon(0.0)
        event = await asyncio.wait_for(first, 20)
        assert (event["kind"], event["class"], event["key"]) == ("run", "Shop", "a")
        await events.aclose()
    async with Client("http://127.0.0.1:1") as nobody:
        with pytest.raises(errors.Unavailable):
            await anext(nobody.events())


async def test_a_token_is_needed_once_there_is_one_and_is_never_shown() -> None:
    async with served() as shop, client_of(shop) as nobody:
        text = await _token(shop, "call", "read")
        async with client_of(shop, token=text) as client:
            with pytest.raises(errors.NoToken):
                await _until(nobody.nodes)  # what the gate knows is at most a second old
            assert await client.get("Shop", "a").add(1) == 1
            with pytest.raises(errors.WrongScope):
                await client.schedules("Shop", "a").add("0 3 * * *", "nightly", name="n")
            assert text not in f"{client!r}{client._wire!r}{client.get('Shop', 'a')!r}"
            with pytest.raises(ValueError, match="x") as caught:
                await client.get("Shop", "a").fails("x")
            assert caught.value.remote_traceback == ""  # for operators only
        async with client_of(shop, token="wk_no_such") as forged:
            with pytest.raises(errors.BadToken):
                await forged.nodes()


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:7420", "ftp://x", "http://", "http://u:p@x", "http://x?y", "http://x:y"]
)
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(errors.BadUrl) as caught:
        Client(url)
    assert "u:p" not in str(caught.value)


@pytest.mark.parametrize("options", [{"token": ""}, {"token": "a b"}, {"timeout": 0}, {"connections": 0}])
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(errors.BadInput):
        Client("http://x", **options)


async def _is(value: bool) -> bool:
    return value


async def _until(ask: Any) -> None:
    """Until there is something."""
    async with asyncio.timeout(20):
        while not await ask() or ask.__name__ == "nodes":  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def _token(shop: Any, *scopes: str) -> str:
    text, id, hashed = new_secret(PREFIX, lambda count: b"x" * count)
    node = shop.app.deployment.node
    made = Token(id=id, name="t", hash=hashed, scopes=scopes, created_at=node.clock.now(), created_by="test")
    from msgspec import to_builtins

    await node.send(ALL, "create", (to_builtins(made),), {})
    return text
