"""Layer 1, pure. Which words can follow in a chain, what does it know so far, and what can be done with it when it is complete?"""

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, time
from difflib import get_close_matches
from functools import lru_cache
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast, overload

from wakeful.specs.interval import interval
from wakeful.specs.phrase_words import LAST, clock_of
from wakeful.specs.phrases import read_phrase
from wakeful.specs.recurrence import Meaning, spec_of
from wakeful.specs.spec import Spec
from wakeful.specs.zones import Fold, Gap
from wakeful.values.errors import BadHandler, BadSpec
from wakeful.values.timers import Run

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, Any]])

# What does a chain of words know so far, and what becomes of the function it is called with?


class NoSuchWord(BadSpec, AttributeError):
    """A chain that does not go on like that, or not yet; an AttributeError too, so that `hasattr` can ask."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A schedule declared on a function: its spec, and the options that the schedule will read."""

    spec: Spec
    options: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainState:
    """All that a chain knows; each step makes a new one."""

    target: Callable[..., Any] | None
    path: str = field(default="every", compare=False)  # as typed, for messages
    meaning: Meaning = field(default_factory=Meaning)
    fixed: Spec | None = None  # a spec that was given whole
    zone: str | None = None
    gap: Gap = "shift"
    fold: Fold = "first"
    anchor: datetime | None = None
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def say(self, path: str, **changes: Any) -> "ChainState":
        """The state after one more word, with what that word changed in the meaning."""
        return replace(self, path=self.path + path, meaning=replace(self.meaning, **changes))

    def with_options(self, options: Mapping[str, Any]) -> "ChainState":
        """The state with more options: those of the spec to the spec, the others kept for the schedule."""
        own = {name: value for name, value in options.items() if name in ("zone", "gap", "fold", "anchor")}
        others = {name: value for name, value in options.items() if name not in own}
        return replace(self, **own, options={**self.options, **others}) if options else self

    def spec(self) -> Spec:
        """The spec that is meant."""
        if self.anchor is not None:
            return self._interval_from(self.anchor)
        if self.fixed is None:
            return _spec(self.meaning, self.path, self.zone, self.gap, self.fold)
        if self.zone is not None or self.gap != "shift" or self.fold != "first":
            raise BadSpec(
                f"{self.path}: zone, gap and fold are part of the spec {self.fixed.text!r}; give them where it is made",
                code="spec.option",
            )
        return self.fixed

    def _interval_from(self, anchor: datetime) -> Spec:
        step = self.meaning.step_ms
        if self.fixed is not None or step is None or replace(self.meaning, is_length=False) != Meaning(step_ms=step):
            raise BadSpec(
                f"{self.path}: an anchor is where an interval counts from, and this is a rule of the calendar; "
                'use it with every("5m", anchor=…) or every(5).minutes(anchor=…)',
                code="spec.option",
            )
        if self.zone is not None or self.gap != "shift" or self.fold != "first":
            raise BadSpec(f"{self.path}: an interval of elapsed time has no zone, gap or fold", code="spec.option")
        return interval(f"{step}ms", anchor)


@lru_cache(maxsize=512)
def _spec(meaning: Meaning, path: str, zone: str | None, gap: Gap, fold: Fold) -> Spec:
    return spec_of(meaning, what=path, zone=zone, gap=gap, fold=fold)


def declare(function: F, declared: Declared, path: str) -> F:
    """The very function, marked with one more schedule; what can't be called by name later is refused."""
    name = getattr(function, "__qualname__", repr(function))
    if inspect.isclass(function):
        why = "is a class; decorate its async methods"
    elif inspect.ismethod(function):
        why = f"is bound already; in an object use self.{path}(self.{function.__name__})"
    elif not isinstance(function, FunctionType):
        why = "is not a function; decorate an `async def` (below @staticmethod or @classmethod, none of them works)"
    elif function.__name__ == "<lambda>":
        why = "is a lambda, which has no name to find it by after a restart; use an `async def`"
    elif not inspect.iscoroutinefunction(function):
        why = "is not async; write `async def`"
    elif _is_plain(function):
        why = f"is not a method, so nothing would run it; for a function on the app's clock write @app.{path}"
    else:
        marked = (*getattr(function, "__wakeful_schedules__", ()), declared)
        function.__wakeful_schedules__ = marked  # type: ignore[attr-defined]
        return cast("F", function)
    raise BadHandler(f"@{path}: {name} {why}", code="handler.type")


