"""Layer 0. Would a set or a dict of these be quadratic, since a stranger chose them to hash alike?

The hashes of numbers, and of what is made of numbers (tuples, UUIDs, decimals, times), are known to everybody: 15,000
integers that are multiples of 2**61 - 1 have the same one, and a set of them took ten seconds. So what comes from outside
is counted before it is put into one. Texts and bytes hash differently in each process, and need no look.
"""

from collections import Counter
from collections.abc import Collection
from typing import Any

from wakeful.values.errors import BadValue

ALIKE_MAX = 64  # with the same hash; by chance there are two or three, and 34 among the powers of two


def check_alike(items: Collection[Any], what: str) -> None:
    """`BadValue` when more of them than the limit are different and hash alike; takes a time in proportion to them."""
    if len(items) <= ALIKE_MAX:
        return
    hashes = list(map(hash, items))
    if len(hashes) - len(set(hashes)) < ALIKE_MAX:  # the hash of a hash is itself: this set is never slow
        return
    many = {one for one, count in Counter(hashes).items() if count > ALIKE_MAX}
    if not many:
        return
    different: dict[int, list[Any]] = {one: [] for one in many}
    for item, one in zip(items, hashes, strict=True):
        if one in many and item not in different[one]:
            different[one].append(item)
            if len(different[one]) > ALIKE_MAX:
                raise BadValue(
                    f"{what} has more than {ALIKE_MAX} different members with the same hash, as only an attack has; "
                    "send them as a list, or as text",
                    code="value.alike",
                )
