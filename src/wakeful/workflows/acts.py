"""Layer 4. What can be done to a workflow, by its program, by operators, and by other workflows? Each is one turn of it."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from wakeful.runtime.admission import DROP, GO, QueueReply, with_ticket
from wakeful.runtime.context import runtime_of
from wakeful.runtime.turn import Turn, running_turn
from wakeful.store.protocol import Query
from wakeful.values.codec import decode, encode
from wakeful.values.commits import SYSTEM
from wakeful.values.errors import BadInput, BadOption, CallFailed, Conflict, LimitExceeded
from wakeful.values.ids import ObjectId
from wakeful.workflows import tickets
from wakeful.workflows.body import check_name
from wakeful.workflows.driver import COMMIT, PARK, RELOAD, follow
from wakeful.workflows.node_workflows import TIMER, NodeWorkflows, feature_of
from wakeful.workflows.records import (
    ACTIVE,
    CANCELLED,
    EVENTS,
    FAILED,
    INPUT,
    OUTCOME,
    OVER,
    PARKED,
    PAUSED,
    QUEUED,
    ROW,
    RUNNING,
    StepRow,
    Wait,
    WorkflowRecord,
    event_prefix,
    keep_event,
    load,
    load_step,
    load_steps,
    pack_error,
    read_record,
    read_row,
    read_step,
    save,
    save_step,
    scan_rows,
    step_slot,
)
from wakeful.workflows.settlement import (
    answer_of,
    begin_anew,
    cancel_error,
    end,
    enter,
    fill_from_event,
    give_back,
    is_sent,
    next_number,
    park,
    settle,
    wake,
)
from wakeful.workflows.status import state_of

if TYPE_CHECKING:
    from wakeful.runtime.context import Context

ADOPT = "workflow.adopt"  # a fork arrives
FORK_BYTES = 262_144  # of rows that travel in one call
PARTS = "workflow.fork:"  # rows of a fork whose last part has not come


# its beginning


def begin(turn: Turn, feature: NodeWorkflows, data: bytes, queue: object = None) -> WorkflowRecord:
    """A workflow that has not been started is; with a queue, of its own or of its class, it waits for its place."""
    record = WorkflowRecord(1, 0, 0, "")
    id, now = turn.activation.id, turn.activation.node.clock.now()
    record.place = tickets.place_of(queue, feature.bound_of(id.cls).queue, now, f"workflow {id}")
    begin_anew(turn, record, data, feature.bound_of(turn.activation.id.cls).version)
    record.since = record.started_at
    return record


async def start(turn: Turn, data: bytes, queue: object = None) -> WorkflowRecord:
    """Start it; one that has been started with the same is left as it is, `Conflict` when that was something else."""
    record = await load(turn)
    if record is None:
        record = begin(turn, feature_of(turn.activation.node), data, queue)
        save(turn, record)
    elif record.rounds == 0 and not await _began_with(turn, data):
        raise Conflict(
            f"{turn.activation.id} has been started with something else; give it another key, or restart it",
            code="workflow.started",
        )
    return record


async def _began_with(turn: Turn, data: bytes) -> bool:
    kept = await read_row(turn, INPUT)
    if kept is None or kept == data:
        return kept == data
    return feature_of(turn.activation.node).bound_of(turn.activation.id.cls).is_same_input(kept, data)


async def start_from_letter(
    feature: NodeWorkflows, turn: Turn, data: bytes, listener: list[str], queue: object = None
) -> None:
    """Another workflow starts it, and waits for its end; one that is there is taken as it is."""
    if turn.activation.id.cls not in feature.classes:
        raise BadOption(f"{turn.activation.id} is no Workflow", code="workflow.class")
    record = await load(turn)
    if record is None:
        record = begin(turn, feature, data, queue)
        record.parent = listener[:2]
    await add_listener(feature, turn, record, listener)
    save(turn, record)


async def add_listener(feature: NodeWorkflows, turn: Turn, record: WorkflowRecord, listener: list[str]) -> None:
    if record.state in OVER:
        answer = answer_of(record, await read_row(turn, OUTCOME))
        feature.mail(turn, ObjectId(listener[0], listener[1]), ["event", listener[2], answer])
    elif listener not in record.listeners:
        record.listeners.append(listener)


# what comes to it


async def take_place(feature: NodeWorkflows, turn: Turn, reply: QueueReply) -> None:
    """Its queue lets it go, drops it, or asks whether it is still there."""
    record = await load(turn)
    if record is None or record.place is None or record.place.ticket != reply.ticket:
        tickets.refuse(feature, turn, reply)
    elif record.state == QUEUED and reply.word in (GO, DROP):
        if reply.word == GO:
            wake(turn, record)
        else:
            record.error, record.place = cancel_error(reply.reason), with_ticket(record.place, None)
            end(turn, record, CANCELLED, None)
        save(turn, record)


async def send(turn: Turn, event: str, data: Any) -> None:
    """An event: whoever waits for it goes on, and else it is kept."""
    check_name("event", event)
    record = await existing(turn)
    if record.state in OVER:
        raise Conflict(f"{turn.activation.id} is {record.state}, and waits for nothing any more", code="workflow.over")
    value = encode(data)
    most = turn.activation.node.limits.arguments_bytes
    if len(value) > most:
        raise LimitExceeded(
            f"event {event!r} has {len(value)} bytes, {len(value) - most} more than the limit of {most}; keep large data in "
            "storage, or in a file elsewhere, and send its name",
            code="limit.workflow_result",
        )
    await take_event(turn, record, f"event:{event}", value)
    save(turn, record)


async def take_answer(feature: NodeWorkflows, turn: Turn, event: str, value: bytes) -> None:
    """A call, or another workflow, has come to its end."""
    record = await load(turn)
    if record is None or record.state in OVER or event.split(":")[1] != str(record.run):
        return
    if event.startswith("call:") and not any(wait.event == event for wait in record.waits):
        return  # nobody waits for that one any more
    await take_event(turn, record, event, value)
    save(turn, record)


async def take_event(turn: Turn, record: WorkflowRecord, event: str, value: bytes) -> None:
    """End the wait for it that began first, or keep it for one that is to come."""
    activation = turn.activation
    node, feature = activation.node, feature_of(activation.node)
    place = f"{event_prefix(event)}{node.next_seq(activation.shard):016x}"
    wait = next((one for one in record.waits if one.event == event), None)
    if wait is None:
        most = node.limits.workflow_events
        if record.events >= most and is_sent(event):
            raise LimitExceeded(
                f"{activation.id} keeps {record.events} events that nobody has waited for, the limit (workflow_events)",
                code="limit.workflow_events",
            )
        keep_event(turn, place, event, value)
        record.events += is_sent(event)
        return
    row = await load_step(turn, wait.ordinal)
    assert row is not None
    fill_from_event(row, value, node.clock.now())
    row.place, row.number = place, await next_number(turn, record)
    save_step(turn, row)
    record.waits.remove(wait)
    go_on(feature, turn, record, [row])


def go_on(
    feature: NodeWorkflows, turn: Turn, record: WorkflowRecord, rows: list[StepRow], *, cancelled: int = 0
) -> None:
    """What it waited for has come: its body is told, or woken."""
    driver = feature.drivers.get(turn.activation.id)
    fits = driver is not None and driver.fits(record, turn.activation.epoch)
    if record.state == ACTIVE and not (fits and record.phase == RUNNING):
        wake(turn, record)
    if fits:
        turn.then = [*turn.then, follow(driver, record, rows, cancelled=cancelled)]


# what operators do


async def pause(turn: Turn) -> WorkflowRecord:
    """Begin nothing more; functions that run come to their end."""
    record = await existing(turn)
    if record.state == PAUSED:
        return record
    if record.state == QUEUED:
        tickets.leave(turn, record)
    elif record.state != ACTIVE:
        raise Conflict(
            f"{turn.activation.id} is {record.state}; only one that goes on can be paused", code="workflow.state"
        )
    record.touch(turn.activation.node.clock.now(), state=PAUSED)
    record.wake_at = None
    turn.clear_timer(TIMER)
    save(turn, record)
    feature = feature_of(turn.activation.node)
    driver = feature.drivers.get(turn.activation.id)
    turn.then = [*turn.then, follow(driver, record, [])]
    return record


async def resume(turn: Turn) -> WorkflowRecord:
    """Go on, from a pause or from where it was parked."""
    record = await existing(turn)
    if record.state in (ACTIVE, QUEUED):
        return record
    if record.state in OVER:
        remedy = "retry it, or restart it" if record.state == FAILED else "restart it"
        raise Conflict(f"{turn.activation.id} is {record.state}; {remedy}", code="workflow.state")
    await unpark(turn)
    record.error = None
    enter(turn, record)
    save(turn, record)
    return record


async def cancel(turn: Turn) -> WorkflowRecord:
    """Its `finally` blocks run, and then what undoes its steps, last first. One that failed can be cancelled too."""
    record = await existing(turn)
    if record.state == CANCELLED or (record.cancelled and record.state == ACTIVE):
        return record
    if record.state not in (ACTIVE, PAUSED, PARKED, FAILED, QUEUED):
        raise Conflict(
            f"{turn.activation.id} is {record.state}, and so nothing is to be cancelled", code="workflow.state"
        )
    was = record.state
    if was == QUEUED or (was == PAUSED and tickets.wants_place(record)):
        tickets.leave(turn, record)
        if not await load_steps(turn):  # it has never begun, and so it has nothing to end
            end(turn, record, CANCELLED, None)
            save(turn, record)
            return record
    await unpark(turn)
    if not record.cancelled:
        record.cancelled = await next_number(turn, record)
    record.error, record.ended_at = None, 0
    turn.writes[OUTCOME] = None
    if was == ACTIVE:
        go_on(feature_of(turn.activation.node), turn, record, [], cancelled=record.cancelled)
    else:
        wake(turn, record)
    save(turn, record)
    return record


async def cancel_child(feature: NodeWorkflows, turn: Turn, parent: list[str]) -> None:
    """The workflow that began it was cancelled."""
    record = await load(turn)
    if record is not None and record.parent == parent and record.state not in OVER:
        await cancel(turn)


async def restart(turn: Turn) -> WorkflowRecord:
    """From the top, with what it was started with; nothing is undone, and events that are kept go."""
    record = await existing(turn)
    feature = feature_of(turn.activation.node)
    data = await read_row(turn, INPUT)
    assert data is not None
    await unpark(turn)
    drop_driver(feature, turn)
    for key in [*await scan_rows(turn, EVENTS)]:
        turn.writes[SYSTEM, key] = None
    for row in await load_steps(turn):
        turn.writes[step_slot(row.ordinal)] = None
    record.events = 0
    begin_anew(turn, record, data, feature.bound_of(turn.activation.id.cls).version)
    save(turn, record)
    return record


async def retry(turn: Turn, from_step: str | None) -> WorkflowRecord:
    """Go on from the step that failed, or from that one: it and what came of it is forgotten, the rest stays as it is."""
    record = await existing(turn)
    if record.state not in (FAILED, PARKED):
        raise Conflict(
            f"{turn.activation.id} is {state_of(record)}; only one that failed or is parked is retried",
            code="workflow.state",
        )
    feature, rows = feature_of(turn.activation.node), await load_steps(turn)
    by = record.failed_by if from_step is None else [find_step(turn.activation.id, rows, from_step).ordinal]
    kept = cut(rows, by)
    ordinals = {row.ordinal for row in kept}
    starts = {row.ordinal: row for row in rows if row.kind == "start"}
    for row in rows:
        if row.ordinal not in ordinals:
            turn.writes[step_slot(row.ordinal)] = None
            child = row.event.split(":")[2] if row.event is not None and row.kind == "result" else ""
            if row.kind not in ("wait", "result") or (child and int(child) not in ordinals):
                continue
            if row.kind == "result" and row.state == "error":
                ask_again(feature, turn, starts[int(child)], row)
            else:
                give_back(turn, record, row)
    record.waits = waits_of(kept)
    for row in kept:
        save_step(turn, row)
    record.last = max([0, *(row.number for row in kept)])
    if record.cancelled and by and record.cancelled > record.last and not _is_undo(rows, by):
        record.cancelled = 0
    record.last = max(record.last, record.cancelled)
    await unpark(turn)
    drop_driver(feature, turn)
    record.error, record.ended_at, record.failed_by = None, 0, []
    turn.writes[OUTCOME] = None
    enter(turn, record)
    save(turn, record)
    return record


def ask_again(feature: NodeWorkflows, turn: Turn, start: StepRow, result: StepRow) -> None:
    """Have the workflow that it began say how it stands now, which may be better: it may have been retried as well."""
    assert start.detail is not None
    child = ObjectId(start.detail[0], start.detail[1])
    feature.mail(turn, child, ["listen", [*turn.activation.id, result.event]])


def _is_undo(rows: list[StepRow], ordinals: Iterable[int]) -> bool:
    return all(row.kind == "undo" for row in rows if row.ordinal in ordinals)


def cut(rows: list[StepRow], by: Iterable[int]) -> list[StepRow]:
    """Those that are left without these steps and all that the body asked for after it had been handed one of them."""
    gone = set(by)
    numbers = [row.number for row in rows if row.ordinal in gone and row.number]
    place = min(numbers, default=1 << 62)
    kept = [row for row in rows if row.ordinal not in gone and row.after < place]
    for row in kept:
        if row.state == "left" and (not row.number or row.number > place):
            row.state, row.number, row.place = "waiting", 0, None  # it was left because of what is gone, perhaps
    return [row for row in kept if not (row.state == "waiting" and row.kind in ("step", "undo", "call"))]


def waits_of(rows: list[StepRow]) -> list[Wait]:
    """What such a body waits for."""
    waits = []
    for row in rows:
        if row.state == "waiting":
            waits.append(Wait(row.ordinal, row.kind, row.label, row.due_at, row.event))
        elif row.state == "tried":
            waits.append(Wait(row.ordinal, "retry", row.label, row.due_at, None))
    return waits


def find_step(id: ObjectId, rows: list[StepRow], name: str) -> StepRow:
    """The step of that name, or `"mail #2"`; `BadOption` says which there are."""
    for row in rows:
        if row.label == name and row.kind != "undo":
            return row
    labels = ", ".join(repr(row.label) for row in rows[-20:]) or "none yet"
    raise BadOption(f"{id} has no step {name!r}; its last are: {labels}", code="workflow.no_step")


# a fork


async def fork(turn: Turn, key: str, from_step: str | None) -> None:
    """Another workflow that has all this one had before that step, and goes on from there; with no step, from where it is."""
    record = await existing(turn)
    activation = turn.activation
    rows, node = await load_steps(turn), activation.node
    if from_step is not None:
        rows = cut(rows, [find_step(activation.id, rows, from_step).ordinal])
    else:
        rows = cut(rows, record.failed_by)
    rows = [row for row in rows if row.kind not in ("call", "result") or row.number]
    numbers = {number: place for place, number in enumerate(sorted({row.number for row in rows if row.number}), 1)}
    for row in rows:
        row.number, row.after = numbers.get(row.number, 0), numbers.get(row.after, 0)
        row.place = None
    target = ObjectId(activation.id.cls, key)
    if target == activation.id:
        raise BadOption(f"{target} can't be forked into itself; give another key", code="workflow.itself")
    record.forked_from = [*activation.id, from_step or ""]
    record.last, record.cancelled, record.events, record.parent, record.listeners = len(numbers), 0, 0, None, []
    record.state, record.phase, record.error, record.failed_by, record.ended_at = ACTIVE, RUNNING, None, [], 0
    record.waits = waits_of(rows)
    record.place = None if record.place is None else with_ticket(record.place, None)
    data = await read_row(turn, INPUT)
    scratch = Turn(activation, turn.chain, turn.deadline_at)  # to have them as they are kept
    save(scratch, record)
    pages: list[list[bytes | None]] = []
    page: list[bytes | None] = []
    size = 0
    for row in rows:
        save_step(scratch, row)
        kept = scratch.writes[step_slot(row.ordinal)]
        page.append(kept)
        size += len(kept or b"")
        if size > FORK_BYTES:
            pages, page, size = [*pages, page], [], 0
    number = feature_of(node).token()
    head = scratch.writes[ROW]
    for part in pages:
        await node.send(target, ADOPT, (number, None, None, part), {})
    await node.send(target, ADOPT, (number, head, data, page), {})


async def adopt(ctx: "Context", number: str, head: bytes | None, data: bytes | None, rows: list[bytes]) -> None:
    """A fork arrives, in parts, which are no steps of this object before the last one begins it."""
    turn = running_turn(runtime_of(ctx), ADOPT)
    slot = (SYSTEM, "workflow.fork")
    if await load(turn) is not None:
        raise Conflict(f"{turn.activation.id} is there already; give the fork another key", code="workflow.started")
    before = await read_row(turn, slot)
    is_first = before is None or decode(before) != number
    if before is not None and (is_first or head is not None):
        for place, one in (await scan_rows(turn, PARTS)).items():
            turn.writes[SYSTEM, place] = None
            rows = rows if is_first else [*rows, one]  # else they are of one that was cut off
    steps = [read_step(one) for one in rows]
    if head is None or data is None:
        turn.writes[slot] = encode(number)
        turn.writes |= {(SYSTEM, f"{PARTS}{row.ordinal:06x}"): one for row, one in zip(steps, rows, strict=True)}
        return
    turn.writes[slot] = None
    turn.writes |= {step_slot(row.ordinal): one for row, one in zip(steps, rows, strict=True)}
    record = read_record(head)
    feature = feature_of(turn.activation.node)
    turn.writes[INPUT] = data
    for row in steps:
        if row.kind == "start" and row.detail is not None:
            event = f"child:{record.run}:{row.ordinal}"
            child = ObjectId(row.detail[0], row.detail[1])
            feature.mail(turn, child, ["listen", [*turn.activation.id, event]])
    enter(turn, record)
    save(turn, record)


# the parts


async def existing(turn: Turn) -> WorkflowRecord:
    record = await load(turn)
    if record is None:
        raise Conflict(f"{turn.activation.id} has not been started; start it first", code="workflow.unstarted")
    return record


def drop_driver(feature: NodeWorkflows, turn: Turn) -> None:
    """What runs of it here is stopped, once this is on disk."""
    driver = feature.drivers.get(turn.activation.id)
    if driver is not None:
        turn.then = [*turn.then, driver.drop]


async def unpark(turn: Turn) -> None:
    """It goes on, so nothing of it is left for people to see to."""
    node, id = turn.activation.node, turn.activation.id
    await turn.activation.settle()
    query = Query(cls=id.cls, key=id.key, name=TIMER, limit=100)
    turn.unparks = [*turn.unparks, *(one.number for one in await node.reading(node.store.find_parked(query)))]


async def erase(feature: NodeWorkflows, turn: Turn) -> None:
    """It is forgotten: who waits for it hears that, and what it began goes with it."""
    record = await load(turn)
    if record is None:
        return
    drop_driver(feature, turn)
    tickets.leave(turn, record)
    record.error = pack_error(CallFailed(f"{turn.activation.id} was forgotten", code="workflow.forgotten"))
    if record.state not in OVER:
        record.state = FAILED
        for cls, key, event in record.listeners:
            feature.mail(turn, ObjectId(cls, key), ["event", event, answer_of(record, None)])
    for row in await load_steps(turn):
        if row.kind == "start" and row.detail is not None:
            feature.mail(turn, ObjectId(row.detail[0], row.detail[1]), ["forget", list(turn.activation.id)])
    turn.then = [*turn.then, lambda: feature.waiters.tell(turn.activation.id)]


# the driver's own


async def commit(ctx: "Context") -> None:
    """A body and its steps have something to write."""
    await settle(running_turn(runtime_of(ctx), COMMIT))


async def reload(ctx: "Context") -> None:
    """A driver does not know what is on disk."""
    turn = running_turn(runtime_of(ctx), RELOAD)
    driver = feature_of(turn.activation.node).drivers.get(turn.activation.id)
    if driver is None:
        return
    record = await load(turn)
    if record is None or not driver.fits(record, turn.activation.epoch) or record.state not in (ACTIVE, PAUSED):
        turn.then = [*turn.then, driver.drop]
        return
    rows = await load_steps(turn)
    turn.then = [*turn.then, lambda: driver.adopt(record, rows)]


async def give_up(ctx: "Context", run: int, words: str) -> None:
    """A driver failed in a way that nobody thought of."""
    turn = running_turn(runtime_of(ctx), PARK)
    record = await load(turn)
    if record is not None and record.run == run and record.state == ACTIVE:
        park(turn, record, BadInput(words, code="workflow.driver"))
        save(turn, record)
        drop_driver(feature_of(turn.activation.node), turn)


OPERATIONS: dict[str, Callable[..., Awaitable[Any]]] = {COMMIT: commit, RELOAD: reload, PARK: give_up, ADOPT: adopt}
