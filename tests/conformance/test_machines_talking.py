"""Who talks with a machine, and how: callbacks, events sent on, actors under ids of their own, and who sent what."""

import asyncio
from typing import Any

import pytest

from wakeful import App, DurableObject, Machine, action, assign, errors, guard
from wakeful.machine import Sender, callback
from wakeful.policy.limits import Limits
from wakeful.values.ids import ObjectId


class Studio:
    """An app with a machine that has a callback, and what that did and heard."""

    def __init__(self, **options: Any) -> None:
        self.app = App(limits=Limits(stop_deadline_ms=60_000))
        self.did: list[Any] = []
        studio = self

        class Radio(Machine):
            chart = {
                "id": "radio",
                "initial": "off",
                "context": {"heard": [], "error": None},
                "states": {
                    "off": {"on": {"ON": "live", "LATER": {"actions": "keep"}}},
                    "live": {
                        "invoke": {
                            "src": "listen",
                            "id": "ear",
                            "input": {"band": "FM"},
                            "onDone": "off",
                            "onError": {"target": "off", "actions": "fail"},
                        },
                        "on": {
                            "HEARD": {"actions": "keep"},
                            "TUNE": {"actions": {"type": "xstate.forwardTo", "to": "ear"}},
                            "LATER": {
                                "actions": {"type": "sendTo", "to": "ear", "event": {"type": "LATE"}, "delay": 60_000}
                            },
                            "OFF": "off",
                        },
                    },
                },
            }

            @assign
            def keep(self, context: Any, event: Any) -> Any:
                return {"heard": [*context["heard"], event.get("what")]}

            @assign
            def fail(self, context: Any, event: Any) -> Any:
                return {"error": event["error"]["message"]}

            @callback
            async def listen(self, input: Any, send_back: Any, receive: Any) -> None:
                studio.did.append(("begin", input))
                await send_back("HEARD", what="noise")
                try:
                    async for event in receive:
                        studio.did.append(event)
                        if event.get("to") == "bad":
                            raise OSError("no station")
                        if event.get("to") == "end":
                            return
                        await send_back({"type": "HEARD", "what": event.get("to", event["type"])})
                finally:
                    studio.did.append("end")

        for name, value in options.items():
            setattr(Radio, name, value)
        self.Radio: Any = self.app.object(Radio)


async def test_a_callback_hears_and_says_many_things_while_its_state_is_active(store_url: str) -> None:
    studio = Studio()
    async with studio.app.world(store=store_url) as world:
        radio = world.get(studio.Radio, "r")
        await radio.send("ON")
        await radio.send("TUNE", to=98)
        await radio.send("TUNE", to=101)
        await radio.send("LATER")
        await world.advance("61s")
        assert (await radio.snapshot()).context["heard"] == ["noise", 98, 101, "LATE"]
        await radio.send("OFF")
        await world.settle()
        assert studio.did == [
            ("begin", {"band": "FM"}),
            {"type": "TUNE", "to": 98},
            {"type": "TUNE", "to": 101},
            {"type": "LATE"},
            "end",
        ]
        assert not [timer for timer in await world.due() if timer.name.startswith("machine-run")]


async def test_a_callback_that_raises_is_an_error_and_one_that_returns_rests() -> None:
    studio = Studio()
    async with studio.app.world() as world:
        radio = world.get(studio.Radio, "r")
        await radio.send("ON")
        await radio.send("TUNE", to="bad")
        await world.settle()
        snapshot = await radio.snapshot()
        assert (snapshot.value, snapshot.context["error"]) == ("off", "no station")
        await radio.send("ON")
        await radio.send("TUNE", to="end")
        await world.advance("1h")
        assert (await radio.snapshot()).value == "live"  # onDone is for what answers
        assert (await radio.send("OFF")).value == "off"


@pytest.mark.parametrize("on_crash", ["again", "error"])
async def test_a_callback_begins_anew_when_its_process_died(store_url: str, on_crash: str) -> None:
    studio = Studio(on_crash=on_crash)
    async with studio.app.world(store=store_url) as world:
        radio = world.get(studio.Radio, "r")
        await radio.send("ON")
        await world.settle()
        await world.crash()
        await world.restart()
        await world.settle()
        await radio.send("TUNE", to=5)
        await world.settle()
        assert (await radio.snapshot()).context["heard"] == ["noise", "noise", 5]
        assert [one for one in studio.did if isinstance(one, tuple)] == [("begin", {"band": "FM"})] * 2


