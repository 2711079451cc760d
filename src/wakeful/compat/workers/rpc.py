"""Layer 5. How do stubs speak beyond calls with data: properties, functions, `RpcTarget`s, and what is not answered yet?

A call carries data. A function or an `RpcTarget` in it stays where it was made: what travels is the number of a loan, and
the other side gets an `RpcStub`, whose calls come back as events of the object that lent it, through its gates.
"""

import asyncio
import inspect
import weakref
from collections.abc import Callable, Collection, Coroutine, Generator, Mapping
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from wakeful.compat.workers.conduits import IDLE_MS, Conduits, conduits_of
from wakeful.compat.workers.failures import JsException, JsTypeError
from wakeful.compat.workers.sources import start_in
from wakeful.compat.workers.values import note_failure, result_of
from wakeful.compat.workers.web import Freight, pack, unpack
from wakeful.runtime.beside import come_back, continue_chain
from wakeful.runtime.events_turn import StandingTurn
from wakeful.runtime.turn import CURRENT
from wakeful.values.errors import Reentrancy, Unavailable
from wakeful.values.ids import ObjectId, shard_of

if TYPE_CHECKING:
    from wakeful.compat.workers.bindings.desk import BindingDesk
    from wakeful.runtime.node import Node
    from wakeful.runtime.object_runtime import ObjectRuntime

FEATURE = "workers.rpc"
REQUEST = "workers.rpc"  # what another node is asked to do with something lent
USE_MS = 24 * 3_600_000  # how long a call of something lent on another node may take
KEEP_MS = IDLE_MS // 3  # how often a node that has something of another says so
CIRCLES_MAX = 16  # how often functions that call each other may come back to their object, as calls may
SERVED_MAX = (
    512  # at once for other nodes: links take twice as many, and functions that wait for each other must not fill them
)
RUNNING_MAX = 10_000  # of one thing lent at once
USE, KEEP, DROP = "use", "keep", "drop"

Path = tuple[str, ...]
Given = tuple[tuple[Any, ...], dict[str, Any]]  # arguments of a call; None where a property is asked for
# Called by the runtime, or a part of every object, whatever class it is of.
_NOT_THEIRS = frozenset(
    {"alarm", "webSocketMessage", "webSocketClose", "webSocketError", "scheduled", "queue", "fetch"}
)


class RpcTarget:
    """A base for what is lent and not copied: whoever gets one gets a stub with its methods and properties.

    >>> from wakeful.compat.workers.rpc import RpcTarget
    >>> class Counter(RpcTarget):
    ...     def __init__(self):
    ...         self._value = 0
    ...     def increment(self, by=1):
    ...         self._value += by
    ...         return self._value
    >>> Counter().increment()
    1
    """


class Property:
    """A name of something elsewhere: called it is a method, awaited a property, and it has names of its own."""

    __slots__ = ("__name__", "_owner", "_path")

    def __init__(self, owner: Any, path: Path) -> None:
        self._owner = owner
        self._path = path
        self.__name__ = path[-1]

    def __call__(self, *args: Any, **kwargs: Any) -> "RpcPromise":
        made: RpcPromise = self._owner._use(self._path, (args, kwargs))
        return made

    def __await__(self) -> Generator[Any, Any, Any]:
        made: RpcPromise = self._owner._use(self._path, None)
        return made.__await__()

    def __getattr__(self, name: str) -> "Property":
        return Property(self._owner, (*self._path, _check_name(name)))

    def __repr__(self) -> str:
        return f"<{self._owner!r}.{'.'.join(self._path)}>"


class RpcPromise(asyncio.Task[Any]):
    """An answer on its way, awaited or not; its names can be used before it is there.

    Names that every task has (`cancel`, `done`, `result` and the like) are the task's: await it first.
    """

    def __getattr__(self, name: str) -> Property:
        return Property(self, (_check_name(name),))

    def _use(self, path: Path, given: Given | None) -> "RpcPromise":
        return promise(self._follow(path, given), f"{'.'.join(path)} of an answer")

    async def _follow(self, path: Path, given: Given | None) -> Any:
        found = await asyncio.shield(self)
        return await reach(found, path, given)


def promise(
    work: Coroutine[Any, Any, Any], what: str, keep: Callable[[asyncio.Task[Any]], None] | None = None
) -> RpcPromise:
    """Begin it now; if nobody awaits it, its failure is a line in the log and nothing else."""
    task = RpcPromise(work, loop=asyncio.get_running_loop())
    (keep or _hold)(task)
    task.add_done_callback(lambda done: note_failure(done, what))
    return task


_held: set[asyncio.Task[Any]] = set()


