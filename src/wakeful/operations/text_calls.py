"""Layer 5. How does a call whose arguments are text, as a command line has them, become one that the method takes?

By the annotations of the method, so where the program is: with the object's owner.
"""

from typing import TYPE_CHECKING

from wakeful.runtime.feature import Feature

if TYPE_CHECKING:
    from wakeful.runtime.calls import Call
    from wakeful.runtime.node import Node
    from wakeful.runtime.registry import ObjectClass
    from wakeful.runtime.turn import Turn

CALL = "calls.text"  # (method, texts)


class TextCallFeature(Feature):
    """Methods can be called with text."""

    def equip(self, node: "Node") -> None:
        node.rewrites[CALL] = rewrite

    async def erase(self, turn: "Turn") -> None:
        """Nothing: it keeps nothing."""


def rewrite(known: "ObjectClass", call: "Call") -> None:
    """Make it a call of the method itself; each text is JSON if that is what the method takes there, else it is itself."""
    from wakeful.operations.arguments import signature_of

    method, texts = call.args
    known.check_outside(method)
    call.method, call.args = method, tuple(signature_of(known, method).read_texts(texts))
