"""Layer 3. What does a package (jobs, schedules, machines, sockets…) add to every node of a program?"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wakeful.runtime.node import Node


class Feature:
    """One such package. A program has one of each, and asks it at these moments; what it has nothing for stays as it is here."""

    classes: Sequence[tuple[type, str]] = ()  # objects of its own, each with its reserved name

    def equip(self, node: "Node") -> None:
        """Before the node starts: its timer handlers, its operations, and what they share on that node."""

    async def started(self, node: "Node") -> None:
        """The node runs, and is no client: what is to be there from the start."""

    async def stopping(self, node: "Node") -> None:
        """The node is about to stop, and can still be asked."""
