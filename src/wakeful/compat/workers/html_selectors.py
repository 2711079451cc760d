"""Layer 5. Which elements of a document that is still arriving does a selector mean?

All selectors are looked at together, one element at a time: what an element hands down to those inside of it is which parts
of which selectors are met so far, so nothing is ever looked up among its ancestors.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from wakeful.compat.workers.failures import JsTypeError
from wakeful.compat.workers.html_tokens import StartTag, lower


class Candidate(NamedTuple):
    """An element as a selector sees it."""

    tag: StartTag
    attributes: dict[str, str]
    nth: int  # among its siblings, from 1
    nth_of_type: int  # among those of its name


Test = Callable[[Candidate], bool]

_IDENT = r"(?:--|-?(?:[A-Za-z_]|[^\x00-\x7f]|\\.))(?:[A-Za-z0-9_-]|[^\x00-\x7f]|\\.)*"
_SPACE = re.compile(r"[ \t\n\f\r]+")
_PART = re.compile(rf"(?P<kind>[.#]?)(?P<name>{_IDENT})|(?P<any>\*)")
_ATTRIBUTE = re.compile(
    rf"\[[ ]*(?P<name>{_IDENT})[ ]*(?:(?P<how>[~^$*|]?=)[ ]*"
    rf"(?:\"(?P<double>(?:[^\"\\]|\\.)*)\"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>{_IDENT}))[ ]*(?P<case>[iIsS])?[ ]*)?\]",
    re.DOTALL,
)
_PSEUDO = re.compile(r":(?P<name>[A-Za-z-]+)(?P<call>\()?")
_NTH = re.compile(
    r"[ ]*(?:(?P<word>odd|even)|(?P<step>[+-]?\d*)n[ ]*(?P<plus>[+-][ ]*\d+)?|(?P<one>[+-]?\d+))[ ]*\)", re.I
)
_ESCAPE = re.compile(r"\\(?:([0-9A-Fa-f]{1,6})[ ]?|(.))", re.DOTALL)
_KNOWN = "E, *, E F, E > F, .class, #id, [attribute=value], :nth-child(), :first-child, :nth-of-type(), :first-of-type, :not()"

_ANY_CASE = frozenset([
    "accept", "accept-charset", "align", "alink", "axis", "bgcolor", "charset", "checked", "clear", "codetype",
    "color", "compact", "declare", "defer", "dir", "direction", "disabled", "enctype", "face", "frame",
    "hreflang", "http-equiv", "lang", "language", "link", "media", "method", "multiple", "nohref", "noresize",
    "noshade", "nowrap", "readonly", "rel", "rev", "rules", "scope", "scrolling", "selected", "shape", "target",
    "text", "type", "valign", "valuetype", "vlink",
])  # fmt: skip


class Compound(NamedTuple):
    """`a.b[c]`: what one element has to meet, and how the one before it is related to it."""

    tests: list[Test]
    is_child: bool


class Selectors:
    """Selectors by number, met by elements."""

    def __init__(self, given: list[list[list[Compound]]]) -> None:
        self._steps: list[tuple[list[Test], int, bool, int | None]] = []  # tests, the next step, is a child, whose end
        self.begin: frozenset[int] = frozenset()
        begins = []
        for number, alternatives in enumerate(given):
            for compounds in alternatives:
                begins.append(len(self._steps))
                for at, compound in enumerate(compounds):
                    is_last = at == len(compounds) - 1
                    is_child = not is_last and compounds[at + 1].is_child
                    self._steps.append((compound.tests, len(self._steps) + 1, is_child, number if is_last else None))
        self.begin = frozenset(begins)

    def match(
        self, element: Candidate, inside: frozenset[int], child: frozenset[int]
    ) -> tuple[list[int], frozenset[int], frozenset[int]]:
        """The numbers of the selectors that mean it, and which steps are next for all inside of it, and for its children."""
        met: set[int] = set()
        more: set[int] = set()
        mine: set[int] = set()
        for step in inside | child:
            tests, following, is_child, number = self._steps[step]
            if all(test(element) for test in tests):
                if number is not None:
                    met.add(number)
                else:
                    (mine if is_child else more).add(following)
        return sorted(met), inside | more if more - inside else inside, frozenset(mine)


def parse_selector(text: str) -> list[list[Compound]]:
    """The alternatives of a selector; a `TypeError` that names it when it has what is not known here."""
    if not isinstance(text, str):
        raise JsTypeError(f"HTMLRewriter: a selector is text, not {type(text).__name__}")
    reader = _Reader(text)
    found = [reader.read_whole()]
    while reader.has(","):
        found.append(reader.read_whole())
    if reader.at < len(text):
        reader.fail()
    return found


class _Reader:
    """Goes through the text of one selector."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def fail(self) -> None:
        rest = self.text[self.at :]
        where = f"{rest[:20]!r} is not understood" if rest else "it breaks off"
        raise JsTypeError(f"HTMLRewriter: the selector {self.text!r}: {where}; there are {_KNOWN}")

    def has(self, sign: str) -> bool:
        is_there = self.text.startswith(sign, self.at)
        self.at += len(sign) if is_there else 0
        return is_there

    def skip(self) -> bool:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found is not None

    def read_whole(self) -> list[Compound]:
        self.skip()
        compounds = [Compound(self.read_compound(), is_child=False)]
        while True:
            has_space = self.skip()
            if self.has(">"):
                self.skip()
                compounds.append(Compound(self.read_compound(), is_child=True))
            elif has_space and self.at < len(self.text) and self.text[self.at] not in ",)":
                compounds.append(Compound(self.read_compound(), is_child=False))
            else:
                return compounds

    def read_compound(self) -> list[Test]:
        tests: list[Test] = []
        begin = self.at
        while True:
            sign = self.text[self.at : self.at + 1]
            if sign == "[":
                tests.append(self.read_attribute())
            elif sign == ":":
                tests.append(self.read_pseudo())
            else:
                part = _PART.match(self.text, self.at)
                if part is None or (not part["kind"] and self.at != begin):  # a name is the first, or it is none
                    break
                tests += self.part_test(part)
                self.at = part.end()
        if self.at == begin:
            self.fail()
        return tests

    def part_test(self, part: re.Match[str]) -> list[Test]:
        if part["any"]:
            return [lambda element: True]
        name = _unescape(part["name"])
        if part["kind"] == ".":
            return [lambda element: name in _SPACE.split(element.attributes.get("class", ""))]
        if part["kind"] == "#":
            return [lambda element: element.attributes.get("id") == name]
        name = lower(name)
        return [lambda element: element.tag.name == name]

    def read_attribute(self) -> Test:
        match = _ATTRIBUTE.match(self.text, self.at)
        if match is None:
            self.fail()
            raise AssertionError
        self.at = match.end()
        name, how = lower(_unescape(match["name"])), match["how"]
        if how is None:
            return lambda element: name in element.attributes
        given = next(match[group] for group in ("double", "single", "bare") if match[group] is not None)
        case = lower(match["case"] or "")
        is_any_case = case == "i" or (not case and name in _ANY_CASE)
        wanted = lower(_unescape(given)) if is_any_case else _unescape(given)
        compare = _COMPARE[how]

        def meets(element: Candidate) -> bool:
            value = element.attributes.get(name)
            return value is not None and compare(lower(value) if is_any_case else value, wanted)

        return meets

    def read_pseudo(self) -> Test:
        match = _PSEUDO.match(self.text, self.at)
        kind = "" if match is None else lower(match["name"]) + (match["call"] or "")
        if match is not None and kind in ("first-child", "first-of-type"):
            self.at = match.end()
            return _nth(0, 1, of_type=kind == "first-of-type")
        if match is not None and kind in ("nth-child(", "nth-of-type("):
            given = _NTH.match(self.text, match.end())
            if given is not None:
                self.at = given.end()
                return _nth(*_steps_of(given), of_type=kind == "nth-of-type(")
        if match is not None and kind == "not(":
            return self.read_not(match.end())
        self.fail()
        raise AssertionError

    def read_not(self, at: int) -> Test:
        begin, self.at = self.at, at
        refused = []
        while True:
            self.skip()
            refused.append(self.read_compound())
            self.skip()
            if self.has(")"):
                break
            if not self.has(","):
                self.at = begin
                self.fail()
        return lambda element: not any(all(test(element) for test in tests) for tests in refused)