def _hold(task: asyncio.Task[Any]) -> None:
    _held.add(task)
    task.add_done_callback(_held.discard)


def _check_name(name: str) -> str:
    if name.startswith("_"):
        raise AttributeError(name)
    return name


# on the side of what is called


async def reach(target: Any, path: Path, given: Given | None) -> Any:
    """What is there under those names, called if anything is given."""
    for depth, name in enumerate(path):
        if hasattr(type(target), "_use"):
            return await target._use(path[depth:], given)
        target = member_of(target, name, is_root=depth == 0)
        if depth < len(path) - 1:
            target = await result_of(target)
    if given is None:
        return await result_of(target)
    if not callable(target):
        raise JsTypeError(f"{'.'.join(path) or 'what was lent'} is a {type(target).__name__}, and no function")
    args, kwargs = given
    return await result_of(target(*args, **kwargs))


def member_of(target: Any, name: str, *, is_root: bool) -> Any:
    """A method or property of a class that others may have; of data what it has under that name."""
    if isinstance(target, Mapping):
        if name in target:
            return target[name]
    elif (is_root or isinstance(target, RpcTarget)) and not name.startswith("_") and is_theirs(type(target), name):
        return getattr(target, name)
    raise JsTypeError(
        f'The RPC receiver does not implement the method "{name}": a {type(target).__name__} shows the methods and '
        "properties of its class, and what an instance keeps in attributes of its own stays with it"
    )


def is_theirs(cls: type, name: str) -> bool:
    """Callers may have it: it is in the class, or a base that is no part of the runtime."""
    found = inspect.getattr_static(cls, name, None)
    is_ours = hasattr(object, name) or name in _NOT_THEIRS
    return found is not None and not is_ours and cls.__module__ != "builtins"


def is_lent(value: Any) -> bool:
    """It can't be copied, and is lent instead."""
    return isinstance(value, RpcTarget | RpcStub | Property | partial) or inspect.isroutine(value)


class Loan:
    """A function or an `RpcTarget` that others may call where it is."""

    def __init__(self, target: Any, activation: "ObjectRuntime | None", loans: "Loans") -> None:
        self.target = target
        self.activation = activation
        self._loans = loans
        self._context = copy_context()
        self._turn = None if activation is None else activation.beside.turn  # of the copy that lent it
        self._holders = 0
        self._running = 0
        self._error: Exception | None = None

    def take(self) -> None:
        """Somebody has it; its object stays awake."""
        self._holders += 1
        if self._holders == 1:
            self._loans.live[self] = None
            if self.activation is not None:
                self.activation.hold_awake()

    def drop(self) -> None:
        """Somebody has it no more."""
        self._holders -= 1
        if self._holders == 0 and self._error is None:
            self._end()

    def cut(self, error: Exception) -> None:
        """Whoever has it is told this."""
        if self._error is None:
            self._error = error
            self._end()

    def _end(self) -> None:
        self._loans.live.pop(self, None)
        self.target = None
        if self.activation is not None:
            self.activation.let_sleep()

    async def use(self, chain: tuple[ObjectId, ...], path: Path, given: Any) -> Any:
        """Its answer, packed; as an event of the object that lent it."""
        if self._error is not None:
            raise self._error
        if self._turn is not None:
            self._turn.check_open()
        if self._running >= RUNNING_MAX:
            raise Reentrancy(
                f"a function that was lent runs {RUNNING_MAX} times at once; functions that wait for each other?"
            )
        self._running += 1
        task = start_in(self._context.copy(), self._answer(chain, path, given))
        if self._turn is not None:
            self._turn.works.add(task)
            task.add_done_callback(self._turn.works.discard)
        task.add_done_callback(self._on_end)
        await asyncio.wait([task])
        if task.cancelled():
            over = None if self._turn is None else self._turn.failure
            raise over or JsException("what was called was stopped")
        return task.result()

    def _on_end(self, _: Any) -> None:
        self._running -= 1

    async def _answer(self, chain: tuple[ObjectId, ...], path: Path, given: Any) -> Any:
        freight = self._loans.freight(self.activation)

        async def run() -> Any:
            found = await reach(self.target, path, unpack_call(given, freight))
            return pack(found, f"answer of {'.'.join(path) or 'a function'}()", freight)

        activation, turn = self.activation, self._turn
        if activation is None or turn is None:
            return await run()
        if chain.count(activation.id) > CIRCLES_MAX:
            raise Reentrancy(f"functions of {activation.id} wait for each other without end")
        continue_chain((*chain, activation.id))
        answer = await activation.beside.in_event(activation.instance._event(run))
        await turn.leave()  # what it wrote is on disk before its answer is heard
        return answer


