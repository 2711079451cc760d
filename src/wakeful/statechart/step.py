"""Layer 1, pure. What does a chart do at its start, on an event, and when a delay is due?

`start` and `step` are pure: snapshot in, snapshot and effects out. A step is a macrostep: the event, then
everything that follows from it without another event from outside, until the chart rests.
"""

from collections.abc import Mapping
from typing import Any

from wakeful.statechart.chart import Chart, plan
from wakeful.statechart.effects import Effect, Send
from wakeful.statechart.fields import mapping
from wakeful.statechart.moves import without_conflicts
from wakeful.statechart.snapshot import dump, restore
from wakeful.statechart.structure import (
    Arrival,
    ChartState,
    ChartStep,
    Configuration,
    Microstep,
    Transition,
    candidates,
)
from wakeful.values.errors import BadValue, LimitExceeded

Snapshot = dict[str, Any]
INIT = "xstate.init"
STOP = "xstate.stop"


def start(chart: Chart | Mapping[str, Any], input: Any = None, now: int = 0) -> tuple[Snapshot, list[Effect]]:
    """The first snapshot of a chart, and what its first states ask of the world."""
    chart = Chart.of(chart)
    event = {"type": INIT, "input": input}
    turn = ChartStep(
        configuration=Configuration.before(chart.root),
        context={},
        kept={},
        children={},
        pending=[],
        seq=0,
        event=event,
        now=now,
    )
    turn.context = dict(mapping(chart.context(turn), "context"))
    _take(chart, turn, chart.first)
    _settle(chart, turn)
    _answer_itself(chart, turn)
    return dump(chart, turn), turn.effects


def step(
    chart: Chart | Mapping[str, Any], snapshot: Snapshot, event: Mapping[str, Any], now: int = 0
) -> tuple[Snapshot, list[Effect]]:
    """The snapshot after an event, and what the way there asks of the world; the same snapshot when nothing changed."""
    chart = Chart.of(chart)
    given = _event(event)
    if snapshot["status"] != "active":
        return snapshot, []
    turn = restore(chart, snapshot, given, now)
    before = turn.configuration, turn.pending
    type = given["type"]
    if turn.pending and type.startswith("xstate.after."):
        # Its delay has fired, or somebody says so; either way it is not owed any more.
        turn.pending = [one for one in turn.pending if one["id"] != type]
    _react(chart, turn)
    _answer_itself(chart, turn)
    if not turn.effects and not turn.is_changed and (turn.configuration, turn.pending) == before:
        return snapshot, []
    return dump(chart, turn), turn.effects


def fire(chart: Chart | Mapping[str, Any], snapshot: Snapshot, id: str, now: int = 0) -> tuple[Snapshot, list[Effect]]:
    """The snapshot after a pending delay of that id was due; the same when it is not pending any more.

    What goes to an actor goes to the one that was there when it was sent, or to nobody.
    """
    due = next((one for one in snapshot.get("pending") or [] if one["id"] == id), None)
    if due is None or snapshot["status"] != "active":
        return snapshot, []
    rest = {**snapshot, "pending": [one for one in snapshot["pending"] if one["id"] != id]}
    if (target := due.get("target")) is not None:
        start = due.get("start")  # of none that an earlier version set, and of none to the parent
        there = ((snapshot.get("children") or {}).get(target) or {}).get("seq", 0)
        return rest, [Send(target, due["event"])] if start in (None, there) else []
    return step(chart, rest, due["event"], now)


def can(chart: Chart | Mapping[str, Any], snapshot: Snapshot, event: Mapping[str, Any]) -> bool:
    """Whether an event would do anything: a transition with a target or actions is enabled by it."""
    given = _event(event)
    if snapshot["status"] != "active":
        return False
    chart = Chart.of(chart)
    turn = restore(chart, snapshot, given, 0)
    return any(way.targets or way.actions for way in _choose(chart, turn))


def _event(event: Any) -> dict[str, Any]:
    if not isinstance(event, Mapping) or not isinstance(event.get("type"), str) or not event["type"]:
        raise BadValue(f"{event!r} is no event; give a mapping with a type, like {{'type': 'PAY'}}", code="chart.event")
    if event["type"] == "*":
        raise BadValue("'*' matches events and can't be the type of one", code="chart.event")
    return event if isinstance(event, dict) else dict(event)


def _react(chart: Chart, turn: ChartStep) -> None:
    """One macrostep: the event at hand, and all that follows."""
    type = turn.event["type"]
    if type == STOP:
        turn.status = "stopped"
        _end(turn)
        return
    enabled = _choose(chart, turn) if type != INIT else []
    if enabled:
        _take(chart, turn, plan(chart, turn.configuration, enabled, turn.kept))
    elif type.startswith("xstate.error.actor"):
        turn.status = "error"
        turn.error = turn.event.get("error")
        turn.is_changed = True
        _end(turn)
        return
    _settle(chart, turn)


