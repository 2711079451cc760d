"""A Worker from a text, in a virtual world whose time its code sees."""

import textwrap
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from wakeful.compat.workers import Worker, load
from wakeful.testing.world import World

WRANGLER = """
name = "sample"
main = "entry.py"
compatibility_date = "2026-03-01"

[[durable_objects.bindings]]
name = "SAMPLE"
class_name = "Sample"
"""


def write_worker(folder: Path, code: str, wrangler: str = WRANGLER) -> Path:
    (folder / "wrangler.toml").write_text(wrangler, encoding="utf-8")
    (folder / "entry.py").write_text(textwrap.dedent(code), encoding="utf-8")
    return folder


@asynccontextmanager
async def played(folder: Path, **options: Any) -> AsyncIterator[tuple[Worker, World]]:
    """The Worker of the folder, running; `time.time()` is the world's until it ends."""
    worker = load(folder)
    real = time.time
    try:
        async with worker.app.world(**options) as world:
            time.time = lambda: world.now().timestamp()
            yield worker, world
    finally:
        time.time = real
        worker.unload()
