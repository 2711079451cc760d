"""workerd, the runtime that Durable Objects come from: `sql.exec` in one object, asked over HTTP as ours is.

From npm as `make workerd` has it. A Worker has no clock that goes on while it runs, so what a thousand statements in one
event take is the difference of two requests.
"""

import shutil
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path

from bench.http import ask_callers
from bench.measures import Measure, median
from bench.places import TEMPORARY
from bench.sizes import Sizes
from bench.sql import HTTP_S, MANY
from tests.workerd.stages import Workerd, installed

DURABILITY = {"sqlite": "workerd's own (its local disk storage): an answer waits for its write"}
SOURCE = Path(__file__).with_name("workerd_shop")


async def run(url: str, sizes: Sizes) -> list[Measure]:
    TEMPORARY.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=TEMPORARY))
    workerd = Workerd(installed(Path(tempfile.gettempdir()) / "wakeful-workerd"), folder, SOURCE)
    workerd.start()
    try:
        said = await ask_callers(workerd.port, "inserter", 1, HTTP_S)
        note = f"one caller over HTTP, {said['statuses']}"
        return [Measure("sql.http", said["p50_ms"] * 1000, "µs", note), _many(workerd.port)]
    finally:
        workerd.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _many(port: int) -> Measure:
    """One statement of a thousand in one event."""
    connection = HTTPConnection("127.0.0.1", port)

    def ask(path: str) -> float:
        began = time.perf_counter()
        connection.request("POST", path, b"[]")
        connection.getresponse().read()
        return (time.perf_counter() - began) * 1e6

    one, many = (median([ask(path) for _ in range(20)]) for path in ("/more", "/many"))
    connection.close()
    return Measure("sql.many", (many - one) / (MANY - 1), "µs", f"of {MANY:,} in one event")
