"""Layer 5. How does a page hear that something happened?

A stream of server-sent events that says when, not what: however much happens, a browser hears of it at most twice a
second and then fetches the part of its page that lives.
"""

import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from wakeful.dashboard.renderer import HEADERS
from wakeful.dashboard.visits import Visit
from wakeful.values.errors import Denied, Unavailable

if TYPE_CHECKING:
    from starlette.responses import Response

GATHER_MS = 400
QUIET_MS = 2_000  # a sample of the charts comes as often
CHECK_MS = 15_000  # whether the session still is one
RETRY_MS = 2_000
SOME_MAX = 4_000


async def live(visit: Visit) -> "Response":
    """The stream; it ends when the node stops, or when its visitor may not read any more."""
    from starlette.responses import StreamingResponse

    headers = HEADERS | {"x-accel-buffering": "no"}
    return StreamingResponse(stream(visit), media_type="text/event-stream", headers=headers)


async def stream(visit: Visit) -> AsyncIterator[bytes]:
    """`fresh` when something happened that the visitor may see, `sample` for the charts, `gone` at the end."""
    node, caller = visit.node, visit.caller
    history = visit.desk.history
    sees = None if caller.tenant is None else lambda event: str(event.get("key", "")).startswith(caller.tenant or "")
    is_away = False
    checked_at, sampled = node.clock.now(), history.samples[-1]["t"] if history.samples else 0.0
    yield f"retry: {RETRY_MS}\n\n".encode()
    async with node.events.listen(sees=sees) as listener:
        while not node.events.is_over:
            news = await listener.some(limit=SOME_MAX, wait_ms=QUIET_MS)
            if news:
                yield _event("fresh", {"count": len(news)})
                await node.clock.sleep(GATHER_MS)
            for sample in [one for one in history.samples if one["t"] > sampled] if caller.tenant is None else ():
                sampled = sample["t"]
                yield _event("sample", sample)
            if not news:
                yield b": still here\n\n"  # a connection that is cut off is noticed by writing to it
            if node.clock.now() - checked_at >= CHECK_MS:
                try:
                    await visit.desk.gate.admit(visit.request, "read")
                except Denied:
                    break
                except Unavailable:  # nobody can say now, and nothing can be read; asked again until somebody can
                    is_away = True
                    continue
                checked_at = node.clock.now()
                if is_away:  # what happened meanwhile was not heard
                    is_away = False
                    yield _event("fresh", {"count": 0})
    yield _event("gone", {})


def _event(name: str, data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


async def history(visit: Visit) -> "Response":
    """The samples so far, for charts that begin."""
    from starlette.responses import JSONResponse

    return JSONResponse(list(visit.desk.history.samples), headers=HEADERS)
