"""Layer 3. The links of this process to the other nodes: one to each, made when first needed."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from wakeful.transport.protocol import Handler, Link, Transport
from wakeful.values.errors import LinkLost, Unavailable


class Links:
    """Shared by the nodes of a process, which has one of them for each store."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._made: dict[str, asyncio.Future[Link]] = {}

    @property
    def open(self) -> int:
        """How many there are."""
        return sum(made.done() and not _is_over(made) for made in list(self._made.values()))

    async def serve(self, handler: Handler) -> str:
        """Take calls of others; the address at which they reach this process."""
        return await self._transport.serve(handler)

    def known(self, name: str) -> Link | None:
        """The link to that node, if there is one."""
        made = self._made.get(name)
        return None if made is None or not made.done() or _is_over(made) else made.result()

    async def to(self, name: str, address: str, *, within_ms: int | None = None) -> Link:
        """The link to that node; those who come while it is being made wait for the same one, no longer than they have."""
        known = self._made.get(name)
        if known is None or _is_over(known):
            # Nodes come and go under new names: what is over is forgotten, whosever it was.
            self._made = {other: made for other, made in self._made.items() if not _is_over(made)}
            known = asyncio.ensure_future(self._transport.connect(address, expect_node=name))
            known.add_done_callback(lambda made: made.cancelled() or made.exception())  # whoever waits raises it
            self._made[name] = known
        if within_ms is not None and not known.done():
            await asyncio.wait({known}, timeout=within_ms / 1000)
            if not known.done():
                raise LinkLost(f"no link to node {name} at {address} in time", was_sent=False, code="link.connect")
        return await asyncio.shield(known)

    async def greet(self, peers: Mapping[str, str]) -> dict[str, Unavailable]:
        """Be let in by one of these nodes (name → address), or raise the `ClusterError` with which one refuses.

        Those that don't answer are passed over: they may be dying, and a new cluster has nobody to ask. When none
        did, why not of each.
        """
        asked = {name: asyncio.ensure_future(self.to(name, address)) for name, address in peers.items()}
        try:
            for answer in asyncio.as_completed(asked.values()):
                with suppress(Unavailable):
                    await answer
                    return {}
            return {name: error for name, one in asked.items() if isinstance(error := one.exception(), Unavailable)}
        finally:
            for one in asked.values():
                one.cancel()
            await asyncio.gather(*asked.values(), return_exceptions=True)

    def leave(self, because: str) -> None:
        """No new calls from others, please."""
        self._transport.leave(because)

    async def close(self) -> None:
        for made in self._made.values():
            made.cancel()
        self._made.clear()
        await self._transport.close()


def _is_over(made: asyncio.Future[Link]) -> bool:
    """It can't be asked any more, or could never be made."""
    if not made.done():
        return False
    return made.cancelled() or made.exception() is not None or made.result().is_closed or made.result().is_leaving
