"""Layer 1, pure. Which transitions and actions has each state?

Second pass of reading a config, over the tree that `state_tree` made.
"""

import re
from collections.abc import Mapping
from typing import Any

from wakeful.statechart.actions import Actions
from wakeful.statechart.fields import Implementations, bad, flag, keys, list_items, mapping, only, text
from wakeful.statechart.guards import Guards
from wakeful.statechart.moves import domain_of
from wakeful.statechart.state_tree import Tree, default_of, join_path, refuse_contradiction, target_of
from wakeful.statechart.structure import Action, ChartState, Test, Transition

_NUMBER = re.compile(r"\d+(\.\d+)?")
_TRANSITION = ("target", "guard", "actions", "reenter", "description", "meta")
_INVOKE = ("src", "id", "input", "onDone", "onError", "onSnapshot", "systemId", "description", "meta")


class Wiring:
    """Gives the states of a tree their transitions and actions."""

    def __init__(self, tree: Tree, names: Implementations, *, is_sketch: bool) -> None:
        self._tree = tree
        self.guards = Guards(names, tree.root, tree.ids, is_sketch=is_sketch)
        self.actions = Actions(names, self.guards, is_sketch=is_sketch)
        self.transitions: list[Transition] = []
        for node, config in zip(tree.nodes, tree.configs, strict=True):
            if node.type == "history":
                self._history(node, config)
        for node in tree.nodes:
            if node.type == "history":
                _refuse_circle(node)
        for node, config in zip(tree.nodes, tree.configs, strict=True):
            if node.type != "history":
                self._wire(node, config)
        self._route()

    def _history(self, node: ChartState, config: Mapping[str, Any]) -> None:
        parent = node.parent
        assert parent is not None
        only(config, ("id", "type", "history", "target", "description", "meta", "tags", "key", "order"), node.path)
        where = f"{node.path}.target"
        if config.get("target") not in (None, ""):
            node.default = tuple(
                default_of(parent, one, path, self._tree.ids) for one, path in list_items(config["target"], where)
            )
            refuse_contradiction(node.default, where)
        elif parent.type == "parallel":
            node.default = (parent,)
        else:
            assert parent.initial is not None
            node.default = (parent.initial,)
            node.initial_default = True

    def _wire(self, node: ChartState, config: Mapping[str, Any]) -> None:
        path = node.path
        if config.get("target") is not None:
            raise bad(join_path(path, "target"), "only a history has a target", code="chart.key")
        entry = self.actions.read(config.get("entry"), join_path(path, "entry"))
        exit = self.actions.read(config.get("exit"), join_path(path, "exit"))
        transitions: dict[str, tuple[Transition, ...]] = {}
        on = mapping(config.get("on", {}), join_path(path, "on"))
        for event in keys(on):
            where = join_path(path, f"on.{event}")
            if not event:
                raise bad(join_path(path, "on"), "an event needs a type; transitions without an event are in 'always'")
            transitions[event] = self._ways(node, event, on[event], where)
        if config.get("onDone") is not None:
            event = f"xstate.done.state.{node.id}"
            transitions[event] = self._ways(node, event, config["onDone"], join_path(path, "onDone"))
        starts, stops = self._invokes(node, config.get("invoke"), join_path(path, "invoke"), transitions)
        sets, clears = self._after(node, config.get("after", {}), join_path(path, "after"), transitions)
        node.entry = entry + tuple(sets)
        node.exit = exit + tuple(clears)
        node.starts = node.entry + tuple(starts)
        node.leave = node.exit + tuple(stops)
        if config.get("always") is not None:
            node.always = self._ways(node, "", config["always"], join_path(path, "always"))
        initial = config.get("initial")
        if isinstance(initial, Mapping):
            node.initial_actions = self.actions.read(initial.get("actions"), join_path(path, "initial.actions"))
        if "output" in config:
            if node.type != "final" and node.parent is not None:
                raise bad(join_path(path, "output"), "only final states and the chart itself have an output")
            node.output = self.actions.value(config["output"], join_path(path, "output"))
        node.exact = transitions
        wild = [event for event in transitions if event == "*" or event.endswith(".*")]
        node.wild = tuple((event, transitions[event]) for event in sorted(wild, key=len, reverse=True))

    def _invokes(
        self, node: ChartState, value: Any, path: str, found: dict[str, tuple[Transition, ...]]
    ) -> tuple[list[Action], list[Action]]:
        starts, stops, ids = [], [], []
        for place, (one, where) in enumerate(list_items(value, path)):
            given = mapping(one, where)
            only(given, _INVOKE, where)
            src = text(given.get("src"), f"{where}.src")
            id = text(given.get("id") or f"{place}.{node.id}", f"{where}.id")
            if id in ids:
                raise bad(f"{where}.id", f"another actor of this state has the id {id!r}", code="chart.id")
            ids.append(id)
            is_synced = given.get("onSnapshot") is not None
            start, stop = self.actions.invoke(id, src, given.get("input"), where, is_synced=is_synced)
            starts.append(start)
            stops.append(stop)
            for key, event in (("onDone", "done.actor"), ("onError", "error.actor"), ("onSnapshot", "snapshot")):
                if given.get(key) is not None:
                    type = f"xstate.{event}.{id}"
                    found[type] = self._ways(node, type, given[key], f"{where}.{key}")
        node.invokes = tuple(ids)
        return starts, stops

    def _after(
        self, node: ChartState, value: Any, path: str, found: dict[str, tuple[Transition, ...]]
    ) -> tuple[list[Action], list[Action]]:
        sets, clears, ids = [], [], []
        given = mapping(value, path)
        for key in keys(given):
            where = f"{path}.{key}"
            delay: Any = key
            if _NUMBER.fullmatch(key):
                delay = int(float(key)) if float(key).is_integer() else float(key)
            id = f"xstate.after.{delay}.{node.id}"
            if id in ids:
                raise bad(where, f"there is another delay of {delay} ms", code="chart.id")
            ids.append(id)
            set_, clear = self.actions.delay_actions(id, delay, where)
            sets.append(set_)
            clears.append(clear)
            found[id] = found.get(id, ()) + self._ways(node, id, given[key], where)
        node.after = tuple(ids)
        return sets, clears

    def _ways(self, node: ChartState, event: str, value: Any, path: str) -> tuple[Transition, ...]:
        if value is None:
            raise bad(path, "it is null; {} forbids an event", code="chart.type")
        return tuple(self._transition(node, event, one, where) for one, where in list_items(value, path))

    def _transition(self, node: ChartState, event: str, value: Any, path: str) -> Transition:
        way = Transition(index=len(self.transitions), source=node, event=event, path=path)
        self.transitions.append(way)
        where = path if isinstance(value, str) else f"{path}.target"
        given = {"target": value} if isinstance(value, str) else mapping(value, path)
        only(given, _TRANSITION, path)
        target = given.get("target")
        if target not in (None, ""):
            way.targets = tuple(target_of(node, one, place, self._tree.ids) for one, place in list_items(target, where))
            refuse_contradiction(way.targets, where)
        way.actions = self.actions.read(given.get("actions"), f"{path}.actions")
        if given.get("guard") is not None:
            way.guard = self.guards.read(given["guard"], f"{path}.guard")
        way.reenter = flag(given.get("reenter", False), f"{path}.reenter")
        way.has_history = any(target.type == "history" for target in way.targets)
        if not way.has_history:
            way.domain = domain_of(way, {})
        return way

    def _route(self) -> None:
        """`route`: states with an id that may be gone to by name, from anywhere."""
        routes = []
        for node, config in zip(self._tree.nodes, self._tree.configs, strict=True):
            route, path = config.get("route"), join_path(node.path, "route")
            if route is None or node.parent is None:
                continue
            if not config.get("id"):
                raise bad(path, "a state that may be gone to by name needs an id", code="chart.id")
            only(mapping(route, path), ("guard", "actions", "reenter", "description", "meta"), path)
            way = self._transition(self._tree.root, "xstate.route", {**route, "target": f"#{node.id}"}, path)
            way.guard = _route_guard(f"#{node.id}", way.guard)
            routes.append(way)
        if routes:
            self._tree.root.exact["xstate.route"] = tuple(routes)


def _route_guard(id: str, guard: Test | None) -> Test:
    return lambda turn: turn.event.get("to") == id and (guard is None or guard(turn))


def _refuse_circle(history: ChartState) -> None:
    seen = {history}
    ahead = list(history.default)
    while ahead:
        node = ahead.pop()
        if node.type == "history":
            if node in seen:
                raise bad(f"{history.path}.target", "histories lead to each other in a circle", code="chart.target")
            seen.add(node)
            ahead += node.default
        elif node.type == "compound" and node.initial is not None and node.initial.type == "history":
            ahead.append(node.initial)
