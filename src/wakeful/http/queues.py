"""Layer 5. What can be seen of queues over HTTP, and done to them?"""

from msgspec import Struct

from wakeful.http.acts import acts_of
from wakeful.http.asks import Answer, Ask, json_answer
from wakeful.http.table import read_body
from wakeful.policy.queue_terms import NO_TERMS, Queue
from wakeful.values.errors import BadOption
from wakeful.views import queues


class QueueName(Struct, forbid_unknown_fields=True):
    """A queue by its name, and as whose; its limits are for the program to say."""

    name: str
    key: str | None = None


class QueuePause(Struct, forbid_unknown_fields=True):
    """Why, for those who look."""

    note: str = ""


class QueueResume(Struct, forbid_unknown_fields=True):
    """Nothing."""


def queue_of(asked: object) -> Queue | None:
    """What somebody outside may ask for: a queue by its name and a key of his; `BadOption` for limits."""
    if isinstance(asked, str):
        return Queue(asked)
    if isinstance(asked, QueueName):
        return Queue(asked.name, key=asked.key)
    if asked is None or (isinstance(asked, Queue) and asked.terms == NO_TERMS):
        return asked
    if isinstance(asked, dict):  # of our own client one that says everything
        said = {name for name, value in asked.items() if value is not None and (name, value) != ("$type", "Queue")}
        if "name" in said and said <= {"name", "key"}:
            return Queue(asked["name"], key=asked.get("key"))
    raise BadOption(
        "queue: from outside a queue has a name, and a key if there is one; its limits are for the program to say",
        code="queue.outside",
    )


async def list_queues(ask: Ask) -> Answer:
    """All of them."""
    return json_answer({"rows": await queues.rows(ask.view), "cursor": None})


async def show(ask: Ask) -> Answer:
    """One of them."""
    return json_answer(await queues.show(ask.view, ask.params["name"]))


async def pause(ask: Ask) -> Answer:
    """Let nobody go; how it stands then."""
    asked: QueuePause = await read_body(ask, QueuePause, is_needed=False)
    await acts_of(ask).pause_queue(ask.params["name"], asked.note)
    return await show(ask)


async def resume(ask: Ask) -> Answer:
    """Let them go again; how it stands then."""
    await read_body(ask, QueueResume, is_needed=False)
    await acts_of(ask).resume_queue(ask.params["name"])
    return await show(ask)
