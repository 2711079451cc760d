"""Layer 5. What is new with one object, as server-sent events: how is that told, and until when?"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from wakeful.http.asks import Ask
from wakeful.http.problems import problem_of
from wakeful.http.stream import Ends, put, unless
from wakeful.values.errors import NotRunning
from wakeful.values.json_patch import json_bytes


def frame(kind: str, data: Any) -> bytes:
    """One event."""
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), json_bytes(data))


async def tell_news(
    ask: Ask,
    ends: Ends,
    wait: Callable[[], Coroutine[Any, Any, list[Any]]],
    say: Callable[[list[Any]], Awaitable[bytes]],
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Whatever comes, until it is over or the connection is; what keeps it from being asked for is told as the last."""
    while not is_over():
        try:
            news = await unless(ends, wait())
        except NotRunning:
            return
        except Exception as error:
            problem = problem_of(error, ask.path, is_operator=ask.who.may("operate"))
            await put(ask, frame("problem", problem.body))
            return
        if news is None:
            return
        await put(ask, await say(news) or b": still here\n\n")
