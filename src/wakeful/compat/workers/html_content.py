"""Layer 5. What are handlers of an HTMLRewriter given: elements, texts, comments, and what can they do with them?"""

import re
from collections.abc import Callable
from typing import Any

from wakeful.compat.workers.failures import JsTypeError
from wakeful.compat.workers.html_tokens import DoctypeToken, EndTag, StartTag, lower
from wakeful.compat.workers.values import Array, option_of, result_of, text_of

_ESCAPES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}
_BROKEN = re.compile("[\ud800-\udfff]")  # bytes that are no text
_TAG_NAME = re.compile(r"[A-Za-z][^ \t\n\f\r/>\0]*")
_ATTRIBUTE_NAME = re.compile(r"[^ \t\n\f\r/>=\0]+")
_COMMENT_END = re.compile("--!?>")


class Content:
    """What all of them have: something can come before it, after it and in its place."""

    def __init__(self) -> None:
        self._before: list[str] = []
        self._after: list[str] = []
        self._replacement: str | None = None
        self._is_over = False

    def before(self, content: Any, options: Any = None, **named: Any) -> Any:
        self._before.append(self._content_of("before()", content, options, named))
        return self

    def after(self, content: Any, options: Any = None, **named: Any) -> Any:
        self._after.insert(0, self._content_of("after()", content, options, named))
        return self

    def replace(self, content: Any, options: Any = None, **named: Any) -> Any:
        self._replacement = self._content_of("replace()", content, options, named)
        return self

    def remove(self) -> Any:
        self._check("remove()")
        self._replacement = self._replacement or ""
        return self

    @property
    def removed(self) -> bool:
        return self._replacement is not None

    def _result(self) -> str:
        own = self._own() if self._replacement is None else self._replacement
        return "".join((*self._before, own, *self._after))

    def _own(self) -> str:
        raise NotImplementedError

    def _check(self, what: str) -> None:
        if self._is_over:
            raise JsTypeError(f"{what}: {type(self).__name__} is there while its handler runs, not behind that")

    def _content_of(self, what: str, content: Any, options: Any, named: Any) -> str:
        """Text for the page, made harmless unless it is said to be HTML."""
        self._check(what)
        text = _clean(content, f"{what}: content")
        return text if option_of(options, named, what).get("html") else text.translate(_ESCAPES)


class Text(Content):
    """A part of a text, as it came: `&amp;` is not `&`."""

    def __init__(self, raw: str, *, is_last: bool) -> None:
        super().__init__()
        self._raw = raw
        self.lastInTextNode = is_last

    @property
    def text(self) -> str:
        return show(self._raw)

    def _own(self) -> str:
        return self._raw


class Comment(Content):
    """A comment."""

    def __init__(self, text: str, raw: str) -> None:
        super().__init__()
        self._text, self._raw = text, raw

    @property
    def text(self) -> str:
        return show(self._text)

    @text.setter
    def text(self, text: Any) -> None:
        self._check("text")
        text = _clean(text, "Comment.text")
        if _COMMENT_END.search(text) or text.startswith((">", "->")):
            raise JsTypeError("Comment.text: what ends a comment can't be in it")
        self._text, self._raw = text, f"<!--{text}-->"

    def _own(self) -> str:
        return self._raw


class Doctype:
    """`<!doctype html>`: `name`, `publicId`, `systemId`."""

    def __init__(self, token: DoctypeToken) -> None:
        self._raw = token.raw
        self._is_over = False
        self.name, self.publicId, self.systemId = token.parts()

    def _result(self) -> str:
        return self._raw


class DocumentEnd(Content):
    """The end of the page, to which something can be appended."""

    def append(self, content: Any, options: Any = None, **named: Any) -> "DocumentEnd":
        self._before.append(self._content_of("append()", content, options, named))
        return self

    def _own(self) -> str:
        return ""


class EndMark(Content):
    """An end tag: what `onEndTag` gives."""

    def __init__(self, tag: EndTag) -> None:
        super().__init__()
        self._name, self._raw = tag.name, tag.raw

    @property
    def name(self) -> str:
        return self._name

    @name.setter
    def name(self, name: Any) -> None:
        self._check("name")
        shown_name = tag_name_of(name)
        self._name, self._raw = lower(shown_name), f"</{shown_name}>"

    def _own(self) -> str:
        return self._raw


