"""A chain of words is the spec it reads like, marks functions, and says how to go on when it can't."""

import copy
import functools
import inspect
import pickle
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.specs.chain import Declared, Ready
from wakeful.specs.cron import cron
from wakeful.specs.fluent import Every, every
from wakeful.specs.interval import interval
from wakeful.specs.phrases import parse_phrase
from wakeful.specs.rrule import rrule
from wakeful.values.errors import BadHandler, BadOption, BadSpec, BadTime, LimitExceeded
from wakeful.values.timers import Run

START = datetime(2026, 1, 1, tzinfo=UTC)
FORMS: list[tuple[Any, str]] = [
    # scheduling.md
    (every.monday.at("9am"), "cron 0 9 * * 1"),
    (every.weekday.at("18:30"), "cron 30 18 * * 1-5"),
    (every.day.at6pm, "cron 0 18 * * *"),
    (every.hour, "cron 0 * * * *"),
    (every(5).minutes, "cron */5 * * * *"),
    (every("every 5 minutes"), "cron */5 * * * *"),
    (every.month.on(1).at("noon"), "cron 0 12 1 * *"),
    (every.last.friday.at("17:00"), "cron 0 17 * * 5L"),
    (every("5m", anchor=START), "every 5m from 2026-01-01T00:00:00+00:00"),
    # surface.md
    (every.weekday.at("09:00", zone="Europe/Paris", catch_up="latest"), "cron 0 9 * * 1-5 in Europe/Paris"),
    (every.day.at("18:00"), "cron 0 18 * * *"),
    # the seeds
    (every.Monday.at9am, "cron 0 9 * * 1"),
    (every.day.at("6pm"), "cron 0 18 * * *"),
    # units
    (every.second, "cron * * * * * *"),
    (every.minute, "cron * * * * *"),
    (every.day, "cron 0 0 * * *"),
    (every.week, "cron 0 0 * * 0"),
    (every.month, "cron 0 0 1 * *"),
    (every.quarter, "cron 0 0 1 */3 *"),
    (every.year, "cron 0 0 1 1 *"),
    (every.hour.at(":15"), "cron 15 * * * *"),
    (every.hour.at(0, 30), "cron 0,30 * * * *"),
    # counts
    (every(30).seconds, "cron */30 * * * * *"),
    (every(1).minute, "cron * * * * *"),
    (every(7).minutes, "every 7m"),
    (every(2).hours, "cron 0 */2 * * *"),
    (every(2).hours.at(":30"), "cron 30 */2 * * *"),
    (every(1.5).hours, "every 1h30m"),
    (every(0.5).hours, "cron */30 * * * *"),
    (every(1).day.at("9am"), "cron 0 9 * * *"),
    (every(3).days, "every 3d"),
    (every(1).week.on("mon"), "cron 0 0 * * 1"),
    (every(2).weeks, "every 2w"),
    (every(2).months.on(15).at("9am"), "cron 0 9 15 */2 *"),
    (every(2).quarters, "cron 0 0 1 */6 *"),
    # durations, phrases and specs
    (every("5m"), "every 5m"),
    (every("1h 30m"), "every 1h30m"),
    (every(timedelta(minutes=5)), "every 5m"),
    (every(timedelta(days=1), anchor=START), "every 1d from 2026-01-01T00:00:00+00:00"),
    (every(5).minutes(anchor=START), "every 5m from 2026-01-01T00:00:00+00:00"),
    (every("5 minutes"), "cron */5 * * * *"),
    (every("monday at 9am", zone="Europe/Paris"), "cron 0 9 * * 1 in Europe/Paris"),
    (every(cron("0 9 * * 1", zone="UTC")), "cron 0 9 * * 1 in UTC"),
    # days
    (every.tuesday, "cron 0 0 * * 2"),
    (every.Wednesday, "cron 0 0 * * 3"),
    (every.thursday, "cron 0 0 * * 4"),
    (every.friday.at17, "cron 0 17 * * 5"),
    (every.Saturday.at_noon, "cron 0 12 * * 6"),
    (every.SUNDAY.atmidnight, "cron 0 0 * * 0"),
    (every.weekend.at("10:15"), "cron 15 10 * * 0,6"),
    (every.on("mon", "thu").at("9am"), "cron 0 9 * * 1,4"),
    (every.on("weekdays"), "cron 0 0 * * 1-5"),
    (every.on(1, 15).at("9am"), "cron 0 9 1,15 * *"),
    (every.week.on("mon to fri").at(9), "cron 0 9 * * 1-5"),
    # of the month, quarter and year
    (every.month.on(1, 15), "cron 0 0 1,15 * *"),
    (every.month.on("last"), "cron 0 0 L * *"),
    (every.month.on("15th", "last").at("17:00"), "cron 0 17 15,L * *"),
    (every.month.on("last friday").at("17:00"), "cron 0 17 * * 5L"),
    (every.quarter.on("last"), "cron 0 0 L 3-12/3 *"),
    (every.year.on("march 1").at("08:00"), "cron 0 8 1 3 *"),
    (every.year.on("march 1", "july 1"), "cron 0 0 1 3,7 *"),
    (every.first.monday.at("9am"), "cron 0 9 * * 1#1"),
    (every.second.monday.at("9am"), "cron 0 9 * * 1#2"),
    (every.third.tuesday, "cron 0 0 * * 2#3"),
    (every.fourth.Sunday, "cron 0 0 * * 0#4"),
    (every.last.day.at("23:59"), "cron 59 23 L * *"),
    (every.second.day, "cron 0 0 2 * *"),
    (every.first.weekday.at("9am"), "cron 0 9 1W * *"),
    (every.last.weekday, "cron 0 0 LW * *"),
    # times
    (every.day.at9_30am, "cron 30 9 * * *"),
    (every.day.at18_30, "cron 30 18 * * *"),
    (every.day.at("9am", "6pm"), "cron 0 9,18 * * *"),
    (every.day.at(9), "cron 0 9 * * *"),
    (every.day.at(time(9, 30)), "cron 30 9 * * *"),
    (every.day.at("9:15", "17:40"), "(cron 15 9 * * *) or (cron 40 17 * * *)"),
    # options
    (every.hour(zone="Europe/Paris"), "cron 0 * * * * in Europe/Paris"),
    (
        every.day.at("2:30", zone="Europe/Paris", gap="skip", fold="both"),
        "cron 30 2 * * * in Europe/Paris gap=skip fold=both",
    ),
    (every.month.on(1, zone="UTC").at("9am", gap="skip"), "cron 0 9 1 * * in UTC gap=skip"),
]