def _is_plain(function: FunctionType) -> bool:
    """It is outside of a class body, and takes no object: nothing, or the run alone.

    One that takes an object may become a method yet, and so may what a decorator put around one.
    """
    owner = function.__qualname__.rpartition(".")[0]
    if owner and not owner.endswith("<locals>"):
        return False
    try:
        first = next(iter(inspect.signature(function).parameters.values()), None)
    except NameError:  # an annotation that is not there yet; newer Pythons look
        return False
    return first is None or first.name == "run" or first.annotation in (Run, "Run", "wakeful.Run")


def no_such_word(chain: object, path: str, name: str, how: str) -> NoSuchWord:
    """The error for a word that the chain does not have, with the nearest that it has."""
    known = [one for one in dir(type(chain)) if not one.startswith("_")]
    found = get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    hint = f"did you mean {path}.{found[0]}?" if found else how
    return NoSuchWord(f"{path} has no {name!r}; {hint}", code="spec.word")


# Which words can follow?

_AT = re.compile(r"at_?(?:(\d{1,2})(?:_(\d{2}))?_?(am|pm)?|(noon|midnight|midday))", re.IGNORECASE)
_OF_COMPLETE = {"spec", "options", "text", "describe", "next_after", "previous_before", "between", "at", "on"}


class Mark:
    """What a chain without a target gives back: the function itself. (For type checkers only.)"""


class Chain(Generic[R]):
    """An immutable chain of words."""

    __slots__ = ("_state",)

    _state: ChainState
    _how = "it is complete as it is"

    def __init__(self, state: ChainState) -> None:
        object.__setattr__(self, "_state", state)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{self._state.path} can't be changed; go on with it instead")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._state,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chain) and type(self) is type(other) and self._state == other._state

    def __hash__(self) -> int:
        return hash(self._state)

    def __repr__(self) -> str:
        return f"<{self._state.path}: not complete; {self._how}>"

    if not TYPE_CHECKING:  # a checker must see that every.mondey is wrong

        def __getattr__(self, name: str) -> object:
            if name.startswith("_"):  # asked by copy, pickle and inspect, also of a chain that has no state yet
                raise AttributeError(name)
            if name != name.lower() and hasattr(type(self), name.lower()):
                return getattr(self, name.lower())
            if name in _OF_COMPLETE and not isinstance(self, Ready):
                raise NoSuchWord(f"{self._state.path} is not complete; {self._how}", code="spec.word")
            raise no_such_word(self, self._state.path, name, self._how)

        def __call__(self, *args: object, **options: object) -> object:
            raise BadSpec(f"{self._state.path} is not complete; {self._how}", code="spec.word")


class Ready(Chain[R]):
    """A complete chain: it has a spec, and is called with what is to run."""

    __slots__ = ()

    @property
    def spec(self) -> Spec:
        """The spec that the chain means."""
        return self._state.spec()

    @property
    def options(self) -> dict[str, Any]:
        """The options that are the schedule's."""
        return dict(self._state.options)

    @property
    def text(self) -> str:
        """The spec as text, such as `cron 0 9 * * 1 in Europe/Paris`."""
        return self.spec.text

    def describe(self) -> str:
        """The rule in plain English."""
        return self.spec.describe()

    def next_after(self, when: datetime) -> datetime | None:
        """The first occurrence strictly after that time."""
        return self.spec.next_after(when)

    def previous_before(self, when: datetime) -> datetime | None:
        """The last occurrence strictly before that time."""
        return self.spec.previous_before(when)

    def between(self, start: datetime, end: datetime, limit: int = 1000) -> list[datetime]:
        """The occurrences from `start` (inclusive) to `end` (exclusive), the first `limit` of them."""
        return self.spec.between(start, end, limit)

    @overload
    def __call__(self, /, **options: Any) -> Self: ...
    @overload
    def __call__(self: "Ready[Mark]", handler: F, /, **options: Any) -> F: ...
    @overload
    def __call__(self, handler: Callable[..., Any], /, *args: Any, **options: Any) -> R: ...
    def __call__(self: Any, /, *args: Any, **options: Any) -> Any:
        """With a function: declares or schedules it. With options alone: the chain with those options."""
        state = self._state.with_options(options)
        spec = state.spec()  # what is wrong is said here, not when it is first due
        if not args:
            return type(self)(state)
        if state.target is not None:
            return state.target(spec, *args, **state.options)
        if len(args) > 1:
            raise BadHandler(
                f"{state.path}: a declared schedule passes no arguments; schedule it from the object, with self.{state.path}",
                code="handler.type",
            )
        return declare(args[0], Declared(spec, dict(state.options)), state.path)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{self.text}>"


