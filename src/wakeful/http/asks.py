"""Layer 5. What came in, and what goes out?"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote
from weakref import WeakKeyDictionary

import msgspec

from wakeful.http.body_shape import check_body
from wakeful.http.problems import Problem
from wakeful.operations.arguments import weighs_more
from wakeful.operations.exact_numbers import Number
from wakeful.policy.shares import Asker, Shares, Verdict
from wakeful.security.crowd import Crowding, FairLine, asker_of
from wakeful.security.tokens import ALL as TOKENS
from wakeful.values.codec import decode_outside, encode
from wakeful.values.errors import BadValue, NotRunning, Undecodable
from wakeful.values.ids import ObjectId
from wakeful.values.json_patch import json_bytes
from wakeful.values.weights import WEIGHT_MAX
from wakeful.views.plain import plain
from wakeful.views.view import View

if TYPE_CHECKING:
    from wakeful.deployment import Deployment
    from wakeful.runtime.node import Node
    from wakeful.security.gate import Gate
    from wakeful.security.scopes import Caller

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

T = TypeVar("T")

JSON = b"application/json"
MSGPACK = b"application/vnd.wakeful.msgpack"
BODY_TIMEOUT_S = 30.0  # a client that takes longer to send a body of at most some megabytes is not sending it
LONG_BYTES = 16 << 10  # of a body that may take more than a millisecond or two to become arguments
THREADS = 1  # that read bodies, or write answers, at once: see `in_thread`
LIGHT = 5_000  # an answer that weighs no more is written at once, in a few milliseconds
DEPTH_MAX = 100  # of lists and objects in a body: nobody writes more by hand, and every walk over it is bounded

_decoder = msgspec.json.Decoder()
_exact_decoder = msgspec.json.Decoder(float_hook=Number)


class Answer(NamedTuple):
    """What goes out."""

    body: bytes
    status: int = 200
    media: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Room:
    """Bytes of bodies that have come in part, or wait to be read: many clients must not fill the memory together."""

    def __init__(self, shares: Shares, crowding: Crowding) -> None:
        self._shares = shares
        self._crowding = crowding

    def take(self, asker: Asker, count: int) -> None:
        if not count:
            return
        verdict = self._shares.take(asker, count)
        if verdict is Verdict.FULL:
            raise Problem(503, "server.bodies", "too much is being sent to this server at once; try again")
        if verdict is Verdict.SHARE:
            raise self._crowding.refusal(verdict, "bytes of bodies that are being sent or read", self._shares, asker)

    @contextmanager
    def holding(self, asker: Asker) -> Iterator[Callable[[int], None]]:
        """Around one body; what it is given takes so many bytes more, until the block ends."""
        size = 0

        def hold(count: int) -> None:
            nonlocal size
            self.take(asker, count)
            size += count

        try:
            yield hold
        finally:
            if size:
                self.give(asker, size)

    def give(self, asker: Asker, count: int) -> None:
        self._shares.give(asker, count)


class Ask:
    """One request, on its way through."""

    __slots__ = ("_headers", "_read", "body", "body_max", "caller", "deployment", "gate", "is_begun", "is_full", "params", "query", "receive", "scope", "send", "waited_ms", "weight_max")  # fmt: skip

    def __init__(
        self, deployment: "Deployment", gate: "Gate", scope: Scope, receive: Receive, send: Send, body_max: int
    ) -> None:
        self.deployment = deployment
        self.gate = gate
        self.scope = scope
        self.receive = receive
        self.send = send
        self.body_max = body_max
        self.body = b""
        self.params: dict[str, str] = {}  # from the path
        self.query: dict[str, Any] = {}
        self.caller: Caller | None = None
        self.weight_max = WEIGHT_MAX  # of the body
        self.is_begun = False  # its answer is: another can't be given any more
        self.is_full = False  # whoever asks for anything now is refused
        self.waited_ms = 0  # for the store to say who asks, of the time that a call has
        self._headers: dict[bytes, bytes | None] | None = None  # None: it is there more than once
        self._read: tuple[Any, Problem | None] | None = None  # a long body, which was decoded beside the loop

    @property
    def who(self) -> "Caller":
        assert self.caller is not None  # the table lets nobody past who was not admitted
        return self.caller

    @property
    def asker(self) -> Asker:
        """With whom it shares the server, once somebody was let in."""
        return asker_of(self.who, self.params.get("key"))

    @property
    def node(self) -> "Node":
        node = self.deployment.node
        if node is None:
            raise NotRunning("the app is not running")
        return node

    @property
    def homes(self) -> "list[Node]":
        """Those in whose stores is what is waited for: who asks, then the object that is named, or what all of them have."""
        node = self.node
        if self.caller is None:
            return [node.home(TOKENS)]
        if "class" in self.params and "key" in self.params:
            return [node.home(ObjectId(self.params["class"], self.params["key"]))]
        return node.all_homes

    @property
    def view(self) -> View:
        return View.for_caller(self.node, self.caller)

    @property
    def path(self) -> str:
        return path_of(self.scope)

    def header(self, name: bytes) -> str | None:
        """One header; `Problem` when it is there twice."""
        if self._headers is None:
            self._headers = {}
            for key, value in self.scope["headers"]:
                self._headers[key] = value if key not in self._headers else None
        if name not in self._headers:
            return None
        found = self._headers[name]
        if found is None:
            raise Problem(400, "header.twice", f"the header {name.decode()} is there twice")
        return found.decode("latin-1")

    async def take_body(self, room: "Room", asker: Asker) -> None:
        """Read all of the body; `Problem` when it is too large, does not come, or is packed."""
        packed = self.header(b"content-encoding")
        if packed is not None and packed.strip().lower() not in ("", "identity"):
            raise Problem(
                415, "body.encoding", f"send the body as it is, not as {packed[:40]!r}", accept_encoding="identity"
            )
        length = self.header(b"content-length")
        if length is not None and length.isascii() and length.isdigit() and int(length[:20]) > self.body_max:
            raise Problem(
                413, "body.large", f"the body has {length} bytes, {self.body_max} at most", connection="close"
            )
        # The first part is nearly always there, and the server's own clock runs for it: one here costs 7 µs a call.
        message = await self._part()
        self.body = message.get("body", b"")
        has_more: bool = message.get("more_body", False)
        if has_more or self.is_long:
            with room.holding(asker) as hold:
                hold(len(self.body))
                if has_more:
                    await self._take_rest(hold)
                self._check_size()
                await self.read_ahead()
        else:
            self._check_size()

    def _check_size(self) -> None:
        if len(self.body) > self.body_max:
            raise Problem(413, "body.large", f"the body has more than {self.body_max} bytes", connection="close")

    async def _take_rest(self, hold: Callable[[int], None]) -> None:
        parts, size, has_more = [self.body], len(self.body), True
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                while has_more and size <= self.body_max:
                    message = await self._part()
                    parts.append(message.get("body", b""))
                    hold(len(parts[-1]))
                    size += len(parts[-1])
                    has_more = message.get("more_body", False)
        except TimeoutError:
            raise Problem(
                408, "body.slow", f"the body did not come within {BODY_TIMEOUT_S:.0f} s", connection="close"
            ) from None
        self.body = b"".join(parts)

    async def _part(self) -> MutableMapping[str, Any]:
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise Gone
        return message

    @property
    def media(self) -> bytes:
        """What the body is said to be; JSON when nothing is said."""
        said = self.header(b"content-type")
        if said == "application/json":
            return JSON
        return JSON if said is None else said.partition(";")[0].strip().lower().encode("latin-1")

    @property
    def wants_types(self) -> bool:
        """The answer is for a client of ours, which keeps the types of values."""
        # As often as a client likes, unlike others: it is a list.
        return any(key == b"accept" and MSGPACK in value for key, value in self.scope["headers"])

    def value(self) -> Any:
        """The body as a value; None when it is empty. `Problem` for what it can't be."""
        if self._read is None:
            return self._decode()
        value, problem = self._read
        if problem is not None:
            raise problem
        return value

    def exact_value(self) -> Any:
        """The same with every `Number` as it was written, for a method that takes a `Decimal`."""
        return self.value() if self.media == MSGPACK else self._decode(is_exact=True)

    async def read_ahead(self) -> None:
        """Decode a long body now, beside the loop."""
        if self.is_long:
            self._read = await in_thread(self._decoded_quietly, self.asker)

    @property
    def is_long(self) -> bool:
        """What is made of the body would hold the loop."""
        return len(self.body) > LONG_BYTES

    async def beside(self, make: Callable[[], T]) -> T:
        """What is made of the body: in a thread when it is long, so that the loop goes on meanwhile."""
        return await in_thread(make, self.asker) if self.is_long else make()

    def _decoded_quietly(self) -> tuple[Any, Problem | None]:
        try:
            return self._decode(), None
        except Problem as problem:
            return None, problem

    def _check_charset(self) -> None:
        said = self.header(b"content-type")
        found = None if said is None or said == "application/json" else _CHARSET.search(said)
        if found is not None and found[1] and found[1].lower() not in _CHARSETS:
            raise Problem(415, "body.charset", f"send JSON in UTF-8, not in {found[1][:40]!r}; leave charset out")

    def _decode(self, *, is_exact: bool = False) -> Any:
        body, media = self.body, self.media
        if media == MSGPACK:
            return read_msgpack(body, self.weight_max)
        if media != JSON:
            raise Problem(415, "body.media", f"send application/json, not {media.decode('latin-1')[:80]!r}")
        self._check_charset()
        return read_json(body, self.weight_max, is_exact=is_exact) if body.strip() else None


