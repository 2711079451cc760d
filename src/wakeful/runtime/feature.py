"""Layer 3. What does a package (jobs, schedules, machines, sockets…) add to every node of a program?"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wakeful.runtime.node import Node
    from wakeful.runtime.turn import Turn


class Feature(ABC):
    """One such package. A program has one of each, and asks it at these moments; what it has nothing for stays as it is here.

    But for `erase`: what a feature keeps of an object somewhere else would stay when the object is forgotten, so each
    says what that is, or that there is nothing.
    """

    classes: Sequence[tuple[type, str]] = ()  # objects of its own, each with its reserved name

    def equip(self, node: "Node") -> None:  # noqa: B027 - a feature may have nothing for it, here and below
        """Before the node starts: its timer handlers, its operations, and what they share on that node."""

    async def started(self, node: "Node") -> None:  # noqa: B027
        """The node runs, and is no client: what is to be there from the start."""

    @abstractmethod
    async def erase(self, turn: "Turn") -> None:
        """The object of this turn is forgotten: end what it has going, tell those who wait for it, and take its name out of
        other objects' rows. Its own rows go without this, and its timers through their handlers (`on_forgotten`).
        Asked again after a crash.
        """

    async def stopping(self, node: "Node") -> None:  # noqa: B027
        """The node is about to stop, and can still be asked."""
