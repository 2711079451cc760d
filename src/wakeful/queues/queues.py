"""Layer 4. What can be done with queues: look at them, let nobody go, let them go again?"""

from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from wakeful.policy.queue_terms import opens_at
from wakeful.queues.feature import PAUSE, RESUME, unknown_queue
from wakeful.queues.records import STATE, TICKETS, QueueState, Ticket, decode_row
from wakeful.runtime.admission import QUEUES
from wakeful.runtime.object_runtime import NodeRuntime
from wakeful.store.protocol import Query, Range
from wakeful.values.commits import SYSTEM
from wakeful.values.errors import NotRunning
from wakeful.values.ids import ObjectId, check_key
from wakeful.values.times import to_datetime

if TYPE_CHECKING:
    from wakeful.store.protocol import Store

PAGE = 200
TICKETS_END = f"{TICKETS[:-1]};"  # right behind the names of all of them
LOOKED_PAST = 1_000  # of those that run; where more do, nobody says for how long the first has waited


class QueueInfo(Struct, frozen=True):
    """A queue, as it stood when it was looked at.

    >>> from wakeful import App, DurableObject, Queue
    >>> app = App()
    >>> @app.object
    ... class Mail(DurableObject):
    ...     async def send(self) -> None: ...
    >>> async with app.world() as world:
    ...     for key in ("ann", "bob", "eve"):
    ...         job = await app.jobs.schedule(app.get(Mail, key).send, queue=Queue("mail", rate="2/m"))
    ...     await world.advance("1s")
    ...     queue = await app.queues.get("mail")
    ...     print(queue.rate, queue.waiting, queue.admitted, queue.opens_at)
    2/m 1 2 2026-01-01 00:01:00+00:00
    """

    name: str
    running: int
    waiting: int
    paused_at: datetime | None
    note: str  # why it is paused
    opens_at: datetime | None  # when its rate lets the next go; None: it does
    concurrency: int | None
    rate: str | None
    key_concurrency: int | None
    key_rate: str | None
    throttle: str | None
    debounce_ms: int
    debounce_most_ms: int
    said_at: datetime | None  # when these limits were said; None: nobody has
    admitted: int  # since it began
    dropped: int
    replaced: int
    oldest_at: datetime | None  # since when the one waits that has waited for longest
    moved_at: datetime | None  # while somebody waits: since when nobody was let go


Infos = list[QueueInfo]


class QueueHome(Protocol):
    """The program whose queues these are."""

    @property
    def node(self) -> NodeRuntime | None: ...


class Queues:
    """`app.queues`: those that jobs of the program go through. There is one as soon as somebody has joined it."""

    __slots__ = ("_home",)

    def __init__(self, home: QueueHome) -> None:
        self._home = home

    async def get(self, name: str) -> QueueInfo:
        """How it stands on disk; `UnknownObject` when nothing has gone through one of that name."""
        node, id = self._node("get"), _id(name)
        home = node.home(id)
        return await home.reading(get_queue(home.store, name, home.clock.now()))

    async def list(self) -> Infos:
        """All there are, by name."""
        home = self._node("list").home(_id("all"))
        return await home.reading(list_queues(home.store, home.clock.now()))

    async def pause(self, name: str, note: str = "") -> bool:
        """Let nobody go until it is resumed. Who runs goes on, who comes waits. False: it was paused already."""
        return bool(await self._node("pause").send(_id(name), PAUSE, (note,), {}))

    async def resume(self, name: str) -> bool:
        """Those that wait go again, as its limits allow. False: it was not paused."""
        return bool(await self._node("resume").send(_id(name), RESUME, (), {}))

    def _node(self, what: str) -> NodeRuntime:
        node = self._home.node
        if node is None:
            raise NotRunning(f"app.queues.{what}: the app is not running; call it inside `async with app.run(…)`")
        return node


def _id(name: str) -> ObjectId:
    return ObjectId(QUEUES, check_key("queue", name))


async def get_queue(store: "Store", name: str, now: int) -> QueueInfo:
    """The queue of that name, or `UnknownObject`."""
    rows = await store.read(ObjectId(QUEUES, name), SYSTEM, [STATE[1]])
    if STATE[1] not in rows:
        raise unknown_queue(name)
    return await _info(store, name, decode_row(rows[STATE[1]], QueueState), now)


async def list_queues(store: "Store", now: int, most: int | None = None) -> list[QueueInfo]:
    """All that something has gone through, or so many of them, by name."""
    queues: list[QueueInfo] = []
    size = PAGE if most is None else min(PAGE, most)
    query = Query(cls=QUEUES, limit=size)
    while page := await store.find_objects(query):
        for info in page:
            rows = await store.read(info.id, SYSTEM, [STATE[1]])
            for data in rows.values():
                queues.append(await _info(store, info.id.key, decode_row(data, QueueState), now))
            if most is not None and len(queues) >= most:
                return queues
        if len(page) < size:
            break
        query = Query(cls=QUEUES, limit=size, after=page[-1].id)
    return queues


async def _oldest_at(store: "Store", name: str) -> int:
    """Since when the first waits: tickets are in the order in which they came, and those that run are looked past."""
    rows = await store.scan(ObjectId(QUEUES, name), SYSTEM, Range(TICKETS, TICKETS_END, False, LOOKED_PAST))
    for _, data in rows:
        ticket = decode_row(data, Ticket)
        if not ticket.running_at:
            return ticket.joined_at
    return 0


async def _info(store: "Store", name: str, state: QueueState, now: int) -> QueueInfo:
    terms, paused_at, said_at = state.terms, state.paused_at, state.said_at
    opens = opens_at(terms.rate, state.starts, now)
    oldest_at = await _oldest_at(store, name) if state.waiting else 0
    moved_at = state.moved_at if state.waiting else 0
    return QueueInfo(
        name=name,
        running=state.running,
        waiting=state.waiting,
        paused_at=to_datetime(paused_at) if paused_at else None,
        note=state.note,
        opens_at=to_datetime(opens) if opens else None,
        concurrency=terms.concurrency,
        rate=None if terms.rate is None else str(terms.rate),
        key_concurrency=terms.key_concurrency,
        key_rate=None if terms.key_rate is None else str(terms.key_rate),
        throttle=None if terms.throttle is None else str(terms.throttle),
        debounce_ms=terms.debounce_ms,
        debounce_most_ms=terms.debounce_most_ms,
        said_at=to_datetime(said_at) if said_at else None,
        admitted=state.admitted,
        dropped=state.dropped,
        replaced=state.replaced,
        oldest_at=to_datetime(oldest_at) if oldest_at else None,
        moved_at=to_datetime(moved_at) if moved_at else None,
    )