@pytest.mark.parametrize(("chain", "text"), FORMS, ids=[text for _, text in FORMS])
def test_a_chain_is_this_spec_and_prints_it(chain: Any, text: str) -> None:
    assert chain.spec.text == chain.text == str(chain) == text
    assert repr(chain) == f"<{text}>"


def test_a_complete_chain_answers_like_its_spec() -> None:
    chain = every.monday.at("9am", zone="UTC")
    assert chain.next_after(START) == datetime(2026, 1, 5, 9, tzinfo=UTC)
    assert chain.previous_before(START) == datetime(2025, 12, 29, 9, tzinfo=UTC)
    assert chain.between(START, START + timedelta(days=30), limit=2) == [
        datetime(2026, 1, 5, 9, tzinfo=UTC),
        datetime(2026, 1, 12, 9, tzinfo=UTC),
    ]
    assert chain.describe() == chain.spec.describe()


def test_options_of_the_spec_go_there_and_the_others_are_kept() -> None:
    chain = every.weekday.at("09:00", zone="Europe/Paris", catch_up="latest", tags=["a"])(max_runs=3, catch_up="all")
    assert chain.options == {"catch_up": "all", "tags": ["a"], "max_runs": 3}
    assert chain.text == "cron 0 9 * * 1-5 in Europe/Paris"
    chain.options["other"] = 1
    assert "other" not in chain.options
    assert every.month.on(1, catch_up="skip").at("noon", overlap="skip").options == {
        "catch_up": "skip",
        "overlap": "skip",
    }
    assert every.hour.options == {}


