"""How do thousands of seeds run on all cores, and which of them failed?

Worker processes take one seed after the other. One that fails, dies or does not end is one failure more; the others go on.
"""

import argparse
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

SAY_EVERY_S = 60.0  # into a log; a terminal is told all the time
PATIENCE_S = 600.0  # a seed takes a second: one that takes as long as this never ends

# Gives None when it held, else what to print.
Running = Callable[[Any], str | None]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that every command with seeds has."""
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first of them")
    parser.add_argument(
        "--jobs", type=int, default=0, help="worker processes; as many as there are cores, if not given"
    )


def cores() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def run_many(run: Running, items: Sequence[Any], jobs: int = 0, *, patience_s: float = PATIENCE_S) -> list[Any]:
    """Run each of the items, in this process if it is one; those that failed, in their order. `run` must be picklable."""
    crew = _Crew(run, items, patience_s)
    jobs = min(jobs or cores(), len(items))
    if jobs > 1:
        crew.work(jobs)
    else:
        for item in items:
            crew.ended(item, _attempt(run, item))
    failed = set(crew.failed)
    return [item for item in items if item in failed]


def verdict(seeds: int, first: int, failed: Sequence[Any], began: float) -> int:
    """Print the last line, which `tests/proof.py` reads; the exit code."""
    words = f"{len(failed)} failed ({', '.join(map(str, failed))})" if failed else "clean"
    print(f"{seeds} seeds from {first}: {words}, {time.monotonic() - began:.0f} s", flush=True)
    return 1 if failed else 0


def _attempt(run: Running, item: Any) -> str | None:
    """Whatever it raises is a failure of this one and not the end of the rest."""
    try:
        return run(item)
    except Exception as error:
        import traceback  # only now: it is wanted once in thousands

        return f"{item}: {error!r}\n{''.join(traceback.format_exception(error)[-6:])}"


def _work(pipe: Connection, run: Running) -> None:
    """A worker's life: items come, what became of them goes. It ends with its parent, even in the middle of one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches everybody; the parent sees to it
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    # A world is thousands of objects that live and die together: to look through them as often as usual takes a sixth.
    gc.freeze()
    gc.set_threshold(60_000, 20, 30)
    with suppress(EOFError, BrokenPipeError):
        while True:
            pipe.send(_attempt(run, pipe.recv()))


@dataclass
class _Hand:
    """One worker, and what it is at."""

    process: Any
    pipe: Connection
    item: Any = None
    since: float = 0.0


class _Crew:
    """The workers of one run, and what was heard from them."""

    def __init__(self, run: Running, items: Sequence[Any], patience_s: float) -> None:
        self._run = run
        self._patience_s = patience_s
        self._left = deque(items)
        self._count, self._done = len(items), 0
        self._began = self._said_at = time.monotonic()
        self.failed: list[Any] = []

    def work(self, jobs: int) -> None:
        """Until all is done; then nobody is left."""
        hands = [self._hire() for _ in range(jobs)]
        try:
            while busy := [hand for hand in hands if self._give(hand)]:
                heard = wait([hand.pipe for hand in busy], timeout=1.0)
                for hand in busy:
                    if hand.pipe in heard:
                        self._hear(hand, hands)
                    elif time.monotonic() - hand.since > self._patience_s:
                        self._replace(hand, hands, f"{hand.item}: does not end, {self._patience_s:.0f} s are enough")
        finally:
            for hand in hands:
                self._dismiss(hand)

    def ended(self, item: Any, problem: str | None) -> None:
        """Note what became of it, and say so now and then."""
        self._done += 1
        if problem is not None:
            self.failed.append(item)
            print(f"\n{problem}", flush=True)
        now = time.monotonic()
        is_seen = sys.stderr.isatty()
        if now - self._said_at > (0.1 if is_seen else SAY_EVERY_S):
            self._said_at = now
            passed = now - self._began
            line = (
                f"{self._done} of {self._count}, {len(self.failed)} failed, {passed:.0f} s, {self._done / passed:.1f}/s"
            )
            print(f"\r{line} " if is_seen else line, end="" if is_seen else "\n", file=sys.stderr, flush=True)

    def _give(self, hand: _Hand) -> bool:
        """Whether it has something to do, now."""
        if hand.item is None and self._left:
            hand.item, hand.since = self._left.popleft(), time.monotonic()
            hand.pipe.send(hand.item)
        return hand.item is not None

    def _hear(self, hand: _Hand, hands: list[_Hand]) -> None:
        try:
            problem = hand.pipe.recv()
        except EOFError:
            hand.process.join(10)
            self._replace(hand, hands, f"{hand.item}: its process died ({hand.process.exitcode})")
        else:
            self.ended(hand.item, problem)
            hand.item = None

    def _replace(self, hand: _Hand, hands: list[_Hand], problem: str) -> None:
        self.ended(hand.item, problem)
        self._dismiss(hand)
        hands[hands.index(hand)] = self._hire()

    def _hire(self) -> _Hand:
        context = multiprocessing.get_context("spawn")  # a fork would take threads' locks along
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self._run), daemon=True)
        process.start()
        theirs.close()
        return _Hand(process, ours)

    def _dismiss(self, hand: _Hand) -> None:
        hand.process.kill()
        hand.process.join()
        hand.pipe.close()
