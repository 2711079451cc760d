"""Layer 4. The timer of a workflow's body is due: it is to run, or to go on."""

from typing import TYPE_CHECKING

from wakeful.runtime.timer_handler import Errands, Failed, Park, RowTimers, RunLater
from wakeful.runtime.turn import Turn
from wakeful.values.codec import decode
from wakeful.values.commits import Slot
from wakeful.values.errors import Conflict
from wakeful.values.timers import Parked, Timer
from wakeful.workflows import tickets
from wakeful.workflows.driver import Driver, follow
from wakeful.workflows.node_workflows import BODY, FORGET, NodeWorkflows
from wakeful.workflows.records import (
    ACTIVE,
    FAILED,
    INPUT,
    OVER,
    PARKED,
    ROW,
    RUNNING,
    WorkflowRecord,
    load,
    load_steps,
    pack_error,
    read_row,
    save,
)
from wakeful.workflows.settlement import end, end_due

if TYPE_CHECKING:
    from wakeful.runtime.object_runtime import ObjectRuntime

ROLL_OUT_MS = 60_000  # until a timer is looked at again that only a newer program can run
NEWER = "workflow.newer"


class BodyTimers(RowTimers):
    """`workflow:body`: stays begun for as long as the body runs beside the turns of its object."""

    prefix = BODY

    def __init__(self, feature: NodeWorkflows, deadline_ms: int) -> None:
        self._feature = feature
        self.deadline_ms = deadline_ms

    async def fire(self, activation: "ObjectRuntime", turn: Turn, timer: Timer) -> bool:
        record = await load(turn)
        if record is None or record.state not in (ACTIVE, PARKED):
            return False
        feature, id = self._feature, activation.id
        bound = feature.bound_of(id.cls)
        if record.version > bound.version:
            raise Conflict(
                f"{id} was started by version {record.version} of its class, this process has version {bound.version}; "
                "finish the roll-out, or start the newer program",
                code=NEWER,
            )
        if record.state == PARKED and tickets.wants_place(record):  # it was redriven
            tickets.join(turn, record)
            save(turn, record)
            return False
        driver = feature.drivers.get(id)
        del turn.timers[timer.name]
        if (
            driver is not None
            and driver.is_running
            and driver.seq == timer.seq
            and driver.fits(record, activation.epoch)
        ):
            return False  # the store was away, and this process was not
        ended, _ = await end_due(turn, record)
        record.touch(activation.node.clock.now(), state=ACTIVE, phase=RUNNING)
        record.wake_at = None
        save(turn, record)
        if driver is not None and (driver.is_running or not driver.fits(record, activation.epoch)):
            driver.drop()
            driver = None
        if driver is None:
            driver = await self._make(activation, turn, record)
        else:
            turn.then = [*turn.then, follow(driver, record, ended, ready=_ready(record, driver))]
        driver.seq, driver.activation = timer.seq, activation
        sideline = activation.node.sideline
        before = sideline.seq_of(id, timer.name)
        if before is not None:  # of a driver that was dropped just now
            sideline.stop(id, timer.name, before)
        sideline.begin(timer, driver.run)
        return False

    async def _make(self, activation: "ObjectRuntime", turn: Turn, record: WorkflowRecord) -> Driver:
        given = await read_row(turn, INPUT)
        assert given is not None
        rows = await load_steps(turn)
        feature = self._feature
        bound = feature.bound_of(activation.id.cls)
        driver = Driver(feature, activation, bound, record, rows, decode(given))
        feature.drivers[activation.id] = driver
        return driver

    async def failed(self, activation: "ObjectRuntime", turn: Turn, failure: Failed) -> RunLater | Park | None:
        timer, error = failure.timer, failure.error
        if isinstance(error, Conflict) and error.code == NEWER:
            return RunLater(timer.later(due_at=failure.now + ROLL_OUT_MS, attempt=timer.attempt))
        record = await load(turn)
        if record is not None:
            record.touch(failure.now, state=PARKED)
            tickets.leave(turn, record)
            said = f"the process died {timer.crashes + 1} times while it ran" if error is None else None
            record.error = ["Crashed", said, [], None, ""] if error is None else pack_error(error)
            save(turn, record)
        return Park(timer)

    async def on_dropped(self, turn: Turn, parked: Parked) -> None:
        """A person lets go of it: it has failed, and those who wait for it hear that."""
        record = await load(turn)
        if record is not None and record.state == PARKED:
            end(turn, record, FAILED, None)
            save(turn, record)

    def reads(self, timer: Timer) -> Slot | None:
        return ROW


class KeepTimers(Errands):
    """`workflow-forget`: one that is over has been kept for as long as it was to be."""

    prefix = FORGET

    def __init__(self, feature: NodeWorkflows, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms

    async def fire(self, activation: "ObjectRuntime", turn: Turn, timer: Timer) -> bool:
        record = await load(turn)
        if record is not None and record.state in OVER:  # else it goes on again, and sets this anew when it ends
            turn.forget()
        return False


def _ready(record: WorkflowRecord, driver: Driver) -> tuple[int, ...]:
    """Functions of a body in memory that do not wait for their next attempt any more."""
    waiting = {wait.ordinal for wait in record.waits}
    ops = {} if driver.body is None else driver.body.ops
    return tuple(
        ordinal for ordinal, op in ops.items() if op.row.state == "tried" and ordinal not in waiting and not op.is_left
    )
