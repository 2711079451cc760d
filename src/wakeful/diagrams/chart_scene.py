"""Layer 5. From a chart and a snapshot of it to what is to be seen."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, tzinfo
from typing import Any

from wakeful.diagrams.scene import BOLD, TEXT_SIZE, TITLE_SIZE, ArrowRow, Box, Edge, Scene
from wakeful.diagrams.texts import TextLine, TextSpan, break_lines, one_line
from wakeful.statechart.chart import Chart
from wakeful.statechart.fields import keys, list_items
from wakeful.statechart.snapshot import check_snapshot, configuration_of
from wakeful.statechart.state_tree import ROOT_ID, Tree, default_of, target_of
from wakeful.statechart.structure import ChartState
from wakeful.values.times import to_datetime

# How are the parts of a chart said in few words: events, guards, actions, delays?

_NUMBER = re.compile(r"\d+(\.\d+)?")
_TEXT_MAX = 40
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def guard_words(guard: Any) -> str:
    """A guard: its name with its params, combinations as one says them."""
    if not isinstance(guard, Mapping):
        return one_line(str(guard))
    kind = str(guard.get("type", "?"))
    builtin = kind.removeprefix("xstate.")
    params = guard.get("params")
    given = {**guard, **params} if kind != builtin and isinstance(params, Mapping) else guard
    if builtin in ("and", "or") and "guards" in given:
        return f" {builtin} ".join(_inner(one) for one in _several(given["guards"]))
    if builtin == "not" and ("guard" in given or "guards" in given):
        return "not " + " ".join(_inner(one) for one in _several(given.get("guard", given.get("guards"))))
    if builtin == "stateIn" and "stateValue" in given:
        return f"in {_value(given['stateValue'])}"
    return _with_params(kind, params)


def _inner(guard: Any) -> str:
    said = guard_words(guard)
    return f"({said})" if " and " in said or " or " in said else said


def action_words(action: Any) -> str:
    """An action: its name with its params, XState's own as one says them."""
    if not isinstance(action, Mapping):
        return one_line(str(action))
    kind = str(action.get("type", "?"))
    builtin = kind.removeprefix("xstate.")
    params = action.get("params")
    given = {**action, **params} if kind != builtin and isinstance(params, Mapping) else action
    extra = [key for key in given if key not in ("type", "params")]
    if kind == builtin and not extra:
        return _with_params(kind, params)
    return one_line(_own_words(builtin, given) + _later(given.get("delay")))


def _own_words(builtin: str, given: Mapping[str, Any]) -> str:
    if builtin == "assign":
        assignment = given.get("assignment")
        return f"set {', '.join(assignment)}" if isinstance(assignment, Mapping) else f"set {_value(assignment)}"
    if builtin in ("raise", "emit"):
        return f"{builtin} {_event(given.get('event'))}"
    if builtin in ("sendTo", "sendParent"):
        to = "parent" if builtin == "sendParent" else _value(given.get("to"))
        return f"send {_event(given.get('event'))} to {to}"
    if builtin == "forwardTo":
        return f"forward to {_value(given.get('to'))}"
    if builtin == "cancel":
        return f"cancel {_value(given.get('sendId'))}"
    if builtin == "log":
        return f"log {_value(given.get('value', given.get('label', '')))}"
    if builtin == "enqueueActions":
        return actions_words(given.get("actions")) or "enqueue"
    if builtin == "spawnChild":
        return f"spawn {_value(given.get('src'))}"
    if builtin == "stopChild":
        return f"stop {_value(given.get('id'))}"
    return builtin


def actions_words(actions: Any) -> str:
    """Actions in their order, with commas."""
    return ", ".join(action_words(one) for one in _several(actions))


def delay_words(delay: Any) -> str:
    """A delay: milliseconds in the largest unit that says them exactly, other texts as they are."""
    if isinstance(delay, bool) or not isinstance(delay, int | float | str):
        return _value(delay)
    if isinstance(delay, str) and not _NUMBER.fullmatch(delay):
        return one_line(delay)
    ms = float(delay)
    for unit, size in _UNITS:
        if ms >= size and round(ms / size, 2) * size == ms:
            return f"{ms / size:g} {unit}"
    return f"{ms:g} ms"


def remaining_words(ms: int) -> str:
    """How long until something is due: two units at most."""
    if ms <= 0:
        return "due now" if ms > -1_000 else f"{_span(-ms)} late"
    return f"in {_span(ms)}"


