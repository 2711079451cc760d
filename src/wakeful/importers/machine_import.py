"""Layer 5. Which machines are in a file, and how does one become an object here, in one commit or not at all?"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from wakeful.importers import actorkit, xstate
from wakeful.importers.archive import check_own
from wakeful.importers.findings import FoundMachine, bad, parse_json
from wakeful.importers.sqlite import MAGIC, Tables
from wakeful.machines.carrier import Carrier
from wakeful.machines.node_machines import IMPORT, feature_of
from wakeful.machines.records import MachineRecord, Parent, fit, load, save
from wakeful.machines.steps import end, note, set_delays
from wakeful.runtime.context import runtime_of
from wakeful.runtime.turn import running_turn
from wakeful.statechart.chart import Chart
from wakeful.statechart.effects import Invoke
from wakeful.statechart.snapshot import check_snapshot, configuration_of, dump, restore
from wakeful.statechart.structure import ChartState, ChartStep
from wakeful.values.errors import BadChart, BadOption, BadTime, BadValue, Conflict
from wakeful.values.times import duration_ms, to_datetime

if TYPE_CHECKING:
    from wakeful.machines.bindings import Bound
    from wakeful.runtime.context import Context


async def arrive(
    ctx: "Context",
    data: dict[str, Any],
    *,
    is_dry: bool = False,
    replaces: bool = False,
    restarts: bool = True,
    from_version: int | None = None,
    parent: Parent | None = None,
) -> dict[str, Any]:
    """The operation: make this object the machine that was found; what was taken of it and what was not.

    `parent` is the machine that came with it and that it belongs to.
    """
    activation = runtime_of(ctx)
    turn, node, id = running_turn(activation, IMPORT), activation.node, activation.id
    check_own(id, "import brings")
    machine = msgspec.convert(data, FoundMachine)
    feature = feature_of(node)
    bound = _bound_class(feature.classes, id.cls)
    before = await load(turn)
    if before is not None and not replaces:
        raise Conflict(
            f"{id} has been started already; --replace puts what is in the file in its place", code="import.exists"
        )
    now = node.clock.now()
    bound.with_instance(activation.instance)
    version = bound.version if from_version is None else from_version
    kept = MachineRecord(version, {**machine.snapshot, "children": {}, "pending": [], "seq": 0}, epoch=activation.epoch)
    if parent is not None:
        kept.parent, kept.since = parent, node.next_seq(activation.shard)  # as one that it starts
    if version == bound.version:
        _check(bound, str(id), kept.snapshot)
    fit(bound, id, kept, activation.instance)
    machine.snapshot = kept.snapshot
    pending = fit_delays(bound.chart, machine, now)
    kept.snapshot, starts = complete(
        bound.chart,
        {**kept.snapshot, "pending": pending},
        machine,
        now=now,
        restarts=restarts,
        takes=partial(_takes, bound),
    )
    arriving = _bring_children(feature.classes, machine, starts, now)
    report = {
        "class": id.cls,
        "key": id.key,
        "value": kept.snapshot["value"],
        "status": kept.snapshot["status"],
        "is_imported": not is_dry,
        "was_replaced": before is not None,
        "taken": [_plain(one) for one in machine.remarks if one.is_taken],
        "left": [_plain(one) for one in machine.remarks if not one.is_taken],
    }
    if is_dry:
        return report
    if before is not None:
        end(feature, turn, bound, before)
    if bound.resume == "pause_while_down":
        kept.down_ms = await feature.downtime.ask()
    set_delays(turn, kept)
    letters = {id: {"machine": child, "restarts": restarts} for id, child in arriving.items()}
    carrier = Carrier(feature, bound, turn, kept, dict(INIT), arriving=letters)
    carrier.carry(starts)
    save(turn, kept)
    feature.watchers.note_step(turn, bound, kept, carrier.emitted)
    note(turn, IMPORT, now)
    return report


def _takes(bound: "Bound", id: str, src: str) -> bool:
    """Whether an actor that an action started may go on: the chart knows its id, and the class what it is."""
    is_known = bound.spawned is None or id in bound.spawned
    return is_known and (src in bound.actors or bound.is_child(src))


def _bring_children(
    classes: Mapping[str, "Bound"], found: FoundMachine, starts: list[Invoke], now: int
) -> dict[str, dict[str, Any]]:
    """What its child machines were, by their ids: each goes on from there. Refused here when it does not fit its chart."""
    arriving = {}
    for start in starts:
        data = found.children[start.id].get("machine")
        bound = classes.get(start.src)
        if data is None or bound is None:
            continue
        child = msgspec.convert(data, FoundMachine)
        _check(bound, f"actor {start.id} ({start.src})", child.snapshot)
        fit_delays(bound.chart, child, now)
        found.remarks = [
            structs.replace(one, note=f"{start.src} goes on where it was")
            if (one.what, one.name) == ("actor", start.id)
            else one
            for one in found.remarks
        ]
        found.remarks += [structs.replace(one, name=f"{start.id}: {one.name}") for one in child.remarks]
        arriving[start.id] = data
    return arriving


async def chart_of(ctx: "Context") -> dict[str, Any]:
    """The operation: the chart of the object's class, without waking the object."""
    node, cls = runtime_of(ctx).node, runtime_of(ctx).id.cls
    bound = _bound_class(feature_of(node).classes, cls)
    return {"config": dict(bound.chart.config), "version": bound.version}


