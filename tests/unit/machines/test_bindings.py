"""A class with a chart is looked at once, when it is registered: what makes no sense is refused with its place in the chart."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from wakeful import App, Machine, RetryPolicy, action, assign, errors, guard
from wakeful.machine import actor, value

TWO = {"initial": "a", "states": {"a": {"on": {"GO": "b"}}, "b": {}}}


def registered(chart: Any, **members: Any) -> Any:
    return App().object(type("Order", (Machine,), {"chart": chart, "__module__": __name__, **members}))


def with_a(**parts: Any) -> dict[str, Any]:
    return {"initial": "a", "states": {"a": parts, "b": {}}}


def a_method() -> Any:
    async def method(self: Any, context: Any, event: Any) -> None: ...

    return method


BAD: dict[str, tuple[Any, str]] = {
    "unknown target": (with_a(on={"GO": "nowhere"}), r"Order\.chart: states\.a\.on\.GO.*'nowhere'"),
    "unbound guard": (with_a(on={"GO": {"target": "b", "guard": "may"}}), r"Order\.chart: states\.a\.on\.GO.*'may'"),
    "unbound action": (with_a(entry="shout"), r"Order\.chart: states\.a\.entry.*'shout'"),
    "unbound actor": (with_a(invoke={"src": "ship"}), r"Order\.chart: states\.a\.invoke.*'ship'"),
    "unbound delay": (with_a(after={"patience": "b"}), r"Order\.chart: states\.a\.after.*'patience'"),
    "cyclic always": (
        {"initial": "a", "states": {"a": {"always": "b"}, "b": {"always": "a"}}},
        r"Order\.chart: states\.[ab]\.always",
    ),
    "duplicate id": (
        {"initial": "a", "states": {"a": {"id": "x"}, "b": {"id": "x"}}},
        r"Order\.chart: states\.b.*'#?x'",
    ),
    "a machine's own method as actor": (with_a(invoke={"src": "send"}), r"states\.a\.invoke.*'send'"),
    "a machine's own option as delay": (with_a(after={"version": "b"}), r"states\.a\.after.*'version'"),
    "no initial": ({"states": {"a": {}}}, r"Order\.chart: .*initial"),
    "unknown initial": ({"initial": "z", "states": {"a": {}}}, r"Order\.chart: initial.*'z'"),
    "wrong type": (with_a(on=["GO"]), r"Order\.chart: states\.a\.on"),
    "states of the wrong type": ({"initial": "a", "states": []}, r"Order\.chart: states"),
    "no chart": (None, r"Order\.chart must be a dict"),
    "a number": (5, r"Order\.chart must be a dict"),
    "no such file": ("nowhere.json", r"nowhere\.json can't be read"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_chart_is_refused_with_its_place(case: str) -> None:
    chart, message = BAD[case]
    with pytest.raises(errors.BadChart, match=message):
        registered(chart)


@pytest.mark.parametrize(
    ("parts", "member", "message"),
    [
        ({"on": {"GO": {"guard": "may"}}}, {}, r"give Order `@guard def may\(self, context, event\)`"),
        (
            {"on": {"GO": {"guard": "may"}}},
            {"may": lambda self, c, e: True},
            r"Order.may is a plain method: make it `@guard",
        ),
        (
            {"on": {"GO": {"guard": "may"}}},
            {"may": action(a_method())},
            r"Order.may is an @action: make it `@guard def",
        ),
        ({"entry": "may"}, {}, r"give Order `@action async def may\(.*` or `@assign def may\("),
        ({"entry": "may"}, {"may": a_method()}, r"Order.may is an `async def`: make it `@action async def may"),
        (
            {"entry": "may I"},
            {},
            r"give Order `@action\(\"may I\"\) async def may_I\(.*` or `@assign\(\"may I\"\) def may_I",
        ),
        ({"entry": "send"}, {}, r"give Order `@action\(\"send\"\) async def do_send\("),
        ({"on": {"GO": {"guard": "is valid?"}}}, {}, r"give Order `@guard\(\"is valid\?\"\) def is_valid\("),
        ({"on": {"GO": {"guard": "class"}}}, {}, r"`@guard\(\"class\"\) def do_class\("),
        ({"invoke": {"src": "call it"}}, {}, r"give Order `@actor\(\"call it\"\) async def call_it\("),
        ({"invoke": {"src": "state"}}, {}, r"give Order `@actor\(\"state\"\) async def do_state\("),
        ({"after": {"a while": "b"}}, {}, r"give Order `@value\(\"a while\"\) def a_while\("),
        ({"after": {"patience": "b"}}, {}, r"give Order `def patience\(self, context, event\)`"),
        ({"invoke": {"src": "may"}}, {}, r"give Order `async def may\(.*`, or register the machine 'may' before Order"),
        (
            {"invoke": {"src": "may"}},
            {"may": lambda self, c, e: 1},
            r"Order.may is a plain method: make it `async def may",
        ),
        ({"entry": {"type": "emit", "event": {"$call": "may"}}}, {}, r"give Order `def may\(self, context, event\)`"),
    ],
)
def test_what_to_write_for_a_name_is_said(parts: Any, member: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.BadChart, match=message):
        registered(with_a(**parts), **member)


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ({"may": guard(a_method())}, r"Order\.may: a @guard is pure"),
        ({"may": assign(a_method())}, r"Order\.may: a @assign is pure"),
        ({"may": action(lambda self, context, event: None)}, r"Order\.may: an @action .* must be `async def`"),
        ({"may": guard(lambda self, a, b, c, d: True)}, r"takes \(self, context, event\)"),
        ({"version": 0}, r"Order\.version must be a whole number"),
        ({"version": True}, r"Order\.version must be a whole number"),
        ({"resume": "never"}, r"Order\.resume must be one of"),
        ({"on_crash": "cry"}, r"Order\.on_crash must be one of"),
        ({"retry": 3}, r"Order\.retry must be a RetryPolicy"),
    ],
)
def test_members_of_the_wrong_kind_are_refused(member: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.BadInput, match=message):
        registered(TWO, **member)


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (
            {"send": action(a_method())},
            r"Order\.send: every machine has 'send'.*'do_send' and put @action\(\"send\"\) on it",
        ),
        ({"state": guard(lambda self, c, e: True)}, r"Order\.state: .*'do_state' and put @guard\(\"state\"\) on it"),
        ({"ctx": assign(lambda self, c, e: {})}, r"Order\.ctx: .*@assign\(\"ctx\"\)"),
        ({"jobs": value("work")(lambda self, c, e: 1)}, r"Order\.jobs: .*@value\(\"work\"\)"),
        (
            {"one": guard("ok?")(lambda self, c, e: True), "two": guard("ok?")(lambda self, c, e: True)},
            r"Order: one and two both stand for 'ok\?'",
        ),
        ({"go": actor("x")(lambda self, c, e: 1)}, r"Order\.go: an @actor .* must be `async def`"),
    ],
)
def test_a_method_that_clashes_is_told_what_to_do(member: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.BadChart, match=message):
        registered(TWO, **member)


@pytest.mark.parametrize("mark", [guard, assign, action, actor, value])
def test_a_name_that_is_none_is_refused(mark: Any) -> None:
    with pytest.raises(errors.BadChart, match="empty"):
        mark("")
    with pytest.raises(errors.BadChart, match="not 5"):
        mark(5)


async def test_names_that_are_no_identifiers_stand_for_methods() -> None:
    app = App()
    done = []

    @app.object
    class Order(Machine):
        chart = {
            "initial": "a",
            "context": {"n": 0},
            "states": {
                "a": {
                    "on": {"GO": {"target": "b", "guard": "is valid?", "actions": ["count it", "state", "two more"]}},
                },
                "b": {"invoke": {"src": "call home!", "onDone": "c"}},
                "c": {"after": {"a while": "d"}},
                "d": {"entry": {"type": "emit", "event": {"$call": "the news"}}},
            },
        }

        @guard("is valid?")
        def is_valid(self, context: Any, event: Any) -> bool:
            return bool(event["ok"])

        @assign("count it")
        def count(self, context: Any, event: Any) -> dict[str, Any]:
            return {"n": context["n"] + 1}

        @action("state")
        async def say_state(self, context: Any, event: Any) -> None:
            done.append(("state", context["n"]))

        @value("two more")
        def more(self, context: Any, event: Any) -> list[str]:
            return ["count it", "count it"]

        @actor("call home!")
        async def call_home(self, context: Any, event: Any) -> str:
            return "there"

        @value("a while")
        def length(self, context: Any, event: Any) -> str:
            return "5m"

        @value("the news")
        def news(self, context: Any, event: Any) -> dict[str, Any]:
            return {"type": "news"}

    async with app.world() as world:
        order = world.get(Order, "o")
        assert (await order.send("GO", ok=False)).value == "a"
        snapshot = await order.send("GO", ok=True)
        assert (snapshot.value, snapshot.context) == ("b", {"n": 3})
        await world.advance("1m")
        assert done == [("state", 1)]
        assert (await order.snapshot()).value == "c"
        await world.advance("5m")
        assert (await order.snapshot()).value == "d"
        for method in ("is_valid", "count", "say_state", "more", "call_home", "length"):
            with pytest.raises(errors.UnknownMethod):
                await getattr(app.get(Order, "o"), method)()


# What JSON.stringify(machine.config) leaves of a machine whose functions were written in their places.
LOST: dict[str, tuple[Any, str]] = {
    "a guard": (with_a(on={"GO": [{"target": "b"}, {"target": "a"}]}), r"states\.a\.on\.GO\[1\]: it is never taken"),
    "a guard of always": (with_a(always=["b", "a"]), r"states\.a\.always\[1\]: it is never taken"),
    "a guard of a delay": (with_a(after={"5": [{}, "b"]}), r"states\.a\.after\.5\[1\]: it is never taken"),
    "a guard of an answer": (
        with_a(invoke={"src": "go", "onDone": [{"target": "b"}, "a"]}),
        r"states\.a\.invoke\.onDone\[1\]: it is never taken",
    ),
    "a guard that is null": (with_a(on={"GO": {"target": "b", "guard": None}}), r"states\.a\.on\.GO\.guard: a guard"),
    "a guard in a combination": (
        with_a(on={"GO": {"guard": {"type": "xstate.not", "guard": None}}}),
        r"states\.a\.on\.GO\.guard\.guard: a guard",
    ),
    "one of several guards": (
        with_a(on={"GO": {"guard": {"type": "xstate.and", "guards": ["may", None]}}}),
        r"states\.a\.on\.GO\.guard\.guards\[1\]: a guard was here",
    ),
    "an action": (with_a(entry=[None]), r"states\.a\.entry\[0\]: an action was here"),
    "actions": (with_a(exit=None), r"states\.a\.exit: actions were here"),
    "actions of a transition": (with_a(on={"GO": {"actions": None}}), r"states\.a\.on\.GO\.actions: actions were"),
    "an action without a name": (with_a(on={"GO": {"actions": [{}]}}), r"states\.a\.on\.GO\.actions\[0\]: an action"),
    "an assignment": (with_a(entry={"type": "xstate.assign"}), r"states\.a\.entry\.assignment: what xstate\.assign"),
    "an event": (
        with_a(entry=[{"type": "xstate.raise", "params": {"delay": 5}}]),
        r"states\.a\.entry\[0\]\.event: what xstate\.raise is about",
    ),
    "an action in a list to enqueue": (
        with_a(entry={"type": "xstate.enqueueActions", "actions": [{"guard": "may", "actions": [None]}]}),
        r"states\.a\.entry\.actions\.actions\[0\]: an action|states\.a\.entry\.actions\[0\]\.actions\[0\]: an action",
    ),
    "an actor": (with_a(invoke={"src": {}}), r"states\.a\.invoke\.src: the actor"),
    "an actor that vanished": (with_a(invoke=[{"id": "x"}]), r"states\.a\.invoke\[0\]\.src: the actor"),
    "first actions": (
        {"initial": {"target": "a", "actions": [None]}, "states": {"a": {}}},
        r"initial\.actions\[0\]: an action",
    ),
    "deep inside": (
        {"initial": "a", "states": {"a": {"initial": "b", "states": {"b": {"on": {"GO": ["b", "b"]}}}}}},
        r"states\.a\.states\.b\.on\.GO\[1\]: it is never taken",
    ),
}


@pytest.mark.parametrize("case", LOST)
def test_a_chart_that_lost_its_functions_is_refused_with_the_remedy(case: str) -> None:
    chart, message = LOST[case]
    members = {"may": guard(lambda self, context, event: True), "go": a_method()}
    with pytest.raises(errors.BadChart, match=rf"Order\.chart: (?:{message}).*wakeful chart --exporter") as raised:
        registered(chart, **members)
    assert raised.value.code == "chart.lost"


def test_what_a_chart_may_well_say_is_no_loss() -> None:
    registered(
        with_a(
            on={"NO": {}, "GO": [{"target": "b", "guard": "may"}, {"target": "a"}], "X": []},
            always={"target": "b", "guard": "may"},
            entry=[],
            exit={"type": "xstate.log"},
        ),
        may=guard(lambda self, context, event: False),
    )


def test_the_same_names_bound_are_fine() -> None:
    registered(
        {
            "initial": "a",
            "states": {
                "a": {
                    "on": {"GO": {"target": "b", "guard": "may"}},
                    "entry": ["shout", "count"],
                    "invoke": {"src": "ship"},
                    "after": {"patience": "b", "dynamic": "b", "5m": "b", 700: "b"},
                },
                "b": {},
            },
        },
        may=guard(lambda self, context, event: True),
        shout=action(a_method()),
        count=assign(lambda self, context, event: {}),
        ship=a_method(),
        patience="10m",
        dynamic=lambda self, context, event: 5_000,
        retry=RetryPolicy(3),
    )


async def test_a_chart_may_be_a_json_file_beside_the_module(tmp_path: Path) -> None:
    path = tmp_path / "order.json"
    path.write_text(json.dumps(TWO))
    app = App()
    cls: Any = app.object(type("Order", (Machine,), {"chart": str(path)}))
    async with app.world() as world:
        assert (await world.get(cls, "o").send("GO")).value == "b"


async def test_a_chart_may_be_a_yaml_file(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    path = tmp_path / "order.yaml"
    path.write_text("initial: a\nstates:\n  a:\n    on: {GO: b}\n    after: {5m: b}\n  b: {}\n")
    app = App()
    cls: Any = app.object(type("Order", (Machine,), {"chart": path}))
    async with app.world() as world:
        order = world.get(cls, "o")
        assert list((await order.start()).due) == ["xstate.after.5m.Order.a"]
        assert (await order.send("GO")).value == "b"


@pytest.mark.parametrize(("name", "text"), [("x.json", "{"), ("x.yaml", "a: [")])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(errors.BadChart, match=f"{name} can't be read as"):
        registered(str(path))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.json", '{"initial": "a", "states": {"a": {"on": {"GO": "b", "STAY": "a", "GO": "a"}}, "b": {}}}'),
        ("x.yaml", "initial: a\nstates:\n  a:\n    on: {GO: b, STAY: a, GO: a}\n  b: {}\n"),
    ],
)
def test_a_key_that_is_twice_in_a_file_is_refused_with_its_place(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(errors.BadChart, match=r"states\.a\.on\.GO: it is there twice"):
        registered(str(path))


def test_yaml_may_share_parts_and_change_them(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(
        "initial: a\nstates:\n  a: &a\n    on: {GO: b}\n    after: {5m: b}\n  b:\n    <<: *a\n    on: {GO: a}\n"
    )
    registered(str(tmp_path / "x.yaml"))


NEST = "".join(f"  x{n}: &x{n} {{a: *x{n - 1}, b: *x{n - 1}}}\n" for n in range(1, 40))


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        (f"meta:\n  x0: &x0 {{v: 1}}\n{NEST}", r"x\.yaml can't be read as yaml: .*more than 100,000 values"),
        ("meta: &m {a: *m}\n", r"x\.yaml can't be read as yaml: .*inside of what it stands for"),
        ("meta: &m [[*m]]\n", r"inside of what it stands for"),
        (f"meta: {'[' * 5000}{']' * 5000}\n", r"x\.yaml can't be read as yaml: it is nested too deeply"),
    ],
)
def test_yaml_that_unfolds_without_end_is_refused(tmp_path: Path, meta: str, message: str) -> None:
    (tmp_path / "x.yaml").write_text(f"initial: a\nstates: {{a: {{}}}}\n{meta}")
    with pytest.raises(errors.BadChart, match=message) as raised:
        registered(str(tmp_path / "x.yaml"))
    assert raised.value.code == "chart.file"


def test_a_file_that_holds_no_chart_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(errors.BadChart, match="holds no chart but list"):
        registered(str(tmp_path / "x.json"))


def test_yaml_without_its_library_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.yaml").write_text("initial: a\n")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(errors.MissingExtra, match="pip install pyyaml"):
        registered(str(tmp_path / "x.yaml"))


def test_a_child_must_be_known_before_its_parent() -> None:
    app = App()
    parent = type("Parent", (Machine,), {"chart": with_a(invoke={"src": "Child"})})
    with pytest.raises(errors.BadChart, match=r"states\.a\.invoke.*'Child'"):
        app.object(parent)
    app.object(type("Child", (Machine,), {"chart": TWO}))
    app.object(parent)


def test_a_machine_may_start_others_of_its_own_class() -> None:
    registered({"initial": "a", "states": {"a": {"on": {"GO": "b"}}, "b": {"invoke": {"src": "Order"}}}})


@pytest.mark.parametrize(
    "parts",
    [
        {"meta": {"src": "refund", "invoke": {"src": "refund"}}},
        {"entry": {"type": "xstate.raise", "event": {"type": "X", "src": "refund", "invoke": {"src": "refund"}}}},
        {"entry": {"type": "shout", "params": {"type": "spawnChild", "src": "refund"}}},
        {"invoke": {"src": "ship", "input": {"src": "refund", "type": "spawnChild"}}},
        {"_note": {"invoke": {"src": "refund"}}},
    ],
)
def test_a_method_that_only_data_names_stays_for_callers(parts: dict[str, Any]) -> None:
    chart = {**with_a(**parts), "context": {"src": "refund", "invoke": {"src": "refund"}}}
    cls = registered(chart, refund=a_method(), ship=a_method(), shout=action(a_method()))
    assert not hasattr(cls.refund, "__wakeful_internal__")
    assert hasattr(cls.ship, "__wakeful_internal__") == ("invoke" in parts)


SPAWN = {"type": "spawnChild", "src": "ship", "id": "s"}


@pytest.mark.parametrize(
    "parts",
    [
        {"invoke": {"src": "ship"}},
        {"invoke": [{"src": "other"}, {"src": "ship", "onDone": "b"}]},
        {"invoke": {"src": "other", "onDone": [{"actions": SPAWN}]}},
        {"invoke": {"src": "other", "onError": {"actions": [SPAWN]}}},
        {"entry": SPAWN},
        {"exit": [{"type": "xstate.spawnChild", "params": {"src": "ship", "id": "s"}}]},
        {"on": {"meta": {"actions": [SPAWN]}}},
        {"after": {"1s": [{"target": "b", "actions": [SPAWN]}]}},
        {"always": {"target": "b", "actions": SPAWN}},
        {"on": {"GO": {"actions": {"type": "enqueueActions", "actions": [{"guard": "is", "actions": [SPAWN]}]}}}},
        {"on": {"GO": {"actions": {"type": "xstate.enqueueActions", "params": {"actions": ["s", SPAWN]}}}}},
        {"on": {"GO": {"actions": {"type": "enqueueActions", "actions": {"guard": "is", "else": SPAWN}}}}},
        {"initial": "context", "states": {"context": {"invoke": {"src": "ship"}}}},
        {"initial": {"target": "x", "actions": [SPAWN]}, "states": {"x": {}}},
        {"id": "here", "route": {"actions": SPAWN}},
    ],
)
def test_a_method_that_the_chart_starts_is_not_for_callers(parts: dict[str, Any]) -> None:
    members = {"is": guard(lambda self, context, event: True), "s": action(a_method())}
    cls = registered(with_a(**parts), ship=a_method(), other=a_method(), **members)
    assert cls.ship.__wakeful_internal__
