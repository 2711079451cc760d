"""Layer 3. How does the next owner of a timer learn that the process died while it ran?

By a start note, which is on disk before the handler begins. A commit for each would be a second one for a run that
takes one, and where a single process owns the store there is something cheaper: a mark outside the database that
survives the process. The next process writes the notes of those that are marked still, in the name of the one that
died, before it claims anything; then all goes on as if they had been written in time. A handler that goes on for a
while gets its note after all: people who look from outside see that it runs, and its place is free for others.
"""

from collections.abc import Callable
from functools import partial

from wakeful.runtime.committer import Committer, Failure
from wakeful.runtime.env import Env
from wakeful.runtime.queue import TimerQueue
from wakeful.runtime.sideline import Sideline
from wakeful.store.protocol import Query, RunMark, RunMarks
from wakeful.values.commits import Commit, start_note
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.timers import Timer
from wakeful.values.times import Handle

LOOK_MS = 50  # a handler that runs at two looks is one that goes on for a while


class _Run:
    """A timer with a mark."""

    __slots__ = ("crashes", "epoch", "has_ended", "is_old", "place", "timer")

    def __init__(self, timer: Timer, epoch: int, crashes: int, place: int) -> None:
        self.timer = timer
        self.epoch = epoch
        self.crashes = crashes
        self.place = place
        self.has_ended = False  # its handler has
        self.is_old = False  # it was seen at a look


class StartNotes:
    """Marks, where the store has room for them."""

    def __init__(
        self,
        env: Env,
        queue: TimerQueue,
        committer: Committer,
        sideline: Sideline,
        on_refused: Callable[[ObjectId, Failure], None],
    ) -> None:
        self._env = env
        self._queue = queue
        self._committer = committer
        self._sideline = sideline
        self._on_refused = on_refused
        self._runs: dict[tuple[ObjectId, str], _Run] = {}
        self._marked: dict[int, Timer] = {}  # the timer of each place that is not free
        self._said: dict[int, ObjectId] = {}  # of which object each place speaks, free or not
        self._free: list[int] = []
        self._places: RunMarks | None = None  # once the store is open
        self._look: Handle | None = None
        self._reclaimed_at = -1  # after how many groups of commits places were last looked for

    def must_precede(self, crashes: int) -> bool:
        """The note has to be on disk before the timer runs: no mark will do, or somebody died of it before."""
        return crashes > 0 or self._places is None

    def begin(self, timer: Timer, epoch: int, crashes: int) -> bool:
        """Mark that it runs from now on, until `end` and its commit; False: there is no place, so it needs a note."""
        places = self._places
        if places is None or not (self._free or self._reclaim()):
            return False
        mark = RunMark(timer.id, timer.name, timer.seq, timer.attempt, timer.due_at, epoch, crashes)
        if not places.set(self._free[-1], mark):
            return False
        place = self._free.pop()
        self._marked[place], self._said[place] = timer, timer.id
        self._runs[timer.id, timer.name] = _Run(timer, epoch, crashes, place)
        if self._look is None:
            self._look_later()
        return True

    def end(self, timer: Timer) -> None:
        """Its handler has ended. The mark stays until what came of it is on disk: to write that may kill, too."""
        run = self._runs.get((timer.id, timer.name))
        if run is not None:
            run.has_ended = run.timer is timer

    def take_back(self, timer: Timer) -> None:
        """It did not begin after all, and stays on disk as it is: nobody can die of it."""
        for place in [place for place, marked in self._marked.items() if marked is timer]:
            assert self._places is not None
            self._places.wipe(place)
            self._give_back(place, timer)

    def forget(self, id: ObjectId) -> None:
        """Nothing of that object may be left, and a place speaks of the last that it was for."""
        for place in [place for place, said in self._said.items() if said == id]:
            assert self._places is not None
            self._places.wipe(place)
            del self._said[place]

    async def take_over(self) -> None:
        """Write the notes of what the process before this one was running when it died; before its shards are claimed."""
        store, now = self._env.store, self._env.clock.now()
        self._places = places = store.run_marks
        if places is None:
            return
        self._free = list(range(places.places))
        owners = await store.owners()
        notes: dict[str, list[Commit]] = {}  # by who died
        for mark in places.all():
            shard = shard_of(mark.id)
            owner = owners[shard].owner
            if owner is None or owners[shard].epoch != mark.epoch:
                continue  # it let go of the shard, or was one before that
            query = Query(cls=mark.id.cls, key=mark.id.key, name=mark.name, limit=1)
            for timer in await store.find_timers(query):
                if mark.is_of(timer) and not timer.started:
                    note = start_note(timer, shard, mark.epoch, mark.crashes, now)
                    notes.setdefault(owner, []).append(note)
        for owner, commits in notes.items():
            await store.commit(owner, commits)
        places.clear()

    def drop(self) -> None:
        """The process ends cleanly: nothing died."""
        self.stop()
        if self._places is not None:
            self._places.clear()

    def stop(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _reclaim(self) -> bool:
        """Find the places of those that ended and whose end is on disk, or that were handed back; not before there are any."""
        if self._committer.groups == self._reclaimed_at:
            return False
        self._reclaimed_at = self._committer.groups
        running = self._queue.running
        for place, timer in list(self._marked.items()):
            if running.get((timer.id, timer.name)) is not timer:
                self._give_back(place, timer)
        return bool(self._free)

    def _give_back(self, place: int, timer: Timer) -> None:
        del self._marked[place]
        self._free.append(place)
        run = self._runs.get((timer.id, timer.name))
        if run is not None and run.timer is timer:
            del self._runs[timer.id, timer.name]

    def _look_later(self) -> None:
        clock = self._env.clock
        self._look = clock.call_at(clock.now() + LOOK_MS, self._look_around)

    def _look_around(self) -> None:
        """Give those a note that ran at the last look already."""
        self._look = None
        running = self._queue.running
        for name, run in list(self._runs.items()):
            if running.get(name) is not run.timer or (run.has_ended and name not in self._sideline):
                del self._runs[name]
            elif run.is_old:
                del self._runs[name]
                self._note(run)
            else:
                run.is_old = True
        if self._runs:
            self._look_later()

    def _note(self, run: _Run) -> None:
        env, shard = self._env, shard_of(run.timer.id)
        if env.epochs.get(shard) == run.epoch:
            note = start_note(run.timer, shard, run.epoch, run.crashes, env.clock.now())
            self._committer.submit(note, partial(self._on_noted, run))

    def _on_noted(self, run: _Run, failure: Failure | None) -> None:
        if failure is not None:
            self._on_refused(run.timer.id, failure)
        elif self._marked.get(run.place) is run.timer:
            self._give_back(run.place, run.timer)
