"""What do workflows that sleep cost: on disk, at the start of a node, in its memory, and how fast do they go on?

`python -m tests.live.asleep --store sqlite:/tmp/asleep.db --count 100000`. The store must be new. Each part runs in a
process of its own: memory that was used and freed before would hide what the node takes.
"""

import asyncio
import gc
import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from wakeful import App, Limits, Step, Workflow

ROOT = Path(__file__).parents[2]
AT_ONCE = 256
PAGE = 4_096  # what /proc counts in, here


async def work(n: int) -> dict[str, int]:
    return {"customer": n}


class Onboarding(Workflow):
    """One step, then it sleeps for a month, one more."""

    async def run(self, step: Step, n: int) -> int:  # type: ignore[override]
        user = await step("create", work, n)
        await step.sleep("cool down", "30d")
        await step("mail", work, n)
        return int(user["customer"])


def make_app() -> App:
    app = App(limits=Limits(awake_objects=2_000))
    app.object(Onboarding)
    return app


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


async def fill(url: str, count: int) -> dict[str, Any]:
    """Start so many, and let all of them fall asleep."""
    app = make_app()
    room = asyncio.Semaphore(AT_ONCE)

    async def begin(n: int) -> None:
        async with room:
            await app.get(Onboarding, f"w{n}").start(n)

    began = time.perf_counter()
    async with app.run(url):
        await asyncio.gather(*(begin(n) for n in range(count)))
        started_s = time.perf_counter() - began
        while await app.workflows.list(state="running", limit=1):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.2)
        asleep_s = time.perf_counter() - began
    return {"started_per_s": round(count / started_s), "asleep_after_s": round(asleep_s, 1)}


async def start(url: str, count: int) -> dict[str, Any]:
    """Start a node on them, and ask one how it stands."""
    app = make_app()
    size = sum(file.stat().st_size for file in Path(url.removeprefix("sqlite:")).parent.glob("*.db*"))
    gc.collect()
    before, began = resident_bytes(), time.perf_counter()
    async with app.run(url) as node:
        status = await app.get(Onboarding, f"w{count // 2}").status()
        took_ms = (time.perf_counter() - began) * 1000
        assert status.state == "sleeping", status
        assert status.wake_at is not None
        assert status.wake_at > datetime.now(UTC)
        await asyncio.sleep(2)  # the near future has been read
        grown, drivers = resident_bytes() - before, len(node.features["workflows"].drivers)
    return {
        "start_ms": round(took_ms, 1),
        "grown_mb": round(grown / 1e6, 1),
        "awake": len(node.awake),
        "bodies": drivers,
        "disk_bytes_each": round(size / count),
    }


@click.command()
@click.option("--store", "url", required=True, help="sqlite:PATH of a new file in a folder of its own.")
@click.option("--count", default=100_000, show_default=True)
@click.option("--part", type=click.Choice(["fill", "start"]), help="Only this one, in this process.")
def main(url: str, count: int, part: str | None) -> None:
    """Measure workflows that sleep."""
    if part is not None:
        print(json.dumps(asyncio.run({"fill": fill, "start": start}[part](url, count))))
        return
    for name in ("fill", "start"):
        command = [sys.executable, "-m", "tests.live.asleep", "--store", url, "--count", str(count), "--part", name]
        done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        print(name, done.stdout.strip(), flush=True)


if __name__ == "__main__":
    main()
