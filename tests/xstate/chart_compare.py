"""Runs a case through the chart step and says where it differs from what XState answered."""

import json
from typing import Any

from wakeful.chart import (
    Act,
    Cancel,
    Chart,
    Delay,
    Effect,
    Emit,
    Implementations,
    Invoke,
    Log,
    Send,
    Stop,
    can,
    fire,
    meta,
    start,
    step,
)
from wakeful.chart import tags as tags_of
from wakeful.values.errors import BadChart, LimitExceeded

# A chart may set a new delay whenever one fires; after so many the time stands still where it is.
FIRED_MAX = 30
EVENTS = ("A", "B", "a.b.c")  # of which is asked whether they would do anything

Said = dict[str, Any]


class Runner:
    """One chart that steps through a script; its snapshot goes through JSON after every step."""

    def __init__(self, config: dict[str, Any], names: Implementations) -> None:
        self.chart = Chart.of(config, implementations=names)
        self.snapshot: dict[str, Any] = {}
        self.made: list[Said] = []
        self.now = 0

    def start(self, input: Any) -> Said:
        self._take(*start(self.chart, input, self.now))
        return self._look()

    def entry(self, entry: dict[str, Any]) -> Said:
        if "tick" in entry:
            self._tick(self.now + entry["tick"])
        else:
            self._take(*step(self.chart, self.snapshot, entry["send"], self.now))
        return self._look()

    def _tick(self, end: int) -> None:
        for _ in range(FIRED_MAX):
            due = [one for one in self.snapshot["pending"] if one["due_at"] <= end]
            if not due:
                self.now = end
                return
            first = min(due, key=lambda one: one["due_at"])
            self.now = max(self.now, first["due_at"])
            self.made.append({"fired": first["id"]})
            snapshot, effects = fire(self.chart, self.snapshot, first["id"], self.now)
            self._take(snapshot, effects if first["target"] is None else [])
            if first["target"] is not None:
                # Carried out by the scheduler, in XState too: no action of the chart, but the actor gets it.
                self.made += [{"got": one.target, "event": one.event} for one in effects if isinstance(one, Send)]

    def _take(self, snapshot: dict[str, Any], effects: list[Effect]) -> None:
        self.snapshot = json.loads(json.dumps(snapshot))
        self.made += [said(effect) for effect in effects]

    def _look(self) -> Said:
        made, self.made = self.made, []
        snapshot = self.snapshot
        return {
            "value": snapshot["value"],
            "context": snapshot["context"],
            "status": snapshot["status"],
            "output": snapshot["output"],
            "error": snapshot["error"],
            "tags": sorted(tags_of(self.chart, snapshot)),
            "children": sorted(snapshot["children"]),
            "timers": [
                {"id": one["id"], "due": one["due_at"], "event": one["event"], "to": one["target"]}
                for one in snapshot["pending"]
            ],
            "history": {id: sorted(one["id"] for one in kept) for id, kept in snapshot["historyValue"].items()},
            "made": made,
            "can": [type for type in EVENTS if can(self.chart, snapshot, {"type": type, "flag": True})],
            "meta": meta(self.chart, snapshot) if snapshot["status"] == "active" else {},
        }


def said(effect: Effect) -> Said:
    """An effect in the form in which the answers of XState are recorded."""
    match effect:
        case Act():
            return {"act": effect.name, "params": effect.params, "context": effect.context, "event": effect.event}
        case Delay():
            return {"delay": effect.id, "event": effect.event, "to": effect.target}
        case Cancel():
            return {"cancel": effect.id}
        case Invoke():
            return {"invoke": effect.id, "src": effect.src, "input": effect.input}
        case Stop():
            return {"stop": effect.id}
        case Send():
            return {"send": effect.target, "event": effect.event}
        case Emit():
            return {"emit": effect.event}
        case Log():
            return {"log": effect.value, "label": effect.label}


def differs(case: dict[str, Any], answers: list[Said], names: Implementations) -> tuple[str, int] | None:
    """What differs first and where in the script, or None; `fault: …` when XState itself is at fault there."""
    runner = Runner(case["config"], names)
    pending: set[Any] = set()
    for place, answer in enumerate(answers):
        if answer["fault"]:
            return _alone(runner, case, place) or (f"fault: {answer['fault']}", place)
        try:
            ours = runner.start(case.get("input")) if place == 0 else runner.entry(case["script"][place - 1])
        except (BadChart, LimitExceeded) as error:
            return None if answer["threw"] else (f"ours threw: {error}", place)
        if answer["threw"]:
            return f"XState threw: {answer['threw']}", place
        theirs = {**answer, "made": _effective(answer["made"], pending)}
        pending = {one["id"] for one in answer["timers"]}
        if answer["status"] != "active":
            # An actor of XState that ends drops its delays without saying so.
            for one in (ours, theirs):
                one["made"] = [act for act in one["made"] if "cancel" not in act]
        for key in (
            "status",
            "value",
            "context",
            "made",
            "timers",
            "children",
            "tags",
            "history",
            "output",
            "error",
            "can",
            "meta",
        ):
            if _bare(ours[key]) != _bare(theirs.get(key)):
                if answer["status"] != "active" and key in ("children", "timers"):
                    continue
                return f"{key}: ours {json.dumps(_bare(ours[key]))} theirs {json.dumps(_bare(theirs.get(key)))}", place
    return None


def _alone(runner: Runner, case: dict[str, Any], place: int) -> tuple[str, int] | None:
    """Where XState is at fault the step must go on, from one possible configuration to the next."""
    try:
        for entry in case["script"][place - 1 :] if place else []:
            runner.entry(entry)
    except BadChart as error:
        if error.code != "chart.actor":
            return f"ours alone: {error}", place
    except LimitExceeded:
        pass
    return None


def _effective(made: list[Said], pending: set[Any]) -> list[Said]:
    """Without the taking back of delays that are not pending, which XState lists too."""
    found = []
    waiting = set(pending)
    for one in made:
        if "delay" in one:
            waiting.add(one["delay"])
        waiting.discard(one.get("fired"))
        if "cancel" in one:
            if one["cancel"] not in waiting:
                continue
            waiting.discard(one["cancel"])
        found.append(one)
    return found


def _bare(value: Any) -> Any:
    """Without what JavaScript leaves undefined, and without the ids that either side makes up."""
    if isinstance(value, dict):
        return {
            key: None if key in ("id", "delay", "fired") and _is_made_up(one) else _bare(one)
            for key, one in value.items()
            if one is not None and key != "ms" and not (key in ("id", "delay", "fired") and _is_made_up(one))
        }
    if isinstance(value, list):
        return [_bare(one) for one in value]
    return value


def _is_made_up(id: Any) -> bool:
    return isinstance(id, str) and id.startswith("xstate.delayed.")
