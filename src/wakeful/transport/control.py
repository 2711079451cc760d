"""Layer 3. How does another process on this machine talk to a running node?"""

from wakeful.runtime.node import Node


class ControlServer:
    def __init__(self, node: Node) -> None:
        self._node = node

    async def listen(self) -> None: ...

    async def close(self) -> None: ...