def _bound_class(classes: dict[str, "Bound"], cls: str) -> "Bound":
    found = classes.get(cls)
    if found is None:
        has = ", ".join(sorted(classes)) or "none"
        raise BadOption(f"{cls} is no Machine, so it has no chart; the program's machines: {has}", code="machine.class")
    return found


def _check(bound: "Bound", id: str, snapshot: dict[str, Any]) -> None:
    try:
        check_snapshot(bound.chart, snapshot)
    except BadChart as error:
        raise BadValue(f"{id}: {error.message}", code="import.unfit") from None


def _plain(remark: Any) -> dict[str, Any]:
    return {"what": remark.what, "name": remark.name, "note": remark.note}


# How does what was found fit the chart that it is to live under?
#
# Its delays keep their deadlines. Of the actors that XState kept, those run again that an active state invokes or that
# an action of the chart starts, as XState does when it restores a snapshot; those that were machines go on where they were.

_AFTER = "xstate.after."
INIT = {"type": "xstate.init"}


def fit_delays(chart: Chart, found: FoundMachine, now: int) -> list[dict[str, Any]]:
    """The delays of the file that the chart waits for, under the ids that it knows them by."""
    if found.snapshot["status"] != "active":
        for delay in found.pending:
            found.note_left("delay", delay["id"], f"the machine is {found.snapshot['status']}")
        return []
    mask = configuration_of(chart, found.snapshot).mask
    owners = {id: node for node in chart.nodes for id in node.after}
    pending: dict[str, dict[str, Any]] = {}
    for delay in found.pending:
        id, event, note = delay["id"], delay["event"], _when(delay["due_at"], now)
        if event["type"].startswith(_AFTER):
            known = event["type"] if event["type"] in owners else _find_renamed(chart, event["type"])
            if known is None:
                raise BadValue(
                    f"delay {event['type']}: the chart has no such delay; its ids are like "
                    f"{next(iter(owners), 'none')!r}, so give the chart the `id` that it had",
                    code="import.delay",
                )
            if not mask & owners[known].bit:
                found.note_left("delay", id, f"its state '#{owners[known].id}' is not active")
                continue
            note += f", as {known}" if known != id else ""
            id, event = known, {"type": known}
        elif delay["target"] is not None and delay["target"] not in found.children:
            found.note_left("delay", id, f"it goes to {delay['target']!r}, which is no actor of this machine")
            continue
        pending[id] = {**delay, "id": id, "event": event}
        found.note_taken("delay", id, note)
    return list(pending.values())


def complete(
    chart: Chart,
    snapshot: Mapping[str, Any],
    found: FoundMachine,
    *,
    now: int,
    restarts: bool,
    takes: Callable[[str, str], bool] = lambda actor, src: False,
) -> tuple[dict[str, Any], list[Invoke]]:
    """The snapshot with delays that the file lacks and actors that run again, and the starts of those.

    `takes` says of an actor that an action started, by its id and what it is, whether it may go on.
    """
    if snapshot["status"] != "active":
        for id in found.children:
            found.note_left("actor", id, f"the machine is {snapshot['status']}")
        return {**snapshot, "children": {}, "pending": [], "seq": 0}, []
    turn = restore(chart, {**snapshot, "children": {}, "seq": 0}, dict(INIT), now)
    active = [node for node in chart.nodes if turn.configuration.mask & node.bit]
    for node in active:
        _add_delays(turn, node, found, restarts=restarts)
    starts = _run_again(turn, active, found, takes)
    made = dump(chart, turn)
    # What a delayed send goes to must be there when it is due.
    for one in [one for one in made["pending"] if one["target"] is not None and one["target"] not in turn.children]:
        made["pending"].remove(one)
        found.note_left("delay", one["id"], f"it goes to {one['target']!r}, which does not run again")
    return made, starts