class Loans:
    """What this node has lent, and what it has of others."""

    def __init__(self, node: "Node", desk: "BindingDesk", conduits: Conduits) -> None:
        self._node = node
        self._desk = desk
        self._conduits = conduits
        self._lent: dict[int, Loan] = {}  # by number, until somebody here takes it, or somebody elsewhere drops it
        self._expiries: dict[int, Any] = {}
        self.live: dict[Loan, None] = {}
        self._serving = 0  # calls from other nodes
        self.held: dict[Hold, None] = {}  # by objects of this node

    def freight(self, activation: "ObjectRuntime | None" = None) -> Freight:
        """What carries streams and functions of that object, or of the Worker."""

        def offer(stream: Any, hear: Any = None) -> list[Any]:
            return self._conduits.offer(stream, activation, hear)

        return Freight(
            offer,
            self._conduits.claim,
            lambda value: self.lend(value, activation),
            lambda sent: self.borrow(sent, activation),
        )

    def lend(self, value: Any, activation: "ObjectRuntime | None") -> list[Any] | None:
        """What to send in its place; None for what can only be copied."""
        if hasattr(type(value), "_reference"):
            return list(value._reference())
        if isinstance(value, Property) and hasattr(type(owner := value._owner), "_reference"):
            return ["member", owner._reference(), list(value._path)]
        if not is_lent(value):
            return None
        loan = value._hold.source if isinstance(value, RpcStub) else None
        if not isinstance(loan, Loan):
            loan = Loan(value, activation, self)
        number = int(self._node.dice.random() * (1 << 53))
        self._lent[number] = loan
        loan.take()
        self._expire_in(number, IDLE_MS)
        return ["lent", self._node.name, number]

    def borrow(self, sent: list[Any], activation: "ObjectRuntime | None") -> Any:
        """What was sent so, as this side has it: the object that it was sent to, or the Worker."""
        kind, *which = sent
        if kind == "member":
            return Property(self.borrow(which[0], activation), tuple(which[1]))
        if kind != "lent":
            return self._desk.references[kind](*which)
        name, number = which
        if name != self._node.name:
            return RpcStub(Hold(self, Elsewhere(self._node, name, number), activation))
        loan = self._lent.get(number)
        if loan is None:
            raise JsException("what was lent was not asked for in time, or was taken already")
        made = RpcStub(Hold(self, loan, activation))
        self._forget(number)
        return made

    async def answer(self, number: int, asked: str, *given: Any) -> Any:
        """What another node wants of something lent."""
        if asked == DROP:
            self._forget(number)
            return None
        loan = self._lent.get(number)
        if loan is None:
            raise Unavailable("what was lent is given back, or its node has started anew", code="workers.stream")
        self._expire_in(number, IDLE_MS)
        if asked == KEEP:
            return None
        chain, path, packed = given
        if self._serving >= SERVED_MAX:
            raise Unavailable(
                f"node {self._node.name} runs {SERVED_MAX} functions for other nodes", code="object.mailbox"
            )
        self._serving += 1
        try:
            return await loan.use(tuple(ObjectId(*one) for one in chain), tuple(path), packed)
        finally:
            self._serving -= 1

    def send_away(self, shards: Collection[int]) -> None:
        """What objects have lent must not keep them here."""
        for loan in list(self.live):
            if loan.activation is not None and shard_of(loan.activation.id) in shards:
                loan.cut(Unavailable(f"{loan.activation.id} has moved; ask again", code="object.moved"))
        for hold in list(self.held):
            if hold.activation is not None and shard_of(hold.activation.id) in shards:
                hold.end()

    def _expire_in(self, number: int, ms: int) -> None:
        if number in self._expiries:
            self._expiries[number].cancel()
        clock = self._node.clock
        self._expiries[number] = clock.call_at(clock.now() + ms, lambda: self._forget(number))

    def _forget(self, number: int) -> None:
        if number in self._expiries:
            self._expiries.pop(number).cancel()
            self._lent.pop(number).drop()


