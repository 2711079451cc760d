"""Layer 5. Which resources are there, and which does a URL name? Routing, admission, checks and OpenAPI read one row for each."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, quote, unquote_to_bytes

import msgspec

from wakeful.http.asks import Answer, Ask
from wakeful.http.problems import Problem
from wakeful.operations.conversion import convert_json
from wakeful.values.times import from_datetime
from wakeful.values.weights import WEIGHT_MAX

# Which resource does a URL name?
#
# A key may hold anything, a slash included, so the path is cut into segments before it is decoded, and each segment is
# decoded once. What a proxy or a surrounding application has put before it (`root_path`) is taken off.

_BARE = re.compile(rb"%(?![0-9A-Fa-f]{2})")

WHOLE = b"*"  # in the place of a path: OPTIONS of the server as a whole
URL_BYTES_MAX = 8_192  # a class, a key, a schedule's name and a cursor, each percent-encoded, fit in it


def raw_of(scope: Mapping[str, Any]) -> bytes:
    """The path below the application's own root, as it was sent."""
    raw: bytes | None = scope.get("raw_path")
    path: str = scope["path"]
    raw = quote(path).encode() if raw is None else raw.partition(b"?")[0]
    root: str = scope.get("root_path") or ""
    if not root:
        return raw
    root = root.rstrip("/")
    for spelled in (quote(root).encode(), root.encode()):
        if raw == spelled or raw.startswith(spelled + b"/"):
            return raw[len(spelled) :] or b"/"
    return raw


def segments_of(raw: bytes) -> list[str]:
    """The decoded segments of a path; `Problem` for what is no UTF-8, or not percent-encoded."""
    if not raw.startswith(b"/"):
        raise Problem(404, "path.unknown", "there is nothing here")
    parts = raw[1:].split(b"/")
    try:
        if b"%" not in raw:
            return [part.decode() for part in parts]
        if _BARE.search(raw) is not None:
            words = "the path has a % without two hexadecimal digits behind it; write %25 for the sign itself"
            raise Problem(400, "path.encoding", words)
        return [unquote_to_bytes(part).decode() for part in parts]
    except UnicodeDecodeError:
        raise Problem(400, "path.encoding", "the path is not UTF-8, percent-encoded") from None


def check_length(scope: Mapping[str, Any]) -> None:
    """`Problem` for a URL longer than any that makes sense."""
    if is_long(scope):
        raise Problem(414, "path.long", f"the URL has {_size(scope)} bytes, {URL_BYTES_MAX} at most")


def is_long(scope: Mapping[str, Any]) -> bool:
    return _size(scope) > URL_BYTES_MAX


def _size(scope: Mapping[str, Any]) -> int:
    return len(scope.get("raw_path") or scope["path"]) + len(scope.get("query_string", b""))


LIMIT_MAX = 1_000  # rows of one page
QUERY_FIELDS_MAX = 20
LENGTH = r"([1-9][0-9]{0,5})(ms|s|m)?"  # 30, 30s, 250ms, 5m
LONGER = r"[1-9][0-9]*(ms|s|m|h|d|w)?"  # a length all the same, past what may be waited for
DEADLINE_MAX_MS = 900_000  # a quarter of an hour, as long as an alarm may run
# The same up to a quarter of an hour.
TO_15M = r"([1-8][0-9]{5}|900000|[1-9][0-9]{0,4})ms|([1-8][0-9]{2}|900|[1-9][0-9]?)s?|([1-9]|1[0-5])m"

