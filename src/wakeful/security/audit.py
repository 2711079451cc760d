"""Layer 5. Who did what, when, to what, and how did it end?

Rows of one reserved object, so that they are as durable as everything else and the same on all stores. An act is
written before it is done and completed after: one that is still `begun` was cut off. Refusals, and who logged in and
out, have rows of their own number, so that a flood of them can't push out what operators did.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict
from urllib.parse import quote

from msgspec import Struct

from wakeful.runtime.context import runtime_of
from wakeful.security.scopes import AUDIT
from wakeful.store.protocol import Range, Store
from wakeful.values.codec import decode
from wakeful.values.commits import USER
from wakeful.values.errors import BadOption
from wakeful.values.ids import ObjectId
from wakeful.values.times import from_datetime, to_datetime
from wakeful.views.plain import Instant

if TYPE_CHECKING:
    from wakeful.runtime.context import Context

LOG = ObjectId(AUDIT, "all")
ACT, REFUSAL, VISIT = "act:", "refusal:", "visit:"
HEAD = "head"
SECRET = "secret"  # of the pseudonyms of those that were forgotten
TEXT_CHARS_MAX = 600  # of one field
ACTOR_STEP = 200  # rows that are read at once in search of those of one actor
REDACT_PAGE = 200
TRIM_MAX = 100  # rows dropped with one new one, when fewer are to be kept than before
# How an act stands: done, refused or gone wrong, answered that there was nothing to do, or done to some of what was meant.
BEGUN, DONE, FAILED, NOTHING, PARTLY = "begun", "done", "failed", "nothing", "partly"


class PlainAudit(TypedDict):
    """An audit row in the terms of JSON."""

    number: int
    at: Instant
    kind: str
    actor: str | None
    act: str | None
    target: str | None
    detail: dict[str, Any]
    outcome: str | None
    error: str | None
    count: int
    ended_at: Instant | None


class AuditPage(NamedTuple):
    """Rows, newest first, and where the next page begins; None: there is none."""

    rows: list[PlainAudit]
    cursor: str | None


class Naming(Struct, frozen=True):
    """What an audit row says when it names one of these objects: that of a key, or those whose keys begin so."""

    cls: str | None
    key: str | None
    prefix: str | None

    def is_in(self, row: dict[str, Any]) -> bool:
        cls = r"(?<![\w.-])" + (r"[A-Za-z_][A-Za-z0-9_.-]*" if self.cls is None else re.escape(self.cls))
        start = self.key or self.prefix or ""
        either = "|".join(map(re.escape, {start, quote(start), quote(start, safe="")}))  # as it is, or as in a URL
        # A key ends with the text, or with what can't be a part of it where texts are made of several.
        pattern = re.compile(f"{cls}/(?:{either})" + ("" if self.key is None else r"(?=$|[\s'\"])"))
        detail = row.get("detail") or {}
        asked = detail.get("key") or detail.get("prefix") or ""  # of an act on all that a filter leaves
        is_same = asked == start if self.key is not None else asked.startswith(start)
        is_asked = bool(asked) and is_same and self.cls in (None, detail.get("cls"))
        return is_asked or any(pattern.search(text) for text in _texts(row))


def _texts(value: Any) -> list[str]:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [value] if isinstance(value, str) else [text for part in inside for text in _texts(part)]


def audit_class(rows_max: int) -> type:
    """The class of the object that keeps the newest `rows_max` acts, and as many refusals and logins."""

    class Audit:
        """Keeps the audit rows of the deployment; rows are added and completed, and lose a name that is to be forgotten. Not for callers."""

        def __init__(self, ctx: "Context") -> None:
            self._ctx = ctx

        async def begin(self, actor: str, act: str, target: str, detail: dict[str, Any]) -> int:
            """Write that somebody is about to do something; the row's number."""
            return await self._add(
                ACT, {"actor": actor, "act": act, "target": target, "detail": detail, "outcome": BEGUN}
            )

        async def end(self, number: int, outcome: str, error: str | None) -> None:
            """Write how it ended; only once."""
            key = _key(ACT, number)
            row = await self._ctx.storage.get(key)
            if row is not None and row["outcome"] == BEGUN:
                row |= {"outcome": outcome, "error": _cut(error), "ended_at": from_datetime(self._ctx.now())}
                await self._ctx.storage.put(key, row)

        async def refuse(self, refusals: Sequence[dict[str, Any]]) -> None:
            """Write that somebody was refused, so often."""
            for refusal in refusals:
                await self._add(REFUSAL, refusal)

        async def visit(self, actor: str, act: str, target: str) -> None:
            """Write that somebody logs in or out, which whoever has any token can do as often as they like."""
            await self._add(VISIT, {"actor": actor, "act": act, "target": target, "outcome": DONE})

        async def pseudonym(self, name: str) -> str:
            """The same for the same name, and nothing to whoever has not got it: keyed with a secret of this log."""
            secret = await self._ctx.storage.get(SECRET)
            if secret is None:
                dice = runtime_of(self._ctx).node.dice
                secret = b"".join(int(dice.random() * (1 << 48)).to_bytes(6, "big") for _ in range(6))
                await self._ctx.storage.put(SECRET, secret)
            return blake2b(name.encode(), key=secret, digest_size=12).hexdigest()

        async def redact(self, after: str, which: Sequence[str | None], name: str) -> str | None:
            """A page of the rows: of those that name it stays who did what and when, and to whom becomes that name.

            Where the next page begins; None: there is none.
            """
            naming = Naming(*which)
            rows = await self._ctx.storage.list(start_after=after, limit=REDACT_PAGE)
            for key, row in rows.items():
                if key.startswith((ACT, REFUSAL, VISIT)) and naming.is_in(row):
                    await self._ctx.storage.put(key, row | {"target": name, "detail": {}, "error": None})
            return max(rows) if len(rows) == REDACT_PAGE else None

        async def _add(self, kind: str, row: dict[str, Any]) -> int:
            storage = self._ctx.storage
            head = {ACT: 0, REFUSAL: 0, VISIT: 0} | await storage.get(HEAD, {"last": 0})
            number = head["last"] + 1
            row = {name: _cut(value) for name, value in row.items()}
            await storage.put(_key(kind, number), {"at": from_datetime(self._ctx.now()), **row})
            head |= {"last": number, kind: head[kind] + 1}
            if head[kind] > rows_max:
                old = await storage.list(prefix=kind, limit=min(TRIM_MAX, head[kind] - rows_max))
                await storage.delete_many(list(old))
                head[kind] -= len(old)
            await storage.put(HEAD, head)
            return int(number)

    return Audit


