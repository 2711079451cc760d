"""Layer 5. What can be seen of a workflow, and done to it, from outside?"""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from wakeful.http.acts import acts_of
from wakeful.http.asks import Answer, Ask, json_answer
from wakeful.http.looks import connection_of, is_outside, object_of, page_answer, prefix_of
from wakeful.http.problems import Problem
from wakeful.http.table import read_body
from wakeful.values.ids import check_key
from wakeful.views import workflows
from wakeful.workflows.node_workflows import feature_of

STEPS_SHOWN = 50


class WorkflowAct(Struct, forbid_unknown_fields=True):
    """Nothing, for most."""


class WorkflowRetry(Struct, forbid_unknown_fields=True):
    """From which step on; without one, from that which failed."""

    from_step: str | None = None


class WorkflowFork(Struct, forbid_unknown_fields=True):
    """The key of the new one, and from which step on it goes its own way."""

    key: str
    from_step: str | None = None


async def show(ask: Ask) -> Answer:
    """How it stands, with its last steps."""
    return json_answer(await workflows.show(ask.view, object_of(ask), ask.query["limit"]))


async def list_workflows(ask: Ask) -> Answer:
    """By class and key, in a state."""
    asked = ask.query
    if is_outside(ask):
        return page_answer(ask, [], None)
    found = await workflows.page(
        ask.view, asked["class"], asked["state"], asked["limit"], asked["cursor"], prefix=prefix_of(ask)
    )
    return page_answer(ask, found.rows, found.cursor)


async def retry(ask: Ask) -> Answer:
    asked: WorkflowRetry = await read_body(ask, WorkflowRetry, is_needed=False)
    return await _act(ask, "retry", asked.from_step)


async def fork(ask: Ask) -> Answer:
    asked: WorkflowFork = await read_body(ask, WorkflowFork, is_needed=True)
    cls = object_of(ask).cls
    await ask.gate.check_named(connection_of(ask), ask.who, cls, asked.key)  # a tenant forks into its own keys
    return await _act(ask, "fork", check_key(cls, asked.key), asked.from_step)


def plain_act(name: str) -> Callable[[Ask], Awaitable[Answer]]:
    """One that takes nothing but the workflow."""

    async def act(ask: Ask) -> Answer:
        await read_body(ask, WorkflowAct, is_needed=False)
        return await _act(ask, name)

    return act


async def _act(ask: Ask, name: str, *args: str | None) -> Answer:
    """Do it; how the workflow stands then."""
    id = object_of(ask)
    if id.cls not in feature_of(ask.node).classes:
        raise Problem(404, "workflow.class", f"{id.cls} is no Workflow")
    await workflows.record_of(ask.view.store_of(id), id)
    await acts_of(ask).workflow(id, name, *args)
    return json_answer(await workflows.show(ask.view, id, STEPS_SHOWN))
