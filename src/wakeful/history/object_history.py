"""Layer 4. How does an awake object keep what it was, and become that again?

Before a turn's commit is made, what it is about to change has to be known as it was: nearly always it is in memory, else
it is read. The image is rows of the same commit. A point can be gone back to as long as no image after it is missing;
from which one on that is so is a row of the object as well, which comes with it when it wakes.
"""

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from wakeful.history.images import (
    Image,
    TimerFields,
    bookmark,
    bookmark_after,
    check_point,
    is_kept,
    is_of_timers,
    is_own,
    point_of,
    read_images,
    rows_of,
    time_of,
    timer_fields,
    timer_of,
)
from wakeful.store.protocol import Query, Range
from wakeful.values.codec import decode, encode
from wakeful.values.commits import HISTORY, HISTORY_SLOT, MIGRATIONS_SLOT, PAGES, STATE_SLOT, SYSTEM, USER, Slot
from wakeful.values.errors import LimitExceeded
from wakeful.values.timers import ALARM, Timer

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import ObjectRuntime
    from wakeful.runtime.turn import Turn

PRUNED_ROWS = 64  # at most, in one commit
PRUNE_EVERY = 32  # commits; so that more goes than comes
SINGLY = 8  # timers that are asked for one by one; more are read with all of their kind
FOUND = 500  # timers or pages in one read
ENDED = "ended"  # instead of a bookmark: the class has no history any more, and its images are on their way out


class Wanted(NamedTuple):
    """What a turn wants its object to be when it ends."""

    turn: "Turn"
    mark: str
    timers: bool
    is_due: bool = False  # with its next commit, whether or not that is its last


