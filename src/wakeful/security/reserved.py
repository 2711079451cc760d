"""Layer 5. Which objects of Wakeful's own keep what security needs, and how are they reached when no program runs?

With a process they are objects like any other. Without one a command does what the object would have done: it owns the
shard for a moment, runs the very same code on the rows in the store, commits, and gives the shard back.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from wakeful.policy.limits import Limits
from wakeful.runtime.context import runtime_of
from wakeful.runtime.feature import Feature
from wakeful.security.audit import audit_class
from wakeful.security.scopes import AUDIT, TOKENS
from wakeful.security.tokens import Tokens
from wakeful.store import key_rotation
from wakeful.store.protocol import Range, Store
from wakeful.store.sealed_store import KEYS as KEYS
from wakeful.store.sealed_store import SealedStore
from wakeful.values.codec import decode, encode
from wakeful.values.commits import USER, Commit, Slot
from wakeful.values.errors import BadOption, Conflict, UnknownClass
from wakeful.values.ids import ObjectId, shard_of
from wakeful.values.times import to_datetime

if TYPE_CHECKING:
    from wakeful.runtime.context import Context
    from wakeful.runtime.node import Node
    from wakeful.runtime.turn import Turn


# How does a running program bring everything in its stores under the newest key?


class Keys:
    """Does it for whichever process asks, a page at each call; `wakeful keys rotate` asks. Not for callers."""

    def __init__(self, ctx: "Context") -> None:
        self._ctx = ctx

    async def page(self, place: list[Any] | None, is_change: bool) -> dict[str, Any]:
        """One page of the stores of this program, from there on; where the next begins, and what was found."""
        node = runtime_of(self._ctx).node
        stores = [sealed_of(home.store) for home in node.all_homes]
        index, *inner = place or [0]
        found = await key_rotation.page(stores[index], inner or None, now=node.clock.now(), is_change=is_change)
        following = None if found.place is None else [index, *found.place]
        if following is None and index + 1 < len(stores):
            following = [index + 1]
        return page_words(found, following, stores[index])

    async def finish(self) -> None:
        """Everything is under a key: what is not, from now on, was not written by us."""
        for home in runtime_of(self._ctx).node.all_homes:
            await key_rotation.finish(sealed_of(home.store))


def sealed_of(store: Any) -> SealedStore:
    """The store, which must have keys."""
    inner = getattr(store, "sealed", None)
    if not isinstance(inner, SealedStore):
        raise BadOption(
            f"{store.url} was opened without keys, so there is nothing to seal with; start the program with $WAKEFUL_KEYS",
            code="keys.none",
        )
    return inner


def page_words(found: key_rotation.RotationPage, place: list[Any] | None, store: SealedStore) -> dict[str, Any]:
    """What was found, and with which key whoever looked seals: whoever asks may mean another."""
    counts = {"seen": found.seen, "stale": found.stale, "swapped": found.swapped, "shut": found.shut}
    return {"place": place, "newest": store.sealing.ring.ids[0], **counts}


def security_classes(audit_rows: int) -> list[tuple[type, str]]:
    """Classes that every app has."""
    return [(Tokens, TOKENS), (audit_class(audit_rows), AUDIT), (Keys, KEYS)]


class SecurityFeature(Feature):
    """Tokens, the audit log, and what keys have sealed."""

    def __init__(self, audit_rows: int) -> None:
        self.classes = security_classes(audit_rows)

    def equip(self, node: "Node") -> None:
        node.slots.free |= {name for _, name in self.classes}  # an operator comes in, and acts, however much hangs

    async def erase(self, turn: "Turn") -> None:
        """Nothing: tokens name prefixes, and what operators did to it stays on record (`Acts.forget` takes its name out)."""


class Bare:
    """Brings calls to the reserved objects of a store that no process runs."""

    def __init__(self, store: Store, name: str, now: Callable[[], int]) -> None:
        """`name` is what the store knows us by while we own a shard."""
        self._store = store
        self._name = name
        self._now = now
        self._classes = {known: cls for cls, known in security_classes(Limits().audit_rows)}

    async def send(self, id: ObjectId, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The answer of the object's method, whose writes are on disk when it comes."""
        cls = self._classes.get(id.cls)
        if cls is None:
            raise UnknownClass(f"{id}: no process runs {self._store.url}, and this object needs one; start it")
        shard = shard_of(id)
        seen = {row.shard: row.epoch for row in await self._store.owners() if row.shard == shard}
        epochs = await self._store.claim(self._name, [shard], now=self._now(), seen=seen)
        if shard not in epochs:
            raise Conflict("a process took the store over meanwhile; try again, through it", code="store.taken")
        try:
            ground = _Ground(self._store, id, self._now())
            answer = await getattr(cls(ground), method)(*args, **kwargs)
            commit = Commit(
                id=id,
                shard=shard,
                epoch=epochs[shard],
                now=self._now(),
                puts={slot: data for slot, data in ground.writes.items() if data is not None},
                deletes=[slot for slot, data in ground.writes.items() if data is None],
            )
            [outcome] = await self._store.commit(self._name, [commit])
            if outcome is not None:
                raise outcome
            return answer
        finally:
            await self._store.release(self._name, epochs)


class _Ground:
    """As much of a context and its storage as the reserved objects need."""

    def __init__(self, store: Store, id: ObjectId, now: int) -> None:
        self._store = store
        self._id = id
        self._at = now
        self.writes: dict[Slot, bytes | None] = {}
        self.storage = self

    def now(self) -> datetime:
        return to_datetime(self._at)

    async def get(self, key: str, default: Any = None) -> Any:
        found = self.writes if (USER, key) in self.writes else await self._read_stored(key)
        data = found.get((USER, key))
        return default if data is None else decode(data)

    async def _read_stored(self, key: str) -> dict[Slot, bytes | None]:
        return {(USER, name): data for name, data in (await self._store.read(self._id, USER, [key])).items()}

    async def put(self, key: str, value: Any) -> None:
        self.writes[USER, key] = encode(value)

    async def delete(self, key: str) -> None:
        self.writes[USER, key] = None

    async def delete_many(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.writes[USER, key] = None

    async def list(self, *, prefix: str = "", limit: int | None = None) -> dict[str, Any]:
        rows = dict(cast("Any", await self._store.scan(self._id, USER, Range(prefix, prefix + "\U0010ffff"))))
        for (_, key), data in self.writes.items():
            if key.startswith(prefix):
                rows[key] = data
        found = {key: decode(data) for key, data in sorted(rows.items()) if data is not None}
        return found if limit is None else dict(list(found.items())[:limit])
