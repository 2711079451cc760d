"""Layer 3. How does a slot go from one server to another while everything runs, and what if the mover dies?

| step  | what                                                        | who has the slot after it |
|-------|-------------------------------------------------------------|---------------------------|
| begin | the move is in the map                                      | the source                |
| seize | the target's row names this mover: only it writes there     | the source                |
| copy  | what is at the source is copied, while calls go on          | the source                |
| ask   | its owner lets the slot go, as to another node              | the source                |
| fence | the source bars the slot and raises its epoch               | nobody                    |
| catch | what differs is copied again, until nothing does            | nobody                    |
| land  | the target takes the slot, with an epoch above the source's | the target                |
| flip  | the map says so                                             | the target                |
| clear | what is left at the source is removed                       | the target                |
| end   | the map forgets the move                                    | the target                |

Every step is durable by itself and can be made again: a mover that was killed is taken up by the next, from the map.
Which server has a slot is what its row says there, and of two servers never both say that they do.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from wakeful.policy.spread import Move, SpreadMap, arrive, begin, end
from wakeful.runtime.spread_map import change_map, read_map
from wakeful.store.slots import SlotTables, StaleMove
from wakeful.values.errors import Conflict, StoreError
from wakeful.values.ids import ObjectId

CHUNK_IDS = 200  # objects that are compared and copied at once
COPIES_MAX = 4  # before the fence: each finds less than the one before, or there is more written than copied
FEW = 50  # objects that differ are soon copied
ASK_S = 0.02  # between looks at whether the owner has let the slot go; a turn that runs is waited for
STAMP_IDS = 5_000  # of which it is asked at once whether anything was written to them


class MoveStep(NamedTuple):
    """How far a move is, for whoever watches."""

    move: Move
    step: str
    objects: int = 0  # that were copied in it


Heard = Callable[[MoveStep], Awaitable[None]]


async def _nobody(step: MoveStep) -> None:
    pass


class SlotMover:
    """One mover, with a name that no other has; its servers by their names, the first of them with the map."""

    def __init__(
        self,
        servers: Mapping[str, SlotTables],
        name: str,
        *,
        sleep: Callable[[float], Awaitable[object]],
        heard: Heard = _nobody,
    ) -> None:
        self._servers = servers
        self._first = next(iter(servers.values()))
        self._name = f"mover:{name}"
        self._sleep = sleep
        self._stamps: dict[ObjectId, str] = {}  # of the slot that is under way: as it was when it was copied
        self._ids: set[ObjectId] = set()  # of that slot: all that were ever seen, here or there
        self._moment: str | None = None  # of the source, before these were looked for
        self._heard = heard

    async def take(self) -> None:
        """`Conflict` while another mover is at it: two would not harm each other, only get in each other's way. And while
        what is in a server is sealed anew: what came in behind that would stay under the older key.
        """
        for tables in self._servers.values():
            if not await tables.lock():
                raise Conflict(
                    f"another `wakeful rebalance`, or `wakeful keys rotate`, is at work on {tables.url}; try again when it is "
                    "through",
                    code="spread.busy",
                )

    async def known(self) -> SpreadMap:
        found = await read_map(self._first)
        if found is None:
            raise Conflict(
                f"{self._first.url} keeps no map of a spread; name the first server first", code="spread.first"
            )
        return found

    async def resume(self) -> int:
        """Bring to an end what others began; how many moves that were."""
        known = await self.known()
        for move in known.moves:
            await self._go(move)
        for move in (await self.known()).rests:
            await self._tidy(move)
        return len(known.moves) + len(known.rests)

    async def move(self, move: Move) -> None:
        """All steps of one."""
        await change_map(self._first, lambda known: begin(known, move))
        await self._heard(MoveStep(move, "begin"))
        await self._go(move)
        await self._tidy(move)

    async def _go(self, move: Move) -> None:
        source, target = self._servers[move.source], self._servers[move.target]
        self._stamps, self._ids, self._moment = {}, set(), None
        if await target.seize(move.slot, move.term, self._name):
            await self._heard(MoveStep(move, "seize"))
            copied = 0
            for _ in range(COPIES_MAX):
                copied += (some := await self._level(move, source, target))
                if some <= FEW:
                    break
            await self._heard(MoveStep(move, "copy", copied))
            while not await source.ask(move.slot, move.term):
                await source.tell()
                await self._sleep(ASK_S)
            await self._heard(MoveStep(move, "ask"))
            epoch = await source.fence(move.slot, move.term)
            await source.tell()
            await self._heard(MoveStep(move, "fence"))
            await self._heard(MoveStep(move, "catch", await self._catch_up(move, source, target)))
            await target.land(move.slot, move.term, self._name, above=epoch)
            await self._heard(MoveStep(move, "land"))
        await target.tell()
        await change_map(self._first, lambda known: arrive(known, move))
        await source.tell()
        await self._heard(MoveStep(move, "flip"))

    async def _catch_up(self, move: Move, source: SlotTables, target: SlotTables) -> int:
        """Copy what was written since it was copied, until nothing of that differs: nobody may write any more."""
        ids, copied = await self._names(move, source, target), 0
        for n in range(0, len(ids), STAMP_IDS):
            some = ids[n : n + STAMP_IDS]
            found = await source.stamps(some)
            # Of what a mover before this one copied there is no stamp, so it is compared.
            written = [id for id in some if id not in self._stamps or self._stamps[id] != found.get(id, "")]
            copied += await self._level_all(move, source, target, written)
            if await self._level_all(move, source, target, written):
                raise StoreError(
                    f"slot {move.slot} still differs between {source.url} and {target.url} after it was copied, though "
                    "nobody may write to it: this is a bug in Wakeful",
                    code="spread.differs",
                )
        await target.write_receipts(move.slot, self._name, await source.receipts(move.slot))
        return copied

    async def _names(self, move: Move, source: SlotTables, target: SlotTables) -> list[ObjectId]:
        """All names of both servers are looked through once, while calls go on; then only what was written since."""
        before, self._moment = self._moment, await source.moment()
        if before is None:
            for tables in (source, target):
                self._ids.update((await tables.ids([move.slot]))[move.slot])
        else:  # at the target nobody else writes
            self._ids.update(await source.changes(move.slot, before))
        return sorted(self._ids)

    async def _level(self, move: Move, source: SlotTables, target: SlotTables) -> int:
        """Make the slot of the target what it is at the source, while that goes on; of how many objects it was not."""
        ids, changed = await self._names(move, source, target), 0
        for n in range(0, len(ids), STAMP_IDS):
            some = ids[n : n + STAMP_IDS]
            found = await source.stamps(some)  # before it is read: what is written from here on has another
            written = [id for id in some if id not in self._stamps or self._stamps[id] != found.get(id, "")]
            changed += await self._level_all(move, source, target, written)
            self._stamps |= {id: found.get(id, "") for id in written}
        return changed

    async def _level_all(self, move: Move, source: SlotTables, target: SlotTables, ids: Sequence[ObjectId]) -> int:
        changed = 0
        for n in range(0, len(ids), CHUNK_IDS):
            changed += await self._level_some(move, source, target, ids[n : n + CHUNK_IDS])
        return changed

    async def _level_some(self, move: Move, source: SlotTables, target: SlotTables, ids: Sequence[ObjectId]) -> int:
        wanted, found = await source.digests(ids), await target.digests(ids)
        differ = [id for id in ids if wanted.get(id) != found.get(id)]
        if differ:
            pages = source.read(differ)
            try:
                await target.write(move.slot, self._name, differ, pages)
            finally:
                await pages.aclose()
        return len(differ)

    async def _tidy(self, move: Move) -> None:
        """Remove what is left at the source. By then it is nobody's: the slot lives at the target, by its row there."""
        source, target = self._servers[move.source], self._servers[move.target]
        if not any(row.slot == move.slot and row.state == 0 for row in await target.slots()):
            raise StaleMove(f"slot {move.slot} is not on {target.url}, so nothing of it is removed from {source.url}")
        if await source.seize_rest(move.slot, move.term, self._name):
            await source.clear(move.slot, self._name)
            await self._heard(MoveStep(move, "clear"))
        await change_map(self._first, lambda known: end(known, move))
        await self._heard(MoveStep(move, "end"))
