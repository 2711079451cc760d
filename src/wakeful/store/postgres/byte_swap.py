"""Layer 2. Which statement replaces stored bytes by others that mean the same, and what does it want to know?"""

from wakeful.store.protocol import Swap
from wakeful.values.ids import ObjectId, shard_of

_WHERE = {
    "storage": ("cls", "key", "space", "name"),
    "timers": ("cls", "key", "name"),
    "requests": ("cls", "key", "request"),
    "ledger": ("number",),
    "parked": ("number",),
}
_WHAT = {
    "storage": ("value",),
    "timers": ("payload",),
    "requests": ("fingerprint", "answer"),
    "ledger": ("error",),
    "parked": ("payload", "error", "traceback"),
}


def values_of(swap: Swap) -> tuple[str, dict[str, object]]:
    """The statement's name, and its arguments. One row each: two at once could wait for each other's commits."""
    values: dict[str, object] = dict(zip(_WHERE[swap.table], swap.where, strict=True))
    for part in ("name", "request"):
        if part in values and swap.table in ("storage", "requests"):
            values[part] = str(values[part]).encode()  # bytes there, because they may hold a NUL
    for name, old, new in zip(_WHAT[swap.table], swap.old, swap.new, strict=True):
        values |= {f"old_{name}": old, f"new_{name}": new}
    if swap.table == "storage":
        values["shard"] = shard_of(ObjectId(str(values["cls"]), str(values["key"])))
    return f"swap_{swap.table}", values
