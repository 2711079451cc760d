"""Slots of a class move from server to server under load, on real nodes, and whoever moves them is killed again and again."""

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress

import httpx

from tests.live.cluster import fleet
from tests.live.harness import IS_LONG
from tests.live.programs import spread
from tests.yardstick import PATIENCE_S
from wakeful.policy.spread import Move
from wakeful.runtime.slot_move import MoveStep, SlotMover
from wakeful.runtime.spread_map import read_map
from wakeful.store import open_url
from wakeful.store.protocol import Query
from wakeful.store.slots import AWAY, HERE
from wakeful.values.errors import DeadlineExceeded, Unavailable
from wakeful.values.ids import ObjectId, shard_of

KILLS = 40 if IS_LONG else 3
SLOTS = 100 if IS_LONG else 6
KEYS = [f"o{n}" for n in range(120)]
CALLERS = 6


class Load:
    """Calls to all objects, each under a request key, so that one whose answer was lost is asked for again."""

    def __init__(self, app: spread.App) -> None:
        self.app = app
        self.added = Counter[str]()
        self.sent = 0
        self.errors = Counter[str]()
        self.slowest_s = 0.0
        self.is_over = False

    async def run(self, number: int) -> None:
        dice, count = random.Random(number), 0
        while not self.is_over:
            count += 1
            key = dice.choice(KEYS)
            await self.call(f"{number}-{count}", key, None)
            self.added[key] += 1
            await asyncio.sleep(0.01)  # the processor is for the nodes, and for others
            if count % 3 == 0:
                await self.call(f"{number}-{count}-sent", key, dice.choice(KEYS))
                self.sent += 1

    async def call(self, request: str, key: str, other: str | None) -> None:
        until = time.monotonic() + PATIENCE_S
        while True:
            began = time.monotonic()
            order = self.app.get(spread.Order, key, request_key=request, deadline="5s")
            try:
                await (order.add() if other is None else order.pass_on(other))
                return
            except (Unavailable, DeadlineExceeded) as error:
                self.errors[f"{type(error).__name__} {error.code}"] += 1
                if time.monotonic() > until:
                    raise
            finally:
                self.slowest_s = max(self.slowest_s, time.monotonic() - began)


