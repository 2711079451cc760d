"""Layer 5. What may somebody outside see of a machine, once or as it changes?

Who asks is known by the name of their token, and the class says what that caller sees (`visible`, `audible`): of what
calls answer, and of the news at `/v1/objects/{class}/{key}/watch`, as server-sent events here and over a WebSocket in
`watch_socket`. What a workflow publishes is there too, see `workflow_watch`.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from wakeful.http.asks import LIGHT, Answer, Ask, in_thread
from wakeful.http.looks import connection_of, object_of
from wakeful.http.news import frame, tell_news
from wakeful.http.problems import Problem, Raised
from wakeful.http.stream import RETRY_MS, Ends, only_head, run_stream
from wakeful.http.table import flag
from wakeful.http.workflow_watch import watch_workflow
from wakeful.machine import Machine
from wakeful.machines.news import SEEN, MachineWatch
from wakeful.machines.node_machines import feature_of
from wakeful.machines.snapshot import Snapshot
from wakeful.machines.watchers import News
from wakeful.operations.arguments import weighs_more
from wakeful.policy.shares import Asker
from wakeful.security.object_tokens import SNAPSHOT
from wakeful.values.errors import WakefulError
from wakeful.values.ids import ObjectId
from wakeful.values.json_patch import diff, json_bytes
from wakeful.views.plain import plain
from wakeful.workflows.node_workflows import feature_of as workflows_of

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

    from wakeful.runtime.node import Node
    from wakeful.security.gate import Gate
    from wakeful.security.scopes import Caller

PATCHES = flag("patches", "Tell after the first snapshot only what has changed, as JSON patches.", default=False)


async def shown_to(node: "Node", id: ObjectId, answer: Any, who: "Caller", *, deadline_at: int | None = None) -> Any:
    """An answer of an object as this caller may see it: of a machine's snapshot what its class, or the token, says."""
    if not isinstance(answer, Snapshot):
        return answer
    if who.grant is not None and SNAPSHOT not in who.grant.methods:
        return None
    bound = feature_of(node).classes.get(id.cls)
    if bound is None or bound.cls.visible is Machine.visible:  # type: ignore[attr-defined]
        return answer
    deadline_ms = None if deadline_at is None else max(1, deadline_at - node.clock.now())
    try:
        return await node.send(id, SEEN, (answer, who.name), {}, deadline_ms=deadline_ms, request_key=None)
    except WakefulError:
        raise
    except Exception as error:
        raise Raised(error) from None


class OutsideWatch(MachineWatch):
    """What the class's own code raises is its answer here as well, and no fault of ours."""

    async def look(self) -> list[News]:
        try:
            return await super().look()
        except WakefulError:
            raise
        except Exception as error:
            raise Raised(error) from None


class Speech:
    """News of one machine as what is sent of them on one stream: whole snapshots, or what has changed since the last one.

    The caller's view comes first and the patch is made of it: what the class hides is in neither.
    """

    def __init__(self, asker: Asker, spell: Callable[[str, dict[str, Any]], bytes], *, is_patched: bool) -> None:
        self._asker = asker
        self._spell = spell
        self._is_patched = is_patched
        self._last: dict[str, Any] | None = None
        self._at = 0  # how many states were told: each has a number, for this stream alone

    async def say(self, news: News) -> bytes:
        """What is to be sent, of much in a thread; nothing of a snapshot that looks as the last one did."""
        if weighs_more(news, LIGHT):
            return await in_thread(partial(self._say, news), self._asker)
        return self._say(news)

    async def say_all(self, news: list[News]) -> bytes:
        return b"".join([await self.say(one) for one in news])

    def _say(self, news: News) -> bytes:
        if not isinstance(news, Snapshot):
            return self._spell("emitted", {"event": plain(news)})
        state = plain_snapshot(news)
        if not self._is_patched:
            return self._spell("snapshot", {"snapshot": state})
        before, last, self._last = self._at, self._last, state
        patch = None if last is None else diff(last, state)
        if patch == []:
            return b""
        self._at += 1
        if patch is not None and len(json_bytes(patch)) < len(json_bytes(state)):
            return self._spell("patch", {"from": before, "to": self._at, "patch": patch})
        return self._spell("snapshot", {"to": self._at, "snapshot": state})


async def watch(ask: Ask) -> Answer | None:
    """Its snapshots and the events that it emits, as server-sent events; first of all how it stands."""
    id = object_of(ask)
    if id.cls in workflows_of(ask.node).classes:
        await watch_workflow(ask, id)
        return None
    await check_watched(ask.node, ask.gate, connection_of(ask), ask.who, id)
    if ask.scope["method"] == "HEAD":
        await only_head(ask)
        return None
    watching = OutsideWatch(ask.deployment, id, ask.who.name)
    speech = Speech(ask.asker, _event_frame, is_patched=ask.query["patches"])
    first_news = await watching.look()  # what keeps it from being watched is an answer with a status

    async def tell(ends: Ends) -> None:
        await tell_news(ask, ends, watching.wait, speech.say_all)

    first = f"retry: {RETRY_MS}\n: snapshots and events of {id.cls}\n\n".encode()
    await run_stream(ask, first + await speech.say_all(first_news), tell)
    return None


async def check_watched(node: "Node", gate: "Gate", connection: "HTTPConnection", who: "Caller", id: ObjectId) -> None:
    """`Problem` when there is nothing to watch; who may not ask for its snapshot may not watch it either."""
    if id.cls in workflows_of(node).classes:
        words = f"{id.cls} is a Workflow: what it publishes comes as server-sent events, and not over a WebSocket"
        raise Problem(404, "machine.class", words)
    if id.cls not in feature_of(node).classes:
        raise Problem(404, "machine.class", f"{id.cls} is no Machine or Workflow, so there is nothing to watch")
    await gate.check_exposed(connection, who, id.cls, id.key, "snapshot")


def plain_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot in JSON, instants as text."""
    found: dict[str, Any] = plain(snapshot)
    return {name: value for name, value in found.items() if name != "$type"}


def _event_frame(kind: str, message: dict[str, Any]) -> bytes:
    """As an event of a stream: what there is only one thing to say of stands for itself."""
    return frame(kind, next(iter(message.values())) if len(message) == 1 else message)
