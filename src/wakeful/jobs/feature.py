"""Layer 4. How do jobs join the nodes of a program?"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from wakeful.jobs import job_owner
from wakeful.jobs.errands import ERRANDS, ErrandRuns
from wakeful.jobs.job import Job
from wakeful.jobs.job_request import JobRequest
from wakeful.jobs.node_jobs import FEATURE, NodeJobs, Quota, feature_of
from wakeful.jobs.payload import decode_kept, job_of_timer
from wakeful.jobs.runs import JobRuns
from wakeful.runtime.context import Context, runtime_of
from wakeful.runtime.feature import Feature
from wakeful.runtime.turn import Turn, running_turn
from wakeful.values.timers import Timer

if TYPE_CHECKING:
    from wakeful.runtime.node import Node


class JobFeature(Feature):
    """One call, once, at a time."""

    def __init__(self, quota: Quota | None) -> None:
        self._quota = quota

    def equip(self, node: "Node") -> None:
        feature = node.features[FEATURE] = NodeJobs(node, self._quota)
        deadline_ms = node.limits.alarm_deadline_ms
        node.operations.update(_OPERATIONS)
        node.quiet_operations.update(_OPERATIONS)
        runs = JobRuns(feature, deadline_ms)
        node.timer_runs.register(runs, quiet=runs.joins_queue)
        for prefix in ERRANDS:
            node.timer_runs.register(ErrandRuns(feature, prefix, deadline_ms), quiet=True)
        node.timer_runs.interrupting["jobs.cancel"] = str

    async def erase(self, turn: Turn) -> None:
        """Nothing more: each job that is owed, failed or asked for is ended by the handler of its timer."""


async def _cancel(ctx: Context, name: str) -> bool:
    turn = running_turn(runtime_of(ctx), "jobs.cancel")
    return await job_owner.cancel(feature_of(runtime_of(ctx).node), turn, name)


async def _redrive(ctx: Context, name: str) -> Job:
    turn = running_turn(runtime_of(ctx), "jobs.redrive")
    return (await job_owner.redrive(feature_of(runtime_of(ctx).node), turn, name)).job


async def _replace(
    ctx: Context, name: str, due_at: int, nominal_at: int, seq: int, priority: int, payload: bytes
) -> Job:
    turn = running_turn(runtime_of(ctx), "jobs.replace")
    timer = Timer(ctx.id, name, due_at, nominal_at, seq, priority=priority, payload=payload)
    asked = JobRequest(timer, decode_kept(timer))
    await job_owner.place(feature_of(runtime_of(ctx).node), turn, asked, is_newest=True)
    return job_of_timer(timer, is_running=False)


async def _withdraw(ctx: Context, name: str, token: str) -> None:
    turn = running_turn(runtime_of(ctx), "jobs.withdraw")
    await job_owner.withdraw(feature_of(runtime_of(ctx).node), turn, name, token)


_OPERATIONS: dict[str, Callable[..., Awaitable[Any]]] = {
    "jobs.cancel": _cancel,
    "jobs.redrive": _redrive,
    "jobs.replace": _replace,
    "jobs.withdraw": _withdraw,
}
