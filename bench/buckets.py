"""What a bucket costs: requests and bytes of turns, of timers, and of a node that has nothing to do; and how fast it is.

    python -m bench.buckets --latency 30

On the emulator, so that the latency is that of the machine it runs on and what is said, and each request is counted.
"""

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from datetime import timedelta
from itertools import count, islice

from wakeful import App, DurableObject, ObjectId
from wakeful.runtime.node import Node
from wakeful.store.bucket import BucketStore
from wakeful.testing.buckets import EmulatedBucket
from wakeful.values.ids import shard_of

IDLE_S = 60
MONTH_S = 30 * 86_400


def program() -> tuple[App, type]:
    app = App()

    @app.object
    class Tally(DurableObject):
        async def add(self) -> int:
            self.storage.put("n", n := await self.storage.get("n", 0) + 1)
            return n

        async def arm(self, after_s: float) -> None:
            self.storage.set_alarm(timedelta(seconds=after_s))

        async def alarm(self) -> None:
            self.storage.put("rang", 1)

    return app, Tally


def said(what: str, count: int, took_s: float, before: Counter[str], bucket: EmulatedBucket) -> str:
    """One row: per million of what was done."""
    used = bucket.counts - before
    puts = used["create"] + used["put"]
    each = 1_000_000 / count
    return (
        f"| {what} | {count / took_s:,.0f}/s | {puts * each:,.0f} | {used['get'] * each:,.0f} | {used['list'] * each:,.0f} "
        f"| {used['sent'] * each / 1e6:,.0f} MB |"
    )


async def calls(bucket: EmulatedBucket, cache: str, callers: int, seconds: float) -> str:
    app, tally = program()
    done = 0
    async with app.run(bucket.url(cache=cache)):

        async def caller(n: int) -> None:
            nonlocal done
            while time.perf_counter() < until:
                await app.get(tally, f"{n}").add()
                done += 1

        before, began = bucket.counts.copy(), time.perf_counter()
        until = began + seconds
        await asyncio.gather(*(caller(n) for n in range(callers)))
        took = time.perf_counter() - began
        return said(f"calls that write, {callers} callers", done, took, before, bucket)


async def alarms(bucket: EmulatedBucket, cache: str, count: int) -> str:
    app, tally = program()
    async with app.run(bucket.url(cache=cache)) as node:
        await asyncio.gather(*(app.get(tally, f"{n}").arm(4) for n in range(count)))
        before, began = bucket.counts.copy(), time.perf_counter()
        while await node.store.count("timers"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return said(f"alarms that fall due, {count:,} at once", count, time.perf_counter() - began, before, bucket)


async def shared_calls(bucket: EmulatedBucket, cache: str, nodes: int, callers: int, seconds: float) -> str:
    """Calls of objects that each node owns itself."""
    done: Counter[int] = Counter()
    async with AsyncExitStack() as stack:
        apps = [program() for _ in range(nodes)]
        members = [await stack.enter_async_context(app.run(bucket.url(cache=cache))) for app, _ in apps]
        await balance(members)

        async def caller(n: int, key: str) -> None:
            app, tally = apps[n]
            while time.perf_counter() < until:
                await app.get(tally, key).add()
                done[n] += 1

        keys = [
            (n, key)
            for n, node in enumerate(members)
            for key in islice((f"{k}" for k in count() if shard_of(ObjectId("Tally", f"{k}")) in node.epochs), callers)
        ]
        before, began = bucket.counts.copy(), time.perf_counter()
        until = began + seconds
        await asyncio.gather(*(caller(n, key) for n, key in keys))
        took = time.perf_counter() - began
        row = said(f"the same, {nodes} nodes of {callers} callers each", sum(done.values()), took, before, bucket)
    return f"{row} ({', '.join(f'{done[n]:,}' for n in range(nodes))})"


async def balance(members: list[Node]) -> None:
    while max(len(node.epochs) for node in members) - min(len(node.epochs) for node in members) > 1:  # noqa: ASYNC110
        await asyncio.sleep(0.2)


async def idle(bucket: EmulatedBucket, cache: str, nodes: int, seconds: float) -> str:
    async with AsyncExitStack() as stack:
        apps = [program() for _ in range(nodes)]
        members = [await stack.enter_async_context(app.run(bucket.url(cache=cache))) for app, _ in apps]
        await balance(members)
        await asyncio.sleep(5)
        before = bucket.counts.copy()
        await asyncio.sleep(seconds)
        used = bucket.counts - before
    puts, gets = used["create"] + used["put"], used["get"]
    month = MONTH_S / seconds
    return (
        f"{nodes} idle for {seconds:.0f} s (a round every {BucketStore.rhythm.round_ms / 1_000:.0f} s): {puts} PUTs and {gets} GETs, {used['sent']} bytes sent; "
        f"a month: {puts * month:,.0f} PUTs, {gets * month:,.0f} GETs, {used['sent'] * month / 1e6:,.0f} MB"
    )


async def recovery(count: int, latency_s: float) -> str:
    bucket = EmulatedBucket(latency_s=latency_s)
    app, tally = program()
    with tempfile.TemporaryDirectory() as folder:
        async with app.run(bucket.url(cache=f"{folder}/a")) as node:
            for first in range(0, count, 5_000):
                await asyncio.gather(*(app.get(tally, f"{n}").arm(86_400) for n in range(first, first + 5_000)))
            assert await node.store.count("timers") == count
        wall, cpu = time.perf_counter(), time.process_time()
        async with app.run(bucket.url(cache=f"{folder}/b")):
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return f"a start with nothing but the bucket, {count:,} timers: {wall:.1f} s, {cpu:.1f} s of CPU"


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=30, help="milliseconds of each request")
    parser.add_argument("--seconds", type=float, default=10)
    asked = parser.parse_args()
    latency_s = asked.latency / 1_000
    print("| what | rate | PUTs | GETs | LISTs | sent |\n| --- | --- | --- | --- | --- | --- |")
    for callers in (1, 64, 1_000):
        with tempfile.TemporaryDirectory() as folder:
            print(await calls(EmulatedBucket(latency_s=latency_s), folder, callers, asked.seconds), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        print(await alarms(EmulatedBucket(latency_s=latency_s), folder, 5_000), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        print(await shared_calls(EmulatedBucket(latency_s=latency_s), folder, 3, 64, asked.seconds), flush=True)
    for nodes in (1, 3):
        with tempfile.TemporaryDirectory() as folder:
            print(await idle(EmulatedBucket(latency_s=latency_s), folder, nodes, IDLE_S), flush=True)
    print(await recovery(100_000, latency_s), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
