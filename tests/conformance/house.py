"""Machines that start each other: a parent, its child, and the child's pet."""

from typing import Any

from wakeful import App, Machine, RetryPolicy, assign, fixed, guard
from wakeful.machines.records import GONE, ROW, Slot
from wakeful.testing import World
from wakeful.values.codec import decode
from wakeful.values.ids import ObjectId

PARENT, CHILD, PET = ObjectId("Parent", "p"), ObjectId("Child", "p/kid"), ObjectId("Pet", "p/kid/pet")


class House:
    """An app with the three."""

    def __init__(self) -> None:
        self.app = App()
        self.Pet: Any = self.app.object(type("Pet", (_Pet,), {}))
        self.Child: Any = self.app.object(type("Child", (_Child,), {}))
        self.Parent: Any = self.app.object(type("Parent", (_Parent,), {}))


class _Pet(Machine):
    chart = {"initial": "here", "states": {"here": {"after": {"10h": "gone"}}, "gone": {}}}


class _Child(Machine):
    retry = RetryPolicy(2, fixed("1s"))
    chart = {
        "initial": "open",
        "context": {"$call": "begin"},
        "states": {
            "open": {
                "on": {
                    "ADD": [
                        {"target": "full", "guard": "is_last", "actions": "add"},
                        {"actions": ["add", {"type": "sendParent", "event": {"type": "ADDED"}}]},
                    ]
                },
                "after": {"1h": "full"},
                "invoke": {"id": "pet", "src": "Pet"},
            },
            "full": {"type": "final"},
        },
        "output": {"$call": "result"},
    }

    def begin(self, context: Any, event: Any) -> Any:
        if event["input"] == "broken":
            raise ValueError("can't begin")
        return {"count": 0, "most": event["input"]}

    def result(self, context: Any, event: Any) -> Any:
        return context["count"]

    @guard
    def is_last(self, context: Any, event: Any) -> bool:
        return bool(context["count"] + 1 >= context["most"])

    @assign
    def add(self, context: Any, event: Any) -> Any:
        return {"count": context["count"] + 1}


class _Parent(Machine):
    chart = {
        "initial": "idle",
        "context": {"heard": 0, "got": None, "seen": [], "most": 3},
        "states": {
            "idle": {"on": {"GO": {"target": "busy", "actions": "ask"}}},
            "busy": {
                "invoke": {
                    "id": "kid",
                    "src": "Child",
                    "input": {"$call": "wanted"},
                    "onDone": {"target": "idle", "actions": "keep"},
                    "onError": {"target": "failed", "actions": "keep"},
                    "onSnapshot": {"actions": "see"},
                },
                "on": {
                    "TELL": {"actions": {"type": "sendTo", "to": "kid", "event": {"type": "ADD"}}},
                    "ADDED": {"actions": "hear"},
                    "BACK": "idle",
                    "AGAIN": {"target": "busy", "reenter": True},
                },
            },
            "failed": {},
        },
    }

    def wanted(self, context: Any, event: Any) -> Any:
        return context["most"]

    @assign
    def ask(self, context: Any, event: Any) -> Any:
        return {"most": event.get("most", 3)}

    @assign
    def keep(self, context: Any, event: Any) -> Any:
        return {"got": event.get("output", event.get("error"))}

    @assign
    def hear(self, context: Any, event: Any) -> Any:
        return {"heard": context["heard"] + 1}

    @assign
    def see(self, context: Any, event: Any) -> Any:
        return {"seen": [*context["seen"], event["snapshot"]["context"]["count"]]}


async def row(world: World, id: ObjectId, slot: Slot = ROW) -> Any:
    """What is on disk of a machine."""
    found = await world.store.read(id, slot[0], [slot[1]])
    return decode(found[slot[1]]) if found else None


async def there(world: World) -> list[str]:
    """Which of the three are machines now; and nothing is left that says they must not be."""
    for id in (PARENT, CHILD, PET):
        assert await row(world, id, GONE) is None
    return [id.cls for id in (PARENT, CHILD, PET) if await row(world, id) is not None]
