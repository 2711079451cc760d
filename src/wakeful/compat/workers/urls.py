"""Layer 5. `URL` and `URLSearchParams`, as the standard of the web has them: read, changed and joined.

The parser is Ada's, which Node.js and workerd use too: a URL that is read differently here and there is a hole.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote_plus

from wakeful.compat.workers.failures import JsTypeError
from wakeful.values.errors import MissingExtra

FIELDS_MAX = 20_000  # of a query; reading more would hold up everybody else


class URLSearchParams:
    """The query of a URL, in its order; that of a `URL` changes it."""

    def __init__(self, given: Any = "") -> None:
        pairs = given.items() if isinstance(given, Mapping | URLSearchParams) else given
        if isinstance(pairs, str):
            pairs = _parse(pairs)
        self._pairs: list[tuple[str, str]] = [(str(name), str(value)) for name, value in pairs or ()]
        self._changed: Callable[[str], None] = _nothing

    @classmethod
    def new(cls, given: Any = "") -> "URLSearchParams":
        return cls(given)

    @property
    def size(self) -> int:
        return len(self._pairs)

    def get(self, name: str) -> str | None:
        return next((value for known, value in self._pairs if known == name), None)

    def getAll(self, name: str) -> list[str]:  # noqa: N802  the name there
        return [value for known, value in self._pairs if known == name]

    def has(self, name: str, value: Any = None) -> bool:
        return any(known == name and value in (None, held) for known, held in self._pairs)

    def append(self, name: str, value: Any) -> None:
        self._become([*self._pairs, (str(name), str(value))])

    def set(self, name: str, value: Any) -> None:
        """In the place of the first of that name; all others of it go."""
        place = next((at for at, pair in enumerate(self._pairs) if pair[0] == name), len(self._pairs))
        rest = [pair for pair in self._pairs[place:] if pair[0] != name]
        self._become([*self._pairs[:place], (str(name), str(value)), *rest])

    def delete(self, name: str, value: Any = None) -> None:
        self._become([pair for pair in self._pairs if pair[0] != name or value not in (None, pair[1])])

    def sort(self) -> None:
        """By name; those of one name stay in their order."""
        self._become(sorted(self._pairs, key=lambda pair: pair[0].encode("utf-16-be", "surrogatepass")))

    def items(self) -> list[tuple[str, str]]:
        return list(self._pairs)

    entries = items

    def keys(self) -> list[str]:
        return [name for name, _ in self._pairs]

    def values(self) -> list[str]:
        return [value for _, value in self._pairs]

    def forEach(self, call: Callable[..., Any]) -> None:  # noqa: N802  the name there
        for name, value in self.items():
            call(value, name, self)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.items())

    def __len__(self) -> int:
        return len(self._pairs)

    def toString(self) -> str:  # noqa: N802  the name there
        return "&".join(f"{_escape(name)}={_escape(value)}" for name, value in self._pairs)

    __str__ = toString

    def _become(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs
        self._changed(self.toString())


def _parse(text: str) -> list[tuple[str, str]]:
    if text.count("&") >= FIELDS_MAX:
        raise JsTypeError(f"a query with more than {FIELDS_MAX} fields is not read: it would hold up everybody else")
    return parse_qsl(text.removeprefix("?"), keep_blank_values=True, errors="replace")


def _escape(text: str) -> str:
    return quote_plus(text, safe="*", errors="replace").replace("~", "%7E")


def _nothing(query: str) -> None:
    """It is nobody's."""


def _part(name: str) -> Any:
    """One of the parts of a URL; what can't be one is not taken, as there."""

    def read(self: "URL") -> str:
        found: str = getattr(self._url, name)
        return found

    def write(self: "URL", value: Any) -> None:
        try:
            setattr(self._url, name, str(value))
        except ValueError:
            return
        if name in ("search", "href"):
            self._params = None

    return property(read, write, doc=f"Its {name}.")


class URL:
    """A URL in its parts, each of which can be set: `URL.new("../b?x=1", "https://example.com/a/")`."""

    href = _part("href")
    protocol = _part("protocol")
    username = _part("username")
    password = _part("password")
    host = _part("host")
    hostname = _part("hostname")
    port = _part("port")
    pathname = _part("pathname")
    search = _part("search")
    hash = _part("hash")

    def __init__(self, url: Any, base: Any = None) -> None:
        try:
            import ada_url
        except ImportError:
            raise MissingExtra("js.URL needs ada-url; pip install 'wakeful[workers]'", code="extra.workers") from None
        try:
            self._url = ada_url.URL(str(url), None if base is None else str(base))
        except ValueError:
            beside = "" if base is None else f" at {str(base)!r}"
            raise JsTypeError(f"{str(url)!r}{beside} is no whole URL") from None
        self._params: URLSearchParams | None = None

    @classmethod
    def new(cls, url: Any, base: Any = None) -> "URL":
        return cls(url, base)

    @classmethod
    def parse(cls, url: Any, base: Any = None) -> "URL | None":
        try:
            return cls(url, base)
        except JsTypeError:
            return None

    @classmethod
    def canParse(cls, url: Any, base: Any = None) -> bool:  # noqa: N802  the name there
        return cls.parse(url, base) is not None

    @property
    def origin(self) -> str:
        found: str = self._url.origin
        return found

    @property
    def searchParams(self) -> URLSearchParams:  # noqa: N802  the name there
        """Its query; what is set in it is set in the URL."""
        if self._params is None:
            self._params = URLSearchParams(self.search)
            self._params._changed = self._on_query
        return self._params

    def toString(self) -> str:  # noqa: N802  the name there
        found: str = self._url.href
        return found

    toJSON = __str__ = toString  # noqa: N815  the name there

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"URL({self.toString()!r})"

    def _on_query(self, query: str) -> None:
        self._url.search = f"?{query}" if query else ""