def _span(ms: int) -> str:
    if ms < 1_000:
        return f"{ms} ms"
    seconds = ms // 1_000
    sizes = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    for place, (unit, size) in enumerate(sizes):
        if seconds >= size:
            rest = seconds % size
            if place + 1 < len(sizes) and rest >= sizes[place + 1][1] and seconds // size < 10:
                return f"{seconds // size} {unit} {rest // sizes[place + 1][1]} {sizes[place + 1][0]}"
            return f"{round(seconds / size)} {unit}"
    return f"{ms} ms"


def _later(delay: Any) -> str:
    return "" if delay is None else f" after {delay_words(delay)}"


def _event(event: Any) -> str:
    return str(event.get("type", _value(event))) if isinstance(event, Mapping) else _value(event)


def _with_params(name: str, params: Any) -> str:
    if params is None:
        return one_line(name)
    if isinstance(params, Mapping) and "$call" not in params:
        said = ", ".join(f"{key}: {_value(value)}" for key, value in params.items())
    else:
        said = _value(params)
    return one_line(f"{name}({_short(said)})")


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _short(value)
    if isinstance(value, Mapping) and "$call" in value:
        return f"{value['$call']}()"
    return _short(json.dumps(value, ensure_ascii=False, default=str))


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"


def _several(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


_LABEL_WIDTH = 210.0
_LABEL_LINES = 5
_ROW_WIDTH = 260.0
_ROWS_MAX = 12  # in one box; the others are counted
_TITLE_WIDTH = 240.0


def read(
    config: Mapping[str, Any],
    snapshot: Mapping[str, Any] | None = None,
    *,
    now: int | None = None,
    zone: tzinfo = UTC,
    heading: str | None = None,
    delays: Mapping[str, Any] | None = None,
) -> Scene:
    """What is to be seen of a chart; `BadChart` when it is none, or the snapshot is of another.

    `delays` has the lengths that names in the chart stand for, where they are known without asking a machine.
    """
    chart = Chart.of(config, is_sketch=True)
    if snapshot is not None:
        check_snapshot(chart, snapshot)
    return _Reader(chart, snapshot, now, zone, delays or {}).scene(heading)


class _Reader:
    def __init__(
        self,
        chart: Chart,
        snapshot: Mapping[str, Any] | None,
        now: int | None,
        zone: tzinfo,
        delays: Mapping[str, Any],
    ) -> None:
        self._chart = chart
        self._delays = delays
        self._states = list(zip(chart.nodes, Tree(chart.config).configs, strict=True))
        self._snapshot = snapshot
        self._now = now
        self._zone = zone
        self._mask = configuration_of(chart, snapshot).mask if snapshot is not None else 0
        self._is_open = snapshot is not None and snapshot["status"] == "active"
        pending = (snapshot.get("pending") or []) if snapshot is not None else []
        self._due: dict[str, Mapping[str, Any]] = {one["id"]: one for one in pending}
        self._shown: set[str] = set()
        self._boxes: dict[int, Box] = {}
        self._edges: dict[tuple[int, int], Edge] = {}
        self._order: list[Edge] = []

    def scene(self, heading: str | None) -> Scene:
        for node, config in self._states:
            self._box(node, config)
        for node, config in self._states:
            if node.type == "history":
                self._default(node, config)
            else:
                self._ways(node, config)
        root = self._boxes[0]
        named = self._chart.id
        title = heading or (named if named != ROOT_ID else "")
        notes = tuple(self._note(one) for id, one in self._due.items() if id not in self._shown)
        return Scene(root=root, edges=self._order, heading=title, facts=self._facts(), notes=notes)

    def _facts(self) -> tuple[str, ...]:
        if self._snapshot is None:
            return ()
        facts = [str(self._snapshot["status"])]
        if self._due:
            count = len(self._due)
            facts.append(f"{count} pending delay{'s' if count > 1 else ''}")
        if self._now is not None:
            facts.append(f"as of {self._instant(self._now, with_day=True)}")
        return tuple(facts)

    def _box(self, node: ChartState, config: Mapping[str, Any]) -> None:
        parent = None if node.parent is None else self._boxes[node.parent.index]
        kind = {"final": "final", "history": "history"}.get(node.type, "state")
        box = self._boxes[node.index] = Box(kind, node.id, parent)
        box.tip = one_line(str(config["description"])) if config.get("description") else ""
        box.is_parallel = node.type == "parallel"
        box.is_region = node.parent is not None and node.parent.type == "parallel" and kind != "history"
        box.is_active = bool(self._mask & node.bit)
        box.is_live = box.is_active and self._is_open
        if kind == "history":
            box.sign = "H*" if node.history == "deep" else "H"
            return
        if node.parent is not None:
            box.title = break_lines(
                [TextSpan(one_line(node.key), "title")],
                size=TITLE_SIZE,
                width_max=_TITLE_WIDTH,
                lines_max=3,
                bold=BOLD,
            )
        if node.type == "compound":
            Box("dot", f"{node.id}:initial", box)

    def _default(self, node: ChartState, config: Mapping[str, Any]) -> None:
        assert node.parent is not None
        if config.get("target") in (None, ""):
            return
        for one, path in list_items(config["target"], f"{node.path}.target"):
            target = default_of(node.parent, one, path, self._chart.ids)
            self._edge(self._boxes[node.index], self._boxes[target.index], kind="default")

    def _ways(self, node: ChartState, config: Mapping[str, Any]) -> None:
        box = self._boxes[node.index]
        rows = (
            [_row([TextSpan("entry ", "word"), TextSpan(f"/ {actions_words(config['entry'])}", "do")])]
            if config.get("entry")
            else []
        )
        if config.get("exit"):
            rows.append(_row([TextSpan("exit ", "word"), TextSpan(f"/ {actions_words(config['exit'])}", "do")]))
        for invoke, _ in list_items(config.get("invoke"), ""):
            rows.append(_row([TextSpan("invoke ", "word"), TextSpan(one_line(str(invoke["src"])), "event")]))
        if node.initial is not None and node.type == "compound":
            self._initial(node, config)
        for words, value, timer in _events(node, config, self._delays):
            ways = list_items(value, node.path)
            for place, (way, path) in enumerate(ways):
                rows += self._way(node, _in_order(words, way, place, len(ways)), way, path, timer)
        if config.get("route") is not None:
            rows.append(_row([TextSpan("route ", "word"), TextSpan(f"#{node.id}", "do")]))
        if node.tags:
            rows.append(_row([TextSpan(" ".join(f"#{tag}" for tag in node.tags), "tag")]))
        if len(rows) > _ROWS_MAX:
            rest = len(rows) - _ROWS_MAX + 1
            whole = "\n".join(row.whole for row in rows[_ROWS_MAX - 1 :])
            rows = [
                *rows[: _ROWS_MAX - 1],
                ArrowRow(lines=(TextLine((TextSpan(f"… {rest} more", "tag"),)),), whole=whole),
            ]
        box.rows = tuple(rows)

    def _initial(self, node: ChartState, config: Mapping[str, Any]) -> None:
        assert node.initial is not None
        box = self._boxes[node.index]
        edge = self._edge(box.children[0], self._boxes[node.initial.index], kind="initial")
        initial = config.get("initial")
        if isinstance(initial, Mapping) and initial.get("actions"):
            edge.rows.append(_row([TextSpan(f"/ {actions_words(initial['actions'])}", "do")], is_label=True))

    def _way(
        self, node: ChartState, order: tuple[TextSpan, ...], way: Any, path: str, timer: str | None
    ) -> list[ArrowRow]:
        """Give it its arrows; a way that leads nowhere is answered as a row for the box."""
        given: Mapping[str, Any] = {"target": way} if isinstance(way, str) else way
        box = self._boxes[node.index]
        target = given.get("target")
        spans = [*order]
        if given.get("guard") is not None:
            spans.append(TextSpan(f" [{guard_words(given['guard'])}]", "guard"))
        if given.get("actions"):
            spans.append(TextSpan(f" / {actions_words(given['actions'])}", "do"))
        tip = one_line(str(given["description"])) if given.get("description") else ""
        due = self._due.get(timer) if timer is not None else None
        if target in (None, ""):
            if not given.get("actions"):
                spans.append(TextSpan(" ignored", "tag"))
            return [self._time_row(spans, timer, due, tip, is_label=False)]
        row = self._time_row(spans, timer, due, tip, is_label=True)
        for one, where in list_items(target, path):
            found = self._boxes[target_of(node, one, where, self._chart.ids).index]
            if found is box:
                box.loops.append(row)
            else:
                edge = self._edge(box, found)
                edge.rows.append(row)
        return []

    def _time_row(
        self, spans: list[TextSpan], timer: str | None, due: Mapping[str, Any] | None, tip: str, *, is_label: bool
    ) -> ArrowRow:
        row = _row(spans, is_label=is_label, tip=tip)
        if timer is None:
            return row
        if due is None:
            return ArrowRow(lines=row.lines, whole=row.whole, has_clock=True)
        self._shown.add(due["id"])
        said = self._when(due["due_at"])
        return ArrowRow(
            lines=(*row.lines, TextLine((TextSpan(said, "due"),))),
            whole=f"{row.whole}\n{said}",
            has_clock=True,
            is_pending=True,
        )

    def _note(self, due: Mapping[str, Any]) -> ArrowRow:
        event = due["event"].get("type", "?")
        target = f" to {due['target']}" if due.get("target") else ""
        spans = [TextSpan(one_line(f"{event}{target}"), "event")]
        if due["id"] != event:
            spans.append(TextSpan(f" ({one_line(str(due['id']))})", "tag"))
        spans.append(TextSpan(f"  {self._when(due['due_at'])}", "due"))
        lines = break_lines(spans, size=TEXT_SIZE, width_max=420, lines_max=3, bold=BOLD)
        return ArrowRow(lines=lines, whole="".join(span.text for span in spans), has_clock=True, is_pending=True)

    def _when(self, due_at: int) -> str:
        if self._now is None:
            return self._instant(due_at, with_day=True)
        now, due = (to_datetime(ms).astimezone(self._zone) for ms in (self._now, due_at))
        return f"{remaining_words(due_at - self._now)} · {self._instant(due_at, with_day=now.date() != due.date())}"

    def _instant(self, ms: int, *, with_day: bool) -> str:
        at = to_datetime(ms).astimezone(self._zone)
        return f"{at:%Y-%m-%d %H:%M:%S %Z}" if with_day else f"{at:%H:%M:%S %Z}"

    def _edge(self, source: Box, target: Box, *, kind: str = "way") -> Edge:
        key = (id(source), id(target))
        edge = self._edges.get(key)
        if edge is None:
            edge = self._edges[key] = Edge(source, target, kind=kind)
            edge.is_live = source.is_live and kind == "way"
            self._order.append(edge)
        return edge


def _in_order(words: str, way: Any, place: int, count: int) -> tuple[TextSpan, ...]:
    """What an event is called before one of its branches: which is asked first, and which is taken else."""
    if count < 2:
        return (TextSpan(words, "event"),)
    is_else = not (isinstance(way, Mapping) and way.get("guard") is not None) and place + 1 == count
    return (TextSpan(words, "event"), TextSpan(" else" if is_else else f" {place + 1}.", "word"))


def _events(
    node: ChartState, config: Mapping[str, Any], delays: Mapping[str, Any]
) -> Iterator[tuple[str, Any, str | None]]:
    """Each thing that can happen in a state: what it is called, the ways it opens, the id of its timer."""
    on = config.get("on") or {}
    for event in keys(on):
        yield ("any event" if event == "*" else one_line(event)), on[event], None
    if config.get("onDone") is not None:
        yield "done", config["onDone"], None
    for invoke, _ in list_items(config.get("invoke"), ""):
        for key, word in (("onDone", "done"), ("onError", "error"), ("onSnapshot", "snapshot")):
            if invoke.get(key) is not None:
                yield f"{word}: {one_line(str(invoke['src']))}", invoke[key], None
    after = config.get("after") or {}
    for delay, timer in zip(keys(after), node.after, strict=True):
        length = f" ({delay_words(delays[delay])})" if delay in delays else ""
        yield f"after {delay_words(delay)}{length}", after[delay], timer
    if config.get("always") is not None:
        yield "always", config["always"], None


def _row(spans: list[TextSpan], *, is_label: bool = False, tip: str = "") -> ArrowRow:
    lines = break_lines(
        spans,
        size=TEXT_SIZE,
        width_max=_LABEL_WIDTH if is_label else _ROW_WIDTH,
        lines_max=_LABEL_LINES if is_label else 3,
        bold=BOLD,
    )
    whole = "".join(span.text for span in spans)
    return ArrowRow(lines=lines, whole=f"{whole}\n{tip}" if tip else whole)