def rebalance(base: str, *options: str) -> "subprocess.Popen[bytes]":
    servers = [part for name in spread.SERVERS for part in ("--server", f"{name}={spread.server_url(base, name)}")]
    command = [sys.executable, "-m", "wakeful.cli", "rebalance", "Order", *servers, *options, "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


async def end(mover: "subprocess.Popen[bytes]") -> str:
    out, _ = await asyncio.to_thread(mover.communicate, timeout=4 * PATIENCE_S)
    assert mover.returncode == 0, out.decode()
    return out.decode()


async def test_slots_move_under_load_and_movers_are_killed_and_nothing_is_lost_or_doubled(
    postgres_schema_url: str,
) -> None:
    base, dice = postgres_schema_url, random.Random(1)
    app = spread.make(base)
    with fleet(base, 2, program="spread.py", env={"WAKEFUL_SPREAD": base}):
        async with app.connect(base):
            load = Load(app)
            callers = [asyncio.create_task(load.run(n)) for n in range(CALLERS)]
            left = 0
            for _ in range(KILLS):
                left += await killed(base, dice)
            done = json.loads(await end(rebalance(base, "--without", "b", "--slots", str(SLOTS))))
            assert done["moved"] == SLOTS
            assert left > 0, "no mover was killed in the middle of anything"
            load.is_over = True
            await asyncio.gather(*callers)
            await settled(app, load)
            await check_rows(base)
            print(f"{left} of {KILLS} movers left something behind, {done}")
            print(
                f"{sum(load.added.values())} calls, {load.sent} sent, slowest {load.slowest_s:.2f} s, {dict(load.errors)}"
            )
            assert load.errors.keys() <= {"SlotMoved slot.moved"}


async def killed(base: str, dice: random.Random) -> int:
    """Let a mover begin to move slots and kill it; whether it left a move that had not ended."""
    mover = rebalance(base, "--without", dice.choice(spread.SERVERS))
    tables = await open_url(spread.server_url(base, "a")).open_slots()  # type: ignore[attr-defined]
    try:
        before = await read_map(tables)
        until = time.monotonic() + PATIENCE_S
        while (known := await read_map(tables)) is None or before is None or known.version < before.version + 2:
            assert mover.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < until, "it does not begin"
            await asyncio.sleep(0.01)
        await asyncio.sleep(dice.uniform(0, 0.3))
        assert mover.poll() is None, "it ended before it could be killed"
        mover.send_signal(signal.SIGKILL)
        await asyncio.to_thread(mover.communicate)
        known = await read_map(tables)
        assert known is not None
        return int(bool(known.moves or known.rests))
    finally:
        await tables.close()


async def settled(app: spread.App, load: Load) -> None:
    """Every object has what was acknowledged, once what was sent has arrived."""
    until = time.monotonic() + PATIENCE_S
    while True:
        sums = {key: await app.get(spread.Order, key).sums() for key in KEYS}
        if sum(taken for _, _, taken in sums.values()) >= load.sent or time.monotonic() > until:
            break
        await asyncio.sleep(0.2)
    assert {key: total for key, (total, _, _) in sums.items() if total} == dict(load.added)
    assert [sum(sent for _, sent, _ in sums.values()), sum(taken for _, _, taken in sums.values())] == [load.sent] * 2


async def check_rows(base: str) -> None:
    """Each slot is on one server, and nothing of it on the other."""
    here = Counter[int]()
    for name in spread.SERVERS:
        store = open_url(spread.server_url(base, name))
        await store.open(now=0, readonly=True)
        tables = await store.open_slots()  # type: ignore[attr-defined]
        try:
            states = {row.slot: row.state for row in await tables.slots()}
            assert set(states.values()) <= {HERE, AWAY}
            here.update(slot for slot, state in states.items() if state == HERE)
            found = await store.find_objects(Query(limit=1_000))
            assert {states[shard_of(info.id)] for info in found} <= {HERE}
        finally:
            await tables.close()
            await store.close()
    assert here == Counter(range(256))


class Killed(BaseException):
    """The mover is gone."""


async def test_who_asks_over_http_for_what_is_on_its_way_is_told_to_ask_again(postgres_schema_url: str) -> None:
    app = spread.make(postgres_schema_url)

    async def die_behind_the_fence(step: MoveStep) -> None:
        if step.step == "fence":
            raise Killed

    async with app.run(postgres_schema_url):
        tables = {
            name: await open_url(spread.server_url(postgres_schema_url, name)).open_slots()  # type: ignore[attr-defined]
            for name in spread.SERVERS
        }
        known = await read_map(tables["a"])
        assert known is not None
        slot = shard_of(ObjectId("Order", "o1"))
        source = known.slots[slot]
        [target] = [name for name in spread.SERVERS if name != source]
        transport = httpx.ASGITransport(app.asgi(dashboard=False), client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            call = "/v1/objects/Order/o1/add"
            assert (await client.post(call, json=[])).json() == {"result": 1}
            with suppress(Killed):
                await SlotMover(tables, "m1", sleep=asyncio.sleep, heard=die_behind_the_fence).move(
                    Move(slot, source, target, known.terms[slot] + 1)
                )
            refused = await client.post(call, json=[], headers={"Wakeful-Deadline": "1s"})
            assert (refused.status_code, refused.json()["code"]) == (503, "slot.moved")
            assert "Order/o1 is on its way from server" in refused.json()["detail"]
            assert int(refused.headers["Retry-After"]) >= 1
            waiting = asyncio.create_task(client.post(call, json=[], headers={"Wakeful-Deadline": "60s"}))
            await asyncio.sleep(0.3)
            assert not waiting.done()
            await SlotMover(tables, "m2", sleep=asyncio.sleep).resume()
            assert (await waiting).json() == {"result": 2}, "once, and what was refused was not begun"
        for one in tables.values():
            await one.close()
