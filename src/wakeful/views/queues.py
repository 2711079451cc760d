"""Layer 5. How do the queues stand that jobs go through?"""

from typing import Any, TypedDict

from wakeful.queues.queues import QueueInfo, get_queue, list_queues
from wakeful.runtime.admission import QUEUES
from wakeful.values.ids import ObjectId, check_key
from wakeful.views.plain import Instant, iso_of
from wakeful.views.view import View


class PlainQueue(TypedDict):
    """A queue in the terms of JSON."""

    name: str
    running: int
    waiting: int
    paused_at: Instant | None
    note: str
    opens_at: Instant | None
    concurrency: int | None
    rate: str | None
    key_concurrency: int | None
    key_rate: str | None
    throttle: str | None
    debounce_ms: int
    debounce_most_ms: int
    said_at: Instant | None
    admitted: int
    dropped: int
    replaced: int
    oldest_at: Instant | None
    moved_at: Instant | None


async def rows(view: View) -> list[PlainQueue]:
    """All queues, by name, as they stand on disk."""
    store = view.store_of(ObjectId(QUEUES, "all"))
    with view.beside():
        return await view.each(plain_queue, await list_queues(store, view.now()))


async def show(view: View, name: str) -> PlainQueue:
    """One of them; `UnknownObject` when nothing has gone through it."""
    return plain_queue(await get_queue(view.store_of(ObjectId(QUEUES, name)), check_key("queue", name), view.now()))


def plain_queue(one: QueueInfo) -> PlainQueue:
    return {
        "name": one.name,
        "running": one.running,
        "waiting": one.waiting,
        "paused_at": iso_of(one.paused_at),
        "note": one.note,
        "opens_at": iso_of(one.opens_at),
        "concurrency": one.concurrency,
        "rate": one.rate,
        "key_concurrency": one.key_concurrency,
        "key_rate": one.key_rate,
        "throttle": one.throttle,
        "debounce_ms": one.debounce_ms,
        "debounce_most_ms": one.debounce_most_ms,
        "said_at": iso_of(one.said_at),
        "admitted": one.admitted,
        "dropped": one.dropped,
        "replaced": one.replaced,
        "oldest_at": iso_of(one.oldest_at),
        "moved_at": iso_of(one.moved_at),
    }


def limits_words(row: PlainQueue | dict[str, Any]) -> str:
    """What it holds to, in few words."""
    options = ("concurrency", "rate", "key_concurrency", "key_rate", "throttle")
    words = [f"{option.replace('_', ' ')} {row[option]}" for option in options if row[option] is not None]  # type: ignore[literal-required]
    words += [f"debounce {row['debounce_ms'] / 1000:g}s"] if row["debounce_ms"] else []
    return ", ".join(words) or "none"
