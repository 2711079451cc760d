"""Layer 5. What do operators do to a running deployment, and is there a row of each that says who did it?

Every act is in the audit rows before it is done, or it is not done. How it ended is added after.
"""

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from wakeful.history.feature import RESTORE
from wakeful.jobs.ids import parse_id
from wakeful.machines.steps import RESET
from wakeful.notices.deliveries import CLASS as NOTICES
from wakeful.notices.feature import SEND_TEST
from wakeful.operations.call_looks import CANCEL
from wakeful.operations.forgets import ObjectChoice, forget
from wakeful.queues.feature import PAUSE, RESUME
from wakeful.runtime.admission import QUEUES
from wakeful.runtime.redrives import DROP, NUMBER_MAX, REDRIVE, Find, each_parked, survey
from wakeful.security.audit import DONE, FAILED, LOG, NOTHING, PARTLY
from wakeful.security.scopes import check_method_name
from wakeful.specs.build import BUILD_OPTIONS
from wakeful.sql.feature import WRITE
from wakeful.store.protocol import ASIDE, Query, Store, Views
from wakeful.transport.control import redriven
from wakeful.values.errors import BadOption, Conflict, WakefulError
from wakeful.values.ids import ObjectId, check_key
from wakeful.values.timers import Parked

if TYPE_CHECKING:
    from wakeful.runtime.node import Node
    from wakeful.runtime.registry import Registry

log = logging.getLogger("wakeful.operations")

QUERY_CHARS_KEPT = 2_000  # of an operator's SQL, in its audit row

Send = Callable[[ObjectId, str, tuple[Any, ...], dict[str, Any]], Awaitable[Any]]


class Which(NamedTuple):
    """Which parked timers are meant: these numbers, or all that the filters leave."""

    numbers: Collection[int] = ()
    is_all: bool = False
    cls: str | None = None
    key: str | None = None
    prefix: str | None = None  # how the keys begin
    error: str | None = None  # what their errors say somewhere, in whatever case
    before: int | None = None  # parked no later than that

    def check(self, what: str) -> None:
        if not self.numbers and not self.is_all:
            raise BadOption(f"{what} what? Give numbers, or all", code=f"option.{what}")

    def within(self, own: str | None, code: str) -> "Which":
        """The same of what somebody may know of: objects whose keys begin with `own`."""
        asked, own = self.prefix or "", own or ""
        if not (asked.startswith(own) or own.startswith(asked)):
            raise BadOption(f"prefix {asked!r} leaves nothing of what this token may see", code=code)
        return self._replace(prefix=max(own, asked, key=len) or None)

    def fits(self, parked: Parked) -> bool:
        """What no store filters."""
        is_old = self.before is None or parked.parked_at <= self.before
        return is_old and (self.error is None or self.error.casefold() in parked.error.casefold())

    def query(self) -> Query:
        """What the store can filter itself."""
        return Query(cls=self.cls, key=self.key, key_prefix=self.prefix)


# What acts on workflows are given, by name.
_GIVEN = {"retry": ("from_step",), "fork": ("key", "from_step")}


class Ending:
    """How an act ended that raised nothing: done, unless somebody says otherwise."""

    outcome: str = DONE
    said: str | None = None

    def check_done(self, answer: Any, otherwise: str) -> Any:
        """The same answer; one that is false, empty or zero means that nothing was done, and why."""
        if not answer:
            self.outcome, self.said = NOTHING, otherwise
        return answer

    def note_tries(self, rows: Sequence[dict[str, Any]], done: str) -> None:
        """What came of each parked timer."""
        problems = [f"{row['number']} {row['problem']}" for row in rows if not row["ok"]]
        if len(problems) < len(rows):
            some = f"{len(rows) - len(problems):,} of {len(rows):,} {done}: "
            self.outcome, self.said = (PARTLY, some + "; ".join(problems)) if problems else (DONE, None)
        else:
            is_missing = all(row["timer"] is None for row in rows)
            self.outcome = NOTHING if is_missing else FAILED
            self.said = "; ".join(problems) or "nothing like that is parked"