# What is said of the encoding beside a media type, also in quotes that are none there, and what may be: of JSON there is only
# one, and ASCII is a part of it.
_CHARSET = re.compile(r""";\s*charset\s*=\s*["']?\s*([^"';\s]*)""", re.IGNORECASE)
_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
# The first half of a character, behind no backslash of its own and without a second escape behind it.
_HALF = re.compile(rb"(?<!\\)(?:\\\\)*\\u([dD][89abAB][0-9a-fA-F]{2})(?!\\u)")


def path_of(scope: Scope) -> str:
    """As it was sent, for people."""
    raw = scope.get("raw_path") or quote(scope["path"], errors="replace").encode()
    return str(raw.partition(b"?")[0].decode("latin-1"))


class Gone(Exception):
    """The client has hung up: there is nobody to answer."""


def read_json(body: bytes, weight_max: int = WEIGHT_MAX, *, is_exact: bool = False) -> Any:
    """The value; `Problem` says where it is no JSON, or too much of it."""
    try:
        check_body(body, weight_max)
        value = (_exact_decoder if is_exact else _decoder).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        said = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        if "truncated" in said:
            said = _half_character(body) or said
        raise Problem(400, "body.json", f"the body is not JSON: {said}") from None
    except BadValue as error:
        raise _refusal(error) from None
    _check_depth(value)
    return value


