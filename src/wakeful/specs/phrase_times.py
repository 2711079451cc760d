"""Layer 1, pure. At which times of the day, or between which, is a phrase?"""

from collections.abc import Iterable
from dataclasses import replace

from wakeful.specs.phrase_cursor import Cursor, Unread, number_of
from wakeful.specs.phrase_words import MONTHS, NAMED_TIMES, NUMBERS, UNITS, ClockTime, Word, read_clock


class TimesReader(Cursor):
    """Reads times of day, minutes past the hour and windows."""

    def times(self, *, is_at: bool) -> None:
        found: list[ClockTime] = []
        marks: list[int] = []
        while True:
            mark = self._mark()
            if mark is not None:
                marks += mark
            else:
                found.append(self.clock())
                if self.word().kind == "to":
                    if is_at or len(found) > 1:
                        raise Unread(self.at, 'not a range after "at"', "every 15 minutes between 9am and 5pm")
                    self.window(found[0])
                    return
            if not self.goes_on(_is_time, "at"):
                break
        _check_halves(found, self.at, "every day at 9am and 6pm")
        times = (*self.said.times, *(one.seconds for one in found))
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
