"""Layer 3. The links of this process to the other nodes: one to each, made when first needed."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from wakeful.transport.protocol import Handler, Link, Transport
from wakeful.values.errors import Unavailable


class Links:
    """Shared by the nodes of a process, which has one of them for each store."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._made: dict[str, asyncio.Future[Link]] = {}

    async def serve(self, handler: Handler) -> str:
        """Take calls of others; the address at which they reach this process."""
        return await self._transport.serve(handler)

    async def to(self, name: str, address: str) -> Link:
        """The link to that node; those who come while it is being made wait for the same one."""
        known = self._made.get(name)
        if known is not None and known.done() and (known.cancelled() or known.exception() or _is_over(known.result())):
            known = None
        if known is None:
            known = asyncio.ensure_future(self._transport.connect(address, expect_node=name))
            known.add_done_callback(lambda made: made.cancelled() or made.exception())  # whoever waits raises it
            self._made[name] = known
        return await asyncio.shield(known)

    async def greet(self, peers: Mapping[str, str]) -> None:
        """Be let in by one of these nodes (name → address), or raise the `ClusterError` with which one refuses.

        Those that don't answer are passed over: they may be dying, and a new cluster has nobody to ask.
        """
        asked = [asyncio.ensure_future(self.to(name, address)) for name, address in peers.items()]
        try:
            for answer in asyncio.as_completed(asked):
                with suppress(Unavailable):
                    await answer
                    return
        finally:
            for one in asked:
                one.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    def leave(self, because: str) -> None:
        """No new calls from others, please."""
        self._transport.leave(because)

    async def close(self) -> None:
        for made in self._made.values():
            made.cancel()
        self._made.clear()
        await self._transport.close()


def _is_over(link: Link) -> bool:
    return link.is_closed or link.is_leaving
