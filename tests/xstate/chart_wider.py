"""Random charts with the corners of the language that `chart_cases` leaves out: every third seed is one of them."""

from typing import Any

from tests.xstate.chart_cases import EVENTS, Maker

MORE_EVENTS = (*EVENTS, "a", "a.b.c.d", "")  # the last is left out where an event needs a type
# A star that is no whole last part matches nothing, or only itself; XState's own events can be named too.
MORE_DESCRIPTORS = (
    *("a", "a.*", "a.b.*", "a.b.c.*", "*", "A", "B"),
    *(
        "a*",
        "a.b*",
        "*.b",
        "a.*.c",
        "a.*.*",
        "**",
        "xstate.done.*",
        "xstate.after.*",
        "xstate.*",
        "xstate.done.actor.*",
    ),
)
MORE_KEYS = ("k", "l", "m.n", "o", "p q", "2", "10", "é", "h1")


class Wider(Maker):
    """One of them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        # Not both: where a state value is compared, XState takes the name `m.n` for a path.
        self.has_dots = self.chance(0.4)

    def case(self) -> dict[str, Any]:
        found = super().case()
        routed = [id for path, id in self.ids.items() if self.types[path] != "history"]
        if routed and self.chance(0.5):
            for _ in range(3):
                to = f"#{self.dice.choice(routed)}"
                entry = {"send": {"type": "xstate.route", "to": to, "flag": self.chance(0.5)}}
                found["script"].insert(self.dice.randrange(len(found["script"]) + 1), entry)
        return found

    # The tree.

    def keys(self) -> tuple[str, ...]:
        return MORE_KEYS if self.has_dots else tuple(key for key in MORE_KEYS if "." not in key)

    def events(self) -> tuple[str, ...]:
        return MORE_EVENTS[:-1]

    def state(self, path: list[str], *, is_root: bool = False) -> dict[str, Any]:
        made = super().state(path, is_root=is_root)
        if "tags" in made and self.chance(0.3):
            made["tags"] = made["tags"][0]
        if "id" in made and not is_root and self.chance(0.3):
            made["route"] = {} if self.chance(0.5) else {"guard": self.guard(1), "actions": "x"}
        return made

    def histories(self, made: dict[str, Any], path: list[str], keys: list[str]) -> None:
        super().histories(made, path, keys)
        if made.get("type") != "parallel":
            return
        for name in ("h", "hh"):
            one = made["states"].get(name)
            regions = [key for key in keys if made["states"][key].get("states")]
            if one is not None and len(regions) > 1 and self.chance(0.6):
                chosen = self.dice.sample(regions, self.dice.randrange(1, len(regions) + 1))
                one["target"] = [self.joined([key, self.inner(made["states"][key])]) for key in chosen]

    def inner(self, region: dict[str, Any]) -> str:
        """Some state inside of a region; not a history, so that the default is one."""
        names = [key for key, state in region["states"].items() if state.get("type") != "history"]
        return str(self.dice.choice(names))

    # What the states do.

    def wire(self, made: dict[str, Any], path: list[str]) -> None:
        super().wire(made, path)
        if self.types["/".join(path)] == "history":
            return
        if self.chance(0.4):
            more = {event: self.ways(path) for event in self.some(MORE_DESCRIPTORS, 1, 3)}
            made["on"] = {**made.get("on", {}), **more}
        if self.chance(0.1):
            whose = self.dice.choice([p for p in self.paths if self.types["/".join(p)] != "history"])
            made.setdefault("on", {})[f"xstate.done.state.{self.name(whose)}"] = self.ways(path)
        if self.chance(0.1) and "after" in made:
            delay = self.dice.choice(list(made["after"]))
            made.setdefault("on", {})[f"xstate.after.{delay}.{self.name(path)}"] = self.ways(path)

    def ways(self, path: list[str]) -> Any:
        return [] if self.chance(0.03) else {} if self.chance(0.1) else super().ways(path)

    def way(self, path: list[str], *, must_guard: bool = False) -> dict[str, Any]:
        made = super().way(path, must_guard=must_guard)
        if "reenter" not in made and self.chance(0.1):
            made["reenter"] = False
        return made

    def guard(self, depth: int) -> Any:
        roll = self.dice.random()
        if roll < 0.15 and not self.has_dots:
            return {"type": "xstate.stateIn", "stateValue": self.value()}
        if roll < 0.2:
            return {"type": self.dice.choice(("yes", "no", "flagged", "mixed"))}
        if roll < 0.3:
            return {"type": "atLeast", "params": {"$call": "bar"}}
        return super().guard(depth)

    def value(self) -> Any:
        """A state value, of some or all regions, to some depth."""
        paths = [p for p in self.paths[1:] if self.types["/".join(p)] != "history"]
        wanted: dict[str, Any] = {}
        for path in self.some(paths, 1, 2):
            here = wanted
            for key in path[: self.dice.randrange(1, len(path) + 1)]:
                here = here.setdefault(key, {})
        return wanted

    def action(self, depth: int) -> list[Any]:
        roll = self.dice.random()
        if roll < 0.04:
            return [{"type": "xstate.log"} if self.chance(0.5) else {"type": "xstate.log", "value": "said"}]
        if roll < 0.08 and "raise" in self.uses:
            event = {"type": self.dice.choice(EVENTS)}
            made = {"type": "xstate.sendTo", "to": {"$call": "whom"}, "event": event}
            return [made] if self.chance(0.4) else self.delayed(made)
        if roll < 0.1 and self.delays:
            return [{"type": "xstate.cancel", "sendId": {"$call": "which"}}]
        if roll < 0.13 and "raise" in self.uses:
            made = {"type": "xstate.raise", "event": {"type": self.dice.choice(EVENTS)}}
            return self.delayed(made, {"$call": "while"})
        if roll < 0.16 and "invoke" in self.uses:
            id = f"child{self.dice.randrange(3)}"
            spawn = {"type": "xstate.spawnChild", "src": "job", "id": id, "input": {"$call": "told"}}
            return [{"type": "xstate.stopChild", "id": id}, spawn]
        return super().action(depth)