async def test_it_goes_on_while_its_object_sleeps_and_a_stop_does_not_wait_for_it() -> None:
    studio = Studio()
    async with studio.app.world() as world:
        radio = world.get(studio.Radio, "r")
        await radio.send("ON")
        await world.settle()
        await world.sleep_all()
        await radio.send("TUNE", to=5)
        await world.settle()
        assert (await radio.snapshot()).context["heard"] == ["noise", 5]
        before = world.now()
        await world.restart()
        assert (world.now() - before).total_seconds() < 5
        assert "end" in studio.did
        await world.settle()
        assert (await radio.snapshot()).context["heard"] == ["noise", 5, "noise"]


async def test_it_moves_with_its_object() -> None:
    studio = Studio()
    async with studio.app.world(nodes=2) as world:
        radio = world.get(studio.Radio, "r")
        await radio.send("ON")
        await world.settle()
        owner = next(one for one in world.members if ObjectId("Radio", "r") in one.node.awake)
        await owner.stop()
        await world.advance("10s")
        await radio.send("TUNE", to=7)
        await world.settle()
        assert (await radio.snapshot()).context["heard"] == ["noise", "noise", 7]


async def test_what_it_says_after_its_state_was_left_is_for_nobody() -> None:
    app = App()
    go = asyncio.Event()

    @app.object
    class Slow(Machine):
        chart = {
            "initial": "on",
            "context": {"n": 0},
            "on": {"SAID": {"actions": "count"}, "OUT": ".off", "IN": ".on"},
            "states": {"on": {"invoke": {"src": "say", "id": "say"}}, "off": {}},
        }

        @assign
        def count(self, context: Any, event: Any) -> Any:
            return {"n": context["n"] + 1}

        @callback
        async def say(self, input: Any, send_back: Any, receive: Any) -> None:
            try:
                await go.wait()
            except asyncio.CancelledError:
                await send_back("SAID")
                raise

    async with app.world() as world:
        slow = world.get(Slow, "s")
        await slow.start()
        await world.settle()
        await slow.send("OUT")
        await world.settle()
        await slow.send("IN")
        await world.settle()
        assert (await slow.snapshot()).context["n"] == 0


async def test_a_callback_is_of_one_form_and_says_only_events() -> None:
    with pytest.raises(errors.BadChart, match=r"takes \(self, input, send_back, receive\)"):

        @App().object
        class Wrong(Machine):
            chart = {"initial": "a", "states": {"a": {"invoke": {"src": "go"}}}}

            @callback
            async def go(self, context: Any, event: Any) -> None: ...

    with pytest.raises(errors.BadChart, match=r"a @callback does something in the world"):

        @App().object
        class Plain(Machine):
            chart = {"initial": "a", "states": {"a": {"invoke": {"src": "go"}}}}

            @callback
            def go(self, input: Any, send_back: Any, receive: Any) -> None: ...