class ChainHours(Ready[R]):
    """A step of hours, which may say at which minutes."""

    __slots__ = ()

    def at(self, *marks: str | int, **options: Any) -> Ready[R]:
        """At these minutes past the hour: `":15"`, `15`."""
        state = self._state
        path = f".at({', '.join(map(repr, marks))})"
        if not marks:
            raise BadSpec(f'{state.path}.at(): say when, like {state.path}.at(":15")', code="spec.time")
        minutes = []
        for mark in marks:
            text = str(mark).removeprefix(":")
            if isinstance(mark, bool) or not re.fullmatch(r"[0-5]?\d", text, re.ASCII):
                raise BadSpec(
                    f'{state.path}{path}: {mark!r} is no minute of the hour; write it like ":15"', code="spec.time"
                )
            minutes.append(int(text))
        return Ready[R](state.say(path, marks=tuple(minutes)))(**options)


class ChainDays(Ready[R]):
    """Days of some kind, which may say at which times."""

    __slots__ = ()

    def at(self, *times: str | int | time, **options: Any) -> Ready[R]:
        """At these times of day: `"9am"`, `"18:30"`, `"noon"`, a whole hour or a `datetime.time`."""
        state = self._state
        path = f".at({', '.join(map(repr, times))})"
        if not times:
            raise BadSpec(f'{state.path}.at(): say when, like {state.path}.at("9am")', code="spec.time")
        try:
            clocks = [clock_of(when) for when in times]
        except BadSpec as error:
            raise BadSpec(f"{state.path}{path}: {error.message}", code=error.code) from None
        halves = any(clock.is_half for clock in clocks)
        if unsure := [clock.seconds // 3600 for clock in clocks if clock.is_either and halves]:
            raise BadSpec(
                f'{state.path}{path}: {unsure[0]} could be "{unsure[0]}am" or "{unsure[0]}pm"; write which',
                code="spec.time",
            )
        return Ready[R](state.say(path, times=tuple(dict.fromkeys(clock.seconds for clock in clocks))))(**options)

    def __getattr__(self, name: str) -> Ready[R]:
        """`at6pm`, `at9_30am`, `at18_30`, `atnoon`."""
        if match := _AT.fullmatch(name):
            hour, minute, half, named = match.groups()
            return self.at(named or f"{hour}{f':{minute}' if minute else ''}{half or ''}")
        if name.lower().startswith("at") and not name.startswith("_"):
            how = "write the time like at9am, at9_30am or at18_30"
            raise NoSuchWord(f"{self._state.path} has no {name!r}; {how}", code="spec.word")
        return cast("Ready[R]", super().__getattr__(name))  # type: ignore[misc]


class Dates(ChainDays[R]):
    """Weeks, months, quarters or years, which may say on which of their days."""

    __slots__ = ()

    def on(self, *days: str | int, **options: Any) -> ChainDays[R]:
        """On these days: `1`, `"15th"`, `"last"`, `"last friday"`; of a week `"mon"`; of a year `"march 1"`."""
        return ChainDays[R](on_days(self._state, days))(**options)


class Weekday:
    """A day of the week as a word of a chain."""

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name

    @overload
    def __get__(self, chain: None, owner: type) -> Self: ...
    @overload
    def __get__(self, chain: "Weekdays[R]", owner: type) -> ChainDays[R]: ...
    def __get__(self, chain: "Weekdays[R] | None", owner: type) -> "Self | ChainDays[R]":
        return self if chain is None else chain._on_weekday(self.number, self.name)


class Weekdays(Chain[R], ABC):
    """What goes on with the name of a day."""

    __slots__ = ()

    @abstractmethod
    def _on_weekday(self, number: int, name: str) -> ChainDays[R]:
        """The chain behind that day."""

    monday = Monday = Weekday(1, "monday")
    tuesday = Tuesday = Weekday(2, "tuesday")
    wednesday = Wednesday = Weekday(3, "wednesday")
    thursday = Thursday = Weekday(4, "thursday")
    friday = Friday = Weekday(5, "friday")
    saturday = Saturday = Weekday(6, "saturday")
    sunday = Sunday = Weekday(0, "sunday")


class Nth(Weekdays[R]):
    """The first, second, … or last of something in the month. Not complete: of what is missing."""

    __slots__ = ("_nth",)

    _nth: int

    def __init__(self, state: ChainState, nth: int) -> None:
        super().__init__(state)
        object.__setattr__(self, "_nth", nth)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._state, self._nth)

    @property
    def _how(self) -> str:  # type: ignore[override]
        return f"go on with a day, like {self._state.path}.friday"

    def _on_weekday(self, number: int, name: str) -> ChainDays[R]:
        nth = f"{number}L" if self._nth == LAST else f"{number}#{self._nth}"
        return ChainDays[R](self._state.say(f".{name}", step_ms=None, period="month", nths=frozenset({nth})))

    @property
    def day(self) -> ChainDays[R]:
        """That day of the month."""
        day = "L" if self._nth == LAST else str(self._nth)
        return ChainDays[R](self._state.say(".day", step_ms=None, period="month", days=frozenset({day})))