class Elsewhere:
    """Something that another node has lent."""

    def __init__(self, node: "Node", name: str, number: int) -> None:
        self._node = node
        self._name = name
        self._number = number
        self._holders = 0
        self._keeping: Any = None

    def take(self) -> None:
        self._holders += 1
        if self._keeping is None:
            self._keep_later()

    def drop(self) -> None:
        self._holders -= 1
        if self._holders == 0:
            self._keeping.cancel()
            self._say(DROP)

    async def use(self, chain: tuple[ObjectId, ...], path: Path, given: Any) -> Any:
        return await self._ask(USE, [[one.cls, one.key] for one in chain], list(path), given)

    def _keep_later(self) -> None:
        clock = self._node.clock
        self._keeping = clock.call_at(clock.now() + KEEP_MS, self._keep)

    def _keep(self) -> None:
        self._say(KEEP)
        self._keep_later()

    def _say(self, what: str) -> None:
        start_in(copy_context(), self._ask(what)).add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _ask(self, what: str, *given: Any) -> Any:
        node = self._node
        row = next((row for home in node.all_homes if (row := home.membership.nodes.get(self._name))), None)
        if row is None:
            raise Unavailable(f"node {self._name}, which lent this, is gone", code="workers.stream")
        return await node.routes.ask(row, REQUEST, self._number, what, *given, timeout_ms=USE_MS)


class Hold:
    """That somebody has something lent, until it is given back; an object that has it stays awake."""

    def __init__(self, loans: Loans, source: Loan | Elsewhere, activation: "ObjectRuntime | None") -> None:
        self.loans = loans
        self.source = source
        self.activation = activation
        self.is_over = False
        source.take()
        loans.held[self] = None
        if activation is not None:
            activation.hold_awake()

    def end(self) -> None:
        if self.is_over:
            return
        self.is_over = True
        del self.loans.held[self]
        self.source.drop()
        if self.activation is not None:
            self.activation.let_sleep()


class RpcStub:
    """Stands for something lent: called it is a function, and it has methods and properties.

    It is given back when nobody has it any more, or with `dispose()`; `dup()` is one that is given back on its own.
    """

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._end = weakref.finalize(self, _give_back, asyncio.get_running_loop(), hold)
        self._end.atexit = False

    def __call__(self, *args: Any, **kwargs: Any) -> RpcPromise:
        return self._use((), (args, kwargs))

    def __getattr__(self, name: str) -> Property:
        return Property(self, (_check_name(name),))

    def dup(self) -> "RpcStub":
        """Another one of the same."""
        self._check()
        return RpcStub(Hold(self._hold.loans, self._hold.source, self._hold.activation))

    def dispose(self) -> None:
        """Give it back: it can't be used any more."""
        self._end()

    destroy = dispose

    def __enter__(self) -> "RpcStub":
        return self

    def __exit__(self, *_: object) -> None:
        self.dispose()

    def __repr__(self) -> str:
        return "<RpcStub>"

    def _check(self) -> None:
        if not self._end.alive:
            raise JsException("the stub was given back with dispose(); dup() it before")

    def _use(self, path: Path, given: Given | None) -> RpcPromise:
        self._check()
        turn = CURRENT.get()
        freight = self._hold.loans.freight(turn.activation if isinstance(turn, StandingTurn) else None)
        packed = Packed(given, "a function", freight)
        return promise(self._ask(path, packed, freight), f"{'.'.join(path) or 'a function'} that was lent")

    async def _ask(self, path: Path, packed: "Packed", freight: Freight) -> Any:
        turn = CURRENT.get()
        chain: tuple[ObjectId, ...] = ()
        call = packed.take()
        if isinstance(turn, StandingTurn):
            chain = turn.path
            await turn.leave()
        try:
            return unpack(await self._hold.source.use(chain, path, call), freight)
        finally:
            await come_back()


def _give_back(loop: asyncio.AbstractEventLoop, hold: Hold) -> None:
    """From whatever thread found that nobody has it."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(hold.end)


def pack_call(given: Given | None, what: str, freight: Freight) -> Any:
    """Arguments as data; None for a property."""
    if given is None:
        return None
    args, kwargs = given
    return [
        [pack(one, f"arguments of {what}()", freight) for one in args],
        {key: pack(one, f"arguments of {what}()", freight) for key, one in kwargs.items()},
    ]


class Packed:
    """Arguments as they are when the call is made; what is wrong with them is told to who awaits it."""

    def __init__(self, given: Given | None, what: str, freight: Freight) -> None:
        self._error: Exception | None = None
        try:
            self._call = pack_call(given, what, freight)
        except Exception as error:
            self._error = error

    def take(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._call


def unpack_call(packed: Any, freight: Freight) -> Given | None:
    """What `pack_call` was given."""
    if packed is None:
        return None
    args, kwargs = packed
    return tuple(unpack(one, freight) for one in args), {key: unpack(one, freight) for key, one in kwargs.items()}


def loans_of(node: "Node | Any") -> Loans:
    """Those of the process that this node belongs to."""
    conduits_of(node)  # says so when nothing runs
    homes = node.homes
    found: Loans = (node if homes is None else homes.main).features[FEATURE]
    return found