class Acts:
    """An operator's hand: each method does one thing and leaves one audit row."""

    def __init__(
        self, send: Send, actor: str, *, stores: Sequence[Store] = (), registry: "Registry | None" = None
    ) -> None:
        """`send` brings a call to an object; `stores` are for what is no object's: parked rows and nodes.

        With a `registry`, only methods that are open to callers can be put on a schedule.
        """
        self.send = send
        self.actor = actor
        self._stores = list(stores)
        self._registry = registry

    @classmethod
    def of_node(cls, node: "Node", actor: str) -> "Acts":
        """Acts through a node of this process, for whichever store it is about."""
        return cls(node.send, actor, stores=[home.store for home in node.all_homes], registry=node.registry)

    # schedules

    async def add_schedule(
        self, id: ObjectId, spec: Any, handler: str, *args: Any, name: str | None = None, **options: Any
    ) -> Any:
        """Put a method of the object on a schedule."""
        for method in (handler, options.get("on_missed")):
            if self._registry is not None and method is not None:
                self._registry.by_name(id.cls).check_outside(check_method_name(method))
        detail = {"spec": str(getattr(spec, "text", spec)), "handler": handler}
        async with self.row("schedule.add", f"{id} {name or ''}".rstrip(), detail):
            return await self.send(id, "schedules.add", (spec, handler, *args), {"name": name, **options})

    async def reschedule(self, id: ObjectId, name: str, spec: Any, **options: Any) -> Any:
        named = {one: str(options[one]) for one in BUILD_OPTIONS if one in options}
        async with self.row("schedule.reschedule", f"{id} {name}", {"spec": str(getattr(spec, "text", spec))} | named):
            return await self.send(id, "schedules.reschedule", (name, spec), options)

    async def pause(
        self,
        id: ObjectId,
        name: str | None = None,
        *,
        tag: str | None = None,
        note: str = "",
        until: datetime | None = None,
    ) -> Any:
        """Let no occurrence run until it is resumed, or until then; how many schedules that changed."""
        detail = {"note": note, "until": None if until is None else until.isoformat()}
        async with self.row("schedule.pause", _which(id, name, tag), detail) as end:
            kwargs = _given_of(name=name, tag=tag) | {"note": note, "until": until}
            return end.check_done(await self.send(id, "schedules.pause", (), kwargs), "there is none like that")

    async def resume(self, id: ObjectId, name: str | None = None, *, tag: str | None = None) -> Any:
        async with self.row("schedule.resume", _which(id, name, tag)) as end:
            answer = await self.send(id, "schedules.resume", (), _given_of(name=name, tag=tag))
            return end.check_done(answer, "it was not paused")

    async def trigger(self, id: ObjectId, name: str | None = None, *, tag: str | None = None) -> Any:
        """Run it now, beside its own times; the ids of the runs."""
        async with self.row("schedule.trigger", _which(id, name, tag)) as end:
            answer = await self.send(id, "schedules.trigger", (), _given_of(name=name, tag=tag))
            return end.check_done(answer, "there is none like that")

    async def cancel(self, id: ObjectId, name: str | None = None, *, tag: str | None = None) -> Any:
        async with self.row("schedule.cancel", _which(id, name, tag)) as end:
            answer = await self.send(id, "schedules.cancel", (), _given_of(name=name, tag=tag))
            return end.check_done(
                answer, "there is none of that name" if name is not None else "there is none like that"
            )

    async def backfill(self, id: ObjectId, name: str, start: datetime, end: datetime, *, dry_run: bool = False) -> Any:
        """Run the occurrences of that stretch; with `dry_run` only list them, which is no act and leaves no row."""
        if dry_run:
            return await self.send(id, "schedules.backfill", (name, start, end), {"dry_run": True})
        detail = {"start": start.isoformat(), "end": end.isoformat()}
        async with self.row("schedule.backfill", f"{id} {name}", detail) as ending:
            answer = await self.send(id, "schedules.backfill", (name, start, end), {})
            return ending.check_done(answer, "there is no occurrence in that time")

    # jobs

    async def cancel_job(self, job_id: str) -> bool:
        """Cancel a job; True means that it has not run and never will."""
        target, name = parse_id(job_id)
        async with self.row("job.cancel", job_id) as end:
            is_cancelled = bool(await self.send(target, "jobs.cancel", (name,), {}))
            end.check_done(is_cancelled, "it is over, or there is none")
            return is_cancelled

    # queues

    async def pause_queue(self, name: str, note: str = "") -> bool:
        """Let nobody in it go until it is resumed; False: it was paused already."""
        return await self._act_on_queue("queue.pause", name, PAUSE, (note,), {"note": note} if note else {})

    async def resume_queue(self, name: str) -> bool:
        """Those that wait in it may go again; False: it was not paused."""
        return await self._act_on_queue("queue.resume", name, RESUME, (), {})

    async def _act_on_queue(
        self, act: str, name: str, operation: str, args: tuple[Any, ...], detail: dict[str, Any]
    ) -> bool:
        id = ObjectId(QUEUES, check_key("queue", name))
        async with self.row(act, name, detail) as end:
            return bool(end.check_done(await self.send(id, operation, args, {}), "it was so already"))

    # calls under way

    async def cancel_call(self, id: str) -> str:
        """Stop a call, or the turn of a due timer, as its deadline would; its method. `Conflict` when it had ended."""
        from wakeful.views.calls import parse_call_id  # an App without an edge needs no views

        target, name = parse_call_id(id)
        async with self.row("call.cancel", id) as end:
            try:
                method: str = await self.send(target, CANCEL, (name,), {})
                return method
            except Conflict as error:  # it had ended, so there was nothing to do
                end.outcome, end.said, ended = NOTHING, str(error), error
        raise ended

    # parked timers

    async def redrive(self, which: Which) -> list[dict[str, Any]]:
        """Set parked timers due again; one row per timer with what came of it."""
        return await self._each_parked("redrive", REDRIVE, which, "set due again")

    async def drop(self, which: Which) -> list[dict[str, Any]]:
        """Let go of parked timers, which then never run; one row per timer with what came of it."""
        return await self._each_parked("drop", DROP, which, "dropped")

    async def _each_parked(self, act: str, operation: str, which: Which, done: str) -> list[dict[str, Any]]:
        which.check(act)
        detail = {"numbers": sorted(which.numbers)} if which.numbers else {"all": True}
        filters = ("cls", "key", "prefix", "error", "before")
        detail |= {name: value for name in filters if (value := getattr(which, name)) is not None}
        async with self.row(act, _parked_words(which), detail) as end:
            finds = [finding(store) for store in self._stores]
            often = Counter[int]()
            lasts = [NUMBER_MAX] * len(finds)
            if which.is_all or len(finds) > 1:
                found = [await survey(find, which.query(), which.numbers, which.fits) for find in finds]
                lasts = [one.last for one in found]  # what fails again meanwhile is parked anew, and is left so
                # Every store numbers its own: one number may be several timers, of which only one was meant.
                often.update(number for one in found for number in one.numbers if which.numbers)
            results = []
            for find, last in zip(finds, lasts, strict=True):
                async for parked in each_parked(find, which.query(), which.numbers, last, fits=which.fits):
                    problem: str | None = "is of several stores; give class and key as well"
                    if often[parked.number] <= 1:
                        problem = await self._ask_owner(operation, parked)
                    results.append(redriven(parked.number, parked, problem))
            missing = set(which.numbers) - {row["number"] for row in results}
            results = [redriven(number, None, "is not parked") for number in sorted(missing)] + results
            end.note_tries(results, done)
            return results

    async def _ask_owner(self, operation: str, parked: Parked) -> str | None:
        """What stood in the way; None when nothing did."""
        try:
            await self.send(parked.timer.id, operation, (parked.timer.name, parked.number), {})
        except WakefulError as error:
            return str(error)
        return None

    # objects

    async def forget(self, choice: ObjectChoice) -> int:
        """Have objects forgotten; how many there were. The row has no key in it, only what who knows the key can check."""
        async with self.row("forget", await choice.check().pseudonym(self.send), {}) as end:
            return int(end.check_done(await forget(self.send, self._stores, choice), "there is nothing like that"))

    # machines

    async def reset(self, id: ObjectId, input: Any = None, *, force: bool = False) -> Any:
        """Have a machine that is over begin anew, or with `force` any; its first snapshot."""
        async with self.row(RESET, str(id), {"force": True} if force else {}):
            return await self.send(id, "reset", (input,), {"force": force})

    # workflows

    async def workflow(self, id: ObjectId, act: str, *args: str | None) -> Any:
        """Pause, resume, cancel, retry, restart or fork it."""
        given = {name: arg for name, arg in zip(_GIVEN.get(act, ()), args, strict=True) if arg is not None}
        async with self.row(f"workflow.{act}", str(id), given):
            return await self.send(id, act, args, {})

    # databases

    async def write_sql(self, id: ObjectId, query: str) -> dict[str, Any]:
        """Run these statements in a turn of the object; how many rows were written, and the first rows of the last."""
        async with self.row(WRITE, str(id), {"query": query[:QUERY_CHARS_KEPT]}):
            answer: dict[str, Any] = await self.send(id, WRITE, (query,), {})
            return answer

    # notices

    async def test_webhook(self, name: str) -> Any:
        """Send a test to that webhook; what came back."""
        async with self.row("webhook.test", name) as end:
            answer = await self.send(ObjectId(NOTICES, check_key(NOTICES, name)), SEND_TEST, (), {})
            if not answer["ok"]:
                end.outcome, end.said = FAILED, answer["error"]
            return answer

    # points in time

    async def restore(self, id: ObjectId, mark: str, *, timers: bool) -> str:
        """Have the object be as it was at that point; the bookmark with which this is undone."""
        async with self.row(RESTORE, str(id), {"to": mark, "timers": timers}):
            before: str = await self.send(id, RESTORE, (mark, timers), {})
            return before

    # nodes

    async def drain(self, node: str) -> None:
        """Let the node own nothing."""
        await self._drain(node, is_draining=True)

    async def undrain(self, node: str) -> None:
        """Let it own shards again."""
        await self._drain(node, is_draining=False)

    async def _drain(self, node: str, *, is_draining: bool) -> None:
        async with self.row("node.drain" if is_draining else "node.undrain", node):
            shared = [store for store in self._stores if store.shared]
            if not shared:
                raise Conflict(
                    "this store has one process, so nobody could take what it owns; stop it instead",
                    code="store.single",
                )
            if not any([await store.drain(node, is_draining) for store in shared]):
                raise Conflict(f"there is no node {node}, or it has just left", code="node.left")
            for store in shared:
                await store.tell([])

    # the rows

    @asynccontextmanager
    async def row(self, act: str, target: str, detail: dict[str, Any] | None = None) -> AsyncIterator[Ending]:
        """An audit row around something: written before, completed after. If it can't be written nothing is done."""
        ending = Ending()
        number = await self.send(LOG, "begin", (self.actor, act, target, detail or {}), {})
        try:
            yield ending
        except Exception as error:
            await self._end(number, FAILED, str(error))
            raise
        await self._end(number, ending.outcome, ending.said)

    async def _end(self, number: int, outcome: str, error: str | None) -> None:
        try:
            await self.send(LOG, "end", (number, outcome, error), {})
        except WakefulError as problem:  # the act is done or undone already; the row stays `begun`, which says as much
            log.warning("audit row %d was not completed: %s", number, problem, extra={"code": "audit.open"})


def finding(store: Views) -> Find:
    """How to find what is parked there: beside the loop, where the store is in this process."""

    async def find(query: Query) -> list[Parked]:
        aside = ASIDE.set(True)
        try:
            return await store.find_parked(query)
        finally:
            ASIDE.reset(aside)

    return find


def _given_of(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _which(id: ObjectId, name: str | None, tag: str | None) -> str:
    return f"{id} {name}" if name is not None else f"{id}, tag {tag}"


def _parked_words(which: Which) -> str:
    if which.numbers:
        return "parked " + ", ".join(map(str, sorted(which.numbers)[:20]))
    where = "/".join(part for part in (which.cls, which.key) if part)
    return f"all parked {where}".rstrip()
