"""Layer 1, pure. How is a spec chained from words: `every.weekday.at("18:30")`?

- Steps that divide the clock are crons, as in phrases: `every(5).minutes` is `*/5 * * * *`; `every("5m")`, a duration, is
  an interval, and so is anything with an anchor. `every(3).days` is an interval of 72 hours and takes no `.at(…)`: which
  third day is a first date, so use `rrule(…)` with DTSTART, or `every("3d", anchor=…)`.
- `zone`, `gap`, `fold` and `anchor` go into the spec; every other keyword is an option of the schedule, kept unread.
- `every.month` is the 1st, `every.week` Sunday (as cron's `@weekly`), `every.year` January 1st, each at 00:00.
- Calling a complete chain with an async function marks it (`@every.hour`) and gives it back unchanged; a chain of an
  object or an app hands it, with its arguments, to its target instead.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar, overload

from wakeful.specs.chain import (
    Chain,
    ChainDays,
    ChainHours,
    ChainState,
    Dates,
    Ends,
    F,
    Mark,
    Nth,
    Ready,
    Second,
    Weekdays,
    on_days,
)
from wakeful.specs.phrase_readers import step_of
from wakeful.specs.phrase_words import LAST, UNITS, number_of, words_of
from wakeful.specs.phrases import read_phrase
from wakeful.specs.recurrence import Unclear
from wakeful.specs.spec import Spec
from wakeful.values.errors import BadSpec
from wakeful.values.times import duration_ms

R = TypeVar("R")

_LENGTH = re.compile(r"(?:\s*\d+(?:\.\d+)?\s*(?:ms|s|m|h|d|w))+\s*", re.ASCII)


class Every(Weekdays[R]):
    """Says when: as a decorator of a method (`@every.day.at("9am")`), or as a rule for `schedules.add`.

    Where every chain begins. `Every(add)` calls `add(spec, handler, *args, **options)`; `Every()` marks the function.

    >>> from wakeful import cron, every
    >>> every.weekday.at("09:00", zone="Europe/Paris").describe()
    'at 09:00 from Monday to Friday, Europe/Paris time'
    >>> every(15).minutes.describe()
    'every 15 minutes'
    >>> class Report:
    ...     @every(cron("0 9 1 * *", "Europe/Paris"), catch_up="latest")
    ...     async def send(self) -> None: ...
    """

    __slots__ = ()

    _how = 'go on with a unit or a day, like every.hour or every.monday.at("9am")'

    def __init__(self, target: Callable[..., R] | None = None) -> None:
        super().__init__(ChainState(target=target))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._state.target,)

    # units

    @property
    def second(self) -> Second[R]:
        """Every second; `every.second.monday` is the second monday of the month."""
        return Second[R](self._state.say(".second", step_ms=1_000))

    @property
    def minute(self) -> Ready[R]:
        """Every minute."""
        return Ready[R](self._state.say(".minute", step_ms=60_000))

    @property
    def hour(self) -> ChainHours[R]:
        """Every hour, on the hour."""
        return ChainHours[R](self._state.say(".hour", step_ms=3_600_000))

    @property
    def day(self) -> ChainDays[R]:
        """Every day."""
        return ChainDays[R](self._state.say(".day", period="day"))

    @property
    def week(self) -> Dates[R]:
        """Every week, on Sunday."""
        return Dates[R](self._state.say(".week", period="week"))

    @property
    def month(self) -> Dates[R]:
        """Every month, on the 1st."""
        return Dates[R](self._state.say(".month", period="month"))

    @property
    def quarter(self) -> Dates[R]:
        """Every quarter, on the 1st of its first month."""
        return Dates[R](self._state.say(".quarter", period="quarter"))

    @property
    def year(self) -> Dates[R]:
        """Every year, on January 1st."""
        return Dates[R](self._state.say(".year", period="year"))

    # days

    def _on_weekday(self, number: int, name: str) -> ChainDays[R]:
        return ChainDays[R](self._state.say(f".{name}", weekdays=frozenset({number})))

    @property
    def weekday(self) -> ChainDays[R]:
        """Monday to friday."""
        return ChainDays[R](self._state.say(".weekday", weekdays=frozenset({1, 2, 3, 4, 5})))

    @property
    def weekend(self) -> ChainDays[R]:
        """Saturday and sunday."""
        return ChainDays[R](self._state.say(".weekend", weekdays=frozenset({0, 6})))

    def on(self, *days: str | int, **options: Any) -> ChainDays[R]:
        """On these days: `every.on("mon", "thu")`, `every.on(1, 15)`, `every.on("march 1")`."""
        return ChainDays[R](on_days(self._state, days))(**options)

    @property
    def first(self) -> Ends[R]:
        """The first of a day in the month: `every.first.monday`."""
        return Ends[R](self._state.say(".first"), 1)

    @property
    def third(self) -> Nth[R]:
        """The third of a day in the month."""
        return Nth[R](self._state.say(".third"), 3)

    @property
    def fourth(self) -> Nth[R]:
        """The fourth of a day in the month."""
        return Nth[R](self._state.say(".fourth"), 4)

    @property
    def last(self) -> Ends[R]:
        """The last of a day in the month: `every.last.friday`."""
        return Ends[R](self._state.say(".last"), LAST)

    # calls

    @overload
    def __call__(self, count: int | float, /) -> "Count[R]": ...
    @overload
    def __call__(
        self, rule: str | timedelta | Spec, /, *, anchor: datetime | None = None, **options: Any
    ) -> Ready[R]: ...
    @overload
    def __call__(self: "Every[Mark]", rule: str | timedelta | Spec, handler: F, /, **options: Any) -> F: ...
    @overload
    def __call__(
        self, rule: str | timedelta | Spec, handler: Callable[..., Any], /, *args: Any, **options: Any
    ) -> R: ...
    def __call__(self: Any, rule: Any, /, *args: Any, **options: Any) -> Any:
        """`every(5).minutes`, `every("5m")`, `every(timedelta(…))`, `every("every monday at 9am")`, `every(cron(…))`.

        With a handler after it, schedules it at once.
        """
        if isinstance(rule, bool) or not isinstance(rule, int | float | str | timedelta | Spec):
            raise BadSpec(
                f"every({rule!r}): give a number, a duration, a phrase or a spec; as a decorator, complete it: "
                '@every.hour, @every.day.at("9am")',
                code="spec.word",
            )
        path = f"({rule!r})"
        if isinstance(rule, int | float):
            if args or options:
                raise BadSpec(f"every{path} of what? go on like every{path}.minutes", code="spec.word")
            return Count[R](replace(self._state, path=f"every{path}"), rule)
        if isinstance(rule, Spec):
            return Ready[R](replace(self._state, path=f"every({rule.text})", fixed=rule))(*args, **options)
        if isinstance(rule, timedelta) or _LENGTH.fullmatch(rule):
            length = duration_ms(rule, what="every")
            return Ready[R](self._state.say(path, step_ms=length, is_length=True))(*args, **options)
        words = words_of(rule)
        is_step = len(words) > 1 and number_of(words[0]) is not None and words[1].text in UNITS
        phrase = f"every {rule}" if is_step else rule
        return Ready[R](replace(self._state, path=f"every{path}", meaning=read_phrase(phrase)))(*args, **options)


class Count(Chain[R]):
    """So many of something. Not complete: of what is missing."""

    __slots__ = ("_count",)

    _count: int | float

    def __init__(self, state: ChainState, count: int | float) -> None:
        super().__init__(state)
        if not isfinite(count) or count <= 0:
            raise BadSpec(f"{state.path}: give a number above 0", code="spec.phrase")
        object.__setattr__(self, "_count", count)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._state, self._count)

    @property
    def _how(self) -> str:  # type: ignore[override]
        return f"go on like {self._state.path}.minutes"

    def _of(self, unit: str) -> ChainState:
        try:
            step = step_of(Fraction(str(self._count)), unit)
        except Unclear as unclear:
            raise BadSpec(
                f'{self._state.path}.{unit}s: {unclear.why}; write it like "{unclear.example}"', code="spec.phrase"
            ) from None
        return self._state.say(f".{unit}s", step_ms=step.step_ms, period=step.period, step_months=step.step_months)

    @property
    def seconds(self) -> Ready[R]:
        """So many seconds apart."""
        return Ready[R](self._of("second"))

    @property
    def minutes(self) -> Ready[R]:
        """So many minutes apart."""
        return Ready[R](self._of("minute"))

    @property
    def hours(self) -> ChainHours[R]:
        """So many hours apart."""
        return ChainHours[R](self._of("hour"))

    @property
    def days(self) -> ChainDays[R]:
        """So many times 24 hours apart, from the anchor."""
        return ChainDays[R](self._of("day"))

    @property
    def weeks(self) -> Dates[R]:
        """So many times 7 × 24 hours apart, from the anchor."""
        return Dates[R](self._of("week"))

    @property
    def months(self) -> Dates[R]:
        """Every so many months, January among them; they must divide the year."""
        return Dates[R](self._of("month"))

    @property
    def quarters(self) -> Dates[R]:
        """Every so many quarters; they must divide the year."""
        return Dates[R](self._of("quarter"))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """`every(1).hour` reads better than `every(1).hours`."""
            if not name.startswith("_") and hasattr(type(self), f"{name.lower()}s"):
                return getattr(self, f"{name.lower()}s")
            return super().__getattr__(name)


every: Every[Mark] = Every()
