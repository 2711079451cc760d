"""Layer 5. Is the process up, and may it be sent requests?"""

from typing import TYPE_CHECKING

from wakeful.http.asks import Answer, Ask, json_answer
from wakeful.runtime.lock_watch import words

if TYPE_CHECKING:
    from wakeful.runtime.node import Node

MUTE_MS = 3_000  # a store that takes this long has more than a hiccup


async def alive(ask: Ask) -> Answer:
    """The process answers."""
    return json_answer({"status": "up"})


async def ready(ask: Ask) -> Answer:
    """200 when this process takes calls; 503 with the reason when it should be sent none."""
    why = why_not(ask)
    if why is not None:
        return json_answer({"status": "not ready", "reason": why}, 503)
    node = ask.deployment.node
    cut = 0 if node is None else sum(len(home.routes.contacts.list_unreached()) for home in node.all_homes)
    # Others don't reach it either, so to be sent nothing would help nobody; but it is said.
    return json_answer({"status": "ready", "unreached": cut} if cut else {"status": "ready"})


def why_not(ask: Ask) -> str | None:
    """The first thing that is in the way. No names of hosts, files or stores: everybody may ask this.

    Of a lock the table and the session are said: tables are called the same everywhere, and a number opens no door.
    """
    node = ask.deployment.node
    if node is None:
        return "the app is not running"
    why = next(filter(None, map(_why_not_here, node.all_homes)), None)
    return "every place for requests is taken" if why is None and ask.is_full else why


def _why_not_here(home: "Node") -> str | None:
    if home.state not in ("up", "down"):
        return f"the node is {home.state}"
    if home.lock_watch.held_lock is not None:
        return words(home.lock_watch.held_lock)  # before what may only follow from it
    if home.state == "down":
        return "the store can't be reached"
    if home.is_doubted or max(home.membership.waits_ms, home.committer.sending_ms) >= MUTE_MS:
        return "the store does not answer"
    if home.dispatcher.reading_ms >= MUTE_MS:
        return "the timers can't be read"  # somebody holds a lock on their table, say: what is due here does not fire
    if home.membership.is_draining:
        return "the node is draining"
    if home.is_clustered and not home.is_client and home.name not in home.membership.nodes:
        return "the node is no member yet"
    return None