def test_a_step_never_changes_the_chain_it_was_made_from() -> None:
    monday = every.monday
    monday.at("9am", zone="UTC", catch_up="all")
    assert monday.text == "cron 0 0 * * 1"
    assert monday.options == {}
    with pytest.raises(AttributeError):
        monday.spec = None  # type: ignore[misc]
    with pytest.raises(AttributeError, match="can't be changed"):
        every.extra = 1  # type: ignore[attr-defined]


# what is refused


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: every.mondey, "every has no 'mondey'; did you mean every.monday?"),
        (lambda: every.houry, "did you mean every.hour?"),
        (lambda: every.foo, "every has no 'foo'; go on with a unit or a day"),
        (lambda: every.last.fryday, "every.last has no 'fryday'; did you mean every.last.friday?"),
        (lambda: every(5).minuets, "did you mean every(5).minutes?"),
        (lambda: every(2).years, "every(2) has no 'years'"),
        (lambda: every.monday.at9ish, "every.monday has no 'at9ish'; write the time like at9am"),
        (lambda: every.monday.foo, "every.monday has no 'foo'"),
        (lambda: every.hour.on, "every.hour has no 'on'"),
        (lambda: every.third.weekday, "every.third has no 'weekday'"),
        (lambda: every.last.spec, "every.last is not complete; go on with a day, like every.last.friday"),
        (lambda: every.last.at("9am"), "every.last is not complete"),
        (lambda: every(5).spec, "every(5) is not complete; go on like every(5).minutes"),
        (lambda: every.text, "every is not complete"),
    ],
)
def test_a_word_that_a_chain_does_not_have_is_both_a_bad_spec_and_an_attribute_error(make: Any, words: str) -> None:
    with pytest.raises(BadSpec) as refused:
        make()
    assert isinstance(refused.value, AttributeError)
    assert refused.value.code == "spec.word"
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: every.last(print), BadSpec, "every.last is not complete"),
        (lambda: every(5)(print), BadSpec, "every(5) is not complete"),
        (lambda: every(5, print), BadSpec, "every(5) of what?"),
        (lambda: every(print), BadSpec, "@every.hour"),
        (lambda: every(True), BadSpec, "every(True)"),
        (lambda: every(0), BadSpec, "above 0"),
        (lambda: every(-5), BadSpec, "above 0"),
        (lambda: every(float("nan")), BadSpec, "above 0"),
        (lambda: every(5).months, BadSpec, "every(5).months: 5 months do not divide a year"),
        (lambda: every(3).days.at("9am"), BadSpec, "every(3).days.at('9am'): 3 days apart at a time of day"),
        (lambda: every(2).weeks.on("mon"), BadSpec, "2 weeks apart on given days"),
        (lambda: every.monday.at("25:00"), BadSpec, "every.monday.at('25:00'): \"25:00\" is not a time of day"),
        (lambda: every.monday.at25, BadSpec, "hours go from 0 to 23"),
        (lambda: every.monday.at13pm, BadSpec, "hours go from 1 to 12"),
        (lambda: every.monday.at(), BadSpec, "say when"),
        (lambda: every.monday.at(None), BadSpec, "None is not a time of day"),
        (lambda: every.monday.at(9, "6pm"), BadSpec, '9 could be "9am" or "9pm"'),
        (lambda: every.hour.at("9am"), BadSpec, "'9am' is no minute of the hour"),
        (lambda: every.hour.at(), BadSpec, "say when"),
        (lambda: every.month.on(32), BadSpec, "every.month.on(32): 32 is no day of it"),
        (lambda: every.month.on(), BadSpec, "give days alone"),
        (lambda: every.month.on("foo"), BadSpec, 'every.month.on(\'foo\'): understood "on", not "foo"'),
        (lambda: every.month.on("1st at 9am"), BadSpec, "give days alone"),
        (lambda: every.month.on(1.5), BadSpec, "1.5 is no day"),
        (lambda: every.month.on("monday"), BadSpec, "which of those days in the month"),
        (lambda: every.month.on("last day of the year"), BadSpec, "these are days of the year"),
        (lambda: every.week.on(3), BadSpec, 'give "mon"'),
        (lambda: every.year.on(3), BadSpec, 'give "march 1"'),
        (lambda: every.year.on("february 30"), BadSpec, "never happens"),
        (lambda: every("foo"), BadSpec, "phrase 'foo': understood nothing"),
        (lambda: every("0 9 * * 1"), BadSpec, "use cron('0 9 * * 1')"),
        (lambda: cron("0 9 * * 1")(print), BadSpec, "no decorator; put every around it, like @every(cron("),
        (lambda: rrule("FREQ=DAILY")(print), BadSpec, "no decorator; put every around it"),
        (
            lambda: parse_phrase("1ms"),
            BadSpec,
            "for once, or every '1ms': the shortest interval is 1s; give a longer one",
        ),
        (
            lambda: parse_phrase("-1 * * * *"),
            BadSpec,
            "looks like a cron expression; cron '-1 * * * *': minute can't be read",
        ),
        (lambda: parse_phrase("5m"), BadSpec, 'a length alone; write "after 5m" for once, or "every 5m"'),
        (lambda: interval(timedelta(milliseconds=500)), BadSpec, "every 0.5s: the shortest"),
        (lambda: every("x" * 300), LimitExceeded, "300 characters"),
        (lambda: every("300ms"), BadSpec, "1s"),
        (lambda: every("5m", zone="UTC"), BadSpec, "a zone changes nothing"),
        (lambda: every("5m", anchor=datetime(2026, 1, 1)), BadTime, "no time zone"),
        (lambda: every("5m", anchor=START, zone="UTC"), BadSpec, "has no zone, gap or fold"),
        (lambda: every.monday(anchor=START), BadSpec, "a rule of the calendar"),
        (lambda: every(cron("0 9 * * 1"), zone="UTC"), BadSpec, "part of the spec"),
        (lambda: every(cron("0 9 * * 1"), anchor=START), BadSpec, "a rule of the calendar"),
        (lambda: every.day.at("9am", zone="Europe/Pari"), BadSpec, "did you mean 'Europe/Paris'"),
        (lambda: every("every day at 9am UTC", zone="Europe/Paris"), BadSpec, "leave one out"),
        (lambda: every.day.at("9am", gap="leap"), BadOption, "gap 'leap'"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_written(make: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as refused:
        make()
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_tools_can_look_at_chains() -> None:
    assert not hasattr(every, "spec")
    assert not hasattr(every.last, "spec")
    assert hasattr(every.hour, "spec")
    assert not hasattr(every, "__wrapped__")
    assert not hasattr(every.day, "_at9am")
    assert dict(inspect.getmembers(every.last))["friday"].text == "cron 0 0 * * 5L"
    assert repr(every.last) == "<every.last: not complete; go on with a day, like every.last.friday>"
    assert {"monday", "Monday", "weekday", "hour", "last"} <= set(dir(every))


@pytest.mark.parametrize(
    "chain", [every, every.last, every.second, every(5), every.hour, every.monday.at("9am", zone="UTC", tags=["a"])]
)
def test_chains_copy_pickle_and_compare_by_what_they_say(chain: Any) -> None:
    for other in (copy.copy(chain), copy.deepcopy(chain), pickle.loads(pickle.dumps(chain))):
        assert other == chain
        assert hash(other) == hash(chain)
        assert repr(other) == repr(chain)
    assert chain != every.minute
    assert every.monday.at("9am") == every.Monday.at9am
    assert every.monday.at("9am") != every.monday.at("9am", catch_up="all")
    assert type(chain).__new__(type(chain)).__class__ is type(chain)  # as unpickling makes it, before its state is set


# calling


def test_a_decorator_marks_the_very_function_and_they_stack() -> None:
    async def report(self: object) -> None: ...

    marked = every.hour(every.weekday.at("09:00", zone="Europe/Paris", catch_up="latest")(report))
    assert marked is report
    found: tuple[Declared, ...] = report.__wakeful_schedules__  # type: ignore[attr-defined]
    assert [one.spec.text for one in found] == ["cron 0 9 * * 1-5 in Europe/Paris", "cron 0 * * * *"]
    assert [one.options for one in found] == [{"catch_up": "latest"}, {}]


def test_every_form_decorates() -> None:
    class Reports:
        @every.weekday.at("09:00", zone="Europe/Paris", catch_up="latest")
        async def standup(self, run: object) -> None: ...

        @every.hour
        async def tick(self) -> None: ...

        @every("5m", catch_up="all")
        @every("every monday at 9am")
        @every(cron("0 1 * * *"))
        async def several(self) -> None: ...

    assert inspect.iscoroutinefunction(Reports.standup)
    texts = {
        name: [one.spec.text for one in getattr(Reports, name).__wakeful_schedules__]
        for name in ("standup", "tick", "several")
    }
    assert texts == {
        "standup": ["cron 0 9 * * 1-5 in Europe/Paris"],
        "tick": ["cron 0 * * * *"],
        "several": ["cron 0 1 * * *", "cron 0 9 * * 1", "every 5m"],
    }


class Sample:
    async def tick(self) -> None: ...

    def plain(self) -> None: ...


async def generator() -> Any:
    yield 1


async def nightly() -> None: ...


async def told(run: Run) -> None: ...


async def told_later(this: "Run") -> None: ...


async def taken(self: Any, run: Run) -> None: ...


def logged(function: Any) -> Any:
    async def around(*args: Any) -> Any:
        return await function(*args)

    return around


@pytest.mark.parametrize("function", [nightly, told, told_later, functools.wraps(told)(logged(told))])
def test_a_plain_function_is_refused_and_told_of_the_app(function: Any) -> None:
    async def local(run: Run) -> None: ...

    for one in (function, local):
        with pytest.raises(BadHandler) as refused:
            every.day.at("10:00")(one)
        assert refused.value.code == "handler.type"
        assert "is not a method, so nothing would run it" in refused.value.message
        assert "for a function on the app's clock write @app.every.day.at('10:00')" in refused.value.message
        assert not hasattr(one, "__wakeful_schedules__")


def test_what_is_or_may_become_a_method_is_taken() -> None:
    class Mixin:
        @every.hour
        async def mixed(self) -> None: ...

        @every.hour
        @logged
        async def wrapped(self) -> None: ...

    class Sub(Mixin):
        borrowed = every.hour(taken)

    made = type("Made", (Mixin,), {"taken": every.day(taken)})
    for cls, name in ((Sub, "mixed"), (Sub, "wrapped"), (Sub, "borrowed"), (made, "taken")):
        assert getattr(cls, name).__wakeful_schedules__


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (Sample, "Sample is a class"),
        (lambda: None, "is a lambda"),
        (Sample.plain, "Sample.plain is not async"),
        (generator, "generator is not async"),
        (Sample().tick, "in an object use self.every.hour(self.tick)"),
        (functools.partial(Sample.tick, None), "is not a function"),
        (staticmethod(Sample.tick), "is not a function"),
        (5, "is not a function"),
        ("tick", "is not a function"),
    ],
)
def test_what_can_not_be_a_handler_is_refused_with_the_reason(function: Any, words: str) -> None:
    with pytest.raises(BadHandler) as refused:
        every.hour(function)
    assert refused.value.code == "handler.type"
    assert refused.value.message.startswith("@every.hour: ")
    assert words in refused.value.message
    assert not hasattr(Sample.plain, "__wakeful_schedules__")


