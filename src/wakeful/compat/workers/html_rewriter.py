"""Layer 5. What does `js.HTMLRewriter` make of a page while it passes through?

A response's body is read chunk by chunk; handlers are called for what their selectors mean, and what they leave alone comes
out as it came in, byte for byte. What is written was compared with the original, workerd.
"""

import asyncio
import codecs
import re
from collections import Counter
from collections.abc import AsyncIterator
from email.message import Message
from typing import Any

from wakeful.compat.workers.failures import JsRangeError, JsTypeError
from wakeful.compat.workers.html_content import Comment, Doctype, DocumentEnd, Element, EndMark, Text
from wakeful.compat.workers.html_selectors import Candidate, Compound, Selectors, parse_selector
from wakeful.compat.workers.html_tokens import (
    RAW_TEXT,
    CommentToken,
    DoctypeToken,
    EndTag,
    HtmlToken,
    StartTag,
    TextToken,
    Tokenizer,
)
from wakeful.compat.workers.sources import END, Trickle, bytes_of, member
from wakeful.compat.workers.streams import ReadableStream
from wakeful.compat.workers.values import result_of
from wakeful.compat.workers.web import Response

SLICE = 4096  # bytes that are rewritten in one go
DEPTH_MAX = 20_000  # elements open at once; what is never closed counts
KINDS_MAX = 10_000  # names of the children of one element

_HTML, _SVG, _MATH = ("http://www.w3.org/" + name for name in ("1999/xhtml", "2000/svg", "1998/Math/MathML"))
_VOID = frozenset([
    "area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img", "input", "keygen",
    "link", "meta", "param", "source", "track", "wbr",
])  # fmt: skip
_HTML_INSIDE = {  # of SVG and MathML, what has HTML in it again
    _SVG: frozenset({"desc", "foreignobject", "title"}),
    _MATH: frozenset({"annotation-xml", "mi", "mn", "mo", "ms", "mtext"}),
}
_NEVER_FOREIGN = frozenset([
    "b", "big", "blockquote", "body", "br", "center", "code", "dd", "div", "dl", "dt", "em", "embed", "h1",
    "h2", "h3", "h4", "h5", "h6", "head", "hr", "i", "img", "li", "listing", "menu", "meta", "nobr", "ol", "p",
    "pre", "ruby", "s", "small", "span", "strong", "strike", "sub", "sup", "table", "tt", "u", "ul", "var",
])  # fmt: skip
_LETTERS = re.compile("[^\ud800-\udfff]+")  # all but bytes that are no text
_SINGLE_BYTES = re.compile(
    r"(cp|windows-)125\d|(iso)?-?8859-\d+|latin-?\d|koi8-[ru]|macintosh|mac-roman|cp866|ibm866|tis-620"
)


class HTMLRewriter:
    """Rewrites pages: `HTMLRewriter.new().on("a[href]", handlers).transform(response)`."""

    def __init__(self) -> None:
        self._selectors: list[list[list[Compound]]] = []
        self._handlers: list[Any] = []
        self._of_document: list[Any] = []

    @classmethod
    def new(cls) -> "HTMLRewriter":
        return cls()

    def on(self, selector: str, handlers: Any) -> "HTMLRewriter":
        """For the elements that the selector means: `element`, and of what is in them `text` and `comments`."""
        self._selectors.append(parse_selector(selector))
        self._handlers.append(handlers)
        return self

    def onDocument(self, handlers: Any) -> "HTMLRewriter":  # noqa: N802  the name there
        """For the whole of it: `doctype`, `text`, `comments` and `end`."""
        self._of_document.append(handlers)
        return self

    def transform(self, response: Response) -> Response:
        """The response with its body rewritten while it is read."""
        if not isinstance(response, Response):
            raise JsTypeError(f"transform() takes a Response, not {type(response).__name__}")
        codec = _codec_of(response.headers.get("content-type") or "")
        if response.body is None and not response.body_used:
            return response  # as there: without a body there is nothing to rewrite
        body = response._take()
        assert isinstance(body, ReadableStream)
        body._lock("transform()")
        rewriting = _Rewriting(Selectors(self._selectors), list(self._handlers), list(self._of_document), codec)
        made = Response(None, response.status, response.status_text, response.headers, response.web_socket)
        made.headers.delete("content-length")
        made.url, made.redirected, made.encode_body = response.url, response.redirected, response.encode_body
        made._data = ReadableStream(Trickle(rewriting.run(body)))
        return made


