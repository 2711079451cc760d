"""How does a bare group commit look from asyncio? What a store can be measured against."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from bench.measures import Measure, rate
from bench.program import CLASS, DAY_MS, now_ms
from bench.sizes import Sizes
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import ALARM

ObjectRow = tuple[str, str, int, int]  # class, key, shard, now
TimerRow = tuple[str, str, str, int, int, int, bytes | None]  # class, key, name, shard, due_at, seq, payload
Pair = tuple[ObjectRow, TimerRow]


def pair(prefix: str, number: int) -> Pair:
    """The two rows of one alarm a day ahead on a new object."""
    key = f"{prefix}-{number}"
    shard = shard_of(ObjectId(CLASS, key))
    now = now_ms()
    return (CLASS, key, shard, now), (CLASS, key, ALARM, shard, now + DAY_MS, number + 1, None)


def job_pair(prefix: str, number: int) -> Pair:
    """The two rows of one job: its name and what it carries are as long as those of a job without options."""
    made, (cls, key, _, shard, due_at, seq, _) = pair(prefix, number)
    token = f"{number * 0x9E3779B97F4A7C15 % (1 << 80):020x}"
    kept = ["job", b"\1\x92\x91\0\x80", token, None, due_at, None, 365 * DAY_MS, due_at, *[None] * 9]
    return made, (cls, key, f"job:job:{token}", shard, due_at, seq, msgspec.msgpack.encode(kept))


# Rows of one transaction: as alarms, and as jobs.
BULKS: dict[str, Callable[[str, int], Pair]] = {"schedule.bulk": pair, "jobs.schedule.bulk": job_pair}


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
            try:
                await self._write([rows for rows, _ in group])
            except BaseException as error:
                for _, future in group:
                    future.set_exception(error)
                raise
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
