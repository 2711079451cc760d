"""Bindings of Workers, broken on purpose: each of these is a mistake that somebody could make, applied while its block lasts."""

from pathlib import Path
from typing import Any

from tests.teeth.broken import swapped
from wakeful.compat.workers.bindings import kv, workflows
from wakeful.compat.workers.bindings.assets import AssetFiles
from wakeful.compat.workers.bindings.d1 import D1Database
from wakeful.compat.workers.bindings.desk import desk_of
from wakeful.compat.workers.bindings.long_values import LongValues
from wakeful.compat.workers.bindings.queue_batch import MessageBatch, QueueMessage
from wakeful.compat.workers.bindings.queues import Queue, QueueConsumer, _read
from wakeful.compat.workers.workflow_steps import WorkflowStep
from wakeful.workflows import timers
from wakeful.workflows.records import ACTIVE


def an_entry_is_read_until_its_alarm_rings() -> Any:
    """Nobody looks whether it has expired."""
    return swapped(kv, "_is_over", lambda is_over: lambda entry, now: False)


def a_message_is_done_before_its_handler_ended() -> Any:
    """The batch is settled, and then handled."""

    def make(deliver: Any) -> Any:
        async def broken(self: QueueConsumer, queue: str, lane: int, batch: str) -> None:
            home = self.ctx.get(Queue, queue)
            rows = await home.messages_of(lane, batch) or []
            await home.settle(lane, batch, {})
            messages = [QueueMessage(id, at, count, _read(kind, body)) for id, at, kind, count, body in rows]
            if messages:
                await desk_of(self.ctx).consumers[queue].handle(MessageBatch(queue, messages))

        return broken

    return swapped(QueueConsumer, "deliver", make)


def a_batch_is_a_transaction_for_each_statement() -> Any:
    """Those before the one that fails stay."""

    def make(run: Any) -> Any:
        async def broken(self: D1Database, queries: list[list[Any]]) -> dict[str, Any]:
            results = []
            for query in queries:
                answer = await run(self, [query])
                if "error" in answer:
                    return dict(answer)
                results += answer["results"]
            return {"results": results, "duration": 0}

        return broken

    return swapped(D1Database, "run", make)


def a_value_that_is_replaced_leaves_its_parts() -> Any:
    """Nobody deletes them."""
    return swapped(LongValues, "_drop", lambda drop: lambda self, version, size: None)


def links_lead_out_of_the_folder() -> Any:
    """A path is looked up as it is."""

    def make(find: Any) -> Any:
        def broken(self: AssetFiles, path: str) -> Path | None:
            file = self._rules.folder.joinpath(*path.split("/")[1:])
            try:
                return file if file.is_file() else None
            except (OSError, ValueError):
                return None

        return broken

    return swapped(AssetFiles, "_file", make)


def a_dependency_is_done_for_each_that_needs_it() -> Any:
    """Nobody looks whether it has been."""

    def make(result_of: Any) -> Any:
        async def broken(self: WorkflowStep, needed: Any) -> Any:
            return await (needed() if callable(needed) else result_of(self, needed))

        return broken

    return swapped(WorkflowStep, "_result_of", make)


def a_pause_lets_the_clock_of_a_workflow_run() -> Any:
    """What it waits for ends when it would have."""

    async def broken(turn: Any) -> None:
        """Nothing is moved."""

    return swapped(workflows, "shift_waits", lambda shift: broken)


def a_workflow_that_was_restarted_goes_with_its_first_end() -> Any:
    """Whoever comes to forget it does not look whether it is over."""
    return swapped(timers, "OVER", lambda over: {*over, ACTIVE})
