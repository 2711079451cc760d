"""Layer 5. How does a running program bring everything in its stores under the newest key?"""

from typing import TYPE_CHECKING, Any

from wakeful.store import key_rotation
from wakeful.store.sealed_store import KEYS as KEYS
from wakeful.store.sealed_store import SealedStore
from wakeful.values.errors import BadOption

if TYPE_CHECKING:
    from wakeful.runtime.context import Context


class Keys:
    """Does it for whichever process asks, a page at each call; `wakeful keys rotate` asks. Not for callers."""

    def __init__(self, ctx: "Context") -> None:
        self._ctx = ctx

    async def page(self, place: list[Any] | None, is_change: bool) -> dict[str, Any]:
        """One page of the stores of this program, from there on; where the next begins, and what was found."""
        node = self._ctx._activation.node
        stores = [sealed(home.store) for home in node.all_homes]
        index, *inner = place or [0]
        found = await key_rotation.page(stores[index], inner or None, now=node.clock.now(), is_change=is_change)
        following = None if found.place is None else [index, *found.place]
        if following is None and index + 1 < len(stores):
            following = [index + 1]
        return page_words(found, following, stores[index])

    async def finish(self) -> None:
        """Everything is under a key: what is not, from now on, was not written by us."""
        for home in self._ctx._activation.node.all_homes:
            await key_rotation.finish(sealed(home.store))


def sealed(store: Any) -> SealedStore:
    """The store, which must have keys."""
    found = getattr(store, "sealed", None)
    if not isinstance(found, SealedStore):
        raise BadOption(
            f"{store.url} was opened without keys, so there is nothing to seal with; start the program with $WAKEFUL_KEYS",
            code="keys.none",
        )
    return found


def page_words(found: key_rotation.RotationPage, place: list[Any] | None, store: SealedStore) -> dict[str, Any]:
    """What was found, and with which key whoever looked seals: whoever asks may mean another."""
    counts = {"seen": found.seen, "stale": found.stale, "swapped": found.swapped, "shut": found.shut}
    return {"place": place, "newest": store.sealing.ring.ids[0], **counts}
