"""Layer 5. Which calls and due timers are under way, on all nodes: since when, for whom, waiting for what?"""

from typing import Any, NamedTuple

from wakeful.runtime.underway import REQUEST, calls_of
from wakeful.values.errors import BadName
from wakeful.values.ids import ObjectId, check_class, check_key
from wakeful.views.nodes import ask_each
from wakeful.views.pages import check_limit
from wakeful.views.plain import Instant, OfObject, iso, many
from wakeful.views.timer_names import name_words
from wakeful.views.view import View, is_shown


class PlainCall(OfObject):
    """A call, or the turn of a due timer, in the terms of JSON. `id` is what cancelling takes; None: it can't be cancelled, or not yet."""

    id: str | None
    method: str
    words: str
    kind: str
    state: str
    since: Instant
    for_ms: int
    deadline_at: Instant | None
    caller: str | None
    is_awaited: bool
    waits_for: str
    node: str | None


class CallRows(NamedTuple):
    """Those under way, the ones that have been at it for longest first, and the nodes that did not say."""

    rows: list[PlainCall]
    mute: list[str]


async def page(
    view: View, cls: str | None = None, key: str | None = None, limit: int = 50, *, prefix: str | None = None
) -> CallRows:
    """What the nodes are doing for these objects; what is not theirs is not told to whoever is bound to a prefix."""
    check_limit(limit)
    if view.running is None:
        return CallRows([], [])
    rows: list[PlainCall] = []
    mute: list[str] = []
    asked = (limit, cls, key, prefix)
    for home in view.running.all_homes:
        others = home.routes.contacts.alive() if home.is_clustered else {}
        answers = await ask_each(home, list(others.values()), REQUEST, *asked)
        mute += [node for node in others if node not in answers]
        answers[home.name] = calls_of(home).rows(*asked)
        for node, told in answers.items():
            shown = [one for one in told if is_shown(one["class"], cls)]
            rows += [_plain(one, view.now(), node, prefix) for one in shown]
    rows.sort(key=lambda row: -row["for_ms"])
    return CallRows(rows[:limit], mute if prefix is None else [])


def _plain(row: dict[str, Any], now: int, node: str, prefix: str | None) -> PlainCall:
    id = ObjectId(row["class"], row["key"])
    callers = [ObjectId(*one) for one in row["chain"]]
    return {
        "id": None if row["name"] is None else call_id(id, row["name"]),
        "class": id.cls,
        "key": id.key,
        "method": row["method"],
        "words": name_words(row["method"]) if row["kind"] == "timer" else row["method"],
        "kind": row["kind"],
        "state": row["state"],
        "since": iso(now - row["for_ms"]),
        "for_ms": row["for_ms"],
        "deadline_at": None if row["left_ms"] is None else iso(now + row["left_ms"]),
        "caller": str(callers[-1]) if callers and _is_told(callers[-1].key, prefix) else None,
        "is_awaited": row["is_awaited"],
        "waits_for": _wait_words(row["wait"], prefix),
        "node": node if prefix is None else None,
    }


def _is_told(key: str, prefix: str | None) -> bool:
    return prefix is None or key.startswith(prefix)


def _wait_words(wait: dict[str, Any], prefix: str | None) -> str:
    if wait["for"] == "call":
        more = f" and {many(wait['count'] - 1, 'other call')}" if wait["count"] > 1 else ""
        is_told = _is_told(wait["key"], prefix)
        return f"{wait['class']}/{wait['key']}.{wait['method']}{more}" if is_told else f"another object{more}"
    if wait["for"] == "turn":
        behind = "the turn before it" if wait["method"] is None else name_words(wait["method"])
        return f"its turn, behind {behind}" + (f" and {wait['ahead']:,} more" if wait["ahead"] else "")
    return {
        "commit": "storage: a commit on its way to disk",
        "read": "storage: a read",
        "slot": "a slot: as many turns run as may at once",
        "owner": "an owner of its object",
        "lingering": "code of a turn that is over, which could not be stopped",
    }.get(wait["for"], "its own code, or what that awaits outside")


def call_id(id: ObjectId, name: str) -> str:
    """What a call under way is cancelled by."""
    return f"{id.cls}/{id.key}@{name}"


def parse_call_id(text: str) -> tuple[ObjectId, str]:
    """The object, and the name of the call there; `BadName` for what can't be one."""
    target, at, name = text.rpartition("@")
    cls, slash, key = target.partition("/")
    if not (at and slash and name):
        raise BadName(f"{text[:200]!r} is no id of a call; GET /v1/calls and `wakeful calls` show them", code="call.id")
    return ObjectId(check_class(cls), check_key(cls, key)), name