class Ends(Nth[R]):
    """The first or the last: of the days from monday to friday too."""

    __slots__ = ()

    @property
    def weekday(self) -> ChainDays[R]:
        """The first or last monday-to-friday of the month."""
        days = frozenset({"LW" if self._nth == LAST else "1W"})
        return ChainDays[R](self._state.say(".weekday", period="month", days=days))


class Second(Ready[R], Nth[R]):
    """Every second; or, with a day, the second of them in the month."""

    __slots__ = ()

    def __init__(self, state: ChainState, nth: int = 2) -> None:
        super().__init__(state, nth)


def on_days(state: ChainState, days: tuple[str | int, ...]) -> ChainState:
    """The state after `.on(…)`."""
    path = f".on({', '.join(map(repr, days))})"
    what = f"{state.path}{path}"
    meaning = Meaning()
    for day in days:
        if isinstance(day, int) and not isinstance(day, bool):
            if not 1 <= day <= 31 or state.meaning.period in ("week", "year"):
                example = {"week": '"mon"', "year": '"march 1"'}.get(state.meaning.period or "", "1 to 31")
                raise BadSpec(f"{what}: {day} is no day of it; give {example}", code="spec.phrase")
            said = Meaning(days=frozenset({str(day)}))
        elif isinstance(day, str):
            said = read_phrase(f"on {day}", what)
        else:
            raise BadSpec(
                f'{what}: {day!r} is no day; give a number, or text like "monday" or "last"', code="spec.phrase"
            )
        meaning = replace(
            said,
            weekdays=meaning.weekdays | said.weekdays,
            days=meaning.days | said.days,
            nths=meaning.nths | said.nths,
            dates=meaning.dates | said.dates,
            months=meaning.months | said.months,
            period=meaning.period or said.period,
        )
    names = {"weekdays", "days", "nths", "dates", "months"}
    changes = {name: getattr(meaning, name) for name in names}
    if not any(changes.values()) or meaning != Meaning(period=meaning.period, **changes):
        raise BadSpec(f'{what}: give days alone, like .on("monday") or .on(1, 15)', code="spec.phrase")
    if meaning.period not in (None, state.meaning.period or meaning.period):
        raise BadSpec(f"{what}: these are days of the {meaning.period}", code="spec.phrase")
    return state.say(path, period=state.meaning.period or meaning.period, **changes)
