"""Layer 1, pure. On which days, dates and months is a phrase?"""

from dataclasses import replace
from typing import cast

from wakeful.specs.phrase_cursor import Cursor, Unread, is_day, is_ordinal, number_of, ordinal_of
from wakeful.specs.phrase_words import DAY_SETS, DAYS, EVERY, LAST, MONTHS, UNITS, Word
from wakeful.specs.recurrence import Period


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
        found = set(self.said.weekdays)
        while True:
            name = self.take().text
            if name in DAYS and self.word().kind in ("to", joins) and self.word(1).text in DAYS:
                self.at += 1
                first, last = DAYS[name], DAYS[self.take().text]
                found |= {day % 7 for day in range(first, last + 1 + (7 if last < first else 0))}
            else:
                found |= {DAYS[name]} if name in DAYS else set(DAY_SETS[name])
            if not self.goes_on(lambda one, after: is_day(one), "on", *EVERY):
                break
            joins = "to"
        self.said = replace(self.said, weekdays=frozenset(found))

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
        found: set[int] = set()
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
            found |= set(range(number, last + 1))
            if not self.goes_on(
                lambda one, after: is_ordinal(one) or (one.kind == "number" and after.text not in MONTHS)
            ):
                return found

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
        found: set[int] = set()
        while True:
            first = last = MONTHS[self.take().text]
            if self.word().kind in ("to", joins) and self.word(1).text in MONTHS:
                self.at += 1
                last = MONTHS[self.take().text]
            found |= {(month - 1) % 12 + 1 for month in range(first, last + 1 + (12 if last < first else 0))}
            if not self.goes_on(lambda one, after: one.text in MONTHS and number_of(after) is None, "in"):
                return found

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
