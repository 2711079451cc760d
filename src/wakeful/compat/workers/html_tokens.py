"""Layer 5. How does a document of HTML fall into tags, texts and comments while it arrives?

As a browser's tokenizer has it, without its tree. Whatever is read is looked at once, wherever the chunks are cut, and every
token keeps what it was made of, so that what nobody changes comes out as it came in.
"""

import re
from collections.abc import Generator
from typing import Any

from wakeful.compat.workers.failures import JsRangeError

TOKEN_MAX = 3 << 20  # characters of one tag, comment or doctype, which are held until it ends
ATTRIBUTES_MAX = 4096  # of one tag
RAW_TEXT = frozenset(
    {"iframe", "noembed", "noframes", "noscript", "plaintext", "script", "style", "textarea", "title", "xmp"}
)  # what is in them is text, whatever it looks like

_SPACE = " \t\n\f\r"
_MARKUP = re.compile(r"<(?:[A-Za-z!?]|/.)", re.DOTALL)
_NAME_END = re.compile(rf"[{_SPACE}/>]")
_ATTRIBUTE_BEGIN = re.compile(rf"[^{_SPACE}/]")
_ATTRIBUTE_END = re.compile(rf"[{_SPACE}/>=]")
_NOT_SPACE = re.compile(rf"[^{_SPACE}]")
_UNQUOTED_END = re.compile(rf"[{_SPACE}>]")
_QUOTES = {'"': re.compile('"'), "'": re.compile("'")}
_TAG_END = re.compile(">")
_COMMENT_END = re.compile("--!?>")
_COMMENT_CUT = re.compile(r"--?!?\Z")
_CDATA_END = re.compile(r"\]\]>")
_SCRIPT = re.compile(rf"<!--|-->|</?script(?=[{_SPACE}/>])", re.IGNORECASE)
_DOCTYPE = re.compile(
    rf"<!doctype[{_SPACE}]*(?P<name>[^{_SPACE}>]*)[{_SPACE}]*"
    rf"(?:(?P<kind>public|system)[{_SPACE}]*(?:\"(?P<one>[^\">]*)\"|'(?P<two>[^'>]*)')"
    rf"(?:[{_SPACE}]*(?:\"(?P<three>[^\">]*)\"|'(?P<four>[^'>]*)'))?)?",
    re.IGNORECASE,
)
_CAPITALS = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}

Steps = Generator["HtmlToken | None", None, Any]  # None where more must come first


class HtmlToken:
    """A piece of a document; `raw` is what it was made of. By itself: what a document breaks off in."""

    __slots__ = ("raw",)

    def __init__(self, raw: str) -> None:
        self.raw = raw


class TextToken(HtmlToken):
    """Text, or a part of one; the last of a text is empty."""

    __slots__ = ("is_last",)

    def __init__(self, raw: str, *, is_last: bool = False) -> None:
        self.raw, self.is_last = raw, is_last


class CommentToken(HtmlToken):
    """A comment, or what counts as one."""

    __slots__ = ("text",)

    def __init__(self, raw: str, text: str) -> None:
        self.raw, self.text = raw, text


class DoctypeToken(HtmlToken):
    """`<!doctype …>`."""

    __slots__ = ()

    def parts(self) -> tuple[str | None, str | None, str | None]:
        """The name and the public and the system id."""
        found = _DOCTYPE.match(self.raw)
        assert found is not None
        one, two, three, four = (found[name] for name in ("one", "two", "three", "four"))
        first, second = (one if one is not None else two), (three if three is not None else four)
        name = lower(found["name"]) or None
        return (name, first, second) if lower(found["kind"] or "") == "public" else (name, None, first)


class StartTag(HtmlToken):
    """`<a href=…>`: its attributes as name, value and what they were made of, in their order."""

    __slots__ = ("attributes", "is_self_closing", "name", "shown_name")

    def __init__(self, raw: str, name: str, attributes: list[tuple[str, str, str]], *, is_self_closing: bool) -> None:
        self.raw, self.shown_name, self.name = raw, name, lower(name)
        self.attributes, self.is_self_closing = attributes, is_self_closing


class EndTag(HtmlToken):
    """`</a>`."""

    __slots__ = ("name", "shown_name")

    def __init__(self, raw: str, name: str) -> None:
        self.raw, self.shown_name, self.name = raw, name, lower(name)


