"""Machines of real projects, as the exporter writes them: every function has a name, and with methods under these names
they do what the real XState does. Recorded by tests/xstate/exported.py; `make xstate` compares anew.
"""

import asyncio
import importlib.util
import inspect
import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from wakeful import App, Machine, action, assign, guard
from wakeful.machine import actor, callback, value

RECORDED = json.loads((Path(__file__).parents[2] / "vectors" / "xstate_exported.json").read_text(encoding="utf-8"))
MARKS: dict[str, Any] = {
    "guard": guard,
    "assign": assign,
    "action": action,
    "actor": actor,
    "callback": callback,
    "enqueue": value,
    "value": value,
    "delay": value,
}


async def _nothing(self: Any, context: Any, event: Any) -> None: ...


async def _for_ever(self: Any, context: Any, event: Any) -> None:
    await asyncio.Event().wait()


async def _listening(self: Any, input: Any, send_back: Any, receive: Any) -> None:
    await asyncio.Event().wait()


# What each function of the projects does, in Python; those that only act, wait or listen need not say it.
ORDER: dict[str, Any] = {
    "context of #order": lambda s, c, e: {"n": (e.get("input") or {}).get("n", 0), "log": []},
    "output of #order": lambda s, c, e: {"n": c["n"]},
    "log of #order.basket.entry[1]": lambda s, c, e: [*c["log"], "basket"],
    "bump": lambda s, c, e: {"n": c["n"] + 1},
    "params of the action of #order.basket.on.PICK.actions[0]": lambda s, c, e: {"n": c["n"]},
    "pick": lambda s, c, e: ["bump"] if c["n"] > 1 else [],
    "is it big?": lambda s, c, e: c["n"] >= 3,
    "small": lambda s, c, e, params: c["n"] < params["than"],
    "guard of #order.basket.on.BUY[1]": lambda s, c, e: e["anyway"] is True if "anyway" in e else False,
    "assign of #order.basket.on.BUY[1].actions[1]": lambda s, c, e: {"n": c["n"] + 10},
    "log of #order.basket.on.BUY[2].actions": lambda s, c, e: [*c["log"], f"no {e['type']}"],
    "soon": lambda s, c, e: 5_000,
    "value of #order.basket.on.LATER.actions[1]": lambda s, c, e: c["n"],
    "actions of #order.basket.on.CHOOSE.actions": lambda s, c, e: ["bump"] * e["times"],
    "later": lambda s, c, e: c["n"] * 1_000,
    "guard of #order.basket.after.later.or[1]": lambda s, c, e: False,
    "input of #order.paying.invoke[0]": lambda s, c, e: {"owed": c["n"]},
    "rest of #order.paying.invoke[0].onDone.actions": lambda s, c, e: e["output"],
    "log of #order.paying.on.PAID.actions": lambda s, c, e: [*c["log"], "told"],
    "to of #order.paying.on.WATCH.actions[1]": lambda s, c, e: c.get("who", "watch"),
    "event of #order.paying.on.WATCH.actions[1]": lambda s, c, e: {"type": "LOOK", "n": c["n"]},
    "id of #order.paying.on.SPAWN.actions[0]": lambda s, c, e: f"clock-{c['n']}",
    "id of #order.paying.on.SPAWN.actions[1]": lambda s, c, e: f"clock-{c['n'] - 1}",
    "context of #payment": lambda s, c, e: {"owed": e["input"]["owed"]},
    "guard of #payment.open.on.COIN[0]": lambda s, c, e: e["worth"] >= c["owed"],
    "owed of #payment.open.on.COIN[1].actions": lambda s, c, e: c["owed"] - e["worth"],
    "output of #payment.paid": lambda s, c, e: c["owed"],
}
LAMP: dict[str, Any] = {
    "last of #lamp.on.NOTE.actions": lambda s, c, e: e["text"],
    "worn": lambda s, c, e: c["n"] >= 3,
    "guard of #lamp.off.on.PUSH[1]": lambda s, c, e: e.get("hard") is True,
    "count": lambda s, c, e: {"n": c["n"] + 1},
    "atLeast": lambda s, c, e, params: c["n"] >= params["n"],
    "guard of #lamp.off.on.EITHER.actions[1]": lambda s, c, e: c["n"] == 1,
    "actions of #lamp.off.on.PURE.actions": lambda s, c, e: ["count"] if c["n"] else [],
    "input of #lamp.on.invoke": lambda s, c, e: {"n": c["n"]},
    "patience": lambda s, c, e: 1_000 * c["n"],
    "output of #lamp.broken": lambda s, c, e: {"n": c["n"]},
}
USUAL: dict[str, Any] = {"action": _nothing, "actor": _for_ever, "callback": _listening}


