"""Layer 5. A program that runs: from its start to a clean stop, with a line for all that fires."""

import asyncio
import contextlib
import gc
import os
import signal
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from wakeful.cli.app_loader import Program
from wakeful.cli.exit_codes import CommandError
from wakeful.cli.output import length
from wakeful.cli.terminal_log import Say
from wakeful.cli.web import Http, check, web
from wakeful.store.protocol import Outcome, Store
from wakeful.system import open_store
from wakeful.telemetry.samples import sampling
from wakeful.values.commits import Commit
from wakeful.values.errors import StoreDown
from wakeful.values.timers import Entry
from wakeful.views.timer_names import name_words, schedule_named

if TYPE_CHECKING:
    from wakeful.runtime.env import CheckCall
    from wakeful.runtime.node import Node


# How does `wakeful dev` know what fired? It reads the ledger rows of each commit once they are on disk.

# Said by this module in better words than the log's.
HUSHED = frozenset({"timer.failed", "timer.parked"})


class TellingStore:
    """A store that says a line for every run, failure, parking and redrive that it made durable."""

    def __init__(self, inner: Store, say: Say) -> None:
        self._inner = inner
        self._say = say

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def commit(self, node: str, commits: Sequence[Commit]) -> list[Outcome]:
        outcomes = await self._inner.commit(node, commits)
        for commit, outcome in zip(commits, outcomes, strict=True):
            if outcome is None and (commit.entries or commit.unparks):
                self._tell(commit)
        return outcomes

    def _tell(self, commit: Commit) -> None:
        for entry in commit.entries:
            if entry.verdict == "run":
                self._ran(entry)
            elif entry.verdict == "failed":
                self._failed(entry, commit)
            else:
                self._left_out(entry)
        for parked in commit.parks:
            name = name_words(parked.timer.name)
            text = f"{parked.timer.id} {name} after {parked.attempts} attempts; see wakeful parked, wakeful redrive"
            self._say.event("parked", text, object=str(parked.timer.id), timer=parked.timer.name)
        if commit.unparks:
            kind, words = ("redriven", name_words(commit.sets[0].name)) if commit.sets else ("dropped", "")
            self._say.event(kind, f"{commit.id} {words}".rstrip(), object=str(commit.id))

    def _ran(self, entry: Entry) -> None:
        late = entry.fired_at - entry.nominal_at
        notes = [f"{length(late)} late"] if late >= 10 else []
        notes += [f"on retry {entry.attempt}"] if entry.attempt else []
        took = entry.finished_at - entry.fired_at
        notes += [f"took {length(took)}"] if took >= 100 else []
        notes += [f"for {entry.missed} missed"] if entry.missed > 1 else []
        text = f"{entry.id} {name_words(entry.name)}{_in_brackets(notes)}"
        self._say.event("ran", text, object=str(entry.id), timer=entry.name)

    def _left_out(self, entry: Entry) -> None:
        """An occurrence that did not run; `wakeful why` says why."""
        late = entry.fired_at - entry.nominal_at
        notes = [f"{length(late)} late"] if late >= 1_000 else []
        notes += [f"{entry.covers:,} of them"] if entry.covers > 1 else []
        text = f"{entry.id} {name_words(entry.name)}{_in_brackets(notes)}"
        self._say.event(entry.verdict, text, object=str(entry.id), timer=entry.name, covers=entry.covers)

    def _failed(self, entry: Entry, commit: Commit) -> None:
        # A schedule's next occurrence is set in the same commit; the one that is tried again has an attempt behind it.
        names = (entry.name, f"run:{schedule_named(entry.name)}@")
        again = next((t for t in commit.sets if t.name.startswith(names) and t.attempt == entry.attempt + 1), None)
        notes = [f"attempt {entry.attempt + 1}"]
        notes += [f"again in {length(again.due_at - commit.now)}"] if again is not None else []
        text = f"{entry.id} {name_words(entry.name)}{_in_brackets(notes)}: {entry.error}"
        self._say.event("failed", text, object=str(entry.id), timer=entry.name, error=entry.error)


def _in_brackets(notes: list[str]) -> str:
    return f" ({', '.join(notes)})" if notes else ""


Ready = Callable[["Node", str | None], Awaitable[None]]  # with the URL of the dashboard, None without one
COLLECT_EVERY = 20_000  # new containers that are still there; a few milliseconds each time
AGAIN_S = 1.0  # between two tries to reach a store that is away
# No waiting mends these: a wrong password, no such database, an option that is none, a role without rights.
REFUSED = frozenset({"store.auth", "store.database", "store.option", "store.rights"})