def test_a_declared_schedule_takes_no_arguments() -> None:
    with pytest.raises(BadHandler, match="passes no arguments"):
        every.hour(Sample.tick, "arg")


def test_a_bound_chain_hands_over_spec_handler_arguments_and_options() -> None:
    calls: list[Any] = []

    def add(spec: object, handler: object, *args: object, **options: object) -> int:
        calls.append((str(spec), handler, args, options))
        return len(calls)

    own = Every(add)
    thing = Sample()
    assert own.monday.at("9am", zone="UTC", catch_up="all")(thing.tick, "arg", name="x") == 1
    assert own("every 5 minutes", thing.tick) == 2
    assert own("5m", thing.tick, 1, 2, anchor=START, name="y") == 3
    assert own.hour(thing.tick, zone="Europe/Paris", catch_up="skip") == 4
    assert own(timedelta(minutes=7), "tick") == 5
    assert own.day.at("18:00", catch_up="all")(catch_up="skip")(thing.tick) == 6
    assert calls == [
        ("cron 0 9 * * 1 in UTC", thing.tick, ("arg",), {"catch_up": "all", "name": "x"}),
        ("cron */5 * * * *", thing.tick, (), {}),
        ("every 5m from 2026-01-01T00:00:00+00:00", thing.tick, (1, 2), {"name": "y"}),
        ("cron 0 * * * * in Europe/Paris", thing.tick, (), {"catch_up": "skip"}),
        ("every 7m", "tick", (), {}),
        ("cron 0 18 * * *", thing.tick, (), {"catch_up": "skip"}),
    ]