def registered(app: App, project: str, known: dict[str, Any]) -> Any:
    """The machines of a project, each with a method for every function that the exporter named."""
    made = None
    for name, one in reversed(RECORDED[project]["report"].items()):
        methods = {}
        for place, function in enumerate(one["functions"]):
            kind, called = function["kind"], function["name"]
            if kind != "machine":
                body = USUAL[kind] if kind in USUAL else known[called]
                copied = _copy(body)
                methods[f"method_{place}"] = MARKS[kind](called)(copied)
        made = app.object(
            type(name, (Machine,), {"chart": one["chart"], "__module__": __name__, **methods}),
        )
    return made


def _copy(body: Any) -> Any:
    """A method of its own: each has one name."""
    return types.FunctionType(body.__code__, body.__globals__, body.__name__, body.__defaults__, body.__closure__)


def _without_nothing(context: Any) -> Any:
    return {key: one for key, one in context.items() if one is not None}


@pytest.mark.parametrize(("project", "known"), [("order5", ORDER), ("lamp4", LAMP)])
async def test_an_exported_machine_does_what_xstate_does(project: str, known: dict[str, Any]) -> None:
    recorded = RECORDED[project]
    app = App()
    cls = registered(app, project, known)
    async with app.world() as world:
        machine = world.get(cls, "m")
        await machine.start()
        for event, said in zip([None, *recorded["script"]], recorded["said"], strict=True):
            if event is not None:
                await machine.send(event)
            await world.settle()
            snapshot = await machine.snapshot()
            found = (snapshot.value, _without_nothing(snapshot.context), snapshot.status)
            assert found == (said["value"], said["context"], said["status"]), event


@pytest.mark.parametrize("project", RECORDED)
def test_the_class_that_the_exporter_writes_can_be_registered(project: str, tmp_path: Path) -> None:
    _written(project, tmp_path)


def test_a_delay_that_is_a_number_and_params_are_written_out(tmp_path: Path) -> None:
    cls = _written("names5", tmp_path).Names
    assert cls.patience == 60_000
    assert cls.two_days(None, {}, {}) == 172_800_000
    assert [*inspect.signature(cls.above).parameters] == ["self", "context", "event", "params"]
    assert [*inspect.signature(cls.note).parameters] == ["self", "context", "event", "params"]
    assert [*inspect.signature(cls.is_).parameters] == ["self", "context", "event"]


def _written(project: str, tmp_path: Path) -> Any:
    """The module that the exporter writes for a project, loaded beside its charts."""
    text = RECORDED[project]["python"]
    for name, one in RECORDED[project]["report"].items():
        (tmp_path / f"{name}.json").write_text(json.dumps(one["chart"]))
    program = tmp_path / "program.py"
    program.write_text(text)
    spec = importlib.util.spec_from_file_location(f"exported_{project}", program)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        assert module.app.deployment.registry.names()
        return module
    finally:
        del sys.modules[spec.name]


@pytest.mark.parametrize("project", RECORDED)
def test_no_function_shares_its_name_with_another(project: str) -> None:
    for one in RECORDED[project]["report"].values():
        names = [(function["kind"], function["name"]) for function in one["functions"]]
        assert len(names) == len(set(names))
        assert json.dumps(one["chart"]).count("null") == 0