def _steps_of(given: re.Match[str]) -> tuple[int, int]:
    """`an + b` as a and b."""
    if given["word"]:
        return 2, int(lower(given["word"]) == "odd")
    if given["one"]:
        return 0, int(given["one"])
    step = given["step"]
    return int(step + "1" if step in ("", "+", "-") else step), int((given["plus"] or "0").replace(" ", ""))


def _nth(step: int, begin: int, *, of_type: bool) -> Test:
    def meets(element: Candidate) -> bool:
        more = (element.nth_of_type if of_type else element.nth) - begin
        return more == 0 if step == 0 else more % step == 0 and more // step >= 0

    return meets


def _unescape(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        code = int(found[1], 16) if found[1] else 0
        return found[2] or (chr(code) if 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else "\ufffd")

    return _ESCAPE.sub(one, text) if "\\" in text else text


_COMPARE: dict[str, Callable[[str, str], bool]] = {
    "=": lambda value, wanted: value == wanted,
    "~=": lambda value, wanted: bool(wanted) and wanted in _SPACE.split(value),
    "^=": lambda value, wanted: bool(wanted) and value.startswith(wanted),
    "$=": lambda value, wanted: bool(wanted) and value.endswith(wanted),
    "*=": lambda value, wanted: bool(wanted) and wanted in value,
    "|=": lambda value, wanted: value == wanted or value.startswith(wanted + "-"),
}
