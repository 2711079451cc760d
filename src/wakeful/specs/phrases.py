"""Layer 1, pure. Which spec do people mean by what they type: "every weekday at 18:30"?

Cron wherever it is exact: "every 5 minutes" is `*/5 * * * *`, on the clock's own fives, and so is every step that
divides the minute, the hour or the day; "every 7 minutes", "every 90 seconds" and "every 3 days" are intervals from
their anchor. A bare duration is always an interval: "every 5m" is not "every 5 minutes".

- Hours without am or pm are on the 24-hour clock: "at 9" is 09:00. Beside an am or a pm they are refused.
- Windows include both ends, and a step begins at the window's start: "every 15 minutes between 9am and 5pm" has 9:00
  and 17:00.
- Without a time it is 00:00; "every week" is Sunday, as cron's `@weekly`; "every month" is the 1st, "every quarter" the
  1st of January, April, July and October, "every year" January 1st.
- "Every other monday", "every 2 weeks on monday", "every 3 days at 9am" are refused: which monday is a first date, and a
  phrase has none. The message names `rrule(…)` and `every("14d", anchor=…)`. "Every other day" is an interval of 48 hours.
- A zone is an IANA name anywhere in the phrase; letters such as EST are refused, with the name they might mean.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from wakeful.specs.cron import cron
from wakeful.specs.interval import interval
from wakeful.specs.phrase_readers import StepsReader, TimesReader
from wakeful.specs.phrase_words import (
    ABBREVIATIONS,
    ADVERBS,
    COUNTS,
    DAYS,
    EVERY,
    MONTHS,
    NAMED_TIMES,
    UNCLEAR,
    UNITS,
    Unread,
    is_day,
    is_ordinal,
    nearest,
    number_of,
    zone_name,
)
from wakeful.specs.recurrence import Meaning, Unclear, spec_of
from wakeful.specs.spec import Spec
from wakeful.specs.zones import Fold, Gap, zone_of
from wakeful.values.errors import BadInput, BadSpec, LimitExceeded

# What does each part of a phrase say?


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


PHRASE_MAX = 200  # longer is prose, and the error that quotes it would be too

_EXAMPLE = "every monday at 9am"
_CRON = re.compile(r"(?:[\d*?/,#LW-]+ ){4,5}[\w*?/,#-]+|@\w+")
_LENGTH = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+", re.ASCII)


def parse_phrase(text: str, zone: str | None = None, gap: Gap = "shift", fold: Fold = "first") -> Spec:
    """The spec that a phrase means; what can't be read is an error that says what was understood and what not.

    `zone` is for a phrase that names none.
    """
    phrase = _check_phrase(text)
    what = f"phrase {phrase!r}"
    return spec_of(_read(phrase, what), what=what, zone=zone, gap=gap, fold=fold)


def read_phrase(text: str, what: str | None = None) -> Meaning:
    """What a phrase says, for a chain that goes on from there; errors name it, or `what`."""
    phrase = _check_phrase(text)
    return _read(phrase, what or f"phrase {phrase!r}")


def _check_phrase(text: str) -> str:
    if not isinstance(text, str):
        raise BadSpec(f'phrase {text!r} is not text; write it like "{_EXAMPLE}"', code="spec.phrase")
    phrase = " ".join(text.split())
    if len(phrase) > PHRASE_MAX:
        raise LimitExceeded(
            f"phrase {phrase[:40]!r}… has {len(phrase)} characters, {len(phrase) - PHRASE_MAX} more than the limit of "
            f"{PHRASE_MAX}",
            code="limit.phrase",
        )
    if not phrase:
        raise BadSpec(f'phrase {text!r} is empty; write it like "{_EXAMPLE}"', code="spec.phrase")
    return phrase


def _read(phrase: str, what: str) -> Meaning:
    reader = Reader(phrase)
    try:
        return reader.read()
    except Unread as unread:
        raise BadSpec(f"{what}: {_explain(reader, unread)}", code="spec.phrase") from None
    except Unclear as unclear:
        raise BadSpec(f'{what}: {unclear.why}; write it like "{unclear.example}"', code="spec.phrase") from None
    except BadInput as error:
        raise type(error)(f"{what}: {error.message}", code=error.code) from None


def _explain(reader: Reader, unread: Unread) -> str:
    """What was understood and what was not."""
    if _CRON.fullmatch(reader.text):
        better = _refusal(cron, reader.text) or f"use cron({reader.text!r})"
        return f"it looks like a cron expression; {better}"
    if _LENGTH.fullmatch(reader.text):
        better = _refusal(interval, reader.text) or f'"every {reader.text}"'
        return f'it is a length alone; write "after {reader.text}" for once, or {better}'
    words = reader.words
    at = min(unread.at, len(words))
    before = reader.text[: words[at - 1].end] if at else ""
    understood = f'understood "{_quote(before)}"' if before else "understood nothing"
    if at == len(words) and not unread.why:
        return f'{understood}, but not what comes after it; write it like "{_EXAMPLE}"'
    if unread.why:
        return f'{understood}, but {unread.why}; write it like "{unread.example}"'
    end = at + 1
    while end < len(words) and words[end].kind == "odd" and words[at].kind == "odd":
        end += 1
    missed = reader.text[words[at].start : words[end - 1].end]
    if before:
        start = f'{understood}, not "{_quote(missed)}"'
    else:
        start = f'{understood} of "{_quote(missed)}"' if end == len(words) else f'did not understand "{_quote(missed)}"'
    for word in words[at:end]:
        if word.text in UNCLEAR:
            return f"{start}: {UNCLEAR[word.text]}"
    is_place = words[at - 1].says("in") or (end < len(words) and words[end].says("time"))
    for said in dict.fromkeys((missed, *(word.text for word in words[at:end]))):
        if (meant := nearest(said, is_place=is_place)) and meant != said.lower():
            why = "what those letters mean is not certain; " if said.lower() in ABBREVIATIONS else ""
            better = _correct(reader.text, said, meant)
            return f'{start} ({why}did you mean "{meant}"?); write it like "{better}"'
    return f'{start}; write it like "{_EXAMPLE}"'


def _refusal(make: Callable[[str], Spec], text: str) -> str:
    """Why it can't be made either; nothing if it can."""
    try:
        make(text)
    except BadInput as error:
        return error.message
    return ""


def _correct(phrase: str, said: str, meant: str) -> str:
    """The phrase with the word that was probably meant, when it can be read then; else one that can."""
    at = phrase.lower().find(said.lower())
    better = f"{phrase[:at]}{meant}{phrase[at + len(said) :]}"
    try:
        spec_of(Reader(better).read(), what="")
    except (Unread, Unclear, BadInput):
        return _EXAMPLE
    return better


def _quote(text: str) -> str:
    return repr(text)[1:-1]
