"""What Wakeful answers to the scenarios."""

import time
from pathlib import Path
from typing import Any

from tests.workerd import stages
from wakeful.compat.workers import Request, load


async def answers(name: str, steps: list[tuple[Any, ...]]) -> dict[str, Any]:
    """One scenario in a world of its own; `time.time()` of the Worker's code is the world's."""
    worker = load(Path(stages.HERE) / "python")
    real = time.time
    try:
        async with worker.app.world() as world:
            time.time = lambda: world.now().timestamp()
            return await stages.played(stages.Wakeful(world, worker, Request), name, steps)
    finally:
        time.time = real
        worker.unload()
