"""Layer 2, pure. What does a question of people's ask of the tables?"""

from collections.abc import Mapping

from wakeful.store.protocol import Query
from wakeful.values.ids import SHARDS, ObjectId, shard_of

Asked = tuple[Mapping[str, object], list[str]]  # the arguments, and the optional parts of the statement

_NUMBER_MAX = 2**63 - 1
_FIRST = (-(2**63), -(2**31), -(2**63))


def past(after: tuple[object, ...] | None) -> dict[str, object]:
    """The arguments that continue the firing order after that place."""
    return dict(zip(("after_due_at", "after_rank", "after_seq"), after or _FIRST, strict=True))


def objects(query: Query) -> Asked:
    cls, key = query.after or ("", "")
    return {**_filters(query), "after_cls": cls, "after_key": key}, _parts(query)


def timers(query: Query) -> Asked:
    shards = list(range(SHARDS))
    if query.cls is not None and query.key is not None:
        shards = [shard_of(ObjectId(query.cls, query.key))]
    return {**_filters(query), "shards": shards, **past(query.after)}, _parts(query, "name")


def entries(query: Query) -> Asked:
    [before] = query.after or (_NUMBER_MAX,)
    return {**_filters(query), "before": before}, _parts(query, "name")


def parked(query: Query) -> Asked:
    [after] = query.after or (0,)
    return {**_filters(query), "after": after}, _parts(query, "name")


def _filters(query: Query) -> dict[str, object]:
    return {name: getattr(query, name) for name in ("cls", "key", "key_contains", "name", "limit")}


def _parts(query: Query, *more: str) -> list[str]:
    return [name for name in ("cls", "key", "key_contains", *more) if getattr(query, name) is not None]
