"""An app with workflows whose bodies are written in the test itself, and what their steps did."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from wakeful import App, DurableObject, Step, Workflow, errors
from wakeful.policy.limits import Limits

Script = Callable[..., Awaitable[Any]]


class Mill:
    """`mill.body` is what `Flow` runs, `mill.child` what `Part` runs; `mill.did` counts what steps did outside."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.app = App(limits=limits)
        self.did: Counter[str] = Counter()
        self.order: list[str] = []
        self.runs: dict[str, set[str]] = {}  # by what was done: the ids under which that was
        self.body: Script = _nothing
        self.child: Script = _nothing
        mill = self

        @self.app.object
        class Flow(Workflow):
            async def run(self, step: Step, *args: Any) -> Any:
                return await mill.body(self, step, *args)

        @self.app.object
        class Part(Workflow):
            async def run(self, step: Step, *args: Any) -> Any:
                return await mill.child(self, step, *args)

        @self.app.object
        class Stock(DurableObject):
            async def take(self, n: int) -> int:
                left: int = await self.storage.get("left", 10) - n
                if left < 0:
                    raise ValueError("not enough")
                await self.storage.put("left", left)
                return left

            async def left(self) -> int:
                found: int = await self.storage.get("left", 10)
                return found

        self.Flow: Any = Flow
        self.Part: Any = Part
        self.Stock: Any = Stock

    def world(self, **options: Any) -> Any:
        return self.app.world(**options)

    async def do(self, what: str, step: Step | None = None) -> str:
        """What most steps of the tests do: it can be counted."""
        self.did[what] += 1
        self.order.append(what)
        if step is not None:
            self.runs.setdefault(what, set()).add(step.run_id)
        return f"did {what}"


async def _nothing(flow: Any, step: Step, *args: Any) -> Any:
    return None


async def outcome(flow: Any) -> Any:
    """What became of a workflow: its answer, or the error that says what else."""
    try:
        return await flow.result(timeout=0)
    except (errors.WorkflowFailed, errors.WorkflowCancelled, errors.DeadlineExceeded) as error:
        return f"{type(error).__name__}: {error.message}"