def serve(
    program: Program,
    url: str,
    say: Say,
    *,
    paranoid: bool = False,
    is_dev: bool = False,
    check_call: "CheckCall | None" = None,
    ready: Ready | None = None,
    lifeline: int | None = None,
    joined: Mapping[str, Any] = MappingProxyType({}),
    http: Http | None = None,
) -> None:
    """Run the program until a signal, or until whoever holds the other end of `lifeline` is gone.

    `joined` are the options of `App.run` that make it a node among others; `http` is where it serves its dashboard;
    `check_call` looks at the arguments of calls within the program.
    """
    stop = StopSignal(say, signals=(signal.SIGTERM,) if lifeline is not None else (signal.SIGTERM, signal.SIGINT))

    async def main() -> None:
        stop.listen(lifeline)
        check(http)
        store = open_store(url, program.app.deployment.keys)
        if is_dev:
            store = cast("Store", TellingStore(store, say))
        async with contextlib.AsyncExitStack() as stack:
            with stop.of_the_start():
                node = await come_up(
                    stack,
                    lambda: program.app.run(store, paranoid=paranoid, **joined),
                    say,
                    wait_ms=program.app.deployment.limits.store_wait_ms
                    if store.shared
                    else 0,  # a file is there or not
                )
            if stop.is_asked:
                return
            for home in node.all_homes:
                home.check_call = check_call
                if is_dev:
                    rehearse(home)
            await stack.enter_async_context(sampling(program.app.deployment))
            await stack.enter_async_context(_beside(program, say))
            seen = await stack.enter_async_context(web(program.app, node, http, say))
            await _on_start(program, say, stop, is_dev=is_dev)
            if ready is not None and not stop.is_asked:
                await ready(node, seen)
            await stop.wait()

    # What is loaded by now stays: leaving it out of full collections shortens their pauses, which are latenesses.
    gc.collect()
    gc.freeze()
    # A run makes some thirty small containers and drops them again: looking through the young ones at every 700 was a
    # fifth of the cost of firing. Nothing of ours is left in circles; a program's own wait a little longer.
    gc.set_threshold(COLLECT_EVERY)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(main())


async def come_up(
    stack: contextlib.AsyncExitStack,
    run: Callable[[], contextlib.AbstractAsyncContextManager["Node"]],
    say: Say,
    *,
    wait_ms: int,
) -> "Node":
    """The node, running until the stack ends. A store that is away is tried again for `wait_ms`; then its error is raised.

    A supervisor would start the process anew, but slower each time, and the log would be full of starts.
    """
    loop = asyncio.get_running_loop()
    until, is_said = loop.time() + wait_ms / 1000, False
    while True:
        try:
            return await stack.enter_async_context(run())
        except StoreDown as error:
            if error.code in REFUSED or loop.time() >= until:
                raise
            if not is_said:
                text = f"the store is away, and tried again for {wait_ms / 1000:.0f} s: {error.message}"
                say.event("waiting", text, code=error.code)
                is_said = True
        await asyncio.sleep(AGAIN_S)


def _beside(program: Program, say: Say) -> contextlib.AbstractAsyncContextManager[None]:
    return contextlib.nullcontext() if program.beside is None else program.beside(say)


def rehearse(node: "Node") -> None:
    """Bodies of workflows are run once more, and it is said where two runs part."""
    from wakeful.workflows.node_workflows import feature_of
    from wakeful.workflows.rehearsal import Rehearsals

    feature_of(node).rehearsals = Rehearsals()


async def _on_start(program: Program, say: Say, stop: "StopSignal", *, is_dev: bool) -> None:
    """The program's own start. While developing a failure is shown and the program goes on."""
    if program.on_start is None:
        return
    started = asyncio.get_running_loop().create_task(program.on_start(program.app))
    stopped = asyncio.get_running_loop().create_task(stop.wait())
    await asyncio.wait({started, stopped}, return_when=asyncio.FIRST_COMPLETED)
    for task in (started, stopped):
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task
    error = None if started.cancelled() else started.exception()
    if error is None:
        return
    if not is_dev:
        raise CommandError(f"on_start failed: {type(error).__name__}: {error}", code="app.on_start") from error
    say.lines("".join(traceback.format_exception(error)))
    say.event("error", f"on_start failed: {type(error).__name__}: {error}")


class StopSignal:
    """Asked once: stop cleanly. Asked again: stop now."""

    def __init__(self, say: Say, *, signals: tuple[signal.Signals, ...]) -> None:
        self._say = say
        self._signals = signals
        self._asked: asyncio.Event | None = None
        self._starting: asyncio.Task[Any] | None = None
        self._is_supervised = False
        self._count = 0

    @contextlib.contextmanager
    def of_the_start(self) -> Iterator[None]:
        """While the node comes up a stop ends that, for there are no turns yet to wait for."""
        self._starting = asyncio.current_task()
        try:
            yield
        except asyncio.CancelledError:
            if not self.is_asked:
                raise
        finally:
            self._starting = None

    def listen(self, lifeline: int | None) -> None:
        """Begin to hear signals, on the running loop."""
        self._asked = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in self._signals:
            loop.add_signal_handler(number, self._ask, number)
        if lifeline is not None:
            self._is_supervised = True
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the supervisor, who decides
            loop.add_reader(lifeline, self._on_lifeline, lifeline)

    @property
    def is_asked(self) -> bool:
        return self._asked is not None and self._asked.is_set()

    async def wait(self) -> None:
        assert self._asked is not None
        await self._asked.wait()

    def _ask(self, number: signal.Signals) -> None:
        self._count += 1
        if self._count > 1:  # of its own: who sends one to all of a group, and the parent's word, are one wish
            os._exit(128 + number)
        self._set()
        if not self._is_supervised:
            self._say.event("stopping", "running turns finish first; ask again to stop at once")

    def _on_lifeline(self, lifeline: int) -> None:
        """Whoever holds the other end says something, or is gone, which means a stop as well."""
        said = os.read(lifeline, 64)
        if not said:
            asyncio.get_running_loop().remove_reader(lifeline)
        if b"n" in said:
            os._exit(128 + signal.SIGTERM)
        self._set()

    def _set(self) -> None:
        assert self._asked is not None
        self._asked.set()
        if self._starting is not None:
            self._starting.cancel()


def _loop_factory() -> Any:
    """uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
