"""Layer 5. What do operators do over HTTP? Each leaves an audit row with the name of their token."""

import asyncio
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from wakeful.http.asks import MSGPACK, Answer, Ask, json_answer, result
from wakeful.http.looks import connection_of, object_of, schedule_name
from wakeful.http.table import read_body
from wakeful.operations.acts import Acts, Which
from wakeful.operations.arguments import Signature, signature_of
from wakeful.operations.forgets import ObjectChoice, tally
from wakeful.policy.plan import spec_of
from wakeful.policy.retry import RetryPolicy, exponential
from wakeful.schedules.options import parse_spec_options, plain_spec
from wakeful.specs.instants import after, at
from wakeful.specs.spec import Spec
from wakeful.values.errors import BadOption, BadTime, WrongTenant
from wakeful.values.ids import ObjectId, check_class, check_key
from wakeful.values.times import LATEST_MS, duration_ms, from_datetime, to_datetime
from wakeful.views import history, ledger, schedules
from wakeful.views.calls import parse_call_id
from wakeful.views.plain import plain

Length = str | float


class Waits(Struct, forbid_unknown_fields=True):
    """How often a failing run is tried, and after what waits, each `factor` times the one before."""

    max_attempts: int = 5
    first: Length = "2s"
    factor: float = 2.0
    most: Length = "10m"
    on: list[str] = []  # types of errors, by their full names; all when there is none

    def policy(self) -> RetryPolicy:
        return RetryPolicy(
            self.max_attempts, exponential(self.first, factor=self.factor, max=self.most), tuple(self.on)
        )


class Reschedule(Struct, forbid_unknown_fields=True, kw_only=True):
    """Other times by `spec` (cron text or a phrase), `at` or `after`, and the options that are to change."""

    spec: str | None = None
    at: datetime | None = None
    after: Length | None = None
    zone: str | UnsetType | None = UNSET
    gap: str | UnsetType | None = UNSET
    fold: str | UnsetType | None = UNSET
    jitter: Length | UnsetType | None = UNSET
    catch_up: str | UnsetType = UNSET
    catch_up_window: Length | UnsetType = UNSET
    max_catch_up: int | UnsetType = UNSET
    grace: Length | UnsetType = UNSET
    overlap: str | UnsetType = UNSET
    parallel: int | UnsetType = UNSET
    retry: Waits | UnsetType = UNSET
    start_at: datetime | UnsetType = UNSET
    end_at: datetime | UnsetType = UNSET
    max_runs: int | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    metadata: Any | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    depends_on: list[str] | UnsetType = UNSET
    on_missed: str | UnsetType = UNSET

    def when(self) -> Any:
        given = [one for one in (self.spec, self.at, self.after) if one is not None]
        if len(given) != 1:
            raise BadOption("when? give spec, at or after, and one of them", code="schedule.when")
        if self.at is not None:
            return at(self.at)
        return after(self.after) if self.after is not None else self.spec

    def options(self) -> dict[str, Any]:
        named = msgspec.structs.asdict(self)
        own = ("handler", "spec", "at", "after", "args", "kwargs", "retry", "is_named")
        found = {name: value for name, value in named.items() if name not in own and value is not UNSET}
        return found | ({} if isinstance(self.retry, UnsetType) else {"retry": self.retry.policy()})


class Put(Reschedule, forbid_unknown_fields=True, kw_only=True):
    """A schedule: its times by `spec` (cron text or a phrase), `at` or `after`, the method, and its options.

    One whose name was only made up (`is_named` false) goes when it is done.
    """

    handler: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    is_named: bool = True


class Pause(Struct, forbid_unknown_fields=True):
    """Why, and when it ends by itself: an instant, or a length of time from now."""

    note: str = ""
    until: datetime | None = None
    lasts: Length | None = None


class Backfill(Struct, forbid_unknown_fields=True):
    """From when to when; with `dry_run` only what would run."""

    start: datetime
    end: datetime
    dry_run: bool = False


class Restore(Struct, forbid_unknown_fields=True):
    """A bookmark, or a time with its offset; with `dry_run` only what would change."""

    to: str
    timers: bool = True
    dry_run: bool = False


class MachineReset(Struct, forbid_unknown_fields=True):
    """What the machine begins anew with; with `force` also while it is active."""

    input: Any = None
    force: bool = False


class ParkedChoice(Struct, forbid_unknown_fields=True):
    """Which parked timers: numbers, or all that the filters leave."""

    numbers: list[int] = []
    all: bool = False
    cls: str | None = msgspec.field(default=None, name="class")
    key: str | None = None
    prefix: str | None = None
    error: str | None = None
    older_than: str | None = None


