"""Layer 2. Stored bytes that become others which mean the same, on the memory disk."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from wakeful.store.protocol import Swap
from wakeful.values.ids import ObjectId

if TYPE_CHECKING:
    from wakeful.store.memory import Disk


def swapped(disk: "Disk", one: Swap) -> bool:
    """Put the new in place of the old where that is still there; whether it was."""
    where = one.where
    if one.table == "storage":
        rows, slot = disk.rows.get(ObjectId(*where[:2]), {}), (where[2], where[3])
        is_same = bool(rows.get(slot) == one.old[0])
        if is_same:
            rows[slot] = one.new[0]
        return is_same
    if one.table == "timers":
        name = (ObjectId(*where[:2]), where[2])
        timer = disk.timers.get(name)
        is_same = timer is not None and bool(timer.payload == one.old[0])
        if is_same:
            disk.timers[name] = replace(disk.timers[name], payload=one.new[0])
        return is_same
    if one.table == "requests":
        request = (ObjectId(*where[:2]), where[2])
        answer = disk.remembered.get(request)
        is_same = answer is not None and bool((answer.fingerprint, answer.answer) == one.old)
        if is_same:
            disk.remembered[request] = replace(disk.remembered[request], fingerprint=one.new[0], answer=one.new[1])
        return is_same
    if one.table == "ledger":
        if is_there := where[0] in disk.entries:
            disk.entries[where[0]] = replace(disk.entries[where[0]], error=one.new[0])
        return is_there
    parked = disk.parked.get(where[0])
    if parked is None:
        return False
    timer = replace(parked.timer, payload=one.new[0])
    disk.parked[where[0]] = replace(parked, timer=timer, error=one.new[1], traceback=one.new[2])
    return True