async def page(
    store: Store,
    *,
    limit: int = 50,
    cursor: str | None = None,
    has_refusals: bool = True,
    actor: str | None = None,
    breathe: Callable[[], Awaitable[None]] | None = None,
) -> AuditPage:
    """Audit rows, newest first, ready for JSON; wakes nothing. `breathe` lets others go on between many of them."""
    before = _number(cursor)
    rows: list[PlainAudit] = []
    step = limit + 1 if actor is None else max(limit + 1, ACTOR_STEP)
    while len(rows) <= limit:
        found = await _rows(store, before, step, [ACT, VISIT, REFUSAL] if has_refusals else [ACT, VISIT])
        rows += [row for row in found if actor is None or row["actor"] == actor]
        if len(found) < step:
            break
        before = found[-1]["number"]
        if breathe is not None:
            await breathe()
    rows = rows[: limit + 1]
    return AuditPage(rows[:limit], str(rows[limit - 1]["number"]) if len(rows) > limit else None)


async def _rows(store: Store, before: int | None, limit: int, kinds: list[str]) -> list[PlainAudit]:
    rows = []
    for kind in kinds:
        last = kind + "\U0010ffff" if before is None else _key(kind, before)
        for key, data in await store.scan(LOG, USER, Range(kind, last, reverse=True, limit=limit)):
            rows.append(_plain(kind, int(key[len(kind) :]), decode(data)))
    rows.sort(key=lambda row: -row["number"])
    return rows[:limit]


def _plain(kind: str, number: int, row: dict[str, Any]) -> PlainAudit:
    ended_at = row.get("ended_at")
    return {
        "number": number,
        "at": _iso(row["at"]),
        "kind": kind.rstrip(":"),
        "actor": row.get("actor"),
        "act": row.get("act"),
        "target": row.get("target"),
        "detail": row.get("detail") or {},
        "outcome": row.get("outcome"),
        "error": row.get("error"),
        "count": row.get("count", 1),
        "ended_at": None if ended_at is None else _iso(ended_at),
    }


def _iso(ms: int) -> str:
    return to_datetime(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _key(kind: str, number: int) -> str:
    return f"{kind}{number:015d}"


def _number(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 15):
        raise BadOption("this is no cursor of a page; take `cursor` of the page before", code="cursor")
    return int(cursor)


def _cut(value: Any) -> Any:
    """Text that fits a row; what is cut off is said."""
    if isinstance(value, str) and len(value) > TEXT_CHARS_MAX:
        return f"{value[:TEXT_CHARS_MAX]}… ({len(value)} characters)"
    if isinstance(value, dict):
        return {str(_cut(name)): _cut(item) for name, item in list(value.items())[:50]}
    if isinstance(value, list | tuple):
        return [_cut(item) for item in value[:50]]
    return value if value is None or isinstance(value, str | int | float | bool) else _cut(str(value))
