"""Layer 5. Through what does somebody look: the stores of a running program, or one that somebody else runs?"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from wakeful.store.protocol import ASIDE, Query, Store
from wakeful.values.errors import UnknownObject
from wakeful.values.ids import RESERVED, ObjectId

if TYPE_CHECKING:
    from wakeful.runtime.node import Node
    from wakeful.security.scopes import Caller
    from wakeful.security.veil import Veil
    from wakeful.values.commits import Info, Remembered

R = TypeVar("R")
T = TypeVar("T")

READS_MAX = 64  # that are on their way at once, or follow each other before others go on

# What keeps the functions on the app's clock: Wakeful's own, and yet what a person wrote. (A test holds it to be that;
# importing it from there would bring in the whole runtime, and a command wants to answer at once.)
FUNCTIONS = f"{RESERVED}Function"


class View:
    """What to look at: `View.of_node(node)`, or `View.of_store(store, now)` for someone who runs none."""

    def __init__(self, node: Any, running: "Node | None") -> None:
        self.node: Any = node  # or an onlooker, which has as much of one as reading needs
        self.running = running  # the node of this process, if there is one
        self.stores: list[Store] = [home.store for home in node.all_homes]
        self.veil: Veil | None = None
        self.shows_arguments = True  # what methods are called with; False: only how many arguments there are

    @classmethod
    def of_node(cls, node: "Node") -> "View":
        """Every store of the process."""
        return cls(node, node)

    @classmethod
    def for_caller(cls, node: "Node", caller: "Caller | None") -> "View":
        """The same, for somebody who may not know how much happens to others, or what methods are called with."""
        view = cls(node, node)
        view.veil = None if caller is None else caller.veil
        view.shows_arguments = caller is not None and caller.may("operate")
        return view

    @classmethod
    def of_store(cls, store: Store, now: int) -> "View":
        """One store at that time, beside whoever runs it."""
        return cls(Onlooker(store, now), None)

    @classmethod
    def of_stores(cls, stores: Sequence[Store], at: Callable[[ObjectId], Store], now: int) -> "View":
        """Several stores of one program at that time; `at` says in which an object lives."""
        return cls(Onlookers(stores, at, now), None)

    def now(self) -> int:
        """The time there, in milliseconds."""
        now: int = self.node.clock.now()
        return now

    def mask(self, number: int) -> int:
        """A number of the deployment, as whoever looks sees it."""
        return number if self.veil is None else self.veil.mask(number)

    def meant(self, number: int) -> int:
        """And which it is that they give."""
        return number if self.veil is None else self.veil.unmask(number)

    def store_of(self, id: ObjectId) -> Store:
        """The store that the object lives in."""
        store: Store = self.node.home(id).store
        return store

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Wide looks in here don't hold up the loop of a running node."""
        token = ASIDE.set(self.running is not None)
        try:
            yield
        finally:
            ASIDE.reset(token)

    async def breathe(self) -> None:
        """Let others go on: a store in this process answers without ever waiting."""
        await self.node.clock.sleep(0)

    async def together(self, reads: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """What many small reads answer, in their order: at once where that saves waiting, and never too many.

        Give them as a generator, so that none is made that is not awaited.
        """
        left, answers = iter(reads), list[T]()
        is_local = all(store.local for store in self.stores)
        while some := list(islice(left, 1 if is_local else READS_MAX)):
            if not len(answers) % READS_MAX:
                await self.breathe()
            answers += [await some[0]] if is_local else await asyncio.gather(*some)
        return answers

    async def each(self, make: Callable[[R], T], rows: Iterable[R]) -> list[T]:
        """What is made of each row, where others go on in between: a thousand rows of a page take tens of milliseconds."""
        found: list[T] = []
        for row in rows:
            if len(found) % READS_MAX == READS_MAX - 1:
                await self.breathe()
            found.append(make(row))
        return found

    async def info(self, id: ObjectId) -> "Info":
        """That the object is there, and how big; `UnknownObject` when it is not."""
        found = await self.store_of(id).find_objects(Query(cls=id.cls, key=id.key, limit=1))
        if not found:
            raise UnknownObject(f"there is no object {id}; wakeful ls {id.cls} shows which there are")
        return found[0]


class Onlooker:
    """As much of a node as reading needs, for someone who runs none."""

    def __init__(self, store: Store, now: int) -> None:
        self.store = store
        self.epochs: dict[int, int] = {}
        self.clock = self
        self.all_homes = [self]
        self._now = now

    def home(self, id: ObjectId) -> "Onlooker":
        return self

    def now(self) -> int:
        return self._now

    async def sleep(self, ms: int) -> None:
        """Nobody else wants to go on here."""

    async def reading(self, read: Coroutine[Any, Any, T]) -> T:
        return await read

    async def recall(self, id: ObjectId, key: str) -> "Remembered | None":
        return await self.store.recall(id, key, now=self._now)


class Onlookers(Onlooker):
    """The same of several stores, the first of them the main one."""

    def __init__(self, stores: Sequence[Store], at: Callable[[ObjectId], Store], now: int) -> None:
        super().__init__(stores[0], now)
        self._at = at
        self._homes = {id(store): Onlooker(store, now) for store in stores}
        self.all_homes = list(self._homes.values())

    def home(self, id_: ObjectId) -> Onlooker:
        return self._homes[id(self._at(id_))]

    async def recall(self, id: ObjectId, key: str) -> "Remembered | None":
        return await self.home(id).recall(id, key)


def is_shown(cls: str, asked: str | None = None) -> bool:
    """Whether rows of the class are for people: the program's own, its functions, and what was asked for by name."""
    return cls in (asked, FUNCTIONS) or not cls.startswith(RESERVED)
