"""Layer 4. Who watches a workflow: what has it published, and is it over?

What it publishes are rows with numbers, so a watcher misses nothing, whatever dies: it asks for what came after the last
number that it has, and waits at the owner when that is nothing yet. Another run (`restart`, `ContinueAsNew`) begins anew.
"""

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeful.runtime.context import runtime_of
from wakeful.runtime.long_poll import LongPoll
from wakeful.runtime.storage import scan
from wakeful.runtime.turn import running_turn
from wakeful.values.codec import decode
from wakeful.values.commits import SYSTEM
from wakeful.values.errors import Conflict
from wakeful.values.ids import ObjectId
from wakeful.workflows.records import OVER, STEPS, load, read_step, step_slot

if TYPE_CHECKING:
    from wakeful.runtime.context import Context

NEWS, LOOK = "workflow.news", "workflow.look"
CHUNK = 500  # steps that are read at once
STEPS_END = f"{STEPS[:-1]};"


class Published(NamedTuple):
    """A value with its place: the run of the workflow, and its number there."""

    run: int
    number: int
    value: Any


async def look(ctx: "Context", run: int | None, since: int) -> list[Any] | None:
    """The run, what it has published after that number, and how it ended; None when there is nothing to tell."""
    turn = running_turn(runtime_of(ctx), LOOK)
    record = await load(turn)
    if record is None:
        raise Conflict(f"{ctx.id} has not been started, so there is nothing to watch", code="workflow.unstarted")
    since = since if run == record.run else 0
    room = turn.activation.node.limits.arguments_bytes // 2
    values: list[tuple[int, bytes]] = []
    first, is_whole = step_slot(since)[1], False
    while not is_whole and room > 0:
        page = await scan(turn.activation, turn, SYSTEM, first, STEPS_END, limit=CHUNK)
        for name, data in page.items():
            first = f"{name}\0"
            row = read_step(data)
            if row.kind == "publish" and row.value is not None:
                values.append((row.ordinal + 1, row.value))
                room -= len(row.value)
                if room <= 0:
                    break
        is_whole = room > 0 and len(page) < CHUNK
    end = record.state if is_whole and record.state in OVER else None
    return [record.run, values, end] if values or end is not None or run != record.run else None


class WorkflowWatch(LongPoll[Published]):
    """What a workflow publishes, by `async for`, to its end: `state` says then how that was.

    >>> from wakeful import App, Step, Workflow
    >>> app = App()
    >>> @app.object
    ... class Count(Workflow):
    ...     async def run(self, step: Step) -> None:
    ...         for n in range(3):
    ...             await step.publish(n)
    ...             await step.sleep("a bit", "1h")
    >>> async with app.world() as world:
    ...     await world.get(Count, "a").start()
    ...     watch = app.watch(Count, "a")
    ...     print([value async for value in watch], watch.state)
    [0, 1, 2] done
    """

    def __init__(self, app: Any, target: ObjectId, at: tuple[int, int] | None = None) -> None:
        super().__init__(app, target)
        self._at: tuple[int | None, int] = (None, 0) if at is None else at
        self._ahead: deque[Published] = deque()
        self.state: str | None = None  # how it ended; None while it goes on

    def __aiter__(self) -> "WorkflowWatch":
        return self

    async def __anext__(self) -> Any:
        while not self._ahead:
            if self.state is not None:
                raise StopAsyncIteration
            self._ahead.extend(await self.wait())
        return self._ahead.popleft().value

    async def __aenter__(self) -> "WorkflowWatch":
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Nothing is held while nobody asks."""

    async def look(self) -> list[Published]:
        """What is new; nothing when that is nothing for a while, or it is over."""
        run, since = self._at
        answer = await self._ask(NEWS, run, since)
        if answer is None:
            return []
        run, rows, self.state = answer
        self._at = (run, rows[-1][0] if rows else since if run == self._at[0] else 0)
        return [Published(run, number, decode(value)) for number, value in rows]