class ForgetChoice(Struct, forbid_unknown_fields=True):
    """Which objects: a class and a key, or all whose keys begin so; with `dry_run` only what they hold."""

    cls: str | None = msgspec.field(default=None, name="class")
    key: str | None = None
    prefix: str | None = None
    dry_run: bool = False


def acts_of(ask: Ask) -> Acts:
    return Acts.of_node(ask.node, ask.who.name)


async def _check_exposed(ask: Ask, id: ObjectId, *methods: str | UnsetType) -> None:
    """Only what callers reach can be put on a schedule from outside; who tries more leaves an audit row."""
    for method in methods:
        if not isinstance(method, UnsetType):
            await ask.gate.check_exposed(connection_of(ask), ask.who, id.cls, id.key, method)


def _looked_at(ask: Ask, asked: Reschedule, options: dict[str, Any]) -> Spec:
    """The spec, looked at once beside the loop: what it has to count out first it knows from then on."""
    spec = parse_spec_options(asked.when(), options)
    spec_of(spec.text).next_ms(ask.node.clock.now())
    return spec


async def put_schedule(ask: Ask) -> Answer:
    """Make it, or change it: the same name with the same spec keeps its next occurrence."""
    asked: Put = await read_body(ask, Put, is_needed=True)
    id, name = object_of(ask), schedule_name(ask)
    await _check_exposed(ask, id, asked.handler, asked.on_missed)
    known = ask.node.registry.by_name(id.cls)
    signature = signature_of(known, asked.handler, has_run=True)
    args, kwargs = await ask.beside(lambda: signature.convert(*_arguments_of(ask, asked, signature)))
    options = asked.options()
    spec = await asyncio.to_thread(_looked_at, ask, asked, options)
    if kwargs:
        options["kwargs"] = kwargs
    if not asked.is_named:
        options["is_named"] = False
    made = await acts_of(ask).add_schedule(id, spec.text, asked.handler, *args, name=name, **options)
    return result(made, MSGPACK) if ask.wants_types else json_answer(await schedules.show(ask.view, id, name))


def _arguments_of(ask: Ask, asked: Put, signature: Signature) -> tuple[list[Any], dict[str, Any]]:
    """Its arguments as they were written, where the method takes a `Decimal`."""
    if not signature.is_exact:
        return asked.args, asked.kwargs
    exact = ask.exact_value()
    return exact.get("args", []), exact.get("kwargs", {})


async def reschedule(ask: Ask) -> Answer:
    """Give it other times, as a new version; everything else stays, but for options named here."""
    asked: Reschedule = await read_body(ask, Reschedule, is_needed=True)
    id, name = object_of(ask), schedule_name(ask)
    await ask.view.info(id)
    options = asked.options()
    await asyncio.to_thread(_looked_at, ask, asked, dict(options))
    spec = plain_spec(asked.when(), options)  # the object knows what it had, and so what stays
    await _check_exposed(ask, id, asked.on_missed)
    made = await acts_of(ask).reschedule(id, name, spec.text, **options)
    return result(made, MSGPACK) if ask.wants_types else json_answer(await schedules.show(ask.view, id, name))


async def delete_schedule(ask: Ask) -> Answer:
    """End it: False when it was over already."""
    id, name = object_of(ask), schedule_name(ask)
    return json_answer({"cancelled": bool(await acts_of(ask).cancel(id, name))})


async def pause_schedule(ask: Ask) -> Answer:
    asked: Pause = await read_body(ask, Pause, is_needed=False)
    if asked.until is not None and asked.lasts is not None:
        raise BadOption("until or lasts, not both", code="schedule.until")
    until = asked.until
    if asked.lasts is not None:
        until_ms = ask.node.clock.now() + duration_ms(asked.lasts, what="lasts")
        if until_ms > LATEST_MS:
            raise BadTime(f"lasts {asked.lasts!r} is past the latest time; leave it out for no end", code="time.late")
        until = to_datetime(until_ms)
    id, name = object_of(ask), schedule_name(ask)
    await acts_of(ask).pause(id, name, note=asked.note, until=until)
    return json_answer(await schedules.show(ask.view, id, name))


async def resume_schedule(ask: Ask) -> Answer:
    id, name = object_of(ask), schedule_name(ask)
    await acts_of(ask).resume(id, name)
    return json_answer(await schedules.show(ask.view, id, name))


async def trigger_schedule(ask: Ask) -> Answer:
    id, name = object_of(ask), schedule_name(ask)
    return json_answer({"run_ids": list(await acts_of(ask).trigger(id, name))})


async def backfill_schedule(ask: Ask) -> Answer:
    asked: Backfill = await read_body(ask, Backfill, is_needed=True)
    id, name = object_of(ask), schedule_name(ask)
    first, last = from_datetime(asked.start), from_datetime(asked.end)
    if last <= first:
        raise BadOption("end must be after start", code="schedule.backfill")
    if asked.dry_run:
        await ask.view.info(id)
        return json_answer({"dry_run": True, "rows": await ledger.preview(ask.view, id, name, first, last)})
    await acts_of(ask).backfill(id, name, asked.start, asked.end)
    rows = await ledger.preview(ask.view, id, name, first, last)
    return json_answer({"dry_run": False, "rows": rows})


