"""Layer 1, pure. Which words does a phrase have, which known word was probably meant by an unknown one, and where among them are we?"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import time
from difflib import get_close_matches
from fractions import Fraction
from functools import lru_cache
from zoneinfo import available_timezones

from wakeful.specs.recurrence import Meaning
from wakeful.values.errors import BadSpec

_DAY_NAMES = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"]
_MONTH_NAMES = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]

# Days of the week are numbered as in cron: Sunday is 0.
DAYS: dict[str, int] = {form: number for number, name in enumerate(_DAY_NAMES) for form in (name, name + "s", name[:3])}
DAYS |= {"tues": 2, "weds": 3, "thur": 4, "thurs": 4}
DAY_SETS: dict[str, tuple[int, ...]] = {
    "weekday": (1, 2, 3, 4, 5),
    "weekdays": (1, 2, 3, 4, 5),
    "weekend": (0, 6),
    "weekends": (0, 6),
}
MONTHS: dict[str, int] = {
    form: number for number, name in enumerate(_MONTH_NAMES, 1) for form in (name, name[:3], name + "s")
}
MONTHS["sept"] = 9
UNITS: dict[str, str] = {
    form: unit
    for unit, short in {
        "second": ("sec", "secs"),
        "minute": ("min", "mins"),
        "hour": ("hr", "hrs"),
        "day": ("night", "nights"),
        "week": ("wk", "wks"),
        "month": (),
        "quarter": (),
        "year": ("yr", "yrs"),
    }.items()
    for form in (unit, unit + "s", *short)
}
ADVERBS = {
    "hourly": "hour",
    "daily": "day",
    "everyday": "day",
    "nightly": "day",
    "weekly": "week",
    "monthly": "month",
    "quarterly": "quarter",
    "yearly": "year",
    "annually": "year",
}
UNIT_MS = {"second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000}
NUMBERS = {
    name: number
    for number, name in enumerate(
        ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"), 1
    )
} | {"fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "sixty": 60, "ninety": 90}
LAST = -1
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7}
ORDINALS |= {"eighth": 8, "ninth": 9, "tenth": 10, "last": LAST}
NAMED_TIMES = {"noon": 43_200, "midday": 43_200, "midnight": 0}
EVERY = {"every", "each"}
TO = {"to", "till", "til", "until", "through", "thru"}
COUNTS = {"once": 1, "twice": 2, "thrice": 3}
OTHERS = {
    "on",
    "at",
    "in",
    "of",
    "from",
    "between",
    "during",
    "and",
    "other",
    "half",
    "past",
    "an",
    "a",
    "per",
    "times",
}
OTHERS |= {"time", "timezone", "zone", "utc", "gmt", "oclock", "am", "pm"}

# Words that people do type and that would have to be guessed at: each with what to write.
UNCLEAR = {
    "biweekly": 'it means both "twice a week" and "every 2 weeks"; say which',
    "bimonthly": 'it means both "twice a month" and "every 2 months"; say which',
    "fortnight": 'a fortnight has no first day; use every("14d", anchor=…)',
    "fortnightly": 'a fortnight has no first day; use every("14d", anchor=…)',
    "morning": 'say the hour, like "at 9am"',
    "afternoon": 'say the hour, like "at 3pm"',
    "evening": 'say the hour, like "at 6pm"',
    "noonish": 'say the hour, like "at noon"',
    "around": "say the time and spread the runs with jitter=…",
    "about": "say the time and spread the runs with jitter=…",
    "roughly": "say the time and spread the runs with jitter=…",
    "sunrise": "a phrase knows clocks, not the sky; say the hour",
    "sunset": "a phrase knows clocks, not the sky; say the hour",
    "business": 'say "weekday" for monday to friday; holidays are left out with except_for(…)',
    "working": 'say "weekday" for monday to friday; holidays are left out with except_for(…)',
    "workday": 'say "weekday" for monday to friday; holidays are left out with except_for(…)',
    "workdays": 'say "weekday" for monday to friday; holidays are left out with except_for(…)',
    "holiday": "holidays are left out with except_for(…)",
    "holidays": "holidays are left out with except_for(…)",
    "except": "leave times out with except_for(…)",
    "excluding": "leave times out with except_for(…)",
    "but": "leave times out with except_for(…)",
    "not": "leave times out with except_for(…)",
    "tomorrow": "a phrase repeats; for one time use at(…) or after(…)",
    "today": "a phrase repeats; for one time use at(…) or after(…)",
    "tonight": "a phrase repeats; for one time use at(…) or after(…)",
    "now": "a phrase repeats; for one time use at(…) or after(…)",
    "next": "a phrase repeats; for one time use at(…) or after(…)",
    "starting": "give the beginning as the option start_at=…",
    "ending": "give the end as the option end_at=…",
    "few": "say how many",
    "couple": "say how many",
    "several": "say how many",
    "before": 'say both ends, like "between 9am and 5pm"',
    "after": 'say both ends, like "between 9am and 5pm"',
    "random": "spread the runs with jitter=…",
    "randomly": "spread the runs with jitter=…",
}
# What these letters mean depends on who reads them (and half the year they are wrong).
ABBREVIATIONS = {
    **dict.fromkeys(("est", "edt", "et"), "America/New_York"),
    **dict.fromkeys(("cst", "cdt"), "America/Chicago"),
    **dict.fromkeys(("mst", "mdt"), "America/Denver"),
    **dict.fromkeys(("pst", "pdt", "pt"), "America/Los_Angeles"),
    **dict.fromkeys(("cet", "cest", "met"), "Europe/Paris"),
    **dict.fromkeys(("eet", "eest"), "Europe/Athens"),
    **dict.fromkeys(("bst", "wet"), "Europe/London"),
    "ist": "Asia/Kolkata",
    "jst": "Asia/Tokyo",
    "kst": "Asia/Seoul",
    "msk": "Europe/Moscow",
    **dict.fromkeys(("aest", "aedt"), "Australia/Sydney"),
}
_KNOWN: frozenset[str] = frozenset().union(
    DAYS, DAY_SETS, MONTHS, UNITS, ADVERBS, NUMBERS, ORDINALS, NAMED_TIMES, EVERY, TO, COUNTS, OTHERS
)
_PLURALS = {f"{word}s" for word in _KNOWN if word not in UNITS}
_SUGGESTED = sorted(word for word in _KNOWN - _PLURALS if len(word) > 2 and word not in ("oclock", "til", "thru"))

_HALF = r"(?:\s?(?P<half>[ap]\.?\s?m)\b\.?)"
_TOKEN = re.compile(
    rf"""
      (?P<time>\d+(?:[:.]\d+)+{_HALF.replace("half", "half1")}|\d+{_HALF.replace("half", "half2")}|\d+:\d+(?::\d+)*)
    | (?P<mark>:\d+)
    | (?P<length>(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+(?![a-z0-9]))
    | (?P<ordinal>\d+(?:st|nd|rd|th)\b)
    | (?P<number>\d+(?:\.\d+)?(?![a-z\d]))
    | (?P<zone>[a-z_]+(?:/[a-z\d_+-]+)+|(?:utc|gmt)\b(?![+-]?\d))
    | (?P<word>[a-z]+(?:['’][a-z]+)?)
    | (?P<to>[-–—])
    | (?P<none>[()]|[.!,;]+(?=\s*$))
    | (?P<and>[,;&])
    | (?P<odd>[^\s,;&()]+)
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Word:
    """One piece of a phrase: what it is, its text in lower case, and where it stands."""

    kind: str
    text: str
    start: int
    end: int

    def says(self, *texts: str) -> bool:
        return self.kind == "word" and self.text in texts


def words_of(text: str) -> list[Word]:
    """The words of a phrase, without "the" and brackets, which say nothing."""
    words = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "odd"
        kind = "time" if kind.startswith("half") else kind
        said = match[0].lower()
        if kind == "none" or said == "the":
            continue
        if kind == "word":
            said = re.sub("['’]", "", said)
            kind = "and" if said == "and" else "to" if said in TO else "word"
            if kind == "word" and said not in _KNOWN:
                kind = "odd"
        words.append(Word(kind, said, match.start(), match.end()))
    return words


def nearest(said: str, *, is_place: bool) -> str | None:
    """The known word or zone that was probably meant; a place is looked for among the cities first."""
    low = said.lower()
    if low in ABBREVIATIONS:
        return ABBREVIATIONS[low]
    # A city alone ("paris") is how people name a zone; the list is slow to read, so not unless there is need.
    if is_place and (city := _cities().get(low.replace(" ", "_"))):
        return city
    if found := get_close_matches(low, _SUGGESTED, n=1, cutoff=0.7):
        return found[0]
    return _cities().get(low.replace(" ", "_"))


def zone_name(said: str) -> str | None:
    """The IANA name in its own spelling, whatever the case it was typed in."""
    return _zones().get(said.lower())


@lru_cache(maxsize=1)
def _zones() -> dict[str, str]:
    return {name.lower(): name for name in sorted(available_timezones())}


@lru_cache(maxsize=1)
def _cities() -> dict[str, str]:
    return {low.rpartition("/")[2]: name for low, name in _zones().items() if "/" in low}


# Which time of day do people mean by "9am", "18:30", "noon" or a bare 9?

_TIME = re.compile(r"(\d+)(?:[:.](\d+))?(?:[:.](\d+))?\s?(?:([ap])\.?\s?m\.?)?", re.ASCII)
_LIKE = 'write it like "9am", "18:30" or "noon"'


@dataclass(frozen=True, slots=True)
class ClockTime:
    """A time of day in seconds, and how it was written: a bare 9 beside "6pm" could be either nine."""

    seconds: int
    is_bare: bool = False
    is_half: bool = False  # am or pm was said

    @property
    def is_either(self) -> bool:
        return self.is_bare and 1 <= self.seconds // 3600 <= 12


def read_clock(said: str) -> ClockTime:
    """The time of day of a text such as "9am", "9:30 pm", "18:30", "18:30:15", "0900", "9" or "noon"."""
    low = said.strip().lower()
    if low in NAMED_TIMES:
        return ClockTime(NAMED_TIMES[low])
    match = _TIME.fullmatch(low)
    if match is None:
        raise BadSpec(f'"{said}" is not a time of day; {_LIKE}', code="spec.time")
    hour, minute, second, half = match.groups()
    if minute is None and half is None and len(hour) == 4:
        hour, minute = hour[:2], hour[2:]
    if len(hour) > 2 or any(part is not None and len(part) != 2 for part in (minute, second)):
        raise BadSpec(f'"{said}" is not a time of day; {_LIKE}', code="spec.time")
    hours, minutes, seconds = int(hour), int(minute or 0), int(second or 0)
    if minutes > 59 or seconds > 59:
        raise BadSpec(f'"{said}" is not a time of day: minutes and seconds go from 00 to 59', code="spec.time")
    if half is not None:
        if not 1 <= hours <= 12:
            raise BadSpec(f'"{said}" is not a time of day: with am and pm, hours go from 1 to 12', code="spec.time")
        hours = hours % 12 + (12 if half == "p" else 0)
    elif hours > 23:
        hint = '; the end of the day is "midnight"' if hours == 24 else ""
        raise BadSpec(f'"{said}" is not a time of day: hours go from 0 to 23{hint}', code="spec.time")
    return ClockTime(hours * 3600 + minutes * 60 + seconds, minute is None and half is None, half is not None)


def clock_of(when: object) -> ClockTime:
    """The time of day given as text, as a whole hour or as a `datetime.time`."""
    if isinstance(when, str):
        return read_clock(when)
    if isinstance(when, time):
        if when.tzinfo is not None or when.microsecond:
            raise BadSpec(
                f"{when!r}: give a time without zone (zone=… takes it) and in whole seconds", code="spec.time"
            )
        return ClockTime(when.hour * 3600 + when.minute * 60 + when.second)
    if isinstance(when, int) and not isinstance(when, bool):
        if not 0 <= when <= 23:
            raise BadSpec(f"{when!r} is not an hour of the day: hours go from 0 to 23", code="spec.time")
        return ClockTime(when * 3600, is_bare=True)
    raise BadSpec(f"{when!r} is not a time of day; {_LIKE}", code="spec.time")


# Where in a phrase are we, and what did it say so far?

END = Word("end", "", 0, 0)


class Unread(Exception):
    """The word at this place could not be read there; `why` and `example` are empty when it is simply unknown."""

    def __init__(self, at: int, why: str = "", example: str = "") -> None:
        super().__init__(why)
        self.at = at
        self.why = why
        self.example = example


class Cursor:
    """Goes through the words of a phrase from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = words_of(text)
        self.at = 0
        self.said = Meaning()

    def word(self, ahead: int = 0) -> Word:
        at = self.at + ahead
        return self.words[at] if at < len(self.words) else END

    def take(self) -> Word:
        word = self.word()
        self.at += 1
        return word

    def skip(self, *texts: str) -> bool:
        if self.word().says(*texts):
            self.at += 1
            return True
        return False

    def goes_on(self, is_item: Callable[[Word, Word], bool], *fillers: str) -> bool:
        """Whether a list has another item, after commas, "and" and words such as a second "on"; goes to it if so."""
        at = 0
        while self.word(at).kind == "and":
            at += 1
        if at == 0:
            return False
        while self.word(at).says(*fillers):
            at += 1
        if not is_item(self.word(at), self.word(at + 1)):
            return False
        self.at += at
        return True


def number_of(word: Word) -> Fraction | None:
    if word.kind == "number":
        return Fraction(word.text)
    return Fraction(NUMBERS[word.text]) if word.kind == "word" and word.text in NUMBERS else None


def ordinal_of(word: Word) -> int:
    if word.text in ORDINALS:
        return ORDINALS[word.text]
    number = number_of(word)
    if number is not None:
        return int(number) if number.denominator == 1 else 0
    return int(word.text[:-2])


def is_ordinal(word: Word) -> bool:
    return word.kind == "ordinal" or (word.kind == "word" and word.text in ORDINALS)


def is_day(word: Word) -> bool:
    return word.kind == "word" and (word.text in DAYS or word.text in DAY_SETS)
