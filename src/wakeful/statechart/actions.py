"""Layer 1, pure. What do the actions of a chart do?

A name is the caller's business and becomes an effect, unless it stands for an assignment or for other actions.
XState's own actions are mappings with their name as type: `{"type": "xstate.raise", "event": {…}, "delay": …}`;
without `xstate.` where another key than type and params makes plain that no name is meant.
"""

from collections.abc import Callable, Mapping
from typing import Any

from wakeful.statechart.effects import PARENT, SELF, Act, Emit, Log
from wakeful.statechart.expressions import is_call, read, read_delay, read_event
from wakeful.statechart.fields import Implementations, bad, list_items, mapping, only, text, unbound
from wakeful.statechart.guards import Guards
from wakeful.statechart.structure import Action, ChartStep, Read

# A name may stand for actions that have names; a circle of them would never end.
_ALIASES_MAX = 16


class Actions:
    """Reads actions; `is_data` as in `expressions.read`."""

    def __init__(self, names: Implementations, guards: Guards, *, is_sketch: bool, is_data: bool = False) -> None:
        self._names = names
        self._guards = guards
        self._is_sketch = is_sketch
        self._is_data = is_data
        # Reads what functions answer while the chart runs.
        self._asked = self if is_data else Actions(names, guards.of_data(), is_sketch=is_sketch, is_data=True)
        self._own: dict[str, tuple[tuple[str, ...], Callable[[Mapping[str, Any], str], Action]]] = {
            "assign": (("assignment",), self._assign),
            "raise": (("event", "delay", "id"), self._raise),
            "sendTo": (("to", "event", "delay", "id"), self._send),
            "sendParent": (("event", "delay", "id"), lambda given, path: self._send({**given, "to": PARENT}, path)),
            "forwardTo": (("to", "delay", "id"), self._forward),
            "cancel": (("sendId",), self._cancel),
            "emit": (("event",), self._emit),
            "log": (("value", "label"), self._log),
            "enqueueActions": (("actions",), self._enqueue),
            "spawnChild": (("src", "id", "input", "syncSnapshot"), self._spawn),
            "stopChild": (("id",), self._stop),
        }

    def read(self, value: Any, path: str, depth: int = 0) -> tuple[Action, ...]:
        """One action or a list of them, as a chart writes them."""
        if depth > _ALIASES_MAX:
            raise bad(path, "actions stand for each other in a circle", code="chart.action")
        found: list[Action] = []
        for one, where in list_items(value, path):
            found += self._one(one, where, depth)
        return tuple(found)

    def delay_actions(self, id: str, delay: Any, path: str) -> tuple[Action, Action]:
        """Setting and taking back the delay of an `after`."""
        delay_ms = self._delay(delay, path)
        event = {"type": id}
        return lambda turn: turn.delay(id, delay_ms(turn), event, None), lambda turn: turn.cancel(id)

    def invoke(self, id: str, src: str, input: Any, path: str, *, is_synced: bool) -> tuple[Action, Action]:
        """Starting and stopping an actor."""
        self._check_actor(src, path)
        given = self.value(input, f"{path}.input")
        return lambda turn: turn.invoke(id, src, given(turn), is_synced=is_synced), lambda turn: turn.stop(id)

    def _check_actor(self, src: str, path: str) -> None:
        actors = self._names.actors
        if actors is not None and src not in actors and not self._is_sketch:
            raise unbound(f"{path}.src", "actor", src)

    def value(self, value: Any, path: str) -> Read:
        """A value when it is needed."""
        return read(value, path, self._names, is_sketch=self._is_sketch, is_data=self._is_data)

    def _one(self, value: Any, path: str, depth: int) -> tuple[Action, ...]:
        if isinstance(value, str):
            return self._read_named(text(value, path), None, path, depth)
        given = mapping(value, path)
        kind = text(given.get("type"), f"{path}.type")
        own = self._own.get(kind.removeprefix("xstate."))
        is_own = kind.startswith("xstate.")
        params = given.get("params")
        if is_own and isinstance(params, Mapping):
            given = {**{key: one for key, one in given.items() if key != "params"}, **params}
        if own is not None and (is_own or any(key in given for key in own[0])):
            only(given, ("type", *own[0]), path)
            return (own[1](given, path),)
        if is_own:
            known = ", ".join(f"xstate.{name}" for name in self._own)
            raise bad(f"{path}.type", f"there is no action {kind!r}; there are {known}", code="chart.action")
        only(given, ("type", "params"), path)
        return self._read_named(kind, params, path, depth)

    def _read_named(self, name: str, params: Any, path: str, depth: int) -> tuple[Action, ...]:
        given = self.value(params, f"{path}.params")
        if name in self._names.assigns:
            function = self._names.assigns[name]

            def assign(turn: ChartStep) -> None:
                changes = function(turn.context, turn.event, given(turn))
                if not isinstance(changes, Mapping):
                    raise bad(path, f"{name!r} answered {changes!r}, not a mapping of changes", code="chart.assign")
                turn.context = {**turn.context, **changes}
                turn.is_changed = True

            return (assign,)
        if name in self._names.enqueues:
            return (self._collect(name, given, path, depth),)
        bound = self._names.actions
        if isinstance(bound, Mapping) and isinstance(bound.get(name), str | Mapping | list | tuple):
            return self.read(bound[name], path, depth + 1)
        if bound is not None and name not in bound and not self._is_sketch:
            raise unbound(path, "action or assignment", name)
        return (lambda turn: turn.effects.append(Act(name, given(turn), turn.context, turn.event)),)

    def _collect(self, name: str, params: Read, path: str, depth: int) -> Action:
        function, asked = self._names.enqueues[name], self._asked

        def collect(turn: ChartStep) -> None:
            wanted = function(
                turn.context, turn.event, params(turn), lambda guard: asked._guards.read(guard, path)(turn)
            )
            for action in asked.read(wanted, path, depth + 1):
                action(turn)

        return collect

    def _assign(self, given: Mapping[str, Any], path: str) -> Action:
        where = f"{path}.assignment"
        if is_call(given.get("assignment")):
            whole = self.value(given["assignment"], where)

            def change(turn: ChartStep) -> None:
                turn.context = {**turn.context, **mapping(whole(turn), where)}
                turn.is_changed = True

            return change
        parts = {key: self.value(one, f"{where}.{key}") for key, one in mapping(given.get("assignment"), where).items()}

        def assign(turn: ChartStep) -> None:
            turn.context = {**turn.context, **{key: part(turn) for key, part in parts.items()}}
            turn.is_changed = True

        return assign

    def _raise(self, given: Mapping[str, Any], path: str) -> Action:
        event = self._event(given.get("event"), f"{path}.event")
        if given.get("delay") is None:
            return lambda turn: turn.queue.append(event(turn))
        delay_ms = self._delay(given["delay"], f"{path}.delay")
        id = self._id(given, path)
        return lambda turn: turn.delay(id(turn), delay_ms(turn), event(turn), None)

    def _send(self, given: Mapping[str, Any], path: str) -> Action:
        return self._send_event(self._event(given.get("event"), f"{path}.event"), given, path)

    def _forward(self, given: Mapping[str, Any], path: str) -> Action:
        """Send on the event at hand, as it is."""
        return self._send_event(lambda turn: turn.event, given, path)

    def _send_event(self, event: Read, given: Mapping[str, Any], path: str) -> Action:
        to = given.get("to")
        target = self.value(to, f"{path}.to") if is_call(to) else _constant(text(to, f"{path}.to"))
        is_delayed = given.get("delay") is not None
        delay_ms = self._delay(given["delay"], f"{path}.delay") if is_delayed else _constant(0)
        id = self._id(given, path)

        def send(turn: ChartStep) -> None:
            whom = text(target(turn), f"{path}.to")
            start: int | None = None
            if whom not in (SELF, PARENT):
                asked, whom = whom, turn.actor(whom, path)
                start = turn.start_of(asked) if is_delayed else None
            if is_delayed:
                turn.delay(id(turn), delay_ms(turn), event(turn), None if whom == SELF else whom, start)
            elif whom == SELF:
                turn.mailbox.append(event(turn))
            else:
                turn.send(whom, event(turn))

        return send

    def _cancel(self, given: Mapping[str, Any], path: str) -> Action:
        wanted = given.get("sendId")
        if is_call(wanted):
            asked = self.value(wanted, f"{path}.sendId")
            return lambda turn: turn.cancel(text(asked(turn), f"{path}.sendId"))
        id = text(wanted, f"{path}.sendId")
        return lambda turn: turn.cancel(id)

    def _emit(self, given: Mapping[str, Any], path: str) -> Action:
        event = self._event(given.get("event"), f"{path}.event")
        return lambda turn: turn.effects.append(Emit(event(turn)))

    def _log(self, given: Mapping[str, Any], path: str) -> Action:
        label = given.get("label")
        if label is not None:
            text(label, f"{path}.label")
        if "value" not in given:
            return lambda turn: turn.effects.append(Log({"context": turn.context, "event": turn.event}, label))
        value = self.value(given["value"], f"{path}.value")
        return lambda turn: turn.effects.append(Log(value(turn), label))

    def _spawn(self, given: Mapping[str, Any], path: str) -> Action:
        """An actor that no state owns; its id may be asked of a function, or be a number of its own."""
        src = text(given.get("src"), f"{path}.src")
        is_synced = given.get("syncSnapshot") is True
        wanted = given.get("id")
        if wanted is not None and not is_call(wanted):
            return self.invoke(text(wanted, f"{path}.id"), src, given.get("input"), path, is_synced=is_synced)[0]
        self._check_actor(src, path)
        input = self.value(given.get("input"), f"{path}.input")
        id = self.value(wanted, f"{path}.id") if wanted is not None else lambda turn: f"{src}.{turn.count()}"

        def spawn(turn: ChartStep) -> None:
            turn.invoke(text(id(turn), f"{path}.id"), src, input(turn), is_synced=is_synced)

        return spawn

    def _stop(self, given: Mapping[str, Any], path: str) -> Action:
        id = self.value(given.get("id"), f"{path}.id")

        def stop(turn: ChartStep) -> None:
            if (wanted := id(turn)) is not None:  # of nothing it does nothing, as in XState
                turn.stop(text(wanted, f"{path}.id"))

        return stop

    def _enqueue(self, given: Mapping[str, Any], path: str) -> Action:
        """Actions of which some hang on a guard: all guards are asked first, then the actions done, as XState does."""
        blocks = []
        for item, where in list_items(given.get("actions"), f"{path}.actions"):
            if isinstance(item, Mapping) and "guard" in item and "type" not in item:
                only(item, ("guard", "actions", "else"), where)
                test = self._guards.read(item["guard"], f"{where}.guard")
                then = self.read(item.get("actions"), f"{where}.actions")
                blocks.append((test, then, self.read(item.get("else"), f"{where}.else")))
            else:
                blocks.append((_always, self.read(item, where), ()))

        def enqueue(turn: ChartStep) -> None:
            chosen = [action for test, then, otherwise in blocks for action in (then if test(turn) else otherwise)]
            for action in chosen:
                action(turn)

        return enqueue

    def _event(self, value: Any, path: str) -> Read:
        return read_event(value, path, self._names, is_sketch=self._is_sketch, is_data=self._is_data)

    def _delay(self, value: Any, path: str) -> Read:
        return read_delay(value, path, self._names, is_sketch=self._is_sketch, is_data=self._is_data)

    def _id(self, given: Mapping[str, Any], path: str) -> Read:
        """The id of a delayed send; without one in the chart it gets a number of its own."""
        if given.get("id") is None:
            return lambda turn: f"xstate.delayed.{turn.count()}"
        return _constant(text(given["id"], f"{path}.id"))


def _constant(value: Any) -> Read:
    return lambda turn: value


def _always(turn: ChartStep) -> bool:
    return True
