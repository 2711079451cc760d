"""A stop that is asked for loses nothing and leaves nothing behind; a freeze is only a delay."""

import asyncio
import signal
import time
from pathlib import Path

from tests.live.harness import PROGRAMS, Book, Child, check, child, looking, settle
from tests.yardstick import Yardstick
from wakeful.store import Store
from wakeful.store.protocol import Query
from wakeful.store.sqlite import owner_of

STOP_DEADLINE_S = 2.0  # of programs/steady.py


def test_sigterm_finishes_running_turns_and_releases_everything(url: str) -> None:
    book = Book()
    steady = Child(["-m", "wakeful.cli", "run", f"{PROGRAMS}/steady.py:app", "--store", url], book)
    try:
        steady.wait_for("holding", "brief")
        steady.wait_for("holding", "endless")
        steady.until(lambda: steady.count("fired") > 5 and steady.count("ack") > 30)
        asked_at = time.monotonic()
        with Yardstick() as machine:
            steady.send_signal(signal.SIGTERM)
            assert steady.wait() == 0, steady.tail()
            took_s = time.monotonic() - asked_at
        assert steady.wait_for("held", "brief") == ["held", "brief", "held"], "a running turn was not let finish"
        assert steady.wait_for("cut", "endless")[2] == "node.stopping"
        assert STOP_DEADLINE_S <= took_s < machine.allows(STOP_DEADLINE_S + 5), f"took {took_s:.1f} s; {machine}"
        asyncio.run(_nothing_is_held(url))
    finally:
        steady.close()
    with Yardstick() as machine, child(book, url=url, run="next") as following:
        following.wait_for("starting")
        started_at = time.monotonic()
        following.wait_for("up")
        up_s = time.monotonic() - started_at
    assert up_s < machine.allows(3), f"waited for somebody who had left; {machine}"
    settle(url, book)
    print(f"stopped in {took_s:.2f} s; {check(url, book)}")


async def _nothing_is_held(url: str) -> None:
    async with looking(url) as store:
        assert all(row.owner is None for row in await store.owners())
        assert await store.nodes() == []
        assert await _held(store, "brief"), "a finished turn is not on disk"
        assert not await _held(store, "endless"), "half a turn is on disk"
        for timer in await store.find_timers(Query(limit=100)):
            assert (timer.started, timer.crashes) == (0, 0), f"the stop was laid at its door: {timer}"
    if url.startswith("sqlite:"):
        assert owner_of(url.removeprefix("sqlite:")) == {}


async def _held(store: Store, key: str) -> bool:
    """Its turn is on disk: it is the only one that the object ever had."""
    return bool(await store.find_objects(Query(cls="Tally", key=key)))


def test_a_frozen_process_goes_on_and_fires_late_alarms_once(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/live.db"
    book = Book()
    with child(book, url=url, run="f", callers=4) as life:
        life.wait_for("fired")
        time.sleep(0.3)
        life.send_signal(signal.SIGSTOP)
        time.sleep(3)
        life.send_signal(signal.SIGCONT)
        acked, fired = life.count("ack"), life.count("fired")
        life.until(lambda: life.count("ack") > acked + 50 and life.count("fired") > fired + 30)
        life.order(["stop"])
        life.wait_for("stopped")
    settle(url, book)
    sums = check(url, book)
    late_ms = asyncio.run(_latest_ms(url))
    assert late_ms > 2_500, f"the latest alarm was {late_ms} ms late"
    assert max(book.fired.values()) == 1, "an alarm's handler began twice"
    print(f"frozen for 3 s, the latest alarm {late_ms} ms late; {sums}")


async def _latest_ms(url: str) -> int:
    async with looking(url) as store:
        return max(entry.fired_at - entry.nominal_at for _, entry in await store.find_entries(Query(limit=100_000)))
