"""Layer 5. Who is told of what happens, and what came of the latest deliveries?"""

from collections.abc import Awaitable, Callable
from typing import Any, TypedDict

from wakeful.notices.deliveries import CLASS
from wakeful.notices.feature import ALL, DESCRIBE
from wakeful.values.ids import ObjectId
from wakeful.views.plain import Instant, iso

Send = Callable[[ObjectId, str, tuple[Any, ...], dict[str, Any]], Awaitable[Any]]


class PlainDelivery(TypedDict):
    """One attempt to deliver a notice."""

    id: str
    at: Instant
    verdict: str
    attempt: int
    error: str | None


PlainWebhook = TypedDict(
    "PlainWebhook",
    {
        "name": str,
        "kind": str,
        "url": str | None,
        "on": list[str],
        "class": str | None,
        "prefix": str,
        "at_most_ms": int,
        "deliveries": list[PlainDelivery],
    },
)


class PlainTest(TypedDict):
    """What came of a test."""

    name: str
    ok: bool
    id: str
    status: int | None
    error: str | None


async def rows(send: Send) -> list[PlainWebhook]:
    """Webhooks and handlers of the program, as the node knows them that is asked, with their latest deliveries."""
    found: list[PlainWebhook] = await send(ObjectId(CLASS, ALL), DESCRIBE, (), {})
    for row in found:
        row["deliveries"] = [_plain(one) for one in row["deliveries"]]
    return found


def _plain(one: Any) -> PlainDelivery:
    plain: PlainDelivery = one | {"at": iso(one["at"])}
    return plain
