"""A program with schedules every second is killed with -9 again and again: every second has its verdict, and its effect once."""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.live.harness import IS_LONG
from tests.live.programs.ticker import OBJECTS, Ticker, app
from wakeful.schedules.queries import record_of
from wakeful.store.protocol import Query, Range, Store
from wakeful.values.codec import decode
from wakeful.values.commits import USER
from wakeful.values.ids import ObjectId

KILLS = 40 if IS_LONG else 6
PROGRAM = Path(__file__).parent / "programs" / "ticker.py"


def test_every_second_has_one_verdict_and_its_effect_once(url: str) -> None:
    seed = int(os.environ.get("WAKEFUL_SEED") or random.randrange(1 << 32))
    print(f"seed {seed}, {KILLS} kills")
    dice = random.Random(seed)
    for _ in range(KILLS):
        life = subprocess.Popen([sys.executable, str(PROGRAM), url], stdout=subprocess.PIPE, text=True)
        assert life.stdout is not None
        assert life.stdout.readline() == "up\n"
        time.sleep(dice.uniform(0.1, 1.5))
        life.kill()
        life.wait()
        life.stdout.close()
        time.sleep(dice.uniform(0, 1.0))
    asyncio.run(_check(url))


async def _check(url: str) -> None:
    async with app.run(url) as node:
        await asyncio.gather(*[app.get(Ticker, f"t{number}").start() for number in range(OBJECTS)])
        await asyncio.sleep(2.5)
        store = node.store
    await store.open(now=0, readonly=True)
    try:
        for number in range(OBJECTS):
            for name in ("tick", "shaky"):
                await _check_schedule(store, ObjectId("Ticker", f"t{number}"), name)
    finally:
        await store.close()


async def _check_schedule(store: Store, id: ObjectId, name: str) -> None:
    record = await record_of(store, id, name)
    entries = [
        entry
        for _, entry in await store.find_entries(Query(cls=id.cls, key=id.key, name=f"schedule:{name}", limit=100_000))
    ]
    final = [entry for entry in entries if entry.verdict != "failed"]
    since = record.version.since
    pending = {due.nominal_at for due in record.pending}
    owed = [at for at in range(since + 1_000, record.judged_to + 1, 1_000) if at not in pending]
    verdicts: Counter[int] = Counter()
    for entry in final:
        first = entry.first_at if entry.covers > 1 else entry.nominal_at
        verdicts.update(range(first, entry.nominal_at + 1, 1_000))
    assert len(owed) > KILLS
    assert verdicts == Counter(owed), f"{id} {name}: {verdicts - Counter(owed)} or {Counter(owed) - verdicts}"
    rows = {key: decode(data) for key, data in await store.scan(id, USER, Range())}
    ran = [entry for entry in final if entry.verdict == "run"]
    effects = {key: count for key, count in rows.items() if key.startswith(f"{name}:")}
    assert set(effects.values()) == {1}
    assert len(effects) == len(ran) == rows[f"runs:{name}"] == record.counters.runs
    if name == "tick":
        assert {entry.verdict for entry in final} == {"run"}, "each that was missed runs"