# How the decoder says that there is no such field, and the way to it: `$.jobs[0].retry`.
_UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`(?: - at `(\$.*)`)?", re.DOTALL)
_STEP = re.compile(r"[a-z_]+|\[")

Handler = Callable[[Ask], Awaitable[Answer | None]]  # None: it has answered itself


@dataclass(frozen=True, slots=True)
class Param:
    """One query parameter: its JSON Schema, and how its text becomes a value."""

    name: str
    schema: Mapping[str, Any]
    read: Callable[[str], Any]
    default: Any = None
    is_needed: bool = False
    about: str = ""


@dataclass(frozen=True)
class Route:
    """One thing that can be asked."""

    method: str
    path: str  # `{name}` is a segment; `{class}` and `{key}` together name an object
    name: str  # operationId
    scope: str  # what the caller needs: call, read, operate, admin; "" for everyone
    about: str
    handler: Handler
    query: tuple[Param, ...] = ()
    headers: tuple[str, ...] = ()
    body: type | None = None  # what the body is read as, and its schema; None: there is none
    is_body_needed: bool = True
    weight_max: int = WEIGHT_MAX  # of the body
    answer: str = ""  # name of the schema of a 200
    status: int = 200
    media: str = "application/json"
    is_wide: bool = False  # about the whole deployment: nobody who is bound to a tenant may
    is_call: bool = False  # of a method of an object, which has a check of its own at the gate
    takes_grants: bool = False  # who has a token for one object may ask it; the handler checks the method
    is_wait: bool = False  # it does nothing for minutes, so it takes no place of those that do something
    asks_nodes: bool = False  # it waits for their answers
    problems: tuple[int, ...] = ()  # statuses beyond those that every route has

    @cached_property
    def is_look(self) -> bool:
        """It reads what is there, which may be much; it waits for nobody."""
        return self.scope in ("read", "admin") and self.method == "GET" and not self.asks_nodes

    @cached_property
    def is_stream(self) -> bool:
        return self.media == "text/event-stream"

    @cached_property
    def names_object(self) -> bool:
        """An object that the gate has to look at."""
        return "{class}/{key}" in self.path and not self.is_call


class RouteTable:
    """The routes, found by method and segments."""

    def __init__(self, routes: list[Route]) -> None:
        self.routes = routes
        self._call = next(route for route in routes if route.is_call)
        self._by_length: dict[int, list[tuple[list[str | None], list[str], Route]]] = {}
        for route in routes:
            parts = route.path.strip("/").split("/")
            shape = [None if part.startswith("{") else part for part in parts]
            names = [part.strip("{}") if part.startswith("{") else "" for part in parts]
            self._by_length.setdefault(len(parts), []).append((shape, names, route))
        for rows in self._by_length.values():  # words before names
            rows.sort(key=lambda row: [part is None for part in row[0]])

    def find(self, method: str, segments: list[str]) -> tuple[Route, dict[str, str]]:
        """The route and what the path names; `Problem` 404 or 405 else."""
        if method == "POST" and len(segments) == 5 and segments[1] == "objects" and segments[0] == "v1":
            return self._call, {"class": segments[2], "key": segments[3], "method": segments[4]}  # most requests
        allowed: set[str] = set()
        for shape, names, route in self._by_length.get(len(segments), ()):
            if all(part is None or part == segment for part, segment in zip(shape, segments, strict=True)):
                if route.method == method:
                    return route, {name: segment for name, segment in zip(names, segments, strict=True) if name}
                allowed.add(route.method)
        if not allowed:
            raise Problem(404, "path.unknown", "there is nothing here; /openapi.json says what there is")
        if "GET" in allowed:
            allowed.add("HEAD")
        raise Problem(
            405, "method.not_allowed", f"{method[:20]} is not for this", allow=", ".join(sorted(allowed | {"OPTIONS"}))
        )


def read_query(route: Route, raw: bytes) -> dict[str, Any]:
    """Every parameter of the route by name, defaults included; `Problem` names one that is unknown or wrong."""
    given: dict[str, str] = {}
    if raw:
        try:
            pairs = parse_qsl(
                raw.decode("ascii"), keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX, errors="strict"
            )
        except ValueError:
            raise Problem(400, "query.form", "the query is not name=value, percent-encoded UTF-8") from None
        for name, text in pairs:
            if name in given:
                raise Problem(400, "query.twice", f"query parameter {name[:60]!r} is there twice")
            given[name] = text
    known = {param.name: param for param in route.query}
    for name in given:
        if name not in known:
            names = ", ".join(known) or "none"
            raise Problem(400, "query.unknown", f"there is no query parameter {name[:60]!r} here; known: {names}")
    values: dict[str, Any] = {}
    for name, param in known.items():
        if name not in given:
            if param.is_needed:
                raise Problem(400, "query.missing", f"query parameter {name!r} is missing")
            values[name] = param.default
            continue
        try:
            values[name] = param.read(given[name])
        except ValueError as error:
            raise Problem(400, "query.value", f"query parameter {name}={given[name][:60]!r}: {error}") from None
    return values


async def read_body(ask: Ask, shape: type, *, is_needed: bool) -> Any:
    """The body as that struct; `Problem` says what is wrong where."""
    value = ask.value()
    if value is None:
        if is_needed:
            raise Problem(400, "body.missing", "a body of JSON is needed")
        value = {}
    try:
        return await ask.beside(lambda: convert_json(value, shape))
    except msgspec.ValidationError as error:
        words = _unknown_field(str(error), shape) or str(error)
        raise Problem(422, "body.fields", f"the body does not fit: {words}") from None


def _unknown_field(said: str, shape: type) -> str | None:
    """Of a field that there is none of: its name, and those that there are; None when something else is wrong."""
    if len(said) > 400:  # the name may have megabytes; the way to it stands at the end
        said = said[:200] + said[-200:]
    field = _UNKNOWN.fullmatch(said)
    if field is None:
        return None
    path = field[2] or "$"
    known = _fields_at(msgspec.inspect.type_info(shape), _STEP.findall(path))
    at = "" if path == "$" else f" at {path}"
    return f"there is no field {field[1][:60]!r}{at}; known: {', '.join(known)}"


def _fields_at(kind: msgspec.inspect.Type, steps: list[str]) -> list[str]:
    """The names that a struct has, that many steps inside of another."""
    if isinstance(kind, msgspec.inspect.UnionType):
        return [name for one in kind.types for name in _fields_at(one, steps)]
    if isinstance(kind, msgspec.inspect.ListType):
        return _fields_at(kind.item_type, steps[1:])
    if not isinstance(kind, msgspec.inspect.StructType):
        return []
    if not steps:
        return [field.encode_name for field in kind.fields]
    return [
        name for field in kind.fields if field.encode_name == steps[0] for name in _fields_at(field.type, steps[1:])
    ]


# kinds of parameters


def text(name: str, about: str, *, is_needed: bool = False, longest: int = 512) -> Param:
    def read(given: str) -> str:
        if not given or len(given) > longest or "\0" in given:
            raise ValueError(f"give text of 1 to {longest} characters")
        return given

    schema = {"type": "string", "minLength": 1, "maxLength": longest, "pattern": "^[^\\x00]*$"}
    return Param(name, schema, read, None, is_needed, about)


def length(name: str, about: str) -> Param:
    """A length of time, in milliseconds."""

    def read(given: str) -> int:
        found = length_ms(given)
        if found is None:
            raise ValueError("write it like 30, 30s, 250ms or 5m")
        return found

    return Param(name, {"type": "string", "pattern": f"^({LENGTH})$"}, read, None, False, about)


def deadline(name: str, about: str) -> Param:
    """A deadline of a call: what is wrong with it has the same code as in the header."""

    def read(given: str) -> int:
        return deadline_ms(given, f"query parameter {name}=")

    return Param(name, {"type": "string", "pattern": f"^({TO_15M})$"}, read, None, False, about)


def deadline_ms(text: str, what: str) -> int:
    """The milliseconds of a deadline; `Problem` for one that is none, or too long."""
    header = length_ms(text)
    if header is None and re.fullmatch(LONGER, text) is None:
        raise Problem(400, "deadline.form", f"{what}{text[:40]!r}: write it like 30, 30s, 250ms or 5m")
    if header is None or header > DEADLINE_MAX_MS:
        words = f"{what}{text[:40]!r}: {DEADLINE_MAX_MS // 60_000}m at most; a job may take longer"
        raise Problem(400, "deadline.long", words)
    return header


def length_ms(text: str) -> int | None:
    """`30`, `30s`, `250ms` and `5m` in milliseconds; None for anything else."""
    found = re.fullmatch(LENGTH, text)
    return None if found is None else int(found[1]) * {"ms": 1, "m": 60_000}.get(found[2], 1_000)


def number(name: str, about: str, *, least: int, most: int, default: int | None) -> Param:
    def read(given: str) -> int:
        if not given.isascii() or not given.isdigit() or len(given) > 18 or not least <= int(given) <= most:
            raise ValueError(f"give a whole number from {least} to {most}")
        return int(given)

    schema: dict[str, Any] = {"type": "integer", "minimum": least, "maximum": most}
    if default is not None:
        schema["default"] = default
    return Param(name, schema, read, default, False, about)


def choice(name: str, about: str, *choices: str) -> Param:
    def read(given: str) -> str:
        if given not in choices:
            raise ValueError(f"it can be {', '.join(choices)}")
        return given

    return Param(name, {"type": "string", "enum": list(choices)}, read, None, False, about)


def flag(name: str, about: str, *, default: bool) -> Param:
    def read(given: str) -> bool:
        if given not in ("true", "false"):
            raise ValueError("it can be true or false")
        return given == "true"

    return Param(name, {"type": "boolean", "default": default}, read, default, False, about)


def instant(name: str, about: str) -> Param:
    def read(given: str) -> int:
        try:
            return from_datetime(datetime.fromisoformat(given.replace(" ", "+")))
        except ValueError:
            raise ValueError("give an instant with its offset, like 2026-03-28T12:00:00Z") from None

    return Param(name, {"type": "string", "format": "date-time"}, read, None, False, about)


LIMIT = number("limit", "Rows of a page.", least=1, most=LIMIT_MAX, default=50)
CURSOR = text("cursor", "Where the page before ended: its `cursor`.", longest=8_192)
CLASS = text("class", "Only of this class.", longest=64)
KEY = text("key", "Only of the object of this key.")
PREFIX = text("prefix", "Only of objects whose keys begin so.")
PAGE = (LIMIT, CURSOR)
