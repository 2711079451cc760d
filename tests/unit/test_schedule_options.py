"""What people get wrong about schedules: a typed error in one line when it is made, and nothing half done."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import msgspec
import pytest

from wakeful import App, DurableObject, Next, RetryPolicy, Run, cron, every, exponential, fixed, holidays, rrule
from wakeful.policy.plan import ENDLESS_MS, Version
from wakeful.schedules.options import parse_options, parse_spec_options
from wakeful.schedules.records import Record, decode_record, encode_struct
from wakeful.specs.build import to_spec
from wakeful.specs.text import parse_spec
from wakeful.values.codec import decode
from wakeful.values.errors import (
    BadHandler,
    BadInput,
    BadName,
    BadOption,
    BadSpec,
    BadTime,
    BadValue,
    LimitExceeded,
    ReadOnly,
    TurnOver,
    UnknownSchedule,
    WakefulError,
)
from wakeful.values.times import from_datetime

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def foreign(run: Run) -> None: ...


class Other:
    async def work(self) -> None: ...


class Desk(DurableObject):
    async def work(self, *args: Any, **kwargs: Any) -> None: ...

    def sync(self) -> None: ...

    async def add(self, what: str) -> None:
        await self.storage.put("before", True)
        spec, handler, options = ASKED[what]
        found = (
            getattr(self, handler.removeprefix("self.")) if isinstance(handler, str) and "self." in handler else handler
        )
        await self.schedules.add(spec, found, **options)

    async def stub(self) -> None:
        await self.schedules.add("every 10s", self.ctx.get(Desk, "b").work)


def spec(value: Any, **options: Any) -> tuple[Any, Any, dict[str, Any]]:
    return value, "self.work", {"name": "new", **options}


ASKED: dict[str, Any] = {
    # specs
    "an unknown zone": spec("0 9 * * *", zone="Europe/Berln"),
    "a zone that is no name": spec("0 9 * * *", zone=5),
    "a zone for an interval": spec("every 10s", zone="Europe/Berlin"),
    "a zone against the spec's": spec(cron("0 9 * * *", "Asia/Tokyo"), zone="Europe/Berlin"),
    "an unknown gap": spec("0 9 * * *", gap="jump"),
    "an unknown fold": spec("0 9 * * *", fold="third"),
    "a minute out of range": spec("61 * * * *"),
    "an hour out of range": spec("0 24 * * *"),
    "a month out of range": spec("0 0 1 13 *"),
    "an impossible date": spec("0 0 30 2 *"),
    "an interval below the minimum": spec("every 500ms"),
    "a phrase half understood": spec("every monday at lunch"),
    "no phrase at all": spec("whenever you like"),
    "no text at all": spec(""),
    "a naive datetime": spec(datetime(2030, 1, 1)),
    "no delay": spec(0),
    "a negative delay": spec(-5),
    "something that is no spec": spec(object()),
    "None for a spec": spec(None),
    "a calendar for a spec": spec(holidays("12-25")),
    "a bool for a spec": spec(True),
    "a broken rule": spec("RRULE:FREQ=SOMETIMES"),
    "an unfinished chain": spec(every(5)),
    "a negative jitter": spec("0 9 * * *", jitter="-5m"),
    "a jitter in words": spec("0 9 * * *", jitter="some"),
    # handlers
    "a lambda": ("every 10s", lambda: None, {"name": "new"}),
    "a foreign function": ("every 10s", foreign, {"name": "new"}),
    "a method of another class": ("every 10s", Other().work, {"name": "new"}),
    "an unknown method": ("every 10s", "wok", {"name": "new"}),
    "a method that is not async": ("every 10s", "sync", {"name": "new"}),
    "a number for a handler": ("every 10s", 5, {"name": "new"}),
    # options
    "an unknown option": spec("every 10s", catchup="all"),
    "an unknown catch-up policy": spec("every 10s", catch_up="everything"),
    "an unknown overlap policy": spec("every 10s", overlap="drop"),
    "a window in words": spec("every 10s", catch_up_window="long"),
    "a negative grace": spec("every 10s", grace=-1),
    "no catching up at all": spec("every 10s", max_catch_up=0),
    "too much catching up": spec("every 10s", max_catch_up=1_001),
    "too many lanes": spec("every 10s", parallel=17),
    "half a lane": spec("every 10s", parallel=1.5),
    "no runs": spec("every 10s", max_runs=0),
    "runs beyond counting": spec("every 10s", max_runs=10**12 + 1),
    "true runs": spec("every 10s", max_runs=True),
    "a naive start": spec("every 10s", start_at=datetime(2030, 1, 1)),
    "a start in words": spec("every 10s", start_at="tomorrow"),
    "an end before the start": spec("every 10s", start_at=NOW, end_at=NOW - timedelta(days=1)),
    "a tag that is no list": spec("every 10s", tags="red"),
    "a tag that is no text": spec("every 10s", tags=[1]),
    "too many tags": spec("every 10s", tags=[f"t{n}" for n in range(33)]),
    "metadata that is no data": spec("every 10s", metadata={"x": object()}),
    "a priority out of range": spec("every 10s", priority=1_001),
    "a dependency on nobody": spec("every 10s", depends_on=["nobody"]),
    "a number for a retry": spec("every 10s", retry=5),
    "an unknown on_missed": spec("every 10s", on_missed="told"),
    "a lambda for on_missed": spec("every 10s", on_missed=lambda about: None),
    "arguments that are no data": ("every 10s", "work", {"name": "new", "kwargs": {"x": object()}}),
    # names
    "an empty name": spec("every 10s", name=""),
    "a name that is no text": spec("every 10s", name=5),
    "a name with a line break": spec("every 10s", name="a\nb"),
    "a name too long": spec("every 10s", name="n" * 201),
}  # fmt: skip

SAID: dict[str, tuple[type[WakefulError], str]] = {
    "an unknown zone": (BadSpec, r"Europe/Berln.*Europe/Berlin"),
    "a zone that is no name": (BadSpec, r"5"),
    "a zone for an interval": (BadOption, r"for times of day.*every 10s"),
    "a zone against the spec's": (BadOption, r"the spec is in Asia/Tokyo already"),
    "an unknown gap": (BadInput, r"jump.*shift"),
    "an unknown fold": (BadInput, r"third.*first"),
    "a minute out of range": (BadSpec, r"minute.*0.59"),
    "an hour out of range": (BadSpec, r"hour.*0.23"),
    "a month out of range": (BadSpec, r"month.*1.12"),
    "an impossible date": (BadSpec, r"0 0 30 2 \*.*(never|no)"),
    "an interval below the minimum": (BadSpec, r"the shortest interval is 1s"),
    "a phrase half understood": (BadSpec, r"monday.*lunch"),
    "no phrase at all": (BadSpec, r"whenever"),
    "no text at all": (BadSpec, r"."),
    "a naive datetime": (BadTime, r"has no time zone; use datetime\.now\(UTC\)"),
    "no delay": (BadSpec, r"at least 1ms"),
    "a negative delay": (BadTime, r"negative"),
    "something that is no spec": (BadSpec, r"is not a spec; give an aware datetime"),
    "None for a spec": (BadSpec, r"None is not a spec"),
    "a calendar for a spec": (BadSpec, r"within\(spec, calendar\)"),
    "a bool for a spec": (BadSpec, r"True is not a spec"),
    "a broken rule": (BadSpec, r"SOMETIMES"),
    "an unfinished chain": (BadSpec, r"."),
    "a negative jitter": (BadInput, r"-5m"),
    "a jitter in words": (BadInput, r"some"),
    "a lambda": (BadHandler, r"a lambda can't be a handler, because it can't be found again after a restart"),
    "a foreign function": (BadHandler, r"foreign is not a method of Desk.*write a method that calls it"),
    "a method of another class": (BadHandler, r"Other\.work is not a method of Desk"),
    "an unknown method": (BadHandler, r"Desk has no method 'wok' to be a handler; it has add, .*work"),
    "a method that is not async": (BadHandler, r"Desk\.sync must be `async def`"),
    "a number for a handler": (BadHandler, r"5 can't be a handler"),
    "an unknown option": (BadOption, r"unknown option 'catchup' of a schedule; there are zone, .*catch_up"),
    "an unknown catch-up policy": (
        BadOption,
        r"catch_up='everything': it can be skip, latest, all, coalesce, backfill",
    ),
    "an unknown overlap policy": (BadOption, r"overlap='drop': it can be skip, queue_one, queue_all"),
    "a window in words": (BadTime, r"catch_up_window 'long'"),
    "a negative grace": (BadTime, r"grace -1 is negative"),
    "no catching up at all": (BadOption, r"max_catch_up must be a whole number from 1, not 0"),
    "too much catching up": (LimitExceeded, r"max_catch_up=1001 is over the limit of 1000"),
    "too many lanes": (LimitExceeded, r"parallel=17 is over the limit of 16"),
    "half a lane": (BadOption, r"parallel must be a whole number"),
    "no runs": (BadOption, r"max_runs must be a whole number from 1 to 1000000000000, not 0"),
    "runs beyond counting": (BadOption, r"max_runs must be a whole number from 1 to 1000000000000, not 1000000000001"),
    "true runs": (BadOption, r"max_runs must be a whole number"),
    "a naive start": (BadTime, r"has no time zone"),
    "a start in words": (BadOption, r"start_at must be an aware datetime, not 'tomorrow'"),
    "an end before the start": (BadOption, r"end_at is not after start_at"),
    "a tag that is no list": (BadOption, r"tags must be a list of names, not 'red'"),
    "a tag that is no text": (BadName, r"1 must be text"),
    "too many tags": (BadOption, r"tags: 33 names, 32 at most"),
    "metadata that is no data": (BadValue, r"value\['x'\]"),
    "a priority out of range": (BadOption, r"priority must be a whole number from -1000 to 1000"),
    "a dependency on nobody": (BadOption, r"'new' depends on 'nobody', which is not there"),
    "a number for a retry": (BadOption, r"retry must be a RetryPolicy\(…\), not 5"),
    "an unknown on_missed": (BadHandler, r"has no method 'told' to be a on_missed"),
    "a lambda for on_missed": (BadHandler, r"a lambda can't be a on_missed"),
    "arguments that are no data": (BadValue, r"x"),
    "an empty name": (BadName, r"not empty"),
    "a name that is no text": (BadName, r"5 must be text"),
    "a name with a line break": (BadName, r"printable"),
    "a name too long": (BadName, r"at most 200 bytes"),
}


def make() -> App:
    app = App()
    app.object(Desk)
    return app


def check_line(error: WakefulError, words: str) -> None:
    text = str(error)
    assert re.search(words, text), text
    assert "\n" not in text
    assert text.endswith(f"[{error.code}]")
    assert "." in error.code, error.code


async def nothing_happened(world: Any) -> None:
    assert await world.store.count("objects") == 0
    assert await world.store.count("timers") == 0
    assert await world.app.schedules(Desk, "a").list() == []


@pytest.mark.parametrize("what", ASKED)
async def test_what_is_wrong_is_said_when_the_schedule_is_made_and_nothing_is_half_done(what: str) -> None:
    error, words = SAID[what]
    app = make()
    async with app.world() as world:
        with pytest.raises(error) as caught:
            await world.get(Desk, "a").add(what)
        assert isinstance(caught.value, BadInput)
        check_line(caught.value, words)
        await nothing_happened(world)
        await app.schedules(Desk, "a").add("every 10s", "work", name="new")  # and the object works on
        await world.advance(seconds=11)
        assert len(await world.ledger(Desk, "a", "new")) == 1


@pytest.mark.parametrize("what", ASKED)
async def test_the_same_is_said_to_code_outside(what: str) -> None:
    error, words = SAID[what]
    value, handler, options = ASKED[what]
    if isinstance(handler, str):
        handler = handler.removeprefix("self.")
    app = make()
    async with app.world() as world:
        with pytest.raises(error if what not in _CARRIED else BadInput) as caught:
            await app.schedules(Desk, "a").add(value, handler, **options)
        if what not in _CARRIED:
            check_line(caught.value, _OUTSIDE.get(what, words))
        assert "\n" not in str(caught.value)
        await nothing_happened(world)


_CARRIED = {"metadata that is no data", "arguments that are no data"}  # they can't be sent
_OUTSIDE = {"a number for a retry": r"retry must be"}


async def test_from_outside_only_the_objects_own_methods_are_handlers() -> None:
    app = make()
    async with app.world() as world:
        on = app.schedules(Desk, "a")
        for handler in (Other.work, Other().work, app.get(Desk, "b").work):
            for give in (
                lambda handler: on.add("every 10s", handler),
                lambda handler: on.add("every 10s", "work", on_missed=handler),
                lambda handler: on.reschedule("s", "every 10s", on_missed=handler),
            ):
                with pytest.raises(BadHandler) as caught:
                    await give(handler)
                check_line(caught.value, r"Desk/a: (Other|Desk/b)\.work is not a method of Desk.*write a method")
        await nothing_happened(world)
        for number, own in enumerate((Desk.work, app.get(Desk, "a").work, "work")):
            assert (await on.add("every 10s", own, name=f"s{number}", on_missed=own)).handler == "work"


async def test_the_list_from_outside_may_be_larger_than_one_answer() -> None:
    app = App()

    @app.object
    class Full(DurableObject):
        async def work(self) -> None: ...

        async def fill(self, first: int, last: int, metadata: Any = None) -> None:
            for number in range(first, last):
                tags = ["even"] if number % 2 == 0 else []
                await self.schedules.add("every 1h", self.work, name=f"s{number:04}", tags=tags, metadata=metadata)

    async with app.world() as world:
        for first in range(0, 3_000, 500):
            await world.get(Full, "a").fill(first, first + 500)
        on = app.schedules(Full, "a")
        assert [one.name for one in await on.list()] == [f"s{number:04}" for number in range(3_000)]
        assert [one.name for one in await on.list(tag="even")] == [f"s{number:04}" for number in range(0, 3_000, 2)]
        await world.get(Full, "b").fill(0, 5, "x" * 400_000)  # pages of 500 are too much, pages of 2 are not
        assert [one.name for one in await app.schedules(Full, "b").list()] == [f"s{n:04}" for n in range(5)]


async def test_the_stub_of_another_object_is_no_handler() -> None:
    async with make().world() as world:
        with pytest.raises(BadHandler, match="is not a method of Desk"):
            await world.get(Desk, "a").stub()
        await nothing_happened(world)


async def test_a_wrong_spec_leaves_the_schedule_of_that_name_as_it_was() -> None:
    app = make()
    async with app.world() as world:
        on = app.schedules(Desk, "a")
        before = await on.add("every 10s", "work", name="s", tags=["x"])
        for spec, options in (
            ("61 * * * *", {}),
            ("every 20s", {"overlap": "drop"}),
            ("every 20s", {"depends_on": ["nobody"]}),
            ("every 20s", {"on_missed": "nobody"}),
        ):
            for verb in (on.add, on.reschedule):
                arguments = (spec, "work") if verb == on.add else ("s", spec)
                with pytest.raises(BadInput):
                    await verb(*arguments, **({"name": "s"} if verb == on.add else {}), **options)
        assert await on.get("s") == before
        assert len(await world.due()) == 1


async def test_a_backfill_of_too_large_a_range_says_how_many_it_would_be() -> None:
    app = make()
    async with app.world() as world:
        on = app.schedules(Desk, "a")
        await on.add("*/2 * * * *", "work", name="s")
        for dry_run in (False, True):
            with pytest.raises(LimitExceeded) as caught:
                await on.backfill("s", NOW - timedelta(days=20), NOW, dry_run=dry_run)
            check_line(caught.value, r"backfill of 's': that would be 14400 runs, the limit is 10000; take a shorter")
        with pytest.raises(LimitExceeded, match="more than 100000 runs"):
            await on.backfill("s", NOW - timedelta(days=2_000), NOW)
        assert len(await on.backfill("s", NOW - timedelta(days=13), NOW, dry_run=True)) == 9360
        assert [timer.name for timer in await world.due()] == ["schedule:s"]
        with pytest.raises(BadOption, match="end is not after start"):
            await on.backfill("s", NOW, NOW)
        with pytest.raises(BadTime, match="has no time zone"):
            await on.backfill("s", datetime(2026, 1, 1), NOW)


async def test_operations_say_what_is_wrong_with_them() -> None:
    app = make()
    async with app.world():
        on = app.schedules(Desk, "a")
        await on.add("every 10s", "work", name="s")
        for call, error, words in (
            (on.get("t"), UnknownSchedule, r"Desk/a has no schedule 't'; it has s"),
            (on.pause("s", until=datetime(2030, 1, 1)), BadTime, r"has no time zone"),
            (on.pause("s", note="x" * 1_001), BadOption, r"at most 1000 characters"),
            (on.next("s", 0), BadOption, r"n must be a whole number from 1 to 10000"),
            (on.history("s", 0), BadOption, r"limit must be a whole number from 1"),
            (on.trigger(), BadOption, r"say which: a name, or tag"),
            (on.list(state="awake"), BadOption, r"it can be active, paused, waiting, done, retired"),
        ):
            with pytest.raises(error) as caught:
                await call
            check_line(caught.value, words)


async def test_schedules_are_for_turns_and_readers_do_not_write() -> None:
    kept: list[Any] = []
    app = App()

    from wakeful import reader

    @app.object
    class Keeper(DurableObject):
        async def keep(self) -> None:
            kept.append(self.schedules)

        async def work(self) -> None: ...

        @reader
        async def look(self) -> int:
            return len(await self.schedules.list())

        @reader
        async def write(self) -> None:
            await self.schedules.add("every 10s", self.work)

    async with app.world() as world:
        await world.get(Keeper, "a").keep()
        with pytest.raises(TurnOver, match="schedules is for code that runs in a turn"):
            await kept[0].list()
        assert await world.get(Keeper, "a").look() == 0
        with pytest.raises(ReadOnly):
            await world.get(Keeper, "a").write()


def test_a_retry_policy_and_a_next_are_checked_when_they_are_made() -> None:
    for make_, error, words in (
        (lambda: RetryPolicy(0), BadOption, "max_attempts must be a whole number from 1 to 1000, not 0"),
        (lambda: RetryPolicy(3, "2s"), BadOption, "backoff must be exponential"),  # type: ignore[arg-type]
        (lambda: RetryPolicy(3, on=(5,)), BadOption, "on=5: give exception types"),  # type: ignore[arg-type]
        (lambda: exponential("soon"), BadTime, "first wait 'soon'"),
        (lambda: exponential("1s", factor=0.5), BadOption, "factor must be a number from 1 to 100"),
        (lambda: fixed(-1), BadTime, "negative"),
        (lambda: Next(), BadOption, "either at=… or after=…"),
        (lambda: Next(at=NOW, after=1), BadOption, "either at=… or after=…"),
        (lambda: Next(at=datetime(2030, 1, 1)), BadTime, "has no time zone"),
        (lambda: Next(after="x"), BadTime, "Next"),
        (lambda: App(default_zone="Mars/Olympus"), BadSpec, "Mars/Olympus"),
        (lambda: rrule("FREQ=DAILY;COUNT=0"), BadSpec, "COUNT"),
    ):
        with pytest.raises(error) as caught:
            make_()
        check_line(caught.value, words)


def test_options_become_what_is_kept() -> None:
    options: dict[str, Any] = {
        "zone": "Europe/Berlin", "gap": "skip", "fold": "both", "jitter": "5m", "catch_up": "all", "catch_up_window": "2h",
        "max_catch_up": 7, "grace": 30, "overlap": "queue_one", "parallel": 2, "start_at": NOW,
        "end_at": NOW + timedelta(days=1), "max_runs": 3, "tags": ["b", "a", "b"], "metadata": {"x": 1}, "priority": -5,
        "depends_on": ["other"], "on_missed": "told", "retry": RetryPolicy(2),
    }  # fmt: skip
    spec = parse_spec_options("30 2 * * *", options)
    assert spec.text == "(cron 30 2 * * * in Europe/Berlin gap=skip fold=both) spread 5m"
    found = parse_options(spec, "work", (1,), {"y": 2}, options)
    policy = found.policy
    assert (policy.catch_up, policy.window_ms, policy.runs_max, policy.grace_ms) == ("all", 7_200_000, 7, 30_000)
    assert (policy.overlap, policy.parallel, found.max_runs, found.priority) == ("queue_one", 2, 3, -5)
    assert (found.start_at, found.end_at) == (from_datetime(NOW), from_datetime(NOW) + 86_400_000)
    assert (found.tags, found.depends_on, found.on_missed) == (("b", "a"), ("other",), "told")
    assert found.retry.max_attempts == 2
    assert found.args is not None
    assert decode(found.args) == ((1,), {"y": 2})


def test_the_options_of_a_fluent_form_are_the_schedules() -> None:
    options: dict[str, Any] = {"tags": ["mine"]}
    spec = parse_spec_options(every.day.at("9am", tags=["theirs"], overlap="queue_all"), options)
    assert spec.text == "cron 0 9 * * *"
    assert options == {"tags": ["mine"], "overlap": "queue_all"}
    assert parse_options(to_spec("every 1m"), "work", (), {}, {}).policy.catch_up == "skip"
    assert parse_options(to_spec("0 9 * * *"), "work", (), {}, {}).policy.catch_up == "latest"


@pytest.mark.parametrize(
    ("spec", "given", "window_ms"),
    [
        ("at 2026-01-01T00:00:00+00:00", {}, ENDLESS_MS),
        ("at 2026-01-01T00:00:00+00:00", {"catch_up_window": "1d"}, 86_400_001),  # it was said, so it holds
        ("at 2026-01-01T00:00:00+00:00", {"catch_up_window": "2d"}, 2 * 86_400_000),
        ("(at 2026-01-01T00:00:00+00:00) or (cron 0 9 * * * in UTC)", {}, 86_400_000),
        ("cron 0 9 * * * in UTC", {}, 86_400_000),
        ("cron 0 9 * * * in UTC", {"catch_up_window": "1d"}, 86_400_000),
    ],
)
def test_what_happens_once_has_no_window_unless_one_is_given(spec: str, given: dict[str, Any], window_ms: int) -> None:
    options = parse_options(parse_spec(spec), "tick", (), {}, given)
    record = Record(options=options, versions=[Version(1, spec, spec, 0)], judged_to=0)
    assert record.policy.window_ms == window_ms
    assert decode_record(encode_struct(record), "r") == record


def test_a_day_that_an_older_version_kept_is_no_window_for_what_happens_once() -> None:
    once = "at 2026-01-01T00:00:00+00:00"
    kept = ["tick", None, ["latest", 86_400_000, 100, 60_000, "skip", 1]]  # handler, arguments, policy
    old = msgspec.msgpack.encode([kept, [[1, once, once, 0, None]], "active", False, True, 0])
    assert decode_record(old, "r").policy.window_ms == ENDLESS_MS
    options = parse_options(parse_spec(once), "tick", (), {}, {})
    assert msgspec.to_builtins(options)[:3] == kept  # and so it is kept to this day


async def test_a_datetime_is_not_printed_and_read_back_in_the_same_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bell(DurableObject):
        rung: ClassVar[list[str]] = []

        async def set(self, when: datetime) -> None:
            with monkeypatch.context() as patch:
                patch.setattr("wakeful.policy.plan.parse_spec", _refuse)
                await self.schedules.add(when, self.ring, name="once")

        async def ring(self) -> None:
            self.rung.append(self.ctx.id.key)

    def _refuse(text: str) -> None:
        raise AssertionError(f"{text} was just made")

    app = App()
    app.object(Bell)
    async with app.world(start=NOW) as world:
        await world.get(Bell, "a").set(NOW + timedelta(hours=1, milliseconds=137))
        await world.advance(hours=2)
    assert Bell.rung == ["a"]
