"""A program under load is killed with -9 again and again: no acknowledged write is lost, no effect is doubled."""

import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from tests.live.harness import IS_LONG, Book, check, child, settle

KILLS = 100 if IS_LONG else 12
CALLERS = 8


def test_nothing_acknowledged_is_lost_and_nothing_is_doubled(url: str) -> None:
    _kill_again_and_again(url, KILLS, lambda: None)


def test_nor_is_it_on_a_bucket_whose_local_copy_is_gone_each_second_time(tmp_path: Path) -> None:
    """A container that is killed and comes back elsewhere has nothing but the bucket, and waits for a lease to end."""
    dice = random.Random(7)

    def lose() -> None:
        if dice.random() < 0.5:
            shutil.rmtree(tmp_path / "cache", ignore_errors=True)

    _kill_again_and_again(f"bucket:{tmp_path}/bucket?cache={tmp_path}/cache", 20 if IS_LONG else 3, lose)


def _kill_again_and_again(url: str, kills: int, between: Callable[[], None]) -> None:
    seed = int(os.environ.get("WAKEFUL_SEED") or random.randrange(1 << 32))
    print(f"seed {seed}, {kills} kills")
    dice = random.Random(seed)
    book = Book()
    for number in range(kills):
        # Some die while they start, most of them under load.
        wait_s = dice.uniform(0, 0.1) if dice.random() < 0.15 else dice.uniform(0.02, 0.3)
        at = "starting" if dice.random() < 0.2 else "up"
        with child(
            book,
            url=url,
            run=f"k{number}",
            callers=CALLERS,
            pending=book.pending,
            again=book.some_acked(10),
        ) as life:
            life.wait_for(at)
            time.sleep(wait_s)
            life.kill()
            assert not book.wrong, f"kill {number}: {book.wrong[:5]}\n{life.tail()}"
        between()
    acked = len(book.acked)
    settle(url, book)
    sums = check(url, book)
    print(f"{kills} kills, {acked} acknowledged before the last one, {len(book.tried)} tried; {sums}")
    assert acked > kills
    assert sums.runs > kills
