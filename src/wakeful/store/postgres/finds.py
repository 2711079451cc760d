"""Layer 2, pure. What does a question of people's ask of the tables?

There are two ways to a page of timers or ledger rows: walk in the order of the answer until it is full,
which may pass by millions, or collect the rows of some objects and sort, which may collect as many.
`NARROW_ROWS` is where the second stops being the better one.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from wakeful.policy.ranges import past_prefix
from wakeful.store.protocol import Query
from wakeful.values.ids import SHARDS, ObjectId, shard_of

Asked = tuple[Mapping[str, object], list[str]]  # the arguments, and the optional parts of the statement

# Collecting so many rows takes about 10 ms.
NARROW_ROWS = 10_000

_NUMBER_MAX = 2**63 - 1
_FIRST = (-(2**63), -(2**31), -(2**63))


def past(after: tuple[object, ...] | None) -> dict[str, object]:
    """The arguments that continue the firing order after that place."""
    return dict(zip(("after_due_at", "after_rank", "after_seq"), after or _FIRST, strict=True))


def objects(query: Query) -> Asked:
    cls, key = query.after or ("", "")
    return _conditions(query, named=False, after_cls=cls, after_key=key)


def timers(query: Query) -> Asked:
    shards = list(range(SHARDS))
    if query.cls is not None and query.key is not None:
        shards = [shard_of(ObjectId(query.cls, query.key))]
    return _conditions(query, named=True, shards=shards, **past(query.after))


def entries(query: Query) -> Asked:
    [before] = query.after or (_NUMBER_MAX,)
    return _conditions(query, named=True, before=before)


def parked(query: Query) -> Asked:
    [after] = query.after or (0,)
    return _conditions(query, named=True, after=after)


def answers(query: Query) -> Asked:
    """Request keys are bytes there, and so is what is asked of them."""
    cls, key, request = query.after or ("", "", "")
    values, parts = _conditions(replace(query, name=None, name_prefix=None), named=False, after_cls=cls, after_key=key)
    prefix = query.name_prefix or None
    last = None if prefix is None else past_prefix(prefix)
    named = {
        "name": None if query.name is None else query.name.encode(),
        "name_first": None if prefix is None else prefix.encode(),
        "name_last": None if last is None else last.encode(),
    }
    parts += [part for part, value in named.items() if value is not None]
    return {**values, **named, "after_request": str(request).encode()}, parts


def count(cls: str | None, key_prefix: str | None) -> Asked:
    first, last = _span(key_prefix)
    filters = {"cls": cls, "key_first": first, "key_last": last}
    return filters, [part for part, value in filters.items() if value is not None]


def names_objects(query: Query) -> bool:
    """Whether the rows may be collected: by whole keys or by what they begin with."""
    return query.key is not None or bool(query.key_prefix)


def names_one_timer(query: Query) -> bool:
    return None not in (query.cls, query.key, query.name)


def narrow(query: Query, classes: Sequence[str]) -> Asked:
    """The question whether those objects have at most `most_rows` of the rows."""
    return _conditions(query, named=True, classes=classes, most=most_rows(query) + 1)


def most_rows(query: Query) -> int:
    return max(NARROW_ROWS, 2 * query.limit)


def _conditions(query: Query, *, named: bool, **place: object) -> Asked:
    """What the query filters by, each an optional part of the statement, and where its page begins."""
    key_first, key_last = _span(query.key_prefix)
    filters = {
        "cls": query.cls,
        "key": query.key,
        "key_first": key_first,
        "key_last": key_last,
        "key_contains": query.key_contains,
    }
    if named:
        name_first, name_last = _span(query.name_prefix)
        filters |= {"name": query.name, "name_first": name_first, "name_last": name_last}
    return {**filters, "limit": query.limit, **place}, [part for part, value in filters.items() if value is not None]


def _span(prefix: str | None) -> tuple[str | None, str | None]:
    """From where on, and before what, all text has that prefix; None is no bound."""
    if not prefix:
        return None, None
    if "\0" in prefix:
        return "", ""  # nothing: PostgreSQL has no text with a NUL in it, and can't even be asked for it
    return prefix, past_prefix(prefix)