async def restore(ask: Ask) -> Answer:
    """Have an object be as it was."""
    asked: Restore = await read_body(ask, Restore, is_needed=True)
    id, mark = object_of(ask), history.mark_of(asked.to)
    await ask.view.info(id)
    planned = await history.preview(ask.view, id, mark, timers=asked.timers)
    before = None if asked.dry_run else await acts_of(ask).restore(id, mark, timers=asked.timers)
    return json_answer({"dry_run": asked.dry_run, "before": before, **planned})


async def reset(ask: Ask) -> Answer:
    """Have a machine that is over begin anew."""
    asked: MachineReset = await read_body(ask, MachineReset, is_needed=False)
    id = object_of(ask)
    await ask.view.info(id)
    snapshot = await acts_of(ask).reset(id, asked.input, force=asked.force)
    return json_answer({"class": id.cls, "key": id.key, "value": plain(snapshot.value), "status": snapshot.status})


async def redrive(ask: Ask) -> Answer:
    """Set parked timers due again; a row for each with what came of it."""
    return _parked_answer(ask, await acts_of(ask).redrive(await _parked_choice(ask, "option.redrive")))


async def drop(ask: Ask) -> Answer:
    """Let go of parked timers; a row for each with what came of it."""
    return _parked_answer(ask, await acts_of(ask).drop(await _parked_choice(ask, "option.drop")))


async def _parked_choice(ask: Ask, code: str) -> Which:
    asked: ParkedChoice = await read_body(ask, ParkedChoice, is_needed=True)
    if any(not 0 < number < 2**63 for number in asked.numbers):
        raise BadOption("numbers are those of parked timers, from 1", code=code)
    if len(asked.numbers) > 10_000:
        raise BadOption("at most 10000 numbers at once; `all` takes any number", code=code)
    if asked.all and asked.numbers:
        raise BadOption("numbers or all, not both", code=code)
    if asked.cls is not None:
        check_class(asked.cls)
    if asked.key is not None:
        check_key(asked.cls or "class", asked.key)
    before = None
    if asked.older_than is not None:
        before = ask.node.clock.now() - duration_ms(asked.older_than, what="older_than")
    numbers = [ask.view.meant(one) for one in asked.numbers]
    which = Which(numbers, asked.all, asked.cls, asked.key, asked.prefix, asked.error, before)
    return which.within(ask.who.prefix, code)


def _parked_answer(ask: Ask, rows: list[dict[str, Any]]) -> Answer:
    return json_answer({"rows": [row | {"number": ask.view.mask(row["number"])} for row in rows]})


async def forget(ask: Ask) -> Answer:
    """Have objects forgotten, or say what they hold."""
    asked: ForgetChoice = await read_body(ask, ForgetChoice, is_needed=True)
    choice = ObjectChoice(asked.cls, asked.key, asked.prefix).check()
    if choice.key is not None:
        await ask.gate.check_named(connection_of(ask), ask.who, choice.cls or "", choice.key)
    elif not (choice.prefix or "").startswith(ask.who.prefix or ""):
        words = f"keys that begin with {choice.prefix!r} are not all of it"
        refusal = WrongTenant(f"{ask.who.name} is bound to {ask.who.tenant}, and {words}")
        await ask.gate.refuse(connection_of(ask), ask.who, refusal)
        raise refusal
    if asked.dry_run:
        held = await tally(ask.view.stores, choice, ask.node.clock.now())
        return json_answer({"dry_run": True, "forgotten": 0, "held": held})
    return json_answer({"dry_run": False, "forgotten": await acts_of(ask).forget(choice), "held": None})


async def test_webhook(ask: Ask) -> Answer:
    """Send one a test, and say what came back."""
    return json_answer(await acts_of(ask).test_webhook(ask.params["name"]))


async def cancel_call(ask: Ask) -> Answer:
    """Stop one that is under way."""
    id = ask.params["id"]
    target, _ = parse_call_id(id)
    await ask.gate.check_named(connection_of(ask), ask.who, *target)
    return json_answer({"id": id, "method": await acts_of(ask).cancel_call(id)})


async def drain(ask: Ask) -> Answer:
    await acts_of(ask).drain(ask.params["node"])
    return json_answer({"node": ask.params["node"], "is_draining": True})


async def undrain(ask: Ask) -> Answer:
    await acts_of(ask).undrain(ask.params["node"])
    return json_answer({"node": ask.params["node"], "is_draining": False})
