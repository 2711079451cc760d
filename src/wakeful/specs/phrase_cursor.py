"""Layer 1, pure. Where in a phrase are we, and what did it say so far?"""

from collections.abc import Callable
from fractions import Fraction

from wakeful.specs.phrase_words import DAY_SETS, DAYS, NUMBERS, ORDINALS, Word, words_of
from wakeful.specs.recurrence import Meaning

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
