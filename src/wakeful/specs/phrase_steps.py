"""Layer 1, pure. How often is a phrase?"""

import re
from dataclasses import replace
from fractions import Fraction
from typing import cast

from wakeful.specs.phrase_cursor import END, Unread, is_day, is_ordinal, number_of, ordinal_of
from wakeful.specs.phrase_days import DaysReader
from wakeful.specs.phrase_words import ADVERBS, COUNTS, EVERY, LAST, MONTHS, ORDINALS, UNIT_MS, UNITS, Word
from wakeful.specs.recurrence import Meaning, Period, Unclear

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
        found = {
            "hour": len(said.marks),
            "day": len(said.times),
            "week": len(said.weekdays),
            "month": len(said.days) + len(said.nths),
            "year": len(said.dates),
        }.get(unit, 0)
        if count != (found or 1):
            raise Unclear(
                f"{count} in each {unit} are wanted and {found or 'none'} {'is' if found < 2 else 'are'} said",
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