def _half_character(body: bytes) -> str | None:
    """What is wrong with a body that has half of a character, which the decoder takes for a body that ends too early."""
    found = _HALF.search(body, max(0, len(body) - 64))  # it does so near the end only
    if found is None:
        return None
    return f"\\u{found[1].decode()} is half of a character (a surrogate), and the other half does not follow"


def read_msgpack(body: bytes, weight_max: int = WEIGHT_MAX) -> Any:
    """The value that a client of ours encoded. Types of the program are not made of it: annotations decide on those."""
    try:
        value = decode_outside(body, weight_max)
    except BadValue as error:
        raise _refusal(error) from None
    except Undecodable as error:
        raise Problem(400, "body.msgpack", f"the body is not what Wakeful's codec writes: {error.message}") from None
    _check_depth(value)
    return value


def _refusal(error: BadValue) -> Problem:
    return Problem(400, error.code, f"the body is refused: {error.message}")


def _check_depth(value: Any) -> None:
    """Level by level, not by recursion."""
    level = [value]
    for _ in range(DEPTH_MAX):
        deeper: list[Any] = []
        for one in level:
            if type(one) is dict:
                deeper += [item for item in one.values() if type(item) in _DEEP]
            elif type(one) in _DEEP:
                deeper += [item for item in one if type(item) in _DEEP]
        if not deeper:
            return
        level = deeper
    raise Problem(400, "body.depth", f"the body is nested more than {DEPTH_MAX} deep")


async def in_thread(make: Callable[[], T], asker: Asker) -> T:
    """What that makes, beside the loop. One at a time: all threads share the interpreter with the loop, which waits for each
    of them in turn whenever it has something to do. Two read a fifth more in a second, and a neighbour waited twice as long.
    Asker by asker: one that sends many would have everybody else wait behind all of them.
    """
    loop = asyncio.get_running_loop()
    line = _lines.get(loop)
    if line is None:
        line = _lines[loop] = FairLine(THREADS)
    async with line.passing(asker):
        return await asyncio.to_thread(make)


_lines: WeakKeyDictionary[asyncio.AbstractEventLoop, FairLine] = WeakKeyDictionary()


async def result_of(value: Any, media: bytes, asker: Asker) -> Answer:
    """The same as `result`: of a value with much in it, written in a thread, so that the loop goes on meanwhile."""
    return await in_thread(partial(result, value, media), asker) if weighs_more(value, LIGHT) else result(value, media)


_DEEP = frozenset({dict, list, tuple, set, frozenset})
_PLAIN = frozenset({type(None), bool, str})


def json_answer(value: Any, status: int = 200) -> Answer:
    """Rows, which are plain already."""
    return Answer(json_bytes(value), status)


def result(value: Any, media: bytes, status: int = 200) -> Answer:
    """The answer of an object: any value, for someone who reads JSON or our codec."""
    if media == MSGPACK:
        return Answer(encode({"result": value}), status, MSGPACK)
    return Answer(json_bytes({"result": value if type(value) in _PLAIN else plain(value)}), status)