async def test_actors_may_have_ids_that_are_made_as_they_start(store_url: str) -> None:
    app = App()

    @app.object
    class Worker(Machine):
        chart = {"initial": "on", "states": {"on": {"on": {"STOP": "off"}}, "off": {"type": "final"}}}

    @app.object
    class Boss(Machine):
        chart = {
            "initial": "on",
            "context": {"ended": []},
            "states": {
                "on": {
                    "on": {
                        "HIRE": {"actions": {"type": "spawnChild", "src": "Worker", "id": {"$call": "who"}}},
                        "ANY": {"actions": [{"type": "xstate.spawnChild", "src": "Worker"}] * 2},
                        "FIRE": {"actions": {"type": "stopChild", "id": {"$call": "who"}}},
                        "TELL": {"actions": {"type": "sendTo", "to": {"$call": "who"}, "event": {"type": "STOP"}}},
                        "xstate.done.actor.*": {"actions": "note"},
                    }
                }
            },
        }

        def who(self, context: Any, event: Any) -> str:
            return f"w-{event['n']}"

        @assign
        def note(self, context: Any, event: Any) -> Any:
            return {"ended": [*context["ended"], event["actorId"]]}

    async with app.world(store=store_url) as world:
        boss = world.get(Boss, "b")
        for n in (1, 2):
            await boss.send("HIRE", n=n)
        await world.settle()
        assert [(await world.get(Worker, f"b/w-{n}").snapshot()).status for n in (1, 2, 3)] == [
            "active",
            "active",
            "new",
        ]
        await boss.send("TELL", n=2)
        await boss.send("FIRE", n=1)
        await world.crash()
        await world.restart()
        await world.settle()
        assert (await boss.snapshot()).context["ended"] == ["w-2"]
        assert (await world.get(Worker, "b/w-1").snapshot()).status == "new"
        await boss.send("ANY")
        await world.settle()
        known = [info.id.key for info in await world.node.store.find_objects(_of("Worker"))]
        assert len([key for key in known if key.startswith("b/Worker.")]) == 2


def _of(cls: str) -> Any:
    from wakeful.store.protocol import Query

    return Query(cls=cls, limit=10)


async def test_guards_and_actions_know_who_sent_the_event(store_url: str) -> None:
    app = App()
    seen: dict[str, list[Any]] = {"guard": [], "action": []}

    @app.object
    class Kid(Machine):
        chart = {
            "initial": "on",
            "states": {
                "on": {
                    "entry": {"type": "sendParent", "event": {"type": "ASK", "by": "kid"}},
                    "on": {"PING": {"guard": "may", "actions": "note"}},
                }
            },
        }

        @guard
        def may(self, context: Any, event: Any) -> bool:
            seen["guard"].append(("PING", self.sender))
            return True

        @action
        async def note(self, context: Any, event: Any) -> None:
            seen["action"].append(("PING", self.sender))

    @app.object
    class Gate(Machine):
        chart = {
            "initial": "on",
            "states": {
                "on": {
                    "invoke": [{"src": "Kid", "id": "kid"}, {"src": "work", "id": "work"}],
                    "after": {"1m": {"guard": "may", "actions": "note"}},
                    "on": {
                        "ASK": {
                            "guard": "may",
                            "actions": ["note", {"type": "sendTo", "to": "kid", "event": {"type": "PING"}}],
                        },
                        "xstate.done.actor.work": {"guard": "may", "actions": "note"},
                    },
                }
            },
        }

        @guard
        def may(self, context: Any, event: Any) -> bool:
            seen["guard"].append((event.get("by", event["type"]), self.sender))
            return True

        @action
        async def note(self, context: Any, event: Any) -> None:
            seen["action"].append((event.get("by", event["type"]), self.sender))

        async def work(self, context: Any, event: Any) -> None:
            assert self.sender is None

        async def ask_myself(self) -> Any:
            assert self.sender is None
            return (await self.send("ASK", by="job")).value

    @app.object
    class Other(DurableObject):
        async def ask(self) -> None:
            await app.get(Gate, "g").send("ASK", by="object")

    async with app.world(store=store_url) as world:
        gate = world.get(Gate, "g")
        await gate.start()
        await world.settle()
        await gate.send("ASK", by="outside")
        await world.get(Other, "o").ask()
        job = await app.jobs.schedule(app.get(Gate, "g").ask_myself)
        await world.advance("61s")
        assert job is not None
        parent = Sender("parent", object=ObjectId("Gate", "g"))
        expected = {
            "kid": Sender("child", "kid"),
            "xstate.done.actor.work": Sender("child", "work"),
            "outside": Sender("outside"),
            "object": Sender("object", object=ObjectId("Other", "o")),
            "PING": parent,
        }
        for where, heard in seen.items():
            by = dict(heard)
            assert {name: by[name] for name in expected} == expected, where
            assert (by["xstate.after.1m.Gate.on"].kind, by["xstate.after.1m.Gate.on"].name) == (
                "timer",
                "xstate.after.1m.Gate.on",
            )
            assert (by["job"].kind, by["job"].name[:4]) == ("timer", "job:")
