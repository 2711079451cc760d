"""Layer 5. Who is in the way of a command that the store does not answer?"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from wakeful.cli.exit_codes import one_line
from wakeful.store.protocol import Store, TableLock, Views
from wakeful.values.errors import StoreDown, WakefulError

if TYPE_CHECKING:
    from wakeful.store.postgres.health import LongSession

SILENT_S = 3.0  # that a command may take without a word
LOOK_S = 2.0  # for each look: neither waits for a lock


class InTheWay(NamedTuple):
    """Somebody who holds a lock, and what to do."""

    text: str
    remedy: str
    is_awaited: bool  # somebody waits for it now: it is not only there


async def in_the_way(store: Store, url: str) -> InTheWay | None:
    """The session that holds a table of ours, with its age and query; None when there is none, or nobody can say.

    The table of migrations, which only an opening needs, is no table that nodes watch: of that only the session is known.
    """
    from wakeful.cli.checkups import sessions
    from wakeful.runtime.lock_watch import remedy as ending
    from wakeful.runtime.lock_watch import words

    lock = await _lock(store)
    found = await _sessions(url)
    holders = [one for one in found if (one.pid == lock.pid if lock else one.touches and not one.is_waiting)]
    if not holders and lock is None:
        return None
    is_awaited = lock is not None or any(holders[0].pid in one.blockers for one in found)
    text, remedy = "", "" if lock is None else ending(lock)
    if holders:
        finding = sessions(holders[:1], 0)[0]
        text, remedy = f"{finding.text} ({finding.evidence})" if finding.evidence else finding.text, finding.remedy
    return InTheWay(": ".join(filter(None, [words(lock) if lock else "", text])), remedy, is_awaited)


@asynccontextmanager
async def naming_locks(store: Store, url: str) -> AsyncIterator[None]:
    """While the block waits, and in its `StoreDown`, it is said who is in the way, when somebody is."""
    telling = asyncio.ensure_future(_tell(store, url)) if store.shared else None
    try:
        yield
    except StoreDown as error:
        found = await in_the_way(store, url) if store.shared else None
        if found is None:
            raise
        raise StoreDown(f"{error.message}, because {found.text}; {found.remedy}", code=error.code) from error
    finally:
        if telling is not None:
            telling.cancel()


async def _tell(store: Store, url: str) -> None:
    """One line for who wonders why nothing comes; on stderr, where it is in nobody's way."""
    found = None
    while found is None:
        await asyncio.sleep(SILENT_S)
        found = await in_the_way(store, url)
    print(one_line(f"waiting: {found.text}; {found.remedy}"), file=sys.stderr, flush=True)


async def _lock(store: Views) -> TableLock | None:
    with suppress(TimeoutError, WakefulError):
        async with asyncio.timeout(LOOK_S):
            return next(iter(await store.locks()), None)
    return None


async def _sessions(url: str) -> "list[LongSession]":
    from wakeful.store.postgres.health import health
    from wakeful.store.postgres.url import parse_url

    with suppress(TimeoutError, WakefulError):
        async with asyncio.timeout(LOOK_S):
            return (await health(parse_url(url))).sessions or []
    return []
