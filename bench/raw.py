"""How does a bare group commit look from asyncio? What a store can be measured against."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from bench.measures import Measure, rate
from bench.program import CLASS, DAY_MS, now_ms
from bench.sizes import Sizes
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import ALARM

ObjectRow = tuple[str, str, int, int]  # class, key, shard, now
TimerRow = tuple[str, str, str, int, int, int]  # class, key, name, shard, due_at, seq
Pair = tuple[ObjectRow, TimerRow]


def pair(prefix: str, number: int) -> Pair:
    """The two rows of one alarm a day ahead on a new object."""
    key = f"{prefix}-{number}"
    shard = shard_of(ObjectId(CLASS, key))
    now = now_ms()
    return (CLASS, key, shard, now), (CLASS, key, ALARM, shard, now + DAY_MS, number + 1)


def pairs(prefix: str, count: int) -> Iterator[Pair]:
    return (pair(prefix, number) for number in range(count))


class Group:
    """While one list of rows is on its way, the next gathers."""

    def __init__(self, write: Callable[[list[Pair]], Awaitable[None]]) -> None:
        self._write = write
        self._waiting: list[tuple[Pair, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def add(self, rows: Pair) -> None:
        """Return when the rows are on disk."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((rows, future))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._flush())
        await future

    async def _flush(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            await self._write([rows for rows, _ in group])
            for _, future in group:
                future.set_result(None)
        self._task = None


async def schedule(group: Group, sizes: Sizes) -> list[Measure]:
    """`schedule.N` as the works name it, by bare rows."""
    measures = []
    for callers in sizes.schedule_callers:

        async def one(number: int, callers: int = callers) -> None:
            await group.add(pair(f"raw{callers}", number))

        count = sizes.schedule_count if callers > 1 else max(1, sizes.schedule_count // 10)
        measures.append(await rate(f"schedule.{callers}", count, callers, one))
    return measures
