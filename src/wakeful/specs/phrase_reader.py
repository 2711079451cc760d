"""Layer 1, pure. What does each part of a phrase say?"""

from dataclasses import replace
from fractions import Fraction

from wakeful.specs.build import Meaning, Unclear
from wakeful.specs.phrase_cursor import Unread, is_day, is_ordinal, number_of
from wakeful.specs.phrase_steps import StepsReader
from wakeful.specs.phrase_times import TimesReader
from wakeful.specs.phrase_words import ADVERBS, COUNTS, DAYS, EVERY, MONTHS, NAMED_TIMES, UNITS, zone_name
from wakeful.specs.zones import zone_of
from wakeful.values.errors import BadSpec


class Reader(StepsReader, TimesReader):
    """Reads a phrase clause by clause, in whatever order people put them."""

    def read(self) -> Meaning:
        """All that the phrase says; `Unread` at the first word that can't be."""
        while self.at < len(self.words):
            if self.word().kind == "and":
                self.at += 1
                if self.at == len(self.words):
                    raise Unread(self.at, 'not what comes after "and"', "every day at 9am and 6pm")
            else:
                self._clause()
        said = self.said
        if self.of is not None and said.period not in (None, self.of):
            raise Unclear(
                f'"every {said.period}" and "of the {self.of}" exclude each other', "on the 1st of the month at 9am"
            )
        self.check_count()
        if said == Meaning(zone=said.zone):
            raise Unread(self.at, "not when", "every day at 9am")
        is_length = self.is_abbreviated and said == Meaning(step_ms=said.step_ms)
        return replace(said, period=said.period or self.of, is_length=is_length)

    def _clause(self) -> None:
        word = self.word()
        if word.says(*EVERY):
            self.at += 1
            self.every()
        elif word.text in ADVERBS:
            self.at += 1
            self.step(Fraction(1), ADVERBS[word.text])
        elif word.says(*COUNTS) or (number_of(word) is not None and self.word(1).says("times")):
            self.count()
        elif word.says("at"):
            self.at += 1
            self.times(is_at=True)
        elif word.kind in ("time", "mark") or word.text in NAMED_TIMES:
            self.times(is_at=False)
        elif word.says("between", "from"):
            self.at += 1
            self._span()
        elif word.says("on"):
            self.at += 1
            self.days()
        elif word.says("in", "during", "timezone", "zone") or word.kind == "zone":
            self._place()
        elif (
            is_day(word)
            or is_ordinal(word)
            or word.text in MONTHS
            or word.says("day", "days")
            or (number_of(word) is not None and self.word(1).text in MONTHS)
        ):
            self.days()
        elif number_of(word) is not None and self.word(1).text in UNITS:
            raise Unread(
                self.at, f'not whether "{word.text} {self.word(1).text}" is how often', f"every {word.text} minutes"
            )
        elif (number := number_of(word)) is not None:
            what = "a phrase repeats, so it has no year" if number > 1000 else f'not what "{word.text}" is'
            raise Unread(self.at, what, "every monday at 9am")
        else:
            raise Unread(self.at)

    def _place(self) -> None:
        self.skip("in", "during", "timezone", "zone")
        word = self.word()
        if word.text in MONTHS:
            self.months(is_every=False)
        elif word.kind == "zone":
            self._zone()
        elif number_of(word) is not None:
            raise Unread(self.at, "a phrase repeats: for one time use after(…)", "every 5 minutes")
        else:
            raise Unread(self.at)

    def _span(self) -> None:
        """After "between" and "from": days, months or times of day."""
        word = self.word()
        if word.text in DAYS:
            self.weekdays(joins="and")
        elif word.text in MONTHS:
            self.months(is_every=False, joins="and")
        else:
            self.window(self.clock())

    def _zone(self) -> None:
        word = self.take()
        name = self.text[word.start : word.end]
        try:
            zone_of(name)
        except BadSpec:
            found = zone_name(name)
            if found is None:
                raise
            name = found
        self.skip("time", "timezone", "zone")
        if self.said.zone not in (None, name):
            raise Unread(self.at - 1, f"not which of the zones {self.said.zone} and {name}", "every day at 9am UTC")
        self.said = replace(self.said, zone=name)
