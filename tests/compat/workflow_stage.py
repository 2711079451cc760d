"""A Worker of one workflow, with a body from a text, in a virtual world."""

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.compat.workers_stage import played, write_worker

WRANGLER = """
name = "sample"
main = "entry.py"
compatibility_date = "{date}"

[[workflows]]
binding = "FLOW"
name = "flow"
class_name = "Flow"
{more}
"""
HEAD = """
import asyncio
from datetime import timedelta
from workers import WorkerEntrypoint, WorkflowEntrypoint
from workers.workflows import NonRetryableError

DID = []
SEEN = []

class Default(WorkerEntrypoint):
    pass
"""
LEGACY, IMPLICIT = "2026-02-24", "2026-06-01"


@asynccontextmanager
async def running(
    folder: Path, body: str, *, date: str = IMPLICIT, more: str = "", **options: Any
) -> AsyncIterator[tuple[Any, Any, Callable[..., Any]]]:
    """A Worker whose one workflow has this body, and what starts an instance of it and lets it go on until it rests."""
    code = f"{HEAD}\nclass Flow(WorkflowEntrypoint):\n    async def run(self, event, step):\n"
    code += "".join(f"        {line}\n" for line in body.strip("\n").splitlines())
    numbers = itertools.count(1)
    async with played(write_worker(folder, code, WRANGLER.format(date=date, more=more)), **options) as (worker, world):

        async def begin(params: Any = None, **given: Any) -> Any:
            made = await worker.env.FLOW.create({"id": f"i{next(numbers)}", "params": params, **given})
            await world.settle()
            return made

        yield worker, world, begin


async def output_of(instance: Any) -> Any:
    """What it came to."""
    told = await instance.status()
    assert told.status == "complete", told
    return told.output