class _Open:
    """An element that is open."""

    __slots__ = ("child", "children", "element", "hides", "inside", "kinds", "name", "namespace", "numbers")

    def __init__(self, name: str, namespace: str, inside: frozenset[int], child: frozenset[int]) -> None:
        self.name, self.namespace, self.inside, self.child = name, namespace, inside, child
        self.children = 0
        self.kinds: dict[str, int] = {}  # its children by name
        self.element: Element | None = None  # when something is to be done at its end
        self.numbers: list[int] = []  # of the handlers that hear of what is in it
        self.hides = False


class _Rewriting:
    """One body on its way."""

    def __init__(self, selectors: Selectors, handlers: list[Any], of_document: list[Any], codec: str) -> None:
        self._selectors, self._handlers, self._of_document, self._codec = selectors, handlers, of_document, codec
        self._tokenizer = Tokenizer()
        root = _Open("", _HTML, selectors.begin, frozenset())
        self._open = [root]
        self._names: Counter[str] = Counter()  # of those that are open
        self._active: Counter[int] = Counter()  # how many that are open each of the handlers hears of
        self._texts: list[Any] = []  # what hears of text where we are
        self._comments: list[Any] = []
        self._listen()
        self._hidden = 0  # how many around us are removed with what is in them
        self._out: list[str] = []

    async def run(self, body: ReadableStream) -> AsyncIterator[bytes]:
        """What is made of the body, as it comes."""
        decoder = codecs.getincrementaldecoder(self._codec)("surrogateescape")  # no byte is lost
        is_over = False
        try:
            while (chunk := await body._next()) is not END:
                data = memoryview(bytes_of(chunk))
                for at in range(0, len(data), SLICE):
                    self._tokenizer.feed(decoder.decode(bytes(data[at : at + SLICE])))
                    if made := await self._go_on():
                        yield made
                    await asyncio.sleep(0)
            is_over = True
            self._tokenizer.feed(decoder.decode(b"", True))
            self._tokenizer.end()
            made = await self._go_on()
            if last := made + await self._finish():
                yield last
        finally:
            if not is_over:
                await body._cancel("it is not rewritten to its end")

    async def _go_on(self) -> bytes:
        for token in self._tokenizer.tokens:
            if token is None:
                break
            if isinstance(token, TextToken):
                await self._text(token)
            elif isinstance(token, StartTag):
                await self._start(token)
            elif isinstance(token, EndTag):
                await self._end(token)
            elif isinstance(token, CommentToken):
                await self._content(Comment(token.text, token.raw), self._comments)
            elif isinstance(token, DoctypeToken):
                await self._content(Doctype(token), _functions(self._of_document, "doctype"))
            else:
                self._put(token)
        return self._take_out()

    def _take_out(self) -> bytes:
        made, self._out = "".join(self._out), []
        return made.encode(self._codec, "surrogateescape")

    def _put(self, token: HtmlToken) -> None:
        if not self._hidden and token.raw:
            self._out.append(token.raw)

    def _write(self, made: str) -> None:
        """What may have text of a handler in it, which may have what the page's charset has not."""
        if not self._hidden and made:
            self._out.append(_fit(made, self._codec))

    async def _content(self, content: Any, handlers: list[Any]) -> None:
        for handle in handlers:
            await result_of(handle(content))
        content._is_over = True
        self._write(content._result())

    async def _text(self, token: TextToken) -> None:
        if self._texts:
            await self._content(Text(token.raw, is_last=token.is_last), self._texts)
        else:
            self._put(token)

    async def _start(self, tag: StartTag) -> None:
        around = self._open[-1]
        if around.namespace != _HTML and tag.name in _NEVER_FOREIGN:
            self._leave_foreign()
        namespace = _namespace_of(tag.name, around)
        numbers, inside, child = self._match(tag, around)
        has_content = tag.name not in _VOID if namespace == _HTML else not tag.is_self_closing
        opened = _Open(tag.name, namespace, inside, child)
        handlers = [self._handlers[number] for number in numbers]
        element_handlers = _functions(handlers, "element")
        if element_handlers:
            element = Element(tag, namespace, has_content=has_content, is_hidden=self._hidden > 0)
            for handle in element_handlers:
                await result_of(handle(element))
            element._is_over = True
            self._write(element._result())
            opened.hides = element._hides_content
            opened.element = element if element._has_end() else None
        else:
            self._put(tag)
        if has_content:
            opened.numbers = numbers
            self._enter(opened)

    def _match(self, tag: StartTag, around: _Open) -> tuple[list[int], frozenset[int], frozenset[int]]:
        around.children += 1
        kind = around.kinds[tag.name] = around.kinds.get(tag.name, 0) + 1
        if len(around.kinds) > KINDS_MAX:
            raise JsRangeError(f"HTMLRewriter: <{around.name}> has children of more than {KINDS_MAX} names")
        if not around.inside and not around.child:
            return [], around.inside, around.child
        attributes: dict[str, str] = {}
        for name, value, _ in tag.attributes:
            attributes.setdefault(name, value)
        return self._selectors.match(Candidate(tag, attributes, around.children, kind), around.inside, around.child)

    def _enter(self, opened: _Open) -> None:
        if len(self._open) > DEPTH_MAX:
            raise JsRangeError(f"HTMLRewriter: more than {DEPTH_MAX} elements are open at <{opened.name}>")
        self._open.append(opened)
        self._names[opened.name] += 1
        if opened.numbers:
            self._active.update(opened.numbers)
            self._listen()
        self._hidden += opened.hides
        self._look(opened)
        if opened.namespace == _HTML and opened.name in RAW_TEXT:
            self._tokenizer.raw_name = opened.name

    async def _end(self, tag: EndTag) -> None:
        if tag.name in ("p", "br"):
            self._leave_foreign()  # they count as elements there
        if not self._names[tag.name]:
            self._put(tag)  # of nothing that is open
            return
        mark: EndMark | None = None
        while True:
            closed = self._leave()
            is_own = closed.name == tag.name
            if closed.element is not None:
                mark = EndMark(tag)  # as there: of those that end at one tag, what the outermost adds is written
                await closed.element._end(mark, is_own=is_own)
                mark._is_over = True
            if is_own:
                break
        if mark is None:
            self._put(tag)
        else:
            self._write(mark._result())

    def _leave(self) -> _Open:
        closed = self._open.pop()
        self._names[closed.name] -= 1
        if not self._names[closed.name]:
            del self._names[closed.name]
        if closed.numbers:
            self._active.subtract(closed.numbers)
            self._listen()
        self._hidden -= closed.hides
        self._look(self._open[-1])
        return closed

    def _listen(self) -> None:
        """Each hears of a text once, however many around it are meant."""
        heard = [one for number, one in enumerate(self._handlers) if self._active[number]]
        self._texts = _functions(self._of_document, "text") + _functions(heard, "text")
        self._comments = _functions(self._of_document, "comments") + _functions(heard, "comments")

    def _leave_foreign(self) -> None:
        """HTML in the midst of SVG or MathML ends that, closed or not."""
        for around in reversed(self._open):
            if around.namespace == _HTML or around.name in _HTML_INSIDE[around.namespace]:
                return
            around.namespace = _HTML
            self._tokenizer.is_foreign = False

    def _look(self, around: _Open) -> None:
        self._tokenizer.is_foreign = around.namespace != _HTML and around.name not in _HTML_INSIDE[around.namespace]

    async def _finish(self) -> bytes:
        self._hidden = 0
        end = DocumentEnd()
        await self._content(end, _functions(self._of_document, "end"))
        return self._take_out()


