"""Layer 2. Does the other end belong to this cluster, and is it the node it should be?

Four messages: hello, challenge, proof, welcome. Each end gives a fresh nonce, and proves that it
has the cluster's secret by an HMAC over its role and everything said so far, so a proof is worth
nothing on another connection, in the other direction, or with anything changed. The secret itself
is never sent. The end that dials proves first: anyone can dial, few can make themselves dialled.
"""

import hmac
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from wakeful.transport.frames import Malformed
from wakeful.transport.protocol import VERSION, VERSION_OLDEST
from wakeful.values.errors import (
    BadOption,
    ClusterError,
    WakefulError,
    WrongCluster,
    WrongNode,
    WrongSecret,
    WrongVersion,
)

T = TypeVar("T")

MAGIC = "wakeful"
NONCE_BYTES = 32
# Long enough for names, and nothing for a stranger to fill memory with.
GREETING_BYTES_MAX = 4096
# A secret is guessed offline by whoever records a handshake, so it must not be a word.
SECRET_CHARS_MIN = 16


class Hello(Struct, array_like=True, tag=16):
    """The first word of the end that dials. Fields may be added at the end, never changed: all versions read it."""

    magic: str
    oldest: int
    newest: int
    cluster: str
    node: str
    expects: str  # the node that it wants to reach, empty: any
    has_secret: bool
    nonce: bytes


class Challenge(Struct, array_like=True, tag=17):
    version: int
    cluster: str
    node: str
    window: int
    has_secret: bool
    nonce: bytes


class Proof(Struct, array_like=True, tag=18):
    proof: bytes


class Welcome(Struct, array_like=True, tag=19):
    proof: bytes


class Refusal(Struct, array_like=True, tag=20):
    """Why not; `code` is that of the error which both ends raise."""

    code: str
    message: str


Greeting = Hello | Challenge | Proof | Welcome | Refusal
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Greeting] = msgspec.msgpack.Decoder(Greeting)
_REFUSALS: dict[str, type[WakefulError]] = {
    kind.default_code: kind for kind in (WrongSecret, WrongCluster, WrongVersion, WrongNode)
}


class Greeter(Protocol):
    """Frames, one by one, before there is a link."""

    def send_body(self, body: bytes) -> None: ...

    async def next_body(self) -> bytes: ...


class Identity(Struct, frozen=True):
    """Who this node is, for other nodes."""

    node: str
    cluster: str
    secret: str | None = None
    oldest: int = VERSION_OLDEST
    newest: int = VERSION

    def prove(self, role: bytes, hello: bytes, challenge: bytes) -> bytes:
        """The proof of the end in that role, for that conversation."""
        mac = hmac.new((self.secret or "").encode(), digestmod="sha256")
        for part in (MAGIC.encode(), role, hello, challenge):
            mac.update(len(part).to_bytes(4, "big") + part)
        return mac.digest()

    def __repr__(self) -> str:  # a log must not have the secret
        return f"Identity({self.node} of {self.cluster!r})"


def check_secret(secret: str | None) -> str | None:
    """The secret, if it can be one."""
    if secret is not None and len(secret) < SECRET_CHARS_MIN:
        raise BadOption(
            f"a cluster secret of {len(secret)} characters can be guessed; take at least {SECRET_CHARS_MIN}, "
            "for example from `openssl rand -hex 32`",
            code="option.secret",
        )
    return secret


async def dial(greeter: Greeter, me: Identity, *, nonce: bytes, expects: str | None, address: str) -> Challenge:
    """Introduce this node to the one there and make sure of it; what it says of itself."""
    hello = _encoder.encode(
        Hello(MAGIC, me.oldest, me.newest, me.cluster, me.node, expects or "", me.secret is not None, nonce)
    )
    greeter.send_body(hello)
    challenge_body = await greeter.next_body()
    challenge = _expect(challenge_body, Challenge, address)
    try:
        if not me.oldest <= challenge.version <= me.newest:
            raise _versions(challenge.node, challenge.version, challenge.version, me)
        _check_cluster(challenge.node, challenge.cluster, me)
        if expects is not None and challenge.node != expects:
            raise WrongNode(f"node {challenge.node} answers at {address}, not {expects}; try again")
        _check_has_secret(challenge.node, challenge.has_secret, me)
        _check_nonce(challenge.nonce, nonce)
        greeter.send_body(_encoder.encode(Proof(me.prove(b"dialler", hello, challenge_body))))
        welcome = _expect(await greeter.next_body(), Welcome, address)
        if not hmac.compare_digest(welcome.proof, me.prove(b"acceptor", hello, challenge_body)):
            raise _other_secret(challenge.node, me)
    except WakefulError as error:
        _refuse(greeter, error)
        raise
    return challenge


