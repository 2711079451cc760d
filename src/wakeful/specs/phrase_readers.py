"""Layer 1, pure. What do the parts of a phrase say: which days and months, which times of the day, how often?"""

import re
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import cast

from wakeful.specs.phrase_words import (
    ADVERBS,
    COUNTS,
    DAY_SETS,
    DAYS,
    END,
    EVERY,
    LAST,
    MONTHS,
    NAMED_TIMES,
    NUMBERS,
    ORDINALS,
    UNIT_MS,
    UNITS,
    ClockTime,
    Cursor,
    Unread,
    Word,
    is_day,
    is_ordinal,
    number_of,
    ordinal_of,
    read_clock,
)
from wakeful.specs.recurrence import Meaning, Period, Unclear


class DaysReader(Cursor):
    """Reads weekdays, days of the month, dates and months."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.of: Period | None = None  # "of the month": says where days are counted, not how often

    def days(self) -> None:
        word = self.word()
        if is_day(word):
            self.weekdays()
        elif word.says("hour") or (word.says("half") and self.word(1).says("hour")):
            self.at += 2 if word.says("half") else 1
            self.said = replace(self.said, marks=(*self.said.marks, 30 if word.says("half") else 0))
        elif word.says("day", "days") and number_of(self.word(1)) is not None:
            self.at += 1
            self.ordinals()
        elif is_ordinal(word):
            self.ordinals()
        elif word.text in MONTHS or (number_of(word) is not None and self.word(1).text in MONTHS):
            self.months(is_every=False)
        else:
            raise Unread(self.at, "" if word.kind == "odd" else "not which day", "every monday at 9am")

    def weekdays(self, joins: str = "to") -> None:
        numbers = set(self.said.weekdays)
        while True:
            name = self.take().text
            if name in DAYS and self.word().kind in ("to", joins) and self.word(1).text in DAYS:
                self.at += 1
                first, last = DAYS[name], DAYS[self.take().text]
                numbers |= {day % 7 for day in range(first, last + 1 + (7 if last < first else 0))}
            else:
                numbers |= {DAYS[name]} if name in DAYS else set(DAY_SETS[name])
            if not self.goes_on(lambda one, after: is_day(one), "on", *EVERY):
                break
            joins = "to"
        self.said = replace(self.said, weekdays=frozenset(numbers))

    def ordinals(self) -> tuple[set[int], bool]:
        """The 1st and 15th, the last day, the first monday: which ordinals were said, and whether of what."""
        if self.said.days or self.said.nths:
            raise Unread(self.at, "days of the month are said twice", "on the 1st and 15th of the month at 9am")
        days: set[str] = set()
        nths: set[str] = set()
        seen: set[int] = set()
        while True:
            pending = self._pending()
            seen |= pending
            word = self.word()
            if word.text in DAYS:
                self.at += 1
                nths |= {self._nth(DAYS[word.text], one) for one in pending}
            elif word.says("weekday", "weekdays", "weekend", "weekends"):
                if word.text.startswith("weekend") or pending - {1, LAST}:
                    raise Unread(
                        self.at,
                        "of these there are only the first and the last weekday",
                        "on the last weekday of the month",
                    )
                self.at += 1
                days |= {"1W" if one == 1 else "LW" for one in pending}
            else:
                self.skip("day", "days")
                days |= {"L" if one == LAST else str(one) for one in pending}
            if not self.goes_on(lambda one, after: is_ordinal(one), "on"):
                break
        return seen, self._of_what(days, nths)

    def _pending(self) -> set[int]:
        ordinals: set[int] = set()
        while True:
            at = self.at
            number = ordinal_of(self.take())
            if number != LAST and not 1 <= number <= 31:
                raise Unread(at, f"{number} is no day of a month: they go from 1 to 31", "on the 15th of the month")
            last = number
            if (
                number != LAST
                and self.word().kind == "to"
                and (is_ordinal(self.word(1)) or self.word(1).kind == "number")
            ):
                self.at += 1
                last = ordinal_of(self.take())
                if not number <= last <= 31:
                    raise Unread(at, "not that range of days", "on the 1st to 5th of the month")
            ordinals |= set(range(number, last + 1))
            if not self.goes_on(
                lambda one, after: is_ordinal(one) or (one.kind == "number" and after.text not in MONTHS)
            ):
                return ordinals

    def _nth(self, day: int, nth: int) -> str:
        if nth > 5:
            raise Unread(self.at - 1, f"no month has {nth} of that day", "on the first monday of the month at 9am")
        return f"{day}L" if nth == LAST else f"{day}#{nth}"

    def _of_what(self, days: set[str], nths: set[str]) -> bool:
        """Reads "of the month", "of march"; keeps the days accordingly."""
        is_of = self.word().says("of", "in") and (
            self.word(1).text in MONTHS or self.word(1).says("a", "month", "quarter", "year", *EVERY)
        )
        if is_of:
            self.at += 1
            self.skip("a", *EVERY)
        months = set()
        if self.word().text in MONTHS:
            months = self._month_list("to")
        elif is_of:
            unit = UNITS.get(self.word().text)
            if unit not in ("month", "quarter", "year"):
                raise Unread(self.at)
            self.at += 1
            self.of = cast("Period", unit)
        if months and days and all(one.isdigit() for one in days):
            dates = {(month, int(day)) for month in months for day in days}
            self.said = replace(self.said, dates=self.said.dates | dates)
        else:
            self.said = replace(
                self.said, days=frozenset(days), nths=frozenset(nths), months=self.said.months | frozenset(months)
            )
        return is_of or bool(months)

    def _month_list(self, joins: str) -> set[int]:
        months: set[int] = set()
        while True:
            first = last = MONTHS[self.take().text]
            if self.word().kind in ("to", joins) and self.word(1).text in MONTHS:
                self.at += 1
                last = MONTHS[self.take().text]
            months |= {(month - 1) % 12 + 1 for month in range(first, last + 1 + (12 if last < first else 0))}
            if not self.goes_on(lambda one, after: one.text in MONTHS and number_of(after) is None, "in"):
                return months

    def months(self, *, is_every: bool, joins: str = "to") -> None:
        """Months, or dates: "march 1", "1 march", "march 1 and 15 and july 1"."""
        if self.word().text in MONTHS and not _is_date(self.word(1)):
            found = self._month_list(joins)
            period = self.said.period or ("year" if is_every and self.said.step_ms is None else None)
            self.said = replace(self.said, months=self.said.months | found, period=period)
            return
        dates = set(self.said.dates)
        while True:
            month = MONTHS.get(self.word().text)
            if month is None:
                days = [self._day()]
                month = MONTHS[self.take().text]
            else:
                self.at += 1
                days = [self._day()]
                while self.goes_on(lambda one, after: _is_date(one) and after.text not in MONTHS):
                    days.append(self._day())
            dates |= {(month, day) for day in days}
            if not self.goes_on(_begins_date, "on"):
                break
        self.said = replace(self.said, dates=frozenset(dates))

    def _day(self) -> int:
        word = self.take()
        day = ordinal_of(word)
        if not 1 <= day <= 31:
            why = "a phrase repeats, so it has no year; for one time use at(…)" if day > 1000 else "a month has 31 days"
            raise Unread(self.at - 1, why, "every year on march 1")
        return day


def _is_date(word: Word) -> bool:
    return word.kind in ("number", "ordinal") or word.text in ("first", "second", "third")


def _begins_date(word: Word, after: Word) -> bool:
    return (word.text in MONTHS and _is_date(after)) or (_is_date(word) and after.text in MONTHS)


# At which times of the day, or between which, is a phrase?


class TimesReader(Cursor):
    """Reads times of day, minutes past the hour and windows."""

    def times(self, *, is_at: bool) -> None:
        clocks: list[ClockTime] = []
        marks: list[int] = []
        while True:
            mark = self._mark()
            if mark is not None:
                marks += mark
            else:
                clocks.append(self.clock())
                if self.word().kind == "to":
                    if is_at or len(clocks) > 1:
                        raise Unread(self.at, 'not a range after "at"', "every 15 minutes between 9am and 5pm")
                    self.window(clocks[0])
                    return
            if not self.goes_on(_is_time, "at"):
                break
        _check_halves(clocks, self.at, "every day at 9am and 6pm")
        times = (*self.said.times, *(one.seconds for one in clocks))
        self.said = replace(
            self.said, times=tuple(dict.fromkeys(times)), marks=tuple(dict.fromkeys((*self.said.marks, *marks)))
        )

    def clock(self) -> ClockTime:
        word = self.word()
        if word.says("half", "quarter") and self.word(1).says("past"):
            past = 1800 if word.text == "half" else 900
            self.at += 2
            hour = self.clock()
            return replace(hour, seconds=hour.seconds + past)
        if word.kind not in ("time", "number") and word.text not in NAMED_TIMES and word.text not in NUMBERS:
            raise Unread(self.at, "" if word.kind == "odd" else "not which time", "every day at 9am")
        self.at += 1
        said = str(NUMBERS.get(word.text, word.text))
        if self.word().says("am", "pm"):
            said += self.take().text
        clock = read_clock(said)
        self.skip("oclock", "hours", "hrs")
        if self.word().says("am", "pm"):
            clock = read_clock(f"{said}{self.take().text}")
        return clock

    def _mark(self) -> list[int] | None:
        """Minutes past the hour: ":15", "minute 15", "15 minutes past", "half past"; None when a time comes."""
        word = self.word()
        if word.kind == "mark":
            self.at += 1
            return [self._minute(word.text[1:])]
        if word.says("minute", "minutes") and self.word(1).kind == "number":
            self.at += 1
            found = [self._minute(self.take().text)]
            while self.goes_on(lambda one, after: one.kind == "number"):
                found.append(self._minute(self.take().text))
            return found
        at = 1
        if (number := number_of(word)) is not None and self.word(1).says("minute", "minutes", "mins", "min"):
            at = 2
        if not self.word(at).says("past") or not (number is not None or word.says("half", "quarter")):
            return None
        after = self.word(at + 1)
        if after.kind in ("time", "number") or after.text in NUMBERS or after.text in NAMED_TIMES:
            return None
        self.at += at + 1
        self.skip("every", "each")
        self.skip("hour")
        return [self._minute(str(number)) if number is not None else {"half": 30, "quarter": 15}[word.text]]

    def _minute(self, text: str) -> int:
        if not text.isdecimal() or len(text) > 2 or int(text) > 59:
            raise Unread(self.at - 1, f'"{text}" is no minute of the hour: they go from 0 to 59', "every hour at :15")
        return int(text)

    def window(self, start: ClockTime) -> None:
        if self.word().kind not in ("to", "and"):
            raise Unread(self.at, "not until when", "every 15 minutes between 9am and 5pm")
        self.at += 1
        end = self.clock()
        _check_halves([start, end], self.at, "every 15 minutes between 9am and 5pm")
        if start.is_either and end.is_bare and end.seconds < start.seconds:
            raise Unread(self.at, "not which half of the day each end is in", "every 15 minutes between 9am and 5pm")
        if start.seconds == end.seconds and end.seconds:
            raise Unread(self.at, "the window is empty", "every 15 minutes between 9am and 5pm")
        if self.said.window is not None:
            raise Unread(self.at, "it has two windows", "every 15 minutes between 9am and 5pm")
        self.said = replace(self.said, window=(start.seconds, end.seconds))


def _is_time(word: Word, after: Word) -> bool:
    if word.kind in ("time", "mark") or word.text in NAMED_TIMES:
        return True
    if word.says("half", "quarter"):
        return after.says("past")
    return (
        number_of(word) is not None
        and after.text not in MONTHS
        and (after.text not in UNITS)
        and not after.says("times")
    )


def _check_halves(clocks: Iterable[ClockTime], at: int, example: str) -> None:
    """A bare 9 beside "6pm" could be either nine: refused, because a wrong guess is twelve hours off."""
    found = list(clocks)
    if any(one.is_half for one in found):
        for one in found:
            if one.is_either:
                hour = one.seconds // 3600
                raise Unread(at, f'not whether "{hour}" is {hour}am or {hour}pm', example)


# How often is a phrase?

_DAY_MS = 86_400_000
_CENTURY_MS = 36_525 * _DAY_MS


class StepsReader(DaysReader):
    """Reads "every …", "twice a day", "hourly"."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.is_abbreviated = False  # "every 5m"
        self._counted: tuple[int, str] | None = None  # "twice a day"

    def every(self) -> None:
        word = self.word()
        following = self.word(1)
        if word is END:
            raise Unread(self.at, "not every what", "every day at 9am")
        if word.says("other"):
            self.at += 1
            if is_day(following):
                raise Unread(
                    self.at + 1,
                    "every other one needs a first one to count from: use rrule(…) with DTSTART, or "
                    'every("14d", anchor=…)',
                    "every monday at 9am",
                )
            if following.text not in UNITS:
                raise Unread(self.at)
            self.step(Fraction(2), UNITS[self.take().text])
        elif word.says("half", "quarter") and self._is_part_of_hour():
            self.step(Fraction(30 if word.text == "half" else 15), "minute")
        elif word.kind == "length":
            self._length(self.take())
        elif (count := number_of(word)) is not None and following.text not in MONTHS:
            self.at += 1
            self._counted_step(count, word)
        elif is_ordinal(word) and not (word.says("second") and not _follows_ordinal(following)):
            self._every_nth()
        elif word.text in UNITS:
            self.at += 1
            self.step(Fraction(1), UNITS[word.text])
        elif is_day(word):
            self.weekdays()
        elif word.text in MONTHS or count is not None:
            self.months(is_every=True)
        else:
            raise Unread(self.at)

    def _is_part_of_hour(self) -> bool:
        """ "half hour", "half an hour", "quarter hour", "quarter of an hour": goes past it."""
        at = 1
        while self.word(at).says("of", "a", "an"):
            at += 1
        if not self.word(at).says("hour"):
            return False
        self.at += at + 1
        return True

    def _counted_step(self, count: Fraction, word: Word) -> None:
        unit = self.word()
        if unit.text not in UNITS:
            if unit.kind == "odd":
                raise Unread(self.at)
            raise Unread(self.at, f"not {word.text} of what", f"every {word.text} minutes")
        self.at += 1
        name, more = UNITS[unit.text], self._compound()
        if not more or name not in UNIT_MS:
            self.step(count, name)
            return
        total = count * UNIT_MS[name] + more
        while more := self._compound():
            total += more
        self.step(total / 1000, "second")

    def _compound(self) -> Fraction:
        """The "30 minutes" of "1 hour and 30 minutes", in milliseconds; 0 when something else comes."""
        at = 1 if self.word().kind == "and" else 0
        count, unit = number_of(self.word(at)), UNITS.get(self.word(at + 1).text, "")
        if count is None or unit not in UNIT_MS or self.word(at + 2).says("past"):
            return Fraction(0)
        self.at += at + 2
        return count * UNIT_MS[unit]

    def _length(self, word: Word) -> None:
        total = Fraction(0)
        names = {"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week"}
        for number, unit in re.findall(r"([\d.]+)(ms|[smhdw])", word.text):
            total += Fraction(number) * (1 if unit == "ms" else UNIT_MS[names[unit]])
        self.is_abbreviated = True
        self.step(total / 1000, "second")

    def step(self, count: Fraction, unit: str) -> None:
        """Keeps how often: once, but that "every day" beside a step within the day says nothing more."""
        step, said = step_of(count, unit), self.said
        how_often = {(one.step_ms, one.period, one.step_months) for one in (said, step)} - {(None, None, 1)}
        within_day = {one.step_ms for one in (said, step) if one.step_ms is not None}
        periods = {one.period for one in (said, step)} - {None}
        is_more = len(how_often) > 1 and not (periods == {"day"} and len(within_day) == 1 and max(within_day) < _DAY_MS)
        if is_more:
            raise Unread(self.at, "it says how often twice", "every 15 minutes on weekdays")
        self.said = replace(
            said,
            step_ms=said.step_ms or step.step_ms,
            period=said.period or step.period,
            step_months=max(said.step_months, step.step_months),
        )

    def _every_nth(self) -> None:
        nth, unit = ordinal_of(self.word()), UNITS.get(self.word(1).text)
        if unit is not None and nth > 1 and not (unit == "day" and self.word(2).says("of")):
            self.at += 2
            self.step(Fraction(nth), unit)
            return
        start = self.at
        nths, is_of = self.ordinals()
        if self.words[self.at - 1].text in ORDINALS:  # "every third": 15th alone is a day, these could be of anything
            raise Unread(self.at, f'not "{self.words[self.at - 1].text}" of what', "on the third of the month")
        if self.said.nths and not is_of and not nths & {1, LAST}:
            day = self.words[start + 1].text
            raise Unread(
                start,
                f'not whether "{self.words[start].text} {day}" is one in the month or one in several weeks',
                f"on the {self.words[start].text} {day} of the month",
            )

    def count(self) -> None:
        word = self.take()
        count = COUNTS.get(word.text) or int(number_of(word) or 0)
        self.skip("times")
        self.skip("a", "an", "per", *EVERY)
        unit = self.word()
        if unit.text not in UNITS and unit.text not in ADVERBS:
            raise Unread(self.at, f'not "{self.text[word.start : word.end]}" in what', "twice a day at 9am and 6pm")
        self.at += 1
        name = UNITS.get(unit.text) or ADVERBS[unit.text]
        self._counted = (count, name)
        self.step(Fraction(1), name)

    def check_count(self) -> None:
        if self._counted is None:
            return
        count, unit = self._counted
        said = self.said
        said_count = {
            "hour": len(said.marks),
            "day": len(said.times),
            "week": len(said.weekdays),
            "month": len(said.days) + len(said.nths),
            "year": len(said.dates),
        }.get(unit, 0)
        if count != (said_count or 1):
            raise Unclear(
                f"{count} in each {unit} are wanted and {said_count or 'none'} {'is' if said_count < 2 else 'are'} said",
                {"hour": "twice an hour at :00 and :30", "week": "twice a week on mon and thu at 9am"}.get(
                    unit, "twice a day at 9am and 6pm"
                ),
            )


def _follows_ordinal(word: Word) -> bool:
    return word.text in UNITS or is_day(word) or word.kind == "and"


def step_of(count: Fraction, unit: str) -> Meaning:
    """What "every so many units" means; `Unclear` when only a first date would make it exact."""
    if unit in UNIT_MS and not (count == 1 and unit in ("day", "week")):
        step = count * UNIT_MS[unit]
        if step < 1 or step.denominator != 1:
            raise Unclear("a step is at least a second, and whole milliseconds", "every 30 seconds")
        if step > _CENTURY_MS:
            raise Unclear("the step is longer than a century", "every 30 seconds")
        return Meaning(step_ms=int(step))
    if count == 1:
        return Meaning(period=cast("Period", unit))
    months = count * {"month": 1, "quarter": 3}.get(unit, 12)
    if unit == "year" or months.denominator != 1 or months <= 0 or 12 % months:
        raise Unclear(
            f"{float(count):g} {unit}s do not divide a year, so they need a first one to count from; "
            "use rrule(…) with DTSTART",
            "every 2 months on the 1st at 9am",
        )
    return Meaning(period="month", step_months=int(months))
