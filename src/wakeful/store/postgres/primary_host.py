"""Layer 2. Which of the URL's hosts is the one that takes writes now?

The driver asks them one after the other within one time, so that a first host which swallows packets (a primary that lost
its power) leaves none for the second. Here the next one is asked when the one before was silent for a moment.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg

from wakeful.store.postgres.url import ServerHost

NEXT_S = 0.5  # for so long a host is waited for before the next is asked as well

# What a host says that is not the one to use now; any other answer is about us, and the same on all.
AWAY = (OSError, asyncpg.exceptions.TargetServerAttributeNotMatched, asyncpg.CannotConnectNowError)


class NoneServes(Exception):
    """None of the hosts can be used now."""

    def __init__(self, failed: Sequence[tuple[ServerHost, BaseException]]) -> None:
        super().__init__(", ".join(f"{host.shown}: {_why(error)}" for host, error in failed))


async def dial(hosts: Sequence[ServerHost], *, timeout_s: float, **options: Any) -> Any:
    """A connection to the first host that answers as wanted; else what is wrong, with each host named if there are several."""
    if len(hosts) == 1:
        return await asyncpg.connect(hosts[0].dsn, timeout=timeout_s, **options)
    asked: dict[asyncio.Task[Any], ServerHost] = {}
    failed: dict[ServerHost, BaseException] = {}
    rest = list(hosts)
    try:
        while rest or len(failed) < len(asked):
            waiting = [task for task in asked if asked[task] not in failed]
            if rest:
                host = rest.pop(0)
                task = asyncio.ensure_future(asyncpg.connect(host.dsn, timeout=timeout_s, **options))
                asked[task] = host
                waiting.append(task)
            done, _ = await asyncio.wait(waiting, timeout=NEXT_S if rest else None, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if error is None:
                    del asked[task]
                    return task.result()
                if not isinstance(error, AWAY):
                    raise error
                failed[asked[task]] = error
        raise NoneServes([(host, failed[host]) for host in hosts])
    finally:
        for task in asked:
            task.cancel()
        for late in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(late, asyncpg.Connection):
                late.terminate()


def _why(error: BaseException) -> str:
    if isinstance(error, asyncpg.exceptions.TargetServerAttributeNotMatched):
        return "it is not what target_session_attrs asks for (a standby takes no writes)"
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    return " ".join(str(error).split()) or type(error).__name__
