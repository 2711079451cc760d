"""Layer 3. Do this node and the others reach each other? Asked before it joins, or it would be half in."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from wakeful.policy.lease import Lease
from wakeful.runtime.env import Env, NodeRequest
from wakeful.store.protocol import NodeRow
from wakeful.transport.addresses import parse
from wakeful.values.errors import Unavailable, Unreachable

log = logging.getLogger("wakeful.membership")

Look = Callable[[], Awaitable[Sequence[NodeRow]]]
Greeting = Callable[[Mapping[str, str]], Awaitable[Mapping[str, Unavailable]]]

REACH = "reach"  # what they ask each other
LOOK_MS = 500  # between two looks at whether those who don't answer live
BACK_ASKED_MAX = 5  # others that are asked to dial this node
BACK_MS = 2_000  # how long their dialling may take
BACK_ASK_MS = 3_000
BACK_AGAIN_MS = 1_000  # they may be busy just then
BACK_NAME_MS = 60_000  # what a name led to, or that it led nowhere, may be remembered for half a minute


def looks_max(lease: Lease) -> int:
    """So many: by then whoever lives has renewed its lease, and that of others is over."""
    return -(-lease.known_ms // LOOK_MS)


async def check_there(
    env: Env, company: Sequence[NodeRow], look: Look | None, *, lease: Lease, greet: Greeting
) -> Sequence[NodeRow]:
    """One of the others answers, or none of them lives; `Unreachable` when those that live can't be called from here.

    Which of those that don't answer live, and are not dying or frozen, shows when they renew their leases: `look` reads
    them again. Without it they are only warned of, as are those that live and are slow. Whom one may ask is returned.
    """
    seen: dict[str, int] = {}  # the leases of those that did not answer, as of a look after that
    for _ in range(1 if look is None else looks_max(lease)):
        silent = await greet({row.node: row.address for row in company if row.address})
        if not silent:
            return company
        quiet = [row for row in company if row.node in silent]
        for row in quiet:
            _check_machine(env, row, silent[row.node])
        alive = [row for row in quiet if row.lease_until > seen.get(row.node, row.lease_until)]
        for row in alive:
            _check_late(row, silent[row.node])
        if alive or look is None:
            break
        await env.clock.sleep(LOOK_MS)
        company = await look()
        for row in company:
            if row.node in silent:
                seen.setdefault(row.node, row.lease_until)
    for row in company:
        if row.node in silent and row.is_here:
            why = silent[row.node].message
            log.warning("node %s can't be reached: %s", row.node, why, extra={"code": "link.greet"})
    return []


def _check_machine(env: Env, row: NodeRow, error: Unavailable) -> None:
    is_elsewhere = error.code == "link.elsewhere" or _is_of_another_machine(env, row)
    if is_elsewhere and row.is_here and not env.is_client:
        raise Unreachable(
            f"node {row.node} ({row.about}) listens on {row.address} of another machine, where this one can't reach it; "
            "start every node with --listen HOST:PORT, of an address that the others reach"
        )


def _check_late(row: NodeRow, error: Unavailable) -> None:
    if error.code != "link.late":
        why = error.message.removesuffix("; try again")
        raise Unreachable(
            f"node {row.node} ({row.about}) lives, and can't be called from here: {why}; see that this machine reaches "
            "its address, and that all nodes have TLS or none"
        )


async def check_back(env: Env, company: Sequence[NodeRow], ask: NodeRequest) -> None:
    """Have others dial this node as they will have to; `Unreachable` when none of those who tried gets through, twice.

    Those who look up its name may be led elsewhere for a while, so for a name it is tried for longer.
    """
    asked = [row for row in company if row.address][:BACK_ASKED_MAX]
    until = env.clock.now() + (BACK_NAME_MS if parse(env.address).is_named else BACK_AGAIN_MS)
    while (failed := await _dialled(env, asked, ask)) is not None:
        row, why = failed
        if env.clock.now() < until:
            await env.clock.sleep(BACK_AGAIN_MS)
            continue
        raise Unreachable(
            f"node {row.node} ({row.about}) can't reach this one at {env.address}: {why.removesuffix('; try again')}; "
            "give the address that others reach it by with --listen or --advertise HOST:PORT, and let them through"
        )


async def _dialled(env: Env, asked: Sequence[NodeRow], ask: NodeRequest) -> tuple[NodeRow, str] | None:
    """None as soon as one of them gets through, or when none could be asked; else one of them, and why it does not."""
    asking = {
        asyncio.ensure_future(ask(row, REACH, env.name, env.address, timeout_ms=BACK_ASK_MS)): row for row in asked
    }
    failed: tuple[NodeRow, str] | None = None
    try:
        left = set(asking)
        while left:
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                if one.exception() is not None:
                    continue  # one that can't be asked, or is older than the question
                why = one.result()
                if why is None:
                    return None
                failed = failed or (asking[one], str(why))
        return failed
    finally:
        for one in asking:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


def _is_of_another_machine(env: Env, row: NodeRow) -> bool:
    """It gives an address that leads nowhere but to its own machine, which by its name is not this one."""
    is_its_own = row.address.startswith("tcp:") and parse(row.address).is_loopback
    return is_its_own and row.about.partition(" ")[0] != env.about.partition(" ")[0]
