"""SQLite on a full disk: writes are refused with a typed error, nothing acknowledged is lost, and it goes on by itself."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.live.disks import quota, tmpfs
from tests.live.harness import check_async, settle
from tests.live.programs.tally import Load
from tests.live.stage import Stage

FILLS = 3
WAIT_MS = 3_000  # the first commit that fails may be an alarm's, and then every caller waits for so long


@pytest.mark.parametrize("kind", [tmpfs, quota])
async def test_full_disk_refuses_and_resumes(kind: type, tmp_path: Path) -> None:
    with kind(tmp_path / "disk") as disk:
        stage = Stage(f"sqlite:{disk.folder}/live.db", store_wait_ms=WAIT_MS)
        async with stage.app.run(stage.url) as node:
            load = Load(stage.app, stage.tally, stage.note, run="d", pause_s=0.01)
            load.start(4)
            await stage.acked_since(0, 50)
            for number in range(FILLS):
                refused = stage.refusals
                disk.fill()
                # What is under way is refused, the next ones wait for a while: a disk may have room again.
                await stage.until(lambda: stage.refusals > refused, f"fill {number}: nobody was refused")  # noqa: B023
                seen = len(stage.book.seen)
                disk.free()
                await stage.acked_since(time.monotonic(), 50)
                assert node.state == "up"
                assert len(stage.book.seen) > seen
            await load.stop()
        assert set(stage.book.refused) <= {"store.down", "unavailable"}, stage.book.refused
        await asyncio.to_thread(settle, stage.url, stage.book)
        sums = await check_async(stage.url, stage.book, allow_platform_failures=True)
    print(f"{FILLS} fills, {len(stage.book.acked)} acknowledged, refused {stage.book.refused}; {sums}")


async def test_stop_on_a_full_disk_is_clean_and_the_next_start_goes_on(tmp_path: Path) -> None:
    with quota(tmp_path / "disk") as disk:
        stage = Stage(f"sqlite:{disk.folder}/live.db", store_wait_ms=WAIT_MS)
        async with stage.app.run(stage.url):
            load = Load(stage.app, stage.tally, stage.note, run="s", pause_s=0.01)
            load.start(4)
            await stage.acked_since(0, 50)
            disk.fill()
            await stage.until(lambda: stage.refusals > 0, "nobody was refused")
        disk.free()
        stopping = asyncio.create_task(load.stop())
        async with stage.app.run(stage.url):
            await stopping
        await asyncio.to_thread(settle, stage.url, stage.book)
        await check_async(stage.url, stage.book, allow_platform_failures=True)
