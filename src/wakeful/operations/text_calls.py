"""Layer 5. How does a call whose arguments are text, as a command line has them, become one that the method takes?

By the annotations of the method, so where the program is: with the object's owner.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wakeful.runtime.context import Context, runtime_of
from wakeful.runtime.feature import Feature

if TYPE_CHECKING:
    from wakeful.runtime.node import Node

CALL = "calls.text"


class TextCallFeature(Feature):
    """Methods can be called with text."""

    def equip(self, node: "Node") -> None:
        node.operations[CALL] = call


async def call(context: Context, method: str, texts: Sequence[str]) -> Any:
    """Call the method of the object; each text is JSON if that is what the method takes there, else it is itself."""
    from wakeful.operations.arguments import signature_of

    activation = runtime_of(context)
    activation.known.check_method(method)
    args = signature_of(activation.known, method).read_texts(texts)
    return await getattr(activation.instance, method)(*args)
