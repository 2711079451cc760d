"""How fast is a Worker of Cloudflare's here, beside the real workerd in the same run?

`workers.one` and `workers.many`: writing requests to one object and to a thousand, over HTTP; `workers.set` and
`workers.fired`: alarms of new objects, set one by one and due at one instant; `workers.echo`: messages over sockets. Our
twin is Python, theirs JavaScript. The clients are one process, the same for both.
"""

import asyncio
import json
import shutil
import sys
import tempfile
from pathlib import Path

from bench.measures import Measure
from bench.places import ROOT, TEMPORARY
from bench.sizes import Sizes
from wakeful.compat.workers import load
from wakeful.compat.workers.site import serving

SECONDS = 3.0
SOURCE = Path(__file__).with_name("peers") / "workers_twin"
WHAT = {
    "one": "requests that write, 16 callers, one object",
    "many": "the same, a thousand objects",
    "set": "alarms of new objects",
    "fired": "of them, all due at one instant",
    "echo": "echoes, 16 sockets of one object",
}


async def run(url: str, sizes: Sizes) -> list[Measure]:
    worker = load(SOURCE)
    async with worker.app.run(url), serving(worker, "127.0.0.1:0") as address:
        ours = await _ask(int(address.rpartition(":")[2]))
    worker.unload()
    theirs = await _ask_workerd() if url.startswith("sqlite") else "it is compared on SQLite"
    return [Measure(f"workers.{name}", ours[name], "/s", _note(name, ours, theirs)) for name in WHAT]


def _note(name: str, ours: dict[str, float], theirs: dict[str, float] | str) -> str:
    if isinstance(theirs, str):
        return f"{WHAT[name]}; no workerd: {theirs}"
    return f"{WHAT[name]}; workerd {theirs[name]:,.0f}/s, {ours[name] / theirs[name]:.2f} times that"


async def _ask(port: int) -> dict[str, float]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.worker_callers",
        str(port),
        str(SECONDS),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError("the callers failed; see above")
    return dict(json.loads(said))


async def _ask_workerd() -> dict[str, float] | str:
    """What workerd does; in words why it can't be asked."""
    if shutil.which("npm") is None:
        return "it comes from npm, which is not here"
    from tests.workerd.stages import Workerd, installed

    TEMPORARY.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=TEMPORARY))
    try:
        binary = await asyncio.to_thread(installed, Path(tempfile.gettempdir()) / "wakeful-workerd")
    except (OSError, SystemExit) as error:
        return str(error)
    workerd = Workerd(binary, folder, SOURCE)
    workerd.start()
    try:
        return await _ask(workerd.port)
    finally:
        workerd.stop()
        shutil.rmtree(folder, ignore_errors=True)
