"""Layer 5. What is there of that name: a class, an object, a schedule, a job, a parked timer, a node?

Names that are given in full or from their beginning are found through indexes. What only contains the text is looked
for in a bounded number of schedules and parked timers, and in all keys of objects by the store itself.
"""

from typing import Any, TypedDict

from wakeful.jobs.ids import KEYED, job_id, parse_id
from wakeful.schedules.records import PREFIX, schedule_of
from wakeful.store.protocol import Query
from wakeful.values.errors import BadInput, BadOption
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Parked, Timer
from wakeful.views import classes, jobs, nodes, pages, parked
from wakeful.views.timer_names import name_words
from wakeful.views.view import View, is_shown

TEXT_MAX = 600  # a little more than the longest key
LOOKED_AT = 5_000

Hit = dict[str, Any]


class PlainHit(TypedDict):
    """What every hit has, beside the names that it is shown by."""

    kind: str
    title: str


async def find(view: View, text: str, limit: int = 20, *, prefix: str | None = None) -> list[Hit]:
    """What the text names, at most `limit` of each kind; `prefix` is what the keys of objects must begin with.

    Each hit has `kind` (class, object, schedule, job, parked, node), `title`, and the names that it is shown by.
    """
    pages.check_limit(limit)
    text = text.strip()
    if len(text) > TEXT_MAX or "\0" in text:
        raise BadOption(f"what is searched for has at most {TEXT_MAX} characters, and no NUL", code="search.text")
    if not text:
        return []
    known = await classes.names(view)
    hits: list[Hit] = []
    if prefix is None:
        hits += [_hit("class", name, cls=name) for name in known if text.casefold() in name.casefold()][:limit]
    hits += await _objects(view, text, known, prefix, limit)
    hits += await _schedules(view, text, prefix, limit)
    hits += await _jobs(view, text, prefix, limit)
    hits += await _parked(view, text, prefix, limit)
    if prefix is None:
        hits += await _nodes(view, text, limit)
    return hits


def _hit(kind: str, title: str, id: ObjectId | None = None, *, cls: str | None = None, **names: Any) -> Hit:
    """One find."""
    where = {"class": cls} if id is None else {"class": id.cls, "key": id.key}
    return {"kind": kind, "title": title, **({} if where.get("class") is None else where), **names}


def _is_within(id: ObjectId, prefix: str | None) -> bool:
    return prefix is None or id.key.startswith(prefix)


async def _objects(view: View, text: str, known: list[str], prefix: str | None, limit: int) -> list[Hit]:
    """By `Class/key` or key: the very one first, then those that begin so, then those that contain it."""
    cls, slash, rest = text.partition("/")
    queries = []
    if slash and cls in known:
        queries += [Query(cls=cls, key=rest, key_prefix=prefix)] * bool(rest) + _begin(rest, prefix, cls)
    queries += [Query(key=text, key_prefix=prefix), *_begin(text, prefix), Query(key_contains=text, key_prefix=prefix)]
    hits: dict[ObjectId, Hit] = {}
    for query in queries:
        if len(hits) >= limit:
            break
        page = await pages.find(
            view,
            pages.OBJECTS,
            query,
            limit=limit,
            cursor=None,
            keep=lambda info: is_shown(info.id.cls) and _is_within(info.id, prefix),
        )
        for info in page.rows:
            hits.setdefault(info.id, _hit("object", str(info.id), info.id))
    return list(hits.values())[:limit]


def _begin(text: str, prefix: str | None, cls: str | None = None) -> list[Query]:
    """For keys that begin with both, if any can: the store is not asked for what may not be shown."""
    longer, shorter = sorted((text, prefix or ""), key=len, reverse=True)
    return [Query(cls=cls, key_prefix=longer or None)] if longer.startswith(shorter) else []


async def _schedules(view: View, text: str, prefix: str | None, limit: int) -> list[Hit]:
    """By the schedule's own name, soonest first."""
    wanted = text.rpartition(" ")[2].casefold()  # people copy `Class/key name`
    hits: dict[tuple[ObjectId, str], Hit] = {}

    def keep(timer: Timer) -> bool:
        return is_shown(timer.id.cls) and _is_within(timer.id, prefix)

    async def look(name_prefix: str, at_most: int) -> None:
        query = Query(name_prefix=name_prefix, key_prefix=prefix)
        page = await pages.find(view, pages.TIMERS, query, limit=at_most, cursor=None, keep=keep)
        for timer in page.rows:
            name = schedule_of(timer.name)[0]
            if wanted in name.casefold() and len(hits) < limit:
                hits.setdefault((timer.id, name), _hit("schedule", f"{timer.id} {name}", timer.id, schedule=name))

    await look(f"{PREFIX}:{text}", limit)
    if len(hits) < limit:
        await look(f"{PREFIX}:", LOOKED_AT)
    return list(hits.values())


async def _jobs(view: View, text: str, prefix: str | None, limit: int) -> list[Hit]:
    """By id, or by the beginning of a job's own key."""
    try:
        target, _ = parse_id(text)
        if is_shown(target.cls) and _is_within(target, prefix):
            one = await jobs.show(view, text)
            return [_hit("job", one["id"], target, job=one["id"], method=one["method"], state=one["state"])]
    except BadInput:
        pass  # not an id, or of none that is known
    query = Query(name_prefix=f"{KEYED}{text}", key_prefix=prefix)
    timers = await pages.find(
        view, pages.TIMERS, query, limit=limit, cursor=None, keep=lambda timer: is_shown(timer.id.cls)
    )
    ids = [(timer.id, job_id(timer.id, timer.name), timer.name) for timer in timers.rows]
    return [_hit("job", f"{id} {name_words(name)}", id, job=job) for id, job, name in ids]


async def _parked(view: View, text: str, prefix: str | None, limit: int) -> list[Hit]:
    """By number, or by what they are and failed with."""
    number = text.removeprefix("#")
    matches: dict[tuple[ObjectId, int], Parked] = {}
    if number.isascii() and number.isdigit() and len(number) < 19:
        try:
            row = await parked.one(view, int(number), prefix=prefix)
            matches[row.timer.id, row.number] = row
        except BadInput:
            pass
    wanted = text.casefold()

    def keep(row: Parked) -> bool:
        said = f"{row.timer.id} {name_words(row.timer.name)}\n{row.error}"
        return is_shown(row.timer.id.cls) and wanted in said.casefold()

    page = await pages.find(view, pages.PARKED, Query(key_prefix=prefix), limit=limit, cursor=None, keep=keep)
    matches |= {(row.timer.id, row.number): row for row in page.rows}
    return [
        _hit("parked", f"#{number} {row.timer.id} {name_words(row.timer.name)}", row.timer.id, number=number)
        for row in list(matches.values())[:limit]
        for number in [view.mask(row.number)]
    ]


async def _nodes(view: View, text: str, limit: int) -> list[Hit]:
    """By name, address, or what they say they are."""
    hits: dict[str, Hit] = {}
    for store in view.stores:
        for member in (await nodes.members(store, view.now())).nodes:
            row = member.row
            if text.casefold() in f"{row.node} {row.address} {row.about}".casefold():
                hits.setdefault(row.node, _hit("node", row.node, node=row.node, state=member.state))
    return list(hits.values())[:limit]