def _functions(handlers: list[Any], name: str) -> list[Any]:
    """Those of the handlers that have a function of that name."""
    found = [member(one, name) for one in handlers]
    return [one for one in found if one is not None]


def _namespace_of(name: str, around: _Open) -> str:
    if name == "svg":
        return _SVG
    if name == "math":
        return _MATH
    inside = around.namespace
    return _HTML if inside == _HTML or around.name in _HTML_INSIDE[inside] else inside


def _fit(text: str, codec: str) -> str:
    """With character references for what the charset has not."""
    if codec == "utf-8" or text.isascii():
        return text
    return _LETTERS.sub(lambda found: found[0].encode(codec, "xmlcharrefreplace").decode(codec), text)


def _codec_of(content_type: str) -> str:
    """The charset that a page says it has, UTF-8 when it says none."""
    message = Message()
    message["content-type"] = content_type
    charset = str(message.get_param("charset", "utf-8")).strip().lower().replace("_", "-")
    if charset in ("utf-8", "utf8", "us-ascii", "ascii"):
        return "utf-8"
    if charset in ("iso-8859-1", "latin1", "latin-1"):
        return "cp1252"  # as browsers have it
    if _SINGLE_BYTES.fullmatch(charset):
        try:
            return codecs.lookup(charset).name
        except LookupError:
            pass
    raise JsTypeError(
        f"HTMLRewriter: pages of the charset {charset!r} are not rewritten; UTF-8 is, and what has one byte a letter"
    )