def _settle(chart: Chart, turn: ChartStep) -> None:
    is_asked = True
    steps = 0
    while turn.status == "active":
        steps += 1
        if steps > chart.microsteps_max:
            raise _never_rests(chart, turn)
        enabled = _choose_eventless(turn) if is_asked and turn.configuration.always else []
        if enabled:
            was_changed, turn.is_changed = turn.is_changed, False
            _take(chart, turn, plan(chart, turn.configuration, enabled, turn.kept))
            is_asked, turn.is_changed = turn.is_changed, turn.is_changed or was_changed
        elif turn.queue:
            turn.event = turn.queue.pop(0)
            enabled = _choose(chart, turn)
            if enabled:
                _take(chart, turn, plan(chart, turn.configuration, enabled, turn.kept))
            is_asked = True
        else:
            return
    _end(turn)


def _answer_itself(chart: Chart, turn: ChartStep) -> None:
    """What a chart sent to itself comes after all the rest, one macrostep each."""
    steps = 0
    while turn.mailbox and turn.status == "active":
        steps += 1
        if steps > chart.microsteps_max:
            raise _never_rests(chart, turn)
        turn.event = turn.mailbox.pop(0)
        _react(chart, turn)


def _take(chart: Chart, turn: ChartStep, plan: Microstep) -> None:
    """One microstep."""
    for action in plan.leaves:
        action(turn)
    if plan.kept:
        turn.kept = {**turn.kept, **plan.kept}
    for action in plan.actions:
        action(turn)
    for enter in plan.enters:
        turn.starting = enter.node.invokes
        for action in enter.actions:
            action(turn)
        if enter.arrival is not None:
            _arrive(chart, turn, enter.node, enter.arrival)
    turn.starting = ()
    if turn.status == "done":
        for action in plan.next.exit_actions(chart.nodes):
            action(turn)
    if plan.next is not turn.configuration or plan.kept:
        turn.configuration = plan.next
        turn.is_changed = True


def _arrive(chart: Chart, turn: ChartStep, final: ChartState, arrival: Arrival) -> None:
    for node in arrival.done:
        # Only the first is the parent of the final state, unless that is parallel: then nobody has an output.
        output = final.output(turn) if final.output is not None and node.type == "compound" else None
        turn.queue.append({"type": f"xstate.done.state.{node.id}", "output": output})
    completion = arrival.completion
    if completion is None:
        return
    turn.status = "done"
    turn.is_changed = True
    root = chart.root
    if root.output is None:
        return
    event = turn.event
    inner = completion.output(turn) if completion.output is not None and completion.parent is not None else None
    turn.event = {"type": f"xstate.done.state.{completion.id}", "output": inner}
    turn.output = root.output(turn)
    turn.event = event


def _end(turn: ChartStep) -> None:
    """A chart that is not active any more has no actors and no delays."""
    turn.is_changed = True
    for id in list(turn.children):
        turn.stop(id)
    for one in list(turn.pending):
        turn.cancel(one["id"])
    turn.queue.clear()
    turn.mailbox.clear()


def _choose(chart: Chart, turn: ChartStep) -> list[Transition]:
    """The transitions that the event at hand enables, the innermost ones; of parallel states those of all regions."""
    type = turn.event["type"]
    found = turn.configuration.chosen.get(type)
    if found is None:
        found = _choose_inside(chart, turn, chart.root)
        if chart.is_unguarded(type):
            turn.configuration.chosen[type] = found
    return found


def _choose_inside(chart: Chart, turn: ChartStep, node: ChartState) -> list[Transition]:
    if node.type == "compound":
        ways = _choose_inside(chart, turn, turn.configuration.active[node])
        return ways or _choose_own(turn, node)
    if node.type == "parallel":
        ways = []
        for child in node.children:
            ways += _choose_inside(chart, turn, child)
        return ways or _choose_own(turn, node)
    return _choose_own(turn, node)


def _choose_own(turn: ChartStep, node: ChartState) -> list[Transition]:
    if not node.exact:
        return []
    for way in candidates(node, turn.event["type"]):
        if way.guard is None or way.guard(turn):
            return [way]
    return []


def _choose_eventless(turn: ChartStep) -> list[Transition]:
    chosen: dict[Transition, None] = {}
    for ways in turn.configuration.always:
        for way in ways:
            if way.guard is None or way.guard(turn):
                chosen[way] = None
                break
    if len(chosen) < 2:
        return list(chosen)
    return without_conflicts(list(chosen), turn.configuration.mask, turn.kept)


def _never_rests(chart: Chart, turn: ChartStep) -> LimitExceeded:
    return LimitExceeded(
        f"chart '{chart.id}' did not come to rest within {chart.microsteps_max} microsteps of {turn.event['type']!r}; "
        "it is in a circle of `always`, `raise` or sends to itself (options.maxIterations is the limit)",
        code="chart.microsteps",
    )