class Element(Content):
    """An element at its start tag."""

    def __init__(self, tag: StartTag, namespace: str, *, has_content: bool, is_hidden: bool) -> None:
        super().__init__()
        self._tag, self._has_content, self._is_hidden = tag, has_content, is_hidden
        self.namespaceURI = namespace
        self._name = tag.name
        self._attributes = tag.attributes
        self._is_changed = False
        self._prepended: list[str] = []
        self._appended: list[str] = []
        self._hides_content = False
        self._end_handler: Callable[..., Any] | None = None

    @property
    def tagName(self) -> str:  # noqa: N802  the name there
        return lower(self._name)

    @tagName.setter
    def tagName(self, name: Any) -> None:  # noqa: N802
        self._check("tagName")
        self._name = tag_name_of(name)
        self._is_changed = True

    @property
    def attributes(self) -> Array:
        """Pairs of name and value, as they came."""
        return Array(Array((show(name), show(value))) for name, value, _ in self._attributes)

    @property
    def removed(self) -> bool:
        return self._is_hidden or self._replacement is not None

    def getAttribute(self, name: Any) -> str | None:  # noqa: N802  the names there
        wanted = lower(text_of(name, "getAttribute(): a name"))
        return next((show(value) for known, value, _ in self._attributes if known == wanted), None)

    def hasAttribute(self, name: Any) -> bool:  # noqa: N802
        wanted = lower(text_of(name, "hasAttribute(): a name"))
        return any(known == wanted for known, _, _ in self._attributes)

    def setAttribute(self, name: Any, value: Any) -> "Element":  # noqa: N802
        self._check("setAttribute()")
        name = lower(_clean(name, "setAttribute(): a name"))
        if not _ATTRIBUTE_NAME.fullmatch(name):
            raise JsTypeError(f"setAttribute(): {name!r} is no name of an attribute")
        value = _clean(value, "setAttribute(): a value")
        escaped = value.replace('"', "&quot;")
        made = (name, value, f'{name}="{escaped}"')
        at = next((at for at, one in enumerate(self._attributes) if one[0] == name), None)
        if at is None:
            self._attributes.append(made)
        else:
            self._attributes[at] = made
        self._is_changed = True
        return self

    def removeAttribute(self, name: Any) -> "Element":  # noqa: N802
        self._check("removeAttribute()")
        wanted = lower(text_of(name, "removeAttribute(): a name"))
        kept = [one for one in self._attributes if one[0] != wanted]
        self._is_changed = self._is_changed or len(kept) != len(self._attributes)
        self._attributes[:] = kept
        return self

    def prepend(self, content: Any, options: Any = None, **named: Any) -> "Element":
        text = self._content_of("prepend()", content, options, named)
        if self._has_content:
            self._prepended.insert(0, text)
        return self

    def append(self, content: Any, options: Any = None, **named: Any) -> "Element":
        text = self._content_of("append()", content, options, named)
        if self._has_content:
            self._appended.append(text)
        return self

    def setInnerContent(self, content: Any, options: Any = None, **named: Any) -> "Element":  # noqa: N802
        text = self._content_of("setInnerContent()", content, options, named)
        if self._has_content:
            self._prepended, self._appended, self._hides_content = [text], [], True
        return self

    def replace(self, content: Any, options: Any = None, **named: Any) -> "Element":
        super().replace(content, options, **named)
        self._drop_content()
        return self

    def remove(self) -> "Element":
        super().remove()
        self._drop_content()
        return self

    def removeAndKeepContent(self) -> "Element":  # noqa: N802
        return super().remove()  # type: ignore[no-any-return]

    def onEndTag(self, handler: Callable[..., Any]) -> None:  # noqa: N802
        """Call that with the end tag, when it comes; of several handlers the last one, as there."""
        self._check("onEndTag()")
        if not self._has_content:
            raise JsTypeError(f"onEndTag(): <{self._name}> has no end tag")
        if not callable(handler):
            raise JsTypeError(f"onEndTag() takes a function, not {type(handler).__name__}")
        self._end_handler = handler

    def _drop_content(self) -> None:
        self._prepended, self._appended = [], []
        self._hides_content = self._has_content

    def _own(self) -> str:
        if not self._is_changed:
            return self._tag.raw
        parts = [f"<{self._name if self._name != self._tag.name else self._tag.shown_name}"]
        parts += [raw for _, _, raw in self._attributes]
        if self._tag.is_self_closing and not (self._prepended or self._appended or self._hides_content):
            return " ".join(parts) + (" />" if self._attributes else "/>")
        return " ".join(parts) + ">"

    def _result(self) -> str:
        """The start tag, and what comes around it."""
        own = self._own() if self._replacement is None else self._replacement
        return "".join((*self._before, own, *self._prepended, *(() if self._has_content else self._after)))

    def _has_end(self) -> bool:
        """Whether something is to be done at the end tag."""
        return self._has_content and bool(
            self._appended
            or self._after
            or self._end_handler
            or self._replacement is not None
            or self._name != self._tag.name
        )

    async def _end(self, mark: EndMark, *, is_own: bool) -> None:
        """What is to be done at the end tag; it may be that of one around this."""
        if is_own and self._name != self._tag.name:
            mark.name = self._name
        if is_own and self._replacement is not None:
            mark.remove()
        mark._before += self._appended
        mark._after[:0] = self._after
        if self._end_handler is not None:
            await result_of(self._end_handler(mark))


def show(raw: str) -> str:
    """What handlers see of it: for bytes that are no text a sign that says so."""
    return raw if raw.isascii() else _BROKEN.sub("\ufffd", raw)


def _clean(value: Any, what: str) -> str:
    return show(text_of(value, what))


def tag_name_of(name: Any) -> str:
    text = _clean(name, "the name of a tag")
    if not _TAG_NAME.fullmatch(text):
        raise JsTypeError(f"{text!r} is no name of a tag")
    return text
