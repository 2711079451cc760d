"""Makes random charts, and scripts of events and passing time for them; the same seed gives the same case."""

import random
from typing import Any

EVENTS = ("A", "B", "C", "D", "a.b", "a.b.c", "a.x")
DESCRIPTORS = (*EVENTS, "A", "B", "C", "*", "a.*", "a.b.*")
KEYS = ("k", "l", "m", "n", "o", "p", "2", "10", "1")
ROOT = "r"
GUARDED = {"type": "atLeast", "params": {"key": "b", "n": 1}}


class Maker:
    """One random case."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.dice = random.Random(f"chart {seed}")
        self.paths: list[list[str]] = []  # of all states
        self.types: dict[str, str] = {}  # by the path
        self.ids: dict[str, str] = {}  # own ids, by the path
        self.actors: list[str] = []
        self.delays = 0
        self.size_max = self.dice.choice((6, 10, 16, 24))
        self.depth_max = self.dice.choice((1, 2, 3, 4))
        # Parts of the language that this chart uses, so that there are charts with few and with many of them.
        self.uses = {name for name in ("always", "after", "invoke", "raise", "enqueue", "final") if self.chance(0.6)}

    def case(self) -> dict[str, Any]:
        """A config, an input and a script."""
        config = self.state([], is_root=True)
        self.wire(config, [])
        config = {"id": ROOT, **config, "options": {"maxIterations": 60}}
        config["context"] = {"$call": "born"} if self.chance(0.2) else {"a": self.dice.randrange(3), "b": 0}
        if self.chance(0.3):
            config["output"] = {"$call": "told"} if self.chance(0.7) else {"fixed": 1}
        return {
            "seed": self.seed,
            "config": config,
            "input": {"a": self.dice.randrange(4)} if self.chance(0.5) else None,
            "script": [self.entry() for _ in range(self.dice.randrange(4, 14))],
        }

    def waiting(self) -> dict[str, Any]:
        """Regions that begin to wait one after the other and go on at once: who is first, and who is in whose way?"""
        regions = {}
        for number, key in enumerate(self.dice.sample(KEYS, self.dice.randrange(2, 5))):
            self.paths += [[key], *([key, name] for name in ("idle", "ready", "gone"))]
            go = {"type": "atLeast", "params": {"key": "b", "n": self.dice.choice((1, 1, 2))}}
            beyond = self.dice.choice(("gone", "gone", "gone", "#r.done", f"#r.all.{key}"))
            always = {"target": beyond, "guard": go, "actions": [{"type": "x", "params": {"n": number}}, "note"]}
            ready = {"always": always if self.chance(0.8) else [{**always, "guard": "mixed"}, always]}
            if self.chance(0.3):
                ready["exit"] = {"type": "inc", "params": {"key": self.dice.choice("ab")}}
            back = {"C": {"target": "idle", "actions": {"type": "put", "params": {"key": "b", "value": 0}}}}
            regions[key] = {
                "initial": "idle",
                "states": {"idle": {"on": {self.dice.choice("AB"): "ready"}}, "ready": ready, "gone": {"on": back}},
            }
            if self.chance(0.3):
                regions[key]["always"] = {"target": f"#r.all.{key}", "guard": go, "reenter": self.chance(0.5)}
        whole: dict[str, Any] = {"type": "parallel", "states": regions}
        if self.chance(0.3):
            whole["always"] = {"target": "done", "guard": {"type": "atLeast", "params": {"key": "b", "n": 2}}}
        whole["on"] = {"D": {"actions": {"type": "inc", "params": {"key": "b"}}}}
        events = [{"send": {"type": self.dice.choice("AABBCDD"), "flag": False}} for _ in range(12)]
        config = {"id": ROOT, "initial": "all", "states": {"all": whole, "done": {"on": {"A": "all"}}}}
        limited = {**config, "context": {"a": 0, "b": 0}, "options": {"maxIterations": 60}}
        return {"seed": self.seed, "config": limited, "input": None, "script": events}

    def keys(self) -> tuple[str, ...]:
        return KEYS

    def events(self) -> tuple[str, ...]:
        return EVENTS

    def chance(self, share: float) -> bool:
        return self.dice.random() < share

    def some(self, of: Any, least: int, most: int) -> list[Any]:
        return [self.dice.choice(of) for _ in range(self.dice.randrange(least, most + 1))]

    # The tree.

    def state(self, path: list[str], *, is_root: bool = False) -> dict[str, Any]:
        self.paths.append(path)
        made: dict[str, Any] = {}
        if not is_root and self.chance(0.15):
            made["id"] = self.ids["/".join(path)] = f"id{len(self.paths)}"
        has_room = len(self.paths) < self.size_max and len(path) < self.depth_max
        kind = "atomic"
        if is_root or (has_room and self.chance(0.55)):
            kind = "parallel" if self.chance(0.4) else "compound"
        elif "final" in self.uses and self.chance(0.2):
            kind = "final"
            made["type"] = "final"
            if self.chance(0.4):
                made["output"] = {"$call": "told"} if self.chance(0.5) else {"v": len(path)}
        self.types["/".join(path)] = kind
        if self.chance(0.1):
            made["meta"] = {"size": len(self.paths)}
        if self.chance(0.3):
            made["tags"] = self.some(("t1", "t2", "t3"), 1, 2)
        if kind in ("parallel", "compound"):
            keys = self.dice.sample(self.keys(), self.dice.randrange(2, 5 if kind == "compound" else 4))
            made["states"] = {key: self.state([*path, key]) for key in keys}
            if kind == "parallel":
                made["type"] = "parallel"
            self.histories(made, path, keys)
            if kind == "compound":
                first = self.dice.choice(list(made["states"]) if self.chance(0.2) else keys)
                made["initial"] = self.initial(made, first, keys)
        return made

    def histories(self, made: dict[str, Any], path: list[str], keys: list[str]) -> None:
        for name in ("h", "hh"):
            if not self.chance(0.3):
                continue
            one: dict[str, Any] = {"type": "history", "history": self.dice.choice(("shallow", "deep", True))}
            self.types["/".join([*path, name])] = "history"
            self.paths.append([*path, name])
            if made.get("type") != "parallel" and self.chance(0.5):
                inside = [p for p in self.paths if p[: len(path)] == path and len(p) > len(path)]
                inside = [p for p in inside if self.types["/".join(p)] != "history"]
                one["target"] = self.joined(self.dice.choice(inside)[len(path) :])
            made["states"][name] = one

    def initial(self, made: dict[str, Any], first: str, keys: list[str]) -> Any:
        one = made["states"][first]
        if one.get("type") == "history" and "target" not in one:
            one["target"] = self.joined([self.dice.choice(keys)])
        if self.chance(0.25):
            return {"target": first, "actions": self.actions(1, 2)}
        return first

    # What the states do.

    def wire(self, made: dict[str, Any], path: list[str]) -> None:
        kind = self.types["/".join(path)]
        if kind == "history":
            return
        for key in ("entry", "exit"):
            if self.chance(0.45):
                made[key] = self.actions(1, 2)
        if self.chance(0.75):
            made["on"] = {event: self.ways(path) for event in dict.fromkeys(self.some(DESCRIPTORS, 1, 4))}
        if "always" in self.uses and self.chance(0.2):
            made["always"] = [self.way(path, must_guard=self.chance(0.95)) for _ in range(self.dice.randrange(1, 3))]
        if "after" in self.uses and self.chance(0.35):
            made["after"] = {
                delay: self.ways(path)
                for delay in dict.fromkeys(self.some(("5", "10", "30", "100", "short", "24h", "1m30s", "grown"), 1, 3))
            }
        if "invoke" in self.uses and self.chance(0.3) and kind != "final":
            known = len(self.actors)
            made["invoke"] = self.invokes(path)
            self.talk(made, self.actors[known:])
        has_output = kind == "compound" and any("output" in child for child in made["states"].values())
        if has_output:
            made["onDone"] = [{**self.way(path), "actions": "x"}]  # which shows the event, and so what came out
        elif kind in ("compound", "parallel") and self.chance(0.5):
            made["onDone"] = self.ways(path)
        for key, child in made.get("states", {}).items():
            self.wire(child, [*path, key])

    def invokes(self, path: list[str]) -> Any:
        made = []
        for place in range(self.dice.randrange(1, 3)):
            one: dict[str, Any] = {"src": self.dice.choice(("svc", "job"))}
            id = f"{place}.{self.name(path)}"
            if self.chance(0.5):
                id = one["id"] = f"actor{len(self.actors)}"
            self.actors.append(id)
            if self.chance(0.4):
                one["input"] = {"$call": "told"} if self.chance(0.5) else {"fixed": 2}
            for key in ("onDone", "onError", "onSnapshot"):
                if self.chance(0.55):
                    one[key] = self.ways(path)
            made.append(one)
        return made if len(made) > 1 or self.chance(0.5) else made[0]

    def talk(self, made: dict[str, Any], actors: list[str]) -> None:
        """Sends to the actors of a state, which are there while it is active and while it is entered."""
        for key in ("entry", "exit"):
            if self.chance(0.3):
                one: dict[str, Any] = {"type": "xstate.sendTo", "to": self.dice.choice(actors), "event": {"type": "HI"}}
                sends = self.delayed(one) if self.chance(0.5) else [one]
                there = made.get(key, [])
                made[key] = [*(there if isinstance(there, list) else [there]), *sends]

    def name(self, path: list[str]) -> str:
        return self.ids.get("/".join(path)) or ".".join([ROOT, *path])

    def ways(self, path: list[str]) -> Any:
        if self.chance(0.05):
            return {}
        made = [self.way(path) for _ in range(self.dice.choice((1, 1, 1, 2, 3)))]
        if len(made) > 1:
            return made
        only = made[0]
        return only["target"] if list(only) == ["target"] and isinstance(only["target"], str) else only

    def way(self, path: list[str], *, must_guard: bool = False) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if self.chance(0.85):
            made["target"] = self.target(path)
        if must_guard or self.chance(0.35):
            made["guard"] = self.guard(0)
        if self.chance(0.5) or not made:
            made["actions"] = self.actions(1, 3)
        if self.chance(0.2):
            made["reenter"] = True
        return made

    def target(self, path: list[str]) -> Any:
        roll = self.dice.random()
        if roll < 0.12:
            several = self.several()
            if several:
                return several
        if roll < 0.5 and path:
            beside = [p for p in self.paths if len(p) == len(path) and p[:-1] == path[:-1]]
            return self.joined(self.dice.choice(beside)[-1:])
        if roll < 0.6:
            inside = [p for p in self.paths if len(p) > len(path) and p[: len(path)] == path]
            if inside and "." not in "".join(path[-1:]):  # XState puts the key before the target as it is
                return "." + self.joined(self.dice.choice(inside)[len(path) :])
        return self.absolute(self.dice.choice(self.paths[1:] if self.chance(0.97) else self.paths))

    def absolute(self, path: list[str]) -> str:
        return f"#{self.ids.get('/'.join(path)) or self.joined([ROOT, *path])}"

    def joined(self, path: list[str]) -> str:
        """A path as a target writes it: the dot in a key means nothing."""
        return ".".join(key.replace(".", "\\.") for key in path)

    def several(self) -> list[str] | None:
        """Targets in different regions of a parallel state."""
        parallel = [p for p in self.paths if self.types["/".join(p)] == "parallel"]
        if not parallel:
            return None
        top = self.dice.choice(parallel)
        regions = {p[len(top)] for p in self.paths if len(p) > len(top) and p[: len(top)] == top}
        regions = {key for key in regions if self.types["/".join([*top, key])] != "history"}
        chosen = self.dice.sample(sorted(regions), self.dice.randrange(2, len(regions) + 1))
        found = []
        for key in chosen:
            inside = [p for p in self.paths if p[: len(top) + 1] == [*top, key] and len(p) > len(top) + 1]
            found.append(self.absolute(self.dice.choice(inside or [[*top, key]])))
        return found

    # Guards and actions.

    def guard(self, depth: int) -> Any:
        roll = self.dice.random()
        key = self.dice.choice(("a", "b"))
        if depth < 2 and roll < 0.15:
            kind = self.dice.choice(("and", "or"))
            return {"type": f"xstate.{kind}", "guards": [self.guard(depth + 1) for _ in range(2)]}
        if depth < 2 and roll < 0.25:
            return {"type": "xstate.not", "guard": self.guard(depth + 1)}
        if roll < 0.4:
            path = self.dice.choice(self.paths[1:])
            if self.types["/".join(path)] == "history":
                path = path[:-1]
            # Where names are compared, XState takes one with a dot for a path.
            is_plain = bool(path) and "." not in "".join(path)
            value = self.joined(path) if is_plain and self.chance(0.6) else self.absolute(path)
            return {"type": "xstate.stateIn", "stateValue": value}
        if roll < 0.5:
            return self.dice.choice(("flagged", "mixed"))
        if roll < 0.55:
            return self.dice.choice(("yes", "no"))
        if roll < 0.75:
            return {"type": "even", "params": {"key": key}}
        return {"type": "atLeast", "params": {"key": key, "n": self.dice.randrange(1, 5)}}

    def actions(self, least: int, most: int) -> Any:
        made = [one for _ in range(self.dice.randrange(least, most + 1)) for one in self.action(0)]
        return made[0] if len(made) == 1 and self.chance(0.5) else made

    def action(self, depth: int) -> list[Any]:
        roll = self.dice.random()
        if roll < 0.35:
            name = self.dice.choice("xyz")
            if self.chance(0.5):
                return [name]
            return [{"type": name, "params": {"$call": "told"} if self.chance(0.3) else {"n": self.dice.randrange(9)}}]
        if roll < 0.55:
            key = self.dice.choice("ab")
            return [
                self.dice.choice(
                    (
                        {"type": "inc", "params": {"key": key}},
                        {"type": "put", "params": {"key": key, "value": self.dice.randrange(4)}},
                        "note",
                        {"type": "xstate.assign", "assignment": {key: {"$call": "sum"}, "c": self.dice.randrange(3)}},
                    )
                )
            ]
        if roll < 0.7 and "raise" in self.uses:
            event = (
                {"$call": "ping"}
                if self.chance(0.2)
                else {"type": self.dice.choice(self.events()), "flag": self.chance(0.5)}
            )
            if self.chance(0.6):
                return [{"type": "xstate.raise", "event": event}]
            return self.delayed({"type": "xstate.raise", "event": event})
        if roll < 0.75 and "raise" in self.uses:
            event = {"type": self.dice.choice(self.events())}
            if self.chance(0.5):
                return [{"type": "xstate.sendTo", "to": "#_internal", "event": event}]
            return self.delayed({"type": "xstate.sendTo", "to": "#_internal", "event": event})
        if roll < 0.8 and self.actors:
            guarded = {"type": "xstate.sendTo", "to": self.dice.choice(self.actors), "event": {"type": "HI"}}
            return [guarded] if self.chance(0.1) else ["y"]
        if roll < 0.84 and self.delays:
            return [{"type": "xstate.cancel", "sendId": f"d{self.dice.randrange(self.delays)}"}]
        if roll < 0.9:
            return [
                {"type": "xstate.emit", "event": {"$call": "ping"} if self.chance(0.3) else {"type": "told", "n": 1}}
            ]
        if roll < 0.92 and "invoke" in self.uses:
            id = f"child{self.dice.randrange(3)}"
            if self.chance(0.4):
                return [{"type": "xstate.stopChild", "id": {"$call": "none"} if self.chance(0.2) else id}]
            if self.chance(0.5):  # and what it is sent may come when another has its id
                hi = {"type": "xstate.sendTo", "to": id, "event": {"type": "HI"}}
                spawn = {"type": "xstate.spawnChild", "src": "svc", "id": id}
                return [{"type": "xstate.stopChild", "id": id}, spawn, *self.delayed(hi)]
            return [{"type": "xstate.stopChild", "id": id}, {"type": "xstate.spawnChild", "src": "svc", "id": id}]
        if roll < 0.94:
            return [{"type": "xstate.log", "value": {"$call": "sum"}, "label": "sum"}]
        if "enqueue" in self.uses and depth < 2:
            return [self.enqueue(depth)]
        return ["z"]

    def delayed(self, made: dict[str, Any], delay: Any = None) -> list[Any]:
        made["delay"] = delay or self.dice.choice((0, 3, 10, 20, 50, "short", "24h", "grown"))
        if self.chance(0.2):
            return [made]
        made["id"] = f"d{self.delays}"
        self.delays += 1
        # Mostly with a cancel before it: of two pending ones with the same id XState forgets the first.
        return [{"type": "xstate.cancel", "sendId": made["id"]}, made] if self.chance(0.9) else [made]

    def enqueue(self, depth: int) -> Any:
        if self.chance(0.3):
            return {"type": "pick", "params": {"n": self.dice.randrange(5)}} if self.chance(0.5) else "pick"
        blocks: list[Any] = []
        for _ in range(self.dice.randrange(1, 4)):
            if self.chance(0.5):
                blocks += self.action(depth + 1)
            else:
                block = {"guard": self.guard(1), "actions": self.action(depth + 1)}
                if self.chance(0.4):
                    block["else"] = self.action(depth + 1)
                blocks.append(block)
        return {"type": "xstate.enqueueActions", "actions": blocks}

    # The script.

    def entry(self) -> dict[str, Any]:
        roll = self.dice.random()
        if roll < 0.25:
            return {"tick": self.dice.choice((1, 5, 5, 10, 20, 50, 200, 100_000, 90_000_000))}
        if roll < 0.45 and self.actors:
            id = self.dice.choice(self.actors)
            kind = self.dice.choice(("done", "done", "error", "snapshot"))
            if kind == "done":
                return {"send": {"type": f"xstate.done.actor.{id}", "output": {"v": 1}, "actorId": id}}
            if kind == "error":
                return {"send": {"type": f"xstate.error.actor.{id}", "error": "broke", "actorId": id}}
            return {"send": {"type": f"xstate.snapshot.{id}", "snapshot": {"status": "active"}}}
        return {"send": {"type": self.dice.choice(self.events()), "flag": self.chance(0.5)}}


def case(seed: int) -> dict[str, Any]:
    """The case of a seed; every tenth has regions that wait for the same thing, every third of the others odd corners."""
    from tests.xstate.chart_wider import Wider

    if seed % 10 == 9:
        return Maker(seed).waiting()
    return (Wider(seed) if seed % 3 == 2 else Maker(seed)).case()
