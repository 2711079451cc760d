"""Layer 5. What do the bindings of all Workers of a program share, and what is the one given that makes them?"""

from typing import TYPE_CHECKING, Any, Protocol, cast

from wakeful.compat.workers.config import Config
from wakeful.runtime.context import runtime_of

if TYPE_CHECKING:
    from wakeful.app import App
    from wakeful.runtime.context import Context

DESK = "bindings"


class BindingDesk:
    """What objects behind bindings find at the node that they are on: what the files of the program's Workers say."""


class BindingHome(Protocol):
    """The Worker whose bindings are made."""

    @property
    def app(self) -> "App": ...

    @property
    def config(self) -> Config: ...

    @property
    def desk(self) -> BindingDesk: ...


def desk_of(ctx: "Context") -> BindingDesk:
    """That of the program which runs this object."""
    features: dict[str, Any] = runtime_of(ctx).node.features
    return cast("BindingDesk", features[DESK])
