"""Layer 5. The base class for those who want one."""

from typing import TYPE_CHECKING, Any

from wakeful.runtime.context import Context
from wakeful.runtime.storage import Storage


class DurableObject:
    """Keeps `ctx` and offers `self.storage` and `self.state`. A class without it works the same.

    Declare `state: YourDataclass` to have a typed value saved with each turn that changed it.
    Attributes set on `self` live only as long as the object is awake.
    """

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    __init__.__wakeful_own__ = True  # type: ignore[attr-defined]

    @property
    def storage(self) -> Storage:
        return self.ctx.storage

    if TYPE_CHECKING:
        state: Any
    else:

        @property
        def state(self):
            return self.ctx.state

        @state.setter
        def state(self, value):
            self.ctx.state = value
