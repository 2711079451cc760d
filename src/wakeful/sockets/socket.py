"""Layer 4. What does an object hold of a client that is connected to it?"""

from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from wakeful.runtime.turn import Done, RefusedWrite, Turn, running_turn
from wakeful.sockets import records as keeping
from wakeful.sockets.outbox import AUTO, CLOSE, SEND, effect, put
from wakeful.sockets.records import SocketRecord
from wakeful.values.codec import decode, encode
from wakeful.values.errors import BadInput, BadOption, BadValue, LimitExceeded, TurnOver

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import ObjectRuntime


# What does an object learn of who wants to connect?


@dataclass(frozen=True, slots=True)
class SocketRequest:
    """The request with which a socket was asked for. Names of headers are in small letters."""

    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    protocols: tuple[str, ...] = ()  # offered by the client; `on_connect` may return the one to speak
    address: str = ""  # of the client, as the server sees it
    caller: str = ""  # the name of the token with which it came

    def plain(self) -> dict[str, Any]:
        """As it travels to the object's node."""
        return asdict(self)


def request_of(given: Mapping[str, Any]) -> SocketRequest:
    """A request of these parts; `BadOption` names one that there is not."""
    known = [one.name for one in fields(SocketRequest)]
    unknown = sorted(given.keys() - set(known))
    if unknown:
        raise BadOption(f"a request has no {unknown[0]!r}; it has {', '.join(known)}", code="socket.request")
    parts: dict[str, Any] = {name: tuple(value) if name == "protocols" else value for name, value in given.items()}
    return SocketRequest(**parts)


FEATURE = "sockets"
TAGS_MAX = 10
TAG_CHARS_MAX = 256
ATTACHMENT_BYTES_MAX = 16_384
REASON_BYTES_MAX = 123  # what a close frame has room for
AUTO_CHARS_MAX = 2_048

Message = str | bytes
_DONE: Done[None] = Done(None)


class Socket:
    """A client's connection to this object. It stays while the object sleeps; hold it no longer than the turn.

    >>> from wakeful import App, DurableObject, Socket
    >>> app = App()
    >>> @app.object
    ... class Echo(DurableObject):
    ...     async def on_message(self, socket: Socket, message: str | bytes) -> None:
    ...         await socket.send(f"you said {message}")
    >>> async with app.world() as world:
    ...     client = await world.connect(Echo, "cave")
    ...     await client.send("hello")
    ...     await world.settle()
    ...     print(client.got)
    ['you said hello']
    """

    __slots__ = ("_activation", "_last", "id")

    def __init__(self, activation: "ObjectRuntime", id: str, last: SocketRecord | None = None) -> None:
        self._activation = activation
        self._last = last  # what it was, for `on_close`
        self.id = id

    def __repr__(self) -> str:
        return f"<Socket {self.id} of {self._activation.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Socket) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def state(self) -> str:
        """ "open", "closing" once this object closed it, "closed" in `on_close` and after."""
        kept = keeping.known(self._turn(), self.id)
        return "closed" if kept is None else "open" if kept.closing is None else "closing"

    @property
    def is_closed_here(self) -> bool:
        """The object has closed it, and its client did not leave by itself."""
        kept = keeping.known(self._turn(), self.id) or self._last
        return kept is not None and kept.closing is not None

    @property
    def tags(self) -> tuple[str, ...]:
        """What `ctx.sockets(tag)` finds it by. Assign to change them; saved with the turn."""
        return (keeping.known(self._turn(), self.id) or self._last or self._missing()).tags

    @tags.setter
    def tags(self, tags: Iterable[str]) -> None:
        turn = self._turn(writes=True)
        kept = keeping.known(turn, self.id) or self._missing()
        keeping.save(turn, self.id, msgspec.structs.replace(kept, tags=_checked_tags(self, tags)))

    @property
    def attachment(self) -> Any:
        """A value that goes with the socket, as its own copy. Assign to change it; saved with the turn."""
        data = (keeping.known(self._turn(), self.id) or self._last or self._missing()).attachment
        return None if data is None else decode(data)

    @attachment.setter
    def attachment(self, value: Any) -> None:
        turn = self._turn(writes=True)
        data = None if value is None else encode(value)
        if data is not None and len(data) > ATTACHMENT_BYTES_MAX:
            raise LimitExceeded(
                f"{self!r}: its attachment has {len(data)} bytes, {len(data) - ATTACHMENT_BYTES_MAX} more than the limit of "
                f"{ATTACHMENT_BYTES_MAX}; keep large data in storage",
                code="limit.attachment",
            )
        kept = keeping.known(turn, self.id) or self._missing()
        keeping.save(turn, self.id, msgspec.structs.replace(kept, attachment=data))

    def send(self, message: Message) -> Awaitable[None]:
        """Have the client get this once the turn is on disk; nothing when the socket is closing or gone."""
        turn = self._turn(writes=True)
        try:
            check_message(self._activation, message)
        except BadInput as error:
            return RefusedWrite(turn, error)
        kept = keeping.known(turn, self.id)
        if kept is not None and kept.closing is None:
            put(turn, self._feature, kept.gateway, effect(SEND, turn, [self.id], message=message))
        return _DONE

    def close(self, code: int = 1000, reason: str = "") -> Awaitable[None]:
        """Close it once the turn is on disk, behind what was sent before; `on_close` follows in a turn of its own."""
        turn = self._turn(writes=True)
        try:
            check_close(code, reason)
        except BadInput as error:
            return RefusedWrite(turn, error)
        return self.close_as(code, reason)

    def close_as(self, code: int, reason: str) -> Awaitable[None]:
        """As `close`, with what was checked already: 1005 is a close without a code."""
        turn = self._turn(writes=True)
        kept = keeping.known(turn, self.id)
        if kept is not None and kept.closing is None:
            keeping.save(turn, self.id, msgspec.structs.replace(kept, closing=(code, reason)))
            put(turn, self._feature, kept.gateway, effect(CLOSE, turn, [self.id], code=code, reason=reason))
        return _DONE

    @property
    def _feature(self) -> Any:
        return self._activation.node.features[FEATURE]

    def _turn(self, *, writes: bool = False) -> Turn:
        turn = running_turn(self._activation, "a socket")
        if writes:
            turn.check_writable()
        return turn

    def _missing(self) -> NoReturn:
        raise TurnOver(
            f"{self!r} is closed and forgotten; ask ctx.sockets() for those that are there", code="socket.closed"
        )