async def accept(greeter: Greeter, me: Identity, *, nonce: bytes, window: int) -> Hello:
    """Make sure of whoever dialled; what it says of itself. Refusals are told and raised."""
    hello_body = await greeter.next_body()
    hello = _expect(hello_body, Hello)
    if hello.magic != MAGIC:
        raise Malformed("a hello of something else")
    try:
        if hello.newest < me.oldest or hello.oldest > me.newest:
            raise _versions(hello.node, hello.oldest, hello.newest, me)
        _check_cluster(hello.node, hello.cluster, me)
        if hello.expects and hello.expects != me.node:
            raise WrongNode(f"node {hello.node} looked for {hello.expects} and found {me.node}; try again")
        _check_has_secret(hello.node, hello.has_secret, me)
        _check_nonce(hello.nonce, nonce)
        version = min(hello.newest, me.newest)
        challenge = _encoder.encode(Challenge(version, me.cluster, me.node, window, me.secret is not None, nonce))
        greeter.send_body(challenge)
        proof = _expect(await greeter.next_body(), Proof)
        if not hmac.compare_digest(proof.proof, me.prove(b"dialler", hello_body, challenge)):
            raise _other_secret(hello.node, me)
    except WakefulError as error:
        _refuse(greeter, error)
        raise
    greeter.send_body(_encoder.encode(Welcome(me.prove(b"acceptor", hello_body, challenge))))
    return hello


def _expect(body: bytes, kind: type[T], address: str = "") -> T:
    """The greeting that should come now; the error that the other end raised when it refuses instead."""
    try:
        greeting = _decoder.decode(body)
    except (msgspec.DecodeError, ValueError) as error:
        raise Malformed(f"a frame that is no greeting: {error}") from None
    if isinstance(greeting, kind):
        return greeting
    if isinstance(greeting, Refusal):
        if kind is Hello:
            raise Malformed("a refusal before anything was said")
        # By its code it is counted, so only what we know is a code: a stranger could name as many as it likes.
        error_kind = _REFUSALS.get(greeting.code, ClusterError)
        where = f" at {address}" if address else ""
        raise error_kind(
            f"refused by the other node{where}: {_printable(greeting.message)}", code=error_kind.default_code
        )
    raise Malformed(f"a {type(greeting).__name__} where a {kind.__name__} should be")


def _refuse(greeter: Greeter, error: WakefulError) -> None:
    greeter.send_body(_encoder.encode(Refusal(error.code, error.message)))


# The same words go to both ends, so they name both.


def _check_cluster(node: str, cluster: str, me: Identity) -> None:
    if cluster != me.cluster:
        raise WrongCluster(
            f"node {node!r} is in cluster {cluster!r} and node {me.node!r} in cluster {me.cluster!r}; "
            "give both the same name, or a store of their own"
        )


def _check_has_secret(node: str, has_secret: bool, me: Identity) -> None:
    if has_secret != (me.secret is not None):
        without = me.node if has_secret else node
        raise WrongSecret(f"node {without!r} has no cluster secret and the other has; give both the same")


def _check_nonce(theirs: bytes, mine: bytes) -> None:
    # One's own nonce coming back is one's own words coming back.
    if len(theirs) != NONCE_BYTES or theirs == mine:
        raise Malformed("a nonce that is none")


def _other_secret(node: str, me: Identity) -> WrongSecret:
    return WrongSecret(f"nodes {node!r} and {me.node!r} have different cluster secrets; give both the same")


def _versions(node: str, oldest: int, newest: int, me: Identity) -> WrongVersion:
    def spoken(first: int, last: int) -> str:
        return str(first) if first == last else f"{first} to {last}"

    return WrongVersion(
        f"node {node!r} speaks version {spoken(oldest, newest)} of the protocol between nodes and node {me.node!r} "
        f"{spoken(me.oldest, me.newest)}; upgrade the older one, by one release at a time"
    )


def _printable(text: str) -> str:
    """What a stranger said, harmless in a log."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