class Tokenizer:
    """`feed` it, take `tokens` until there is None, and again; `end` it, and take the rest.

    Who takes them says after a tag what follows: `raw_name` for a text that only that end tag ends, `is_foreign` inside of
    SVG and MathML.
    """

    def __init__(self) -> None:
        self.raw_name: str | None = None
        self.is_foreign = False
        self.tokens = self._read()
        self._text = ""
        self._at = 0
        self._is_over = False
        self._is_in_text = False
        self._raw: list[str] = []
        self._size = 0

    def feed(self, text: str) -> None:
        self._text, self._at = self._text[self._at :] + text, 0  # what is left is a few characters

    def end(self) -> None:
        self._is_over = True

    def _read(self) -> Steps:
        while True:
            if self.raw_name is not None:
                yield from self._read_raw_text(self.raw_name)
                self.raw_name = None
            match = _MARKUP.search(self._text, self._at)
            if match is None:
                tail = 0 if self._is_over else 2 if self._text.endswith("</") else self._text.endswith("<")
                yield from self._give_text(max(self._at, len(self._text) - tail))
                if self._is_over:
                    yield from self._end_text()
                    return
                yield None
                continue
            yield from self._give_text(match.start())
            yield from self._read_markup(match[0][1], match[0][-1])

    def _read_markup(self, first: str, last: str) -> Steps:
        self._raw, self._size = [], 0
        if first == "!" and self.is_foreign and (yield from self._ahead(9)) == "<![CDATA[":
            yield from self._read_cdata()
            return
        yield from self._end_text()
        if first == "!":
            yield from self._read_declaration()
        elif first == "?":
            yield from self._read_until(_TAG_END, 2, 1, CommentToken)
        elif first != "/":
            yield from self._read_tag(1)
        elif last == ">":
            self._take(3)
            yield HtmlToken("</>")  # is nothing, not even text
        elif last.isascii() and last.isalpha():
            yield from self._read_tag(2)
        else:
            yield from self._read_until(_TAG_END, 2, 2, CommentToken)

    # texts

    def _give_text(self, to: int) -> Steps:
        if to > self._at:
            raw, self._at = self._text[self._at : to], min(to, len(self._text))
            self._is_in_text = True
            yield TextToken(raw)

    def _end_text(self) -> Steps:
        if self._is_in_text:
            self._is_in_text = False
            yield TextToken("", is_last=True)

    def _read_text_until(self, end: re.Pattern[str], tail: int) -> Steps:
        """Text up to there; of its end `tail` characters may be here and the next not yet."""
        while (found := end.search(self._text, self._at)) is None:
            yield from self._give_text(max(self._at, len(self._text) - (0 if self._is_over else tail)))
            if self._is_over:
                return
            yield None
        yield from self._give_text(found.start())

    def _read_cdata(self) -> Steps:
        yield from self._end_text()
        yield HtmlToken(self._take(9))
        yield from self._read_text_until(_CDATA_END, 2)
        yield from self._end_text()
        yield HtmlToken(self._take(3))

    def _read_raw_text(self, name: str) -> Steps:
        if name == "plaintext":
            yield from self._read_text_until(re.compile(r"(?!)"), 0)
        elif name == "script":
            yield from self._read_script()
        else:
            end = re.compile(rf"</{re.escape(name)}(?=[{_SPACE}/>])", re.IGNORECASE)
            yield from self._read_text_until(end, len(name) + 2)

    def _read_script(self) -> Steps:
        """Inside of `<!--` a script may have scripts in it, whose end is not its own."""
        depth = 0  # 1 inside of the comment, 2 inside of a script in it
        while True:
            yield from self._read_text_until(_SCRIPT, 8)
            found = _SCRIPT.match(self._text, self._at)
            if found is None:
                return
            what = lower(found[0])
            if what == "</script" and depth < 2:
                return
            if what == "<!--":
                depth = depth or 1
            elif what == "-->":
                depth = 0
            elif depth:
                depth = 2 if what == "<script" else 1
            yield from self._give_text(self._at + (2 if what == "<!--" else len(what)))  # <!--> has both in one

    # what is held until it ends

    def _take(self, count: int) -> str:
        return self._take_to(self._at + count)

    def _take_to(self, to: int) -> str:
        taken, self._at = self._text[self._at : to], to
        self._size += len(taken)
        if self._size > TOKEN_MAX:
            raise JsRangeError(f"HTMLRewriter: a tag or a comment has more than {TOKEN_MAX} characters")
        self._raw.append(taken)
        return taken

    def _run(self, stop: re.Pattern[str], tail: int = 0) -> Generator[None, None, str]:
        """What is before that, which is next then, or nothing is."""
        parts = []
        while (found := stop.search(self._text, self._at)) is None:
            parts.append(self._take_to(max(self._at, len(self._text) - (0 if self._is_over else tail))))
            if self._is_over:
                return "".join(parts)
            yield
        parts.append(self._take_to(found.start()))
        return "".join(parts)

    def _ahead(self, count: int) -> Generator[None, None, str]:
        """The next ones, fewer at the end."""
        while len(self._text) - self._at < count and not self._is_over:
            yield
        return self._text[self._at : self._at + count]

    def _is_at_end(self) -> bool:
        return self._at >= len(self._text)  # after a run only when nothing more will come

    def _read_declaration(self) -> Steps:
        ahead = yield from self._ahead(9)
        if ahead.startswith("<!--"):
            self._take(4)
            begin = yield from self._ahead(2)
            if begin.startswith(">") or begin == "->":
                self._take(begin.index(">") + 1)
                yield CommentToken("".join(self._raw), "")
            else:
                yield from self._read_until(_COMMENT_END, 0, 0, CommentToken, tail=3)
        else:
            kind: Any = DoctypeToken if lower(ahead) == "<!doctype" else CommentToken
            yield from self._read_until(_TAG_END, 2, 2, kind)

    def _read_until(self, end: re.Pattern[str], begin: int, skip: int, kind: Any, tail: int = 0) -> Steps:
        """A comment or a doctype: `begin` characters first, up to the end."""
        self._take(begin)
        text = yield from self._run(end, tail)
        match = end.match(self._text, self._at)
        if match is None:  # the document breaks off in it, which ends it too
            text = _COMMENT_CUT.sub("", text)
        else:
            self._take(len(match[0]))
        raw = "".join(self._raw)
        if kind is DoctypeToken:
            yield DoctypeToken(raw)
        else:
            yield CommentToken(raw, text if begin == 0 else raw[skip : None if match is None else -1])

    def _read_tag(self, begin: int) -> Steps:
        self._take(begin)
        name = yield from self._run(_NAME_END)
        attributes: list[tuple[str, str, str]] = []
        while True:
            gap = yield from self._run(_ATTRIBUTE_BEGIN)
            if self._is_at_end():
                yield HtmlToken("".join(self._raw))  # a document may end in the midst of a tag
                return
            if self._text[self._at] == ">":
                break
            attributes.append((yield from self._read_attribute()))
            if len(attributes) > ATTRIBUTES_MAX:
                raise JsRangeError(f"HTMLRewriter: <{name}> has more than {ATTRIBUTES_MAX} attributes")
        self._take(1)
        raw = "".join(self._raw)
        if begin == 2:
            yield EndTag(raw, name)
        else:
            yield StartTag(raw, name, attributes, is_self_closing=gap.endswith("/"))

    def _read_attribute(self) -> Generator[None, None, tuple[str, str, str]]:
        begin = len(self._raw)
        name = self._take(1)  # whatever it is: a name can begin with "="
        name += yield from self._run(_ATTRIBUTE_END)
        end, value = len(self._raw), ""
        yield from self._run(_NOT_SPACE)
        if not self._is_at_end() and self._text[self._at] == "=":
            self._take(1)
            yield from self._run(_NOT_SPACE)
            quote = "" if self._is_at_end() else self._text[self._at]
            if quote in _QUOTES:
                self._take(1)
                value = yield from self._run(_QUOTES[quote])
                self._take(0 if self._is_at_end() else 1)
            else:
                value = yield from self._run(_UNQUOTED_END)
            end = len(self._raw)
        return lower(name), value, "".join(self._raw[begin:end])


def lower(text: str) -> str:
    """A name in the case that names are compared in; letters beyond ASCII stay."""
    return text.lower() if text.isascii() else text.translate(_CAPITALS)