def _add_delays(turn: ChartStep, node: ChartState, found: FoundMachine, *, restarts: bool) -> None:
    """Delays of active states, where the file says of none: without them the machine might never move again."""
    if found.knows_delays:
        return  # one that is not in the file has fired, and its state did not care
    known = {one["id"] for one in turn.pending}
    for id, set_ in zip(node.after, node.entry[len(node.entry) - len(node.after) :], strict=True):
        if id in known:
            continue
        if not restarts:
            found.note_left("delay", id, "the file says nothing of delays, and it was not wished anew")
            continue
        set_(turn)
        found.note_taken(
            "delay",
            id,
            f"the file says nothing of delays: counted from now, {_when(turn.pending[-1]['due_at'], turn.now)}",
        )


def _run_again(
    turn: ChartStep, active: list[ChartState], found: FoundMachine, takes: Callable[[str, str], bool]
) -> list[Invoke]:
    starts = []
    invoked = {
        id: begin
        for node in active
        for id, begin in zip(node.invokes, node.starts[len(node.starts) - len(node.invokes) :], strict=True)
    }
    for id, child in found.children.items():
        is_spawned = id not in invoked and child["src"] is not None and takes(id, child["src"])
        if id not in invoked and not is_spawned:
            found.note_left("actor", id, "no active state invokes it, and no action of the chart starts it")
        elif child["status"] != "active":
            found.note_left("actor", id, f"it is {child['status']}")
        else:
            if is_spawned:
                turn.invoke(id, child["src"], child["input"], is_synced=child.get("is_synced", False))
            else:
                invoked[id](turn)
            effect = turn.effects[-1]
            assert isinstance(effect, Invoke)
            if child["has_input"]:
                effect = structs.replace(effect, input=child["input"])
                turn.children = {**turn.children, id: {**turn.children[id], "input": child["input"]}}
            starts.append(effect)
            loss = "" if child["value"] is None else "; where it was is not taken"
            found.note_taken("actor", id, f"{effect.src} runs again from its start{loss}")
    return starts


def _find_renamed(chart: Chart, type: str) -> str | None:
    """The same delay of the same state, written in another way: 86400000 as 24h."""
    for node in chart.nodes:
        if node.after and type.endswith(f".{node.id}"):
            wanted = _ms(type[len(_AFTER) : -len(node.id) - 1])
            same = [
                id for id in node.after if wanted is not None and _ms(id[len(_AFTER) : -len(node.id) - 1]) == wanted
            ]
            if len(same) == 1:
                return same[0]
    return None


def _ms(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return float(duration_ms(text))
    except BadTime:
        return None


def _when(due_at: int, now: int) -> str:
    said = to_datetime(due_at).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return f"due {said}" if due_at > now else f"was due {said}: fires at once"


# Which machines are in a file?

FORMS = ("xstate", "actor-kit")
BYTES_MAX = 256 * 1024 * 1024


def read(path: Path, form: str) -> list[FoundMachine]:
    """The machines in a file of that form, in the order of the file; errors name the place."""
    if form not in FORMS:
        raise BadOption(f"there is no form {form!r}; there are {', '.join(FORMS)}", code="import.form")
    name = str(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
        if head == MAGIC:
            if form == "xstate":
                raise bad(name, "this is an SQLite file, not a snapshot of XState; is it --as actor-kit?")
            return actorkit.read_tables(Tables(path), name)
        if size > BYTES_MAX:
            raise bad(name, f"it has {size:,} bytes; {BYTES_MAX:,} is the most")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise bad(name, f"it can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise bad(name, "it is neither SQLite nor text in UTF-8") from None
    return _read_json(parse_json(text, name), name, form)


def _read_json(data: Any, name: str, form: str) -> list[FoundMachine]:
    several = data if isinstance(data, list) else [data]
    if not several:
        raise bad(name, "there is nothing in it")
    one = xstate.read if form == "xstate" else actorkit.read_keys
    return [one(each, f"{name}[{place}]" if isinstance(data, list) else name) for place, each in enumerate(several)]