async def sockets_of(turn: Turn, tag: str | None = None) -> list[Socket]:
    """The object's sockets, those with the tag, in order of their connecting."""
    found = await keeping.load_all(turn)
    chosen = [(kept.seq, id) for id, kept in found.items() if tag is None or tag in kept.tags]
    return [Socket(turn.activation, id) for _, id in sorted(chosen)]


async def broadcast(turn: Turn, message: Message, tag: str | None, except_for: Iterable[Socket | str]) -> int:
    """Send to all open sockets of the object, or those with the tag; to how many."""
    turn.check_writable()
    check_message(turn.activation, message)
    spared = {one.id if isinstance(one, Socket) else one for one in except_for}
    by_gateway: dict[str, list[str]] = {}
    for id, kept in (await keeping.load_all(turn)).items():
        if kept.closing is None and id not in spared and (tag is None or tag in kept.tags):
            by_gateway.setdefault(kept.gateway, []).append(id)
    feature = turn.activation.node.features[FEATURE]
    for gateway, ids in by_gateway.items():
        put(turn, feature, gateway, effect(SEND, turn, ids, message=message))
    return sum(map(len, by_gateway.values()))


async def auto_response(turn: Turn, request: str | None, response: str | None) -> None:
    """Have gateways answer that very text with this one themselves; None: with nothing any more."""
    turn.check_writable()
    if (request is None) != (response is None):
        raise BadOption(
            f"{turn.activation.id}: give both the text and the answer, or None for both", code="socket.auto"
        )
    for text in (request, response):
        if text is not None and (not isinstance(text, str) or len(text) > AUTO_CHARS_MAX):
            raise BadOption(
                f"{turn.activation.id}: an automatic response takes texts of at most {AUTO_CHARS_MAX} characters",
                code="socket.auto",
            )
    auto = None if request is None or response is None else (request, response)
    summary = await keeping.summary_of(turn)
    if auto == summary.auto:
        return
    node = turn.activation.node
    number = node.next_seq(turn.activation.shard)
    keeping.save_summary(turn, msgspec.structs.replace(summary, auto=auto, number=number))
    feature = node.features[FEATURE]
    for gateway in {kept.gateway for kept in (await keeping.load_all(turn)).values()}:
        put(turn, feature, gateway, effect(AUTO, turn, [], auto=auto, number=number))


def check_message(activation: "ObjectRuntime", message: object) -> None:
    """`BadValue` unless it is text or bytes, `LimitExceeded` when it is too long."""
    if isinstance(message, str):
        try:
            size = len(message) if message.isascii() else len(message.encode())
        except UnicodeEncodeError:
            raise BadValue(f"{activation.id}: the message is not valid Unicode text", code="socket.message") from None
    elif isinstance(message, bytes):
        size = len(message)
    else:
        raise BadValue(
            f"{activation.id}: a socket takes text or bytes, not {type(message).__name__}; json.dumps(…) makes text",
            code="socket.message",
        )
    most = activation.node.limits.socket_message_bytes
    if size > most:
        raise LimitExceeded(
            f"{activation.id}: the message has {size} bytes, {size - most} more than the limit of {most}",
            code="limit.socket_message",
        )


def check_close(code: object, reason: object) -> None:
    """`BadOption` unless a close frame may carry them: RFC 6455 7.4 keeps the rest for itself."""
    if not isinstance(code, int) or not (code in _CODES or 3000 <= code <= 4999):
        raise BadOption(
            f"close code {code!r}: use 1000, 1001, 1003, 1007 to 1014, or 3000 to 4999", code="socket.close"
        )
    if not isinstance(reason, str) or len(reason.encode(errors="replace")) > REASON_BYTES_MAX or not _is_text(reason):
        raise BadOption(f"close reason {reason!r}: text of at most {REASON_BYTES_MAX} bytes", code="socket.close")


_CODES = frozenset({1000, 1001, 1003, *range(1007, 1015)})


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _checked_tags(socket: Socket, tags: Iterable[str]) -> tuple[str, ...]:
    unique = (tags,) if isinstance(tags, str) else tuple(dict.fromkeys(tags))
    if len(unique) > TAGS_MAX:
        raise LimitExceeded(f"{socket!r}: {len(unique)} tags, the limit is {TAGS_MAX}", code="limit.tags")
    for tag in unique:
        if not isinstance(tag, str) or not tag or not _is_text(tag):
            raise BadOption(f"{socket!r}: tag {tag!r} must be text", code="socket.tag")
        if len(tag) > TAG_CHARS_MAX:
            raise LimitExceeded(
                f"{socket!r}: tag {tag[:32]!r}… has {len(tag)} characters, the limit is {TAG_CHARS_MAX}",
                code="limit.tags",
            )
    return unique
