"""Layer 5. The end of a WebSocket pair that travels with an answer to where the client is."""

from typing import Any

from wakeful.compat.workers.failures import Unsupported
from wakeful.values.ids import ObjectId


class ClientEnd:
    """The end of a pair that is given away with the answer; it can be passed on, and nothing else."""

    def __init__(self, data: dict[str, Any] | None, server: Any = None) -> None:
        self._data = data
        self._server = server

    @property
    def data(self) -> dict[str, Any]:
        """What the other side of the answer needs to connect the client."""
        if self._data is not None:
            return self._data
        assert self._server is not None
        if self._server._state is None:
            raise Unsupported(
                "accept one end of the pair with ctx.acceptWebSocket(), in an object; accept() is not here"
            )
        found: dict[str, Any] = self._server._pending()
        return found

    @property
    def target(self) -> ObjectId:
        return ObjectId(*self.data["target"])

    def accept(self) -> None:
        raise Unsupported("a Worker that speaks over sockets itself is not here; let an object do it")

    send = addEventListener = accept  # noqa: N815  the name there
