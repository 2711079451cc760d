"""Layer 4. A machine as people see it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from wakeful.statechart.structure import fits


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a machine was at the moment of asking; it does not change when the machine does."""

    value: Any  # a state's name, or a dict of them where states are nested or parallel; None before the start
    context: dict[str, Any]
    status: str  # "new", "active", "done", "error" or "stopped"
    tags: tuple[str, ...] = ()
    output: Any = None
    error: Any = None
    accepts: tuple[str, ...] = ()  # the events for which the active states have a transition, guards aside
    due: Mapping[str, datetime] = field(default_factory=dict)  # pending delays by their ids
    version: int = 1
    refuses: tuple[str, ...] = ()  # the events that they name in order that nothing happens

    def matches(self, state: str | Mapping[str, Any]) -> bool:
        """Whether that state is active: `"paid"`, `"form.address"`, or a dict as in `value`."""
        wanted: Any = state
        if isinstance(state, str):
            *above, last = state.split(".")
            wanted = last
            for name in reversed(above):
                wanted = {name: wanted}
        return _is_within(wanted, self.value)

    def can(self, event: str) -> bool:
        """Whether an event of that type does anything now, as far as that is known without asking the guards."""
        known = [one for one in (*self.accepts, *self.refuses) if one == event or fits(event, one)]
        # By its name, else by the longest wildcard, as the chart decides.
        return event in self.accepts or (event not in self.refuses and max(known, key=len, default="") in self.accepts)

    def has_tag(self, tag: str) -> bool:
        return tag in self.tags


def _is_within(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, str):
        return value == wanted or (isinstance(value, Mapping) and wanted in value)
    if not isinstance(value, Mapping):
        return False  # a name says less than a mapping, also than an empty one
    return all(name in value and _is_within(inner, value[name]) for name, inner in wanted.items())
