"""Each example runs, prints what it promises, and is short enough to be read."""

import asyncio
import importlib.util
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.tidy import tidy_source as source

EXAMPLES = sorted((source.ROOT / "examples").glob("*.py"))
# Of each example that runs by itself, lines that it prints.
PROMISED = {
    "agent": [
        "waiting for 'allow buy' until 29 March",
        "done: one cup for 9",
        "nobody allowed me to buy",
        "['think', 'look up', 'think #2', 'allow buy', 'buy', 'think #3']",
    ],
    "chat": [
        'bob reads {"number": 1, "from": "ann", "text": "anybody here?"}',
        "awake after an hour: 0 connected: ['ann', 'bob']",
        'bob missed {"number": 2, "from": "ann", "text": "bob?"}',
        "refused: Room/lobby refuses the connection: ValueError: say who you are: ?name=… [socket.refused]",
    ],
    "catch_up": [
        "    17:00 run       at 17:00, answers for 4 since 13:00",
        "    16:00 run       at 16:30, answers for 4 since 13:00",
        "    13:00 coalesced at 16:30",
        "    15:00 run       at 16:30, answers for 3 since 13:00",
        "    13:00 too_late  at 16:30",
    ],
    "shop": [
        "refused: Shop/corner: UPDATE items SET qty = qty - ? WHERE name = ? RETURNING id: CHECK constraint failed: qty >= 0 [sql.constraint]",
        "for tea: ['cup (8)', 'pot (3)']",
        "sold: [('cup', 4), ('jug', 1)]",
    ],
    "tenant_cron": [
        "refused: tenant 'hobby' would have 3 schedules, its quota `schedules` is 2; cancel some, or raise it [quota.schedules]",
        "globex  report  at 09:00 from Monday to Friday, Asia/Tokyo time",
        "acme    194 runs, 0 paused, 0 missed",
        "globex  0 runs, 2 paused, 0 missed",
    ],
    "order": [
        "too little: placed True",
        "enough: paid",
        "Fri 13:00  o-2: thanks for 40",
        "Sat 12:00  o-1: expired, its goods are free again",
        "expired done {'total': 40, 'tries': 0}",
        "shipped done {'total': 40, 'tries': 1}",
    ],
    "report_dag": [
        "done after 1:01:50",
        "result: [5, 7] of 3 numbers",
        "calls:  extract 2, clean 1, audit 2, send 1",
        "2026-03-30T04:00:00+00:00 done",
    ],
}

WEB = ("web_django", "web_fastapi", "web_flask", "web_starlette")  # tests/http/test_frameworks.py sends them requests


def loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_short_and_tested(path: Path) -> None:
    assert 30 <= path.read_text(encoding="utf-8").count("\n") <= 80
    assert path.stem in PROMISED or path.stem in ("reminders", "demo", *WEB), "say here what it prints"


@pytest.mark.parametrize("name", PROMISED)
def test_an_example_prints_what_it_promises(name: str) -> None:
    program = source.ROOT / "examples" / f"{name}.py"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=True)
    printed = done.stdout.splitlines()
    assert [line for line in PROMISED[name] if line not in printed] == []


def test_the_demo_shows_what_its_first_lines_say() -> None:
    demo = loaded(source.ROOT / "examples" / "reminders.py")

    async def body() -> None:
        async with demo.app.world(start="2026-03-27T12:00:00+00:00") as world:
            await demo.on_start(demo.app)
            await world.advance("20s")
            assert len(await world.get(demo.Reminder, "tea").delivered()) == 4
            radio = await world.ledger(demo.Kitchen, "home", "radio")
            assert [run.verdict for run in radio] == ["paused"] * 5
            baked = [run.verdict for run in await world.ledger(demo.Oven, "home", "bake")]
            assert "run" in baked
            assert baked.count("overlap") >= 2 * baked.count("run")
            flaky = await world.ledger(demo.Errand, "flaky")
            assert [run.verdict for run in flaky] == ["failed", "failed", "run"]
            await demo.on_start(demo.app)  # a restart seeds nothing twice
            await world.crash()
            await world.restart(after="1m")
            await world.advance("5m")
            [parked] = await world.parked()
            assert (parked.timer.id.key, parked.attempts) == ("broken", 7)
            holiday = await demo.app.schedules(demo.Reminder, "holiday").get("say")
            assert holiday.next_at == datetime(2026, 3, 30, 12, tzinfo=UTC)

    asyncio.run(body())


def test_the_town_has_something_for_every_page() -> None:
    demo = loaded(source.ROOT / "examples" / "demo.py")

    async def body() -> None:
        async with demo.app.world(start="2026-03-27T12:00:00+00:00") as world:
            await demo.on_start(demo.app)
            await world.advance("10m")
            parked = sorted(row.timer.id.key for row in await world.parked())
            assert parked == ["ann", "lane-0", "lane-1", "lane-2"]
            bells = [run.verdict for run in await world.ledger(demo.Tower, "hall", "bell")]
            assert {"run", "overlap"} <= set(bells)
            assert {job.state for job in await demo.app.jobs.list()} == {"done", "failed", "scheduled", "waiting"}
            assert (await world.get(demo.Parcel, "eu/7").snapshot()).value == {"sent": "waiting"}
            await demo.on_start(demo.app)  # a restart sows nothing twice
            assert len(await demo.app.jobs.list()) == 5

    asyncio.run(body())
