"""The timer queue against a disk that is a dict: whatever comes in whatever order, memory is the disk up to the edge."""

import random
from dataclasses import dataclass, field

from wakeful.runtime.queue import PAST_ALL, TimerQueue
from wakeful.values.ids import ObjectId
from wakeful.values.timers import ALARM, Timer, TimerKey

IDS = [ObjectId("Thing", str(number)) for number in range(8)]
INSTANTS = 12  # few, so that many timers share one


def first_due(queue: TimerQueue, now: int) -> Timer | None:
    """What is handed out first, whoever it belongs to."""
    return next(queue.due(now, share=1_000_000), None)


@dataclass
class Page:
    """What a read of the store saw, when it began; it is taken in later."""

    timers: list[Timer]
    edge: TimerKey | None


@dataclass
class QueueModel:
    """Random sets, clears, pops and slow pages, with what must hold after each."""

    dice: random.Random
    queue: TimerQueue
    disk: dict[ObjectId, Timer] = field(default_factory=dict)
    fired: list[Timer] = field(default_factory=list)
    page: Page | None = None
    now: int = 0
    seq: int = 0

    def step(self) -> None:
        kind = self.dice.choices(("set", "clear", "pop", "begin", "end", "time"), (8, 2, 5, 4, 5, 2))[0]
        getattr(self, f"do_{kind}")()
        self.check()

    def do_set(self) -> None:
        """A commit set a timer, or moved the one that was handed out."""
        self.seq += 1
        id = self.dice.choice(IDS)
        timer = Timer(id, ALARM, self.dice.randint(0, INSTANTS), 0, self.seq)
        self.disk[id] = timer
        self.queue.set(timer)

    def do_clear(self) -> None:
        id = self.dice.choice(IDS)
        gone = self.disk.pop(id, None)
        if gone is not None:
            self.queue.clear(id, ALARM, self.dice.choice((0, gone.seq)))

    def do_pop(self) -> None:
        due = first_due(self.queue, self.now)
        held = [timer for timer in self.disk.values() if timer.due_at <= self.now and self._is_held(timer)]
        if due is None:
            assert not [timer for timer in held if timer.id not in {id for id, _ in self.queue.running}], (
                "due, not given"
            )
            return
        assert self.disk.get(due.id) == due, f"{due} was given out, the disk has {self.disk.get(due.id)}"
        waiting = [timer for timer in held if (timer.id, ALARM) not in self.queue.running or timer == due]
        assert due.sort_key == min(timer.sort_key for timer in waiting), f"{due} was not the first of {waiting}"
        if self.dice.random() < 0.7:  # it runs, and its commit clears it
            del self.disk[due.id]
            self.queue.clear(due.id, ALARM, due.seq)

    def do_begin(self) -> None:
        if self.page is not None:
            return
        after = self.queue.begin_page()
        is_scan = self.dice.random() < 0.3
        until = after[0] if is_scan else self.dice.randint(0, INSTANTS)
        found = sorted(
            (timer for timer in self.disk.values() if timer.due_at <= until and (is_scan or timer.sort_key > after)),
            key=lambda timer: timer.sort_key,
        )
        if is_scan:
            self.page = Page(found, None)
        else:
            limit = self.dice.randint(1, 4)
            whole = max(after, (until, PAST_ALL, 0))
            self.page = Page(found[:limit], found[limit - 1].sort_key if len(found) > limit else whole)

    def do_end(self) -> None:
        if self.page is not None:
            self.queue.end_page(self.page.timers, self.page.edge)
            self.page = None

    def do_time(self) -> None:
        self.now = self.dice.randint(0, INSTANTS)

    def check(self) -> None:
        """Everything on disk up to the edge is held, nothing else is."""
        held = {timer.id: timer for timer in self.queue._current.values()}
        out = {timer.id: timer for timer in self.queue.running.values()}
        wanted = {id: timer for id, timer in self.disk.items() if self._is_held(timer)}
        missing = {id: timer for id, timer in wanted.items() if held.get(id) != timer and out.get(id) != timer}
        assert not missing, f"on disk before the edge {self.queue.edge}, not in memory: {missing}"
        stale = {id: timer for id, timer in held.items() if wanted.get(id) != timer}
        assert not stale, f"in memory, not on disk before the edge {self.queue.edge}: {stale}"

    def _is_held(self, timer: Timer) -> bool:
        return timer.sort_key <= self.queue.edge


def run_queue_model(seed: int, steps: int = 300) -> None:
    """One random life of a queue; AssertionError when memory and disk part."""
    dice = random.Random(seed)
    model = QueueModel(dice, TimerQueue(dice.choice((1, 2, 3, 5, 100))))
    for _ in range(steps):
        model.step()
