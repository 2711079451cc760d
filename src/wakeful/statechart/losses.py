"""Layer 1, pure. Did a chart lose its functions on the way to JSON?

`JSON.stringify` leaves out what is a function: a guard vanishes and its branch is always taken, an action becomes `null`
or vanishes, an actor becomes `{}`. What is left often still is a chart, of something else. So what only such a loss
explains is refused, with the way to export it whole. A loss that leaves no trace can't be seen here.
"""

from collections.abc import Mapping
from typing import Any

from wakeful.statechart.fields import bad, list_items
from wakeful.statechart.state_tree import join_path
from wakeful.values.errors import BadChart

EXPORT = (
    "`wakeful chart --exporter` prints a script that exports a machine of XState with a name for each of its functions"
)
# XState's own actions, and what each is nothing without.
_ABOUT = {
    "xstate.assign": "assignment",
    "xstate.raise": "event",
    "xstate.sendTo": "to",
    "xstate.sendParent": "event",
    "xstate.forwardTo": "to",
    "xstate.emit": "event",
    "xstate.enqueueActions": "actions",
    "xstate.spawnChild": "src",
}


def refuse_losses(config: Any) -> None:
    """`BadChart` for the first place at which a function was; whatever else is wrong is for the reader of charts."""
    _state(config, "")


def _loss(path: str, what: str) -> BadChart:
    return bad(path, f"{what}; JSON has no functions: {EXPORT}", code="chart.lost")


def _state(value: Any, path: str) -> None:
    if not isinstance(value, Mapping):
        return
    for key in ("entry", "exit"):
        if key in value:
            _actions(value[key], join_path(path, key))
    initial = value.get("initial")
    if isinstance(initial, Mapping) and "actions" in initial:
        _actions(initial["actions"], join_path(path, "initial.actions"))
    for key in ("always", "onDone"):
        if key in value:
            _ways(value[key], join_path(path, key))
    for key in ("on", "after"):
        for name, ways in _items(value.get(key)):
            _ways(ways, join_path(path, f"{key}.{name}"))
    for one, where in list_items(value.get("invoke"), join_path(path, "invoke")):
        _invoke(one, where)
    for name, inner in _items(value.get("states")):
        _state(inner, join_path(path, f"states.{name}"))


def _items(value: Any) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, Mapping) else []


def _invoke(value: Any, path: str) -> None:
    if not isinstance(value, Mapping):
        return
    if not isinstance(value.get("src"), str):
        raise _loss(f"{path}.src", "the actor was written in its place and is lost")
    for key in ("onDone", "onError", "onSnapshot"):
        if key in value:
            _ways(value[key], f"{path}.{key}")


def _ways(value: Any, path: str) -> None:
    ways = list_items(value, path)
    for place, (way, where) in enumerate(ways):
        given: Mapping[str, Any] = way if isinstance(way, Mapping) else {}
        if "guard" in given:
            _guard(given["guard"], f"{where}.guard")
        if "actions" in given:
            _actions(given["actions"], f"{where}.actions")
        if place + 1 < len(ways) and "guard" not in given:
            said = f"it is never taken, for {where} before it has no guard; did that one lose it?"
            raise _loss(ways[place + 1][1], f"{said} Give it one, or leave out what is behind it")


def _guard(value: Any, path: str) -> None:
    if value is None or value == {}:
        raise _loss(path, "a guard was here and is lost")
    if isinstance(value, Mapping):
        params = value.get("params")
        whole = {**params, **value} if isinstance(params, Mapping) else value
        if str(value.get("type")).startswith("xstate.") and "guard" in whole:
            _guard(whole["guard"], f"{path}.guard")
        for one, where in list_items(whole.get("guards"), f"{path}.guards"):
            _guard(one, where)


def _actions(value: Any, path: str) -> None:
    if value is None:
        raise _loss(path, "actions were here and are lost")
    for one, where in list_items(value, path):
        if one is None or one == {}:
            raise _loss(where, "an action was here and is lost")
        if isinstance(one, Mapping):
            _action(one, where)


def _action(given: Mapping[str, Any], path: str) -> None:
    about, params = _ABOUT.get(str(given.get("type"))), given.get("params")
    whole = {**params, **given} if isinstance(params, Mapping) else given
    if about is not None and whole.get(about) is None:
        raise _loss(f"{path}.{about}", f"what {given['type']} is about is lost")
    if given.get("type") == "xstate.enqueueActions":
        for one, where in list_items(whole.get("actions"), f"{path}.actions"):
            inside = one if isinstance(one, Mapping) and "type" not in one else {"actions": one}
            for key in ("actions", "else"):
                if key in inside:
                    _actions(inside[key], f"{where}.{key}" if inside is one else where)
            if "guard" in inside:
                _guard(inside["guard"], f"{where}.guard")