class ObjectHistory:
    """The undo images of one awake object; `keep_ms` of 0: there are to be none any more."""

    __slots__ = (
        "_activation",
        "_by",
        "_expired",
        "_former_pages",
        "_former_timers",
        "_is_begun",
        "_is_last_of_them",
        "_keep_ms",
        "_last",
        "_since",
        "_stored",
        "_until_prune",
        "_wanted",
        "_went_to",
    )

    def __init__(self, activation: "ObjectRuntime", keep_ms: int) -> None:
        self._activation = activation
        self._keep_ms = keep_ms
        self._is_begun = False
        self._last = self._since = ""
        self._stored: str | None = None  # what is on disk of `_since`
        self._by = ""
        self._until_prune = 0
        self._expired: list[str] = []
        self._is_last_of_them = False
        self._former_timers: dict[str, Timer | None] = {}
        self._former_pages: dict[Slot, bytes] | None = None  # of a turn that goes back
        self._wanted: Wanted | None = None
        self._went_to = ""

    @property
    def is_on(self) -> bool:
        return self._keep_ms > 0

    # what the object asks

    async def last(self) -> str:
        """The bookmark of what its last commit left."""
        await self._begin()
        return self._last

    async def check(self, mark: str) -> None:
        """`UnknownPoint` when it can't be as it was then."""
        await self._begin()
        check_point(self._activation.id, mark, self._since, max(time_of(self._last), self._activation.node.clock.now()))

    def want(self, turn: "Turn", mark: str, *, timers: bool) -> None:
        """When the turn ends, the object is to be as it was at that point."""
        self._wanted = Wanted(turn, mark, timers)

    def hurry(self, turn: "Turn") -> bool:
        """The next commit of the turn is where it ends, though it will raise; whether it goes back with that."""
        wanted = self._wanted
        if wanted is None or wanted.turn is not turn:
            return False
        self._wanted = wanted._replace(is_due=True)
        return True

    async def prune(self, turn: "Turn") -> bool:
        """Have the turn's commit drop what is past keeping; whether there is something."""
        await self._begin()
        self._until_prune = 0
        await self._find_expired()
        if self._expired:
            self._until_prune = 0  # once more, before the commit
            turn.writes[HISTORY_SLOT] = encode(self._since)
        return bool(self._expired)

    # what its turns ask

    async def prepare(self, turn: "Turn", by: str, *, is_final: bool = True) -> None:
        """The turn is about to be committed: know what it changes as it was before, or what it goes back to."""
        wanted, self._went_to, self._former_pages = self._wanted, "", None
        is_back = wanted is not None and wanted.turn is turn and (is_final or wanted.is_due)
        if turn.is_reader or (turn.is_clean and not turn.state_used and not is_back):
            return
        self._by = by
        await self._begin()
        await self._find_expired()
        if is_back and wanted is not None:
            await self._go_back(turn, wanted)
        if self.is_on:
            await self._know_timers(turn)
            await self._know_rows(turn)

    def image(self, turn: "Turn", timers: dict[str, Timer | None]) -> dict[Slot, bytes | None]:
        """The rows that go with the turn's commit, which has these of its timers."""
        rows: dict[Slot, bytes | None] = {}
        if not self._is_begun:
            return rows  # of a reader, whose answer is remembered and nothing else
        if self.is_on:
            image = self._image(turn, timers)
            if image.rows or image.timers:
                self._last = bookmark_after(self._last, self._activation.node.clock.now())
                rows = rows_of(self._last, image)
        for name in self._expired:
            rows[HISTORY, name] = None
        self._expired = []
        self._write_mark(turn)
        return rows

    # below

    async def _begin(self) -> None:
        """Read where its history ends and from where on it is whole."""
        if self._is_begun:
            return
        activation = self._activation
        node, rows = activation.node, activation.rows
        data = await rows.read(HISTORY_SLOT)
        newest = await node.reading(node.store.scan(activation.id, HISTORY, Range(reverse=True, limit=1)))
        self._stored = None if data is None else decode(data)
        self._last = self._since = point_of(newest[0][0]) if newest else bookmark(0, 0)
        if self._stored is not None and self._stored != ENDED:
            self._since = self._stored
        elif newest or (await node.reading(node.store.load([activation.id])))[0].info is not None:
            self._since = bookmark_after(self._last, node.clock.now())  # it was something before that nobody noted
        self._last = max(self._last, self._since)
        self._is_begun = True

    async def _find_expired(self) -> None:
        """Now and then: which images are past keeping? Then the history begins after them."""
        self._expired = []
        self._until_prune -= 1
        if self._until_prune >= 0:
            return
        self._until_prune = PRUNE_EVERY
        activation = self._activation
        node = activation.node
        cutoff = max(self._since, bookmark(max(0, node.clock.now() - self._keep_ms), 0))
        upto = Range(last=cutoff if self.is_on else None, limit=PRUNED_ROWS)
        self._expired = [name for name, _ in await node.reading(node.store.scan(activation.id, HISTORY, upto))]
        self._is_last_of_them = len(self._expired) < PRUNED_ROWS
        if self._expired:
            self._until_prune = 0 if not self._is_last_of_them else self._until_prune
            self._since = max(self._since, point_of(self._expired[-1]))

    def _write_mark(self, turn: "Turn") -> None:
        since: str | None = self._since
        if not self.is_on:
            since = None if self._is_last_of_them else ENDED
        if since != self._stored:
            turn.writes[HISTORY_SLOT] = None if since is None else encode(since)
            self._stored = since

    # what was

    async def _know_rows(self, turn: "Turn") -> None:
        rows, most = self._activation.rows, self._activation.node.limits.history_bytes
        while True:
            if turn.wiped and rows.whole(USER) is None:
                await rows.gather(USER, most)
                if rows.whole(USER) is None:
                    raise self._too_large(f"more than {most}")
            slots = [STATE_SLOT, *turn.writes] if turn.state_used else turn.writes
            lacking = [slot for slot in slots if rows.lacks(slot)]
            if not lacking:
                return
            await rows.fetch(lacking)

    async def _know_timers(self, turn: "Turn") -> None:
        known = self._activation.timers
        former: dict[str, Timer | None] = {name: known[name] for name in turn.timers if name in known}
        if turn.consumed is not None:
            former[turn.consumed.name] = turn.consumed
        unknown = {name for name in turn.timers if name not in former and is_own(name)}
        if unknown:
            former |= dict.fromkeys(unknown) | await self._read_timers(unknown)
        self._former_timers = former

    async def _read_timers(self, names: set[str]) -> dict[str, Timer]:
        """Those that there are on disk."""
        id, node = self._activation.id, self._activation.node
        queries = [Query(cls=id.cls, key=id.key, name=name, limit=1) for name in names]
        if len(names) > SINGLY:
            kinds = {name.partition(":")[0] for name in names} - {ALARM}
            queries = [Query(cls=id.cls, key=id.key, name_prefix=f"{kind}:", limit=FOUND) for kind in kinds]
            if ALARM in names:
                queries.append(Query(cls=id.cls, key=id.key, name=ALARM, limit=1))
        timers: dict[str, Timer] = {}
        for query in queries:
            while page := await node.reading(node.store.find_timers(query)):
                timers.update({timer.name: timer for timer in page if timer.name in names})
                if len(page) < query.limit or query.limit == 1:
                    break
                query = replace(query, after=page[-1].sort_key)
        return timers

    def _image(self, turn: "Turn", timers: dict[str, Timer | None]) -> Image:
        """What the commit changes, as it was before; of what stays as it is, nothing."""
        activation = self._activation
        look, before = activation.rows.look, list[tuple[int, str, bytes | None]]()
        size = 0
        for slot, value in turn.writes.items():
            former = look(slot)
            if former != value and is_kept(slot):
                before.append((*slot, former))
                size += len(former or b"") if slot[0] != SYSTEM else 0  # which a timer that fails must be able to write
        if turn.wiped:
            for key, value in (activation.rows.whole(USER) or {}).items():
                if (USER, key) not in turn.writes:
                    before.append((USER, key, value))
                    size += len(value)
        if activation.unnumbered is not None:
            before.append((*MIGRATIONS_SLOT, None))
        for slot in turn.pages:
            former = self._former_page(slot)
            before.append((*slot, former))
            size += len(former or b"")
        if size > activation.node.limits.history_bytes:
            raise self._too_large(size)
        former_timers: dict[str, TimerFields | None] = {}
        for name, timer in timers.items():
            was = self._former_timers.get(name)
            if was is not timer and is_own(name):
                former_timers[name] = None if was is None else timer_fields(was)
        # Of who called only the class: a key would stay here when that object is forgotten.
        caller = turn.chain[-2].cls if len(turn.chain) > 1 else ""
        return Image(self._by, caller, before, former_timers, self._went_to)

    def _former_page(self, slot: Slot) -> bytes | None:
        if self._former_pages is not None:
            return self._former_pages.get(slot)
        assert self._activation.sql is not None
        return self._activation.sql.former(slot)

    def _too_large(self, size: object) -> LimitExceeded:
        return LimitExceeded(
            f"{self._activation.id}: what a turn changes would take {size} bytes of its history to undo, and the limit is "
            f"{self._activation.node.limits.history_bytes}; change less at once, or raise Limits(history_bytes=…)",
            code="limit.history_bytes",
        )

    # going back

    async def _go_back(self, turn: "Turn", wanted: Wanted) -> None:
        """In place of what the turn has written, have it write what the object was; then it wakes anew."""
        activation = self._activation
        node = activation.node
        await activation.settle()  # what is read here is what is on disk
        await self.check(wanted.mark)
        rows, timers = await self._as_it_was(wanted.mark)
        kept = {slot: value for slot, value in turn.writes.items() if not is_kept(slot)}
        own = turn.timers
        if wanted.timers:
            own = {name: timer for name, timer in own.items() if not is_own(name)}
            own |= {name: fields and timer_of(activation.id, name, fields) for name, fields in timers.items()}
        else:
            kept |= {slot: value for slot, value in turn.writes.items() if is_of_timers(slot)}
            rows = {slot: value for slot, value in rows.items() if not is_of_timers(slot)}
        turn.writes = kept | {slot: value for slot, value in rows.items() if slot[0] != PAGES}
        turn.pages = {slot: value for slot, value in rows.items() if slot[0] == PAGES}
        turn.timers, turn.wiped, turn.sql_writes, turn.state_used = own, False, 0, False
        names = [name for _, name in turn.pages]
        self._former_pages = {}
        for at in range(0, len(names), FOUND):
            found = await node.reading(node.store.read(activation.id, PAGES, names[at : at + FOUND]))
            self._former_pages |= {(PAGES, name): page for name, page in found.items()}
        if activation.sql is not None:
            activation.sql.undo()
        self._went_to, self._wanted = wanted.mark, None
        activation.put_to_sleep()

    async def _as_it_was(self, mark: str) -> tuple[dict[Slot, bytes | None], dict[str, TimerFields | None]]:
        """All that changed since, as it was then."""
        node = self._activation.node
        rows: dict[Slot, bytes | None] = {}
        timers: dict[str, TimerFields | None] = {}

        async def scan(*args: object) -> list[tuple[str, bytes]]:
            return await node.reading(node.store.scan(*args))  # type: ignore[arg-type]

        async for _, image in read_images(scan, self._activation.id, after=mark):
            # The oldest comes last, and counts. An image may have come in a file, with what no commit has.
            rows |= {(space, key): former for space, key, former in image.rows if is_kept((space, key))}
            timers |= {name: former for name, former in image.timers.items() if is_own(name)}
            await node.clock.sleep(0)
        return rows, timers
