"""What a bucket costs: requests and bytes of turns, of timers, and of a node that has nothing to do; and how fast it is.

    python -m bench.buckets --latency 30

On the emulator, so that the latency is that of the machine it runs on and what is said, and each request is counted.
"""

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from datetime import timedelta

from wakeful import App, DurableObject
from wakeful.store.bucket.owners import BEAT_S
from wakeful.testing.buckets import EmulatedBucket

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


async def idle(bucket: EmulatedBucket, cache: str, seconds: float) -> str:
    app, _ = program()
    async with app.run(bucket.url(cache=cache)):
        await asyncio.sleep(1)
        before = bucket.counts.copy()
        await asyncio.sleep(seconds)
        used = bucket.counts - before
    puts, gets = used["create"] + used["put"], used["get"]
    month = MONTH_S / seconds
    return (
        f"idle for {seconds:.0f} s (a beat every {BEAT_S:.0f} s): {puts} PUTs and {gets} GETs, {used['sent']} bytes sent; "
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
        print(await idle(EmulatedBucket(latency_s=latency_s), folder, 3 * BEAT_S), flush=True)
    print(await recovery(100_000, latency_s), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