def test_a_bound_chain_may_be_a_decorator_too() -> None:
    found = []

    def add(spec: object, handler: Any, **options: object) -> Any:
        found.append((str(spec), options))
        return handler

    own = Every(add)

    @own.day.at("18:00", catch_up="latest")
    async def nightly() -> None: ...

    assert found == [("cron 0 18 * * *", {"catch_up": "latest"})]
    assert inspect.iscoroutinefunction(nightly)
    assert not hasattr(nightly, "__wakeful_schedules__")


def test_nothing_is_handed_over_when_the_chain_is_wrong() -> None:
    calls: list[Any] = []
    own = Every(lambda *args, **options: calls.append(args))
    with pytest.raises(BadSpec):
        own.day(Sample().tick, zone="Nowhere/Land")
    assert calls == []


@given(
    st.sampled_from(["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]),
    st.integers(0, 23),
    st.integers(0, 59),
    st.sampled_from([None, "UTC", "Asia/Kolkata"]),
)
def test_a_chain_and_the_phrase_that_reads_like_it_are_the_same_spec(
    day: str, hour: int, minute: int, zone: str | None
) -> None:
    said = parse_phrase(f"every {day} at {hour}:{minute:02} {zone or ''}")
    chain: Ready[Any] = getattr(every, day).at(f"{hour}:{minute:02}", **({"zone": zone} if zone else {}))
    assert chain.spec == said
    assert getattr(getattr(every, day), f"at{hour}_{minute:02}").spec == parse_phrase(f"{day}s at {hour}:{minute:02}")


@given(st.integers(1, 400), st.sampled_from(["seconds", "minutes", "hours", "days", "weeks"]))
def test_a_count_is_the_phrase_with_that_number(count: int, unit: str) -> None:
    assert getattr(every(count), unit).spec == parse_phrase(f"every {count} {unit}")
