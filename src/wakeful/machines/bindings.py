"""Layer 4. From a class with a chart to something that can run: what do the names in it stand for?

Everything is looked at once, when the class is registered. A name that nothing stands for, a method of the wrong kind
or a chart that makes no sense is refused there, with its place in the chart.
"""

import inspect
import json
import keyword
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from wakeful.machines.event_shapes import EventShapes
from wakeful.machines.marks import MARK, NAME
from wakeful.policy.retry import Retry, RetryPolicy
from wakeful.statechart.chart import Chart
from wakeful.statechart.fields import Implementations
from wakeful.statechart.losses import refuse_losses
from wakeful.values.errors import BadChart, BadOption, MissingExtra

RESUMES = ("deadline", "restart", "pause_while_down")
ON_CRASH = ("again", "error")
UNFOLDED_MAX = 100_000  # values of a file in YAML: far more than a chart of a thousand states has
# What a machine is by itself: no names for a chart.
OWN = frozenset({"chart", "version", "resume", "on_crash", "retry", "events", "migrate", "visible", "audible"})
OWN |= {"start", "send", "snapshot", "can", "reset", "sender"}


# By what the chart lacks: the mark of a method that stands for it, and how the method is written.
_WANTED = {
    "guard": (("@guard", "def {name}(self, context, event)"),),
    "action or assignment": (
        ("@action", "async def {name}(self, context, event)"),
        ("@assign", "def {name}(self, context, event)"),
    ),
    "actor": (("@actor", "async def {name}(self, context, event)"),),
    "value": (("@value", "def {name}(self, context, event)"),),
    "delay": (("@value", "def {name}(self, context, event)"),),
}
_NEEDLESS = ("@actor", "@value")  # where the method has the very name that the chart has


class Bound:
    """A machine's class, ready to run."""

    def __init__(self, name: str, cls: type, children: Callable[[str], bool]) -> None:
        self.name = name
        self.cls = cls
        self.version = _version(name, cls)
        self.resume = _one_of(name, cls, "resume", RESUMES)
        self.on_crash = _one_of(name, cls, "on_crash", ON_CRASH)
        self.retry = _retry(name, cls)
        declared = getattr(cls, "events", None)
        self.events = None if declared is None else EventShapes(name, declared)
        self.config = config_of(name, cls)
        self._instance: Any = None  # whose methods the names stand for while a step runs, which never waits
        self._attributes = _attributes(name, cls)  # by their names in the chart: how they are called in the class
        self._methods = {found: inspect.getattr_static(cls, one) for found, one in self._attributes.items()}
        self.actors = {
            found
            for found, method in self._methods.items()
            if inspect.iscoroutinefunction(method) and _mark(method) in (None, "actor", "callback")
        }
        self.callbacks = {found for found, method in self._methods.items() if _mark(method) == "callback"}
        self.doings = {found for found, method in self._methods.items() if _mark(method) == "action"}
        # The delays of which the length is known without asking an object.
        self.lengths = {
            found: value
            for found, value in self._methods.items()
            if isinstance(value, int | float | str) and not isinstance(value, bool)
        }
        self._is_child = children
        self._hide_actors()
        config = self.config if "id" in self.config else {"id": name, **self.config}
        names = self._implementations()
        try:
            self.chart = Chart.of(config, implementations=names)
            refuse_losses(config)
        except BadChart as error:
            raise self._explain(config, error) from None
        # The actors that it may have; None: also others, under ids that are not in the chart.
        self.invoked = {id for node in self.chart.nodes for id in node.invokes}
        self.spawned = _spawned_ids(self.config, names.enqueues)
        # The events of its `after`s, by which a snapshot is known to be of this chart.
        self.delays = {type for node in self.chart.nodes for type in node.exact if type.startswith("xstate.after.")}

    def with_instance(self, instance: Any) -> "Bound":
        """The same, acting for this object: until the next call, and a step never waits."""
        self._instance = instance
        return self

    def is_child(self, src: str) -> bool:
        """The name of an actor is that of another machine, not of a method."""
        return src not in self.actors and (src == self.name or self._is_child(src))

    def method(self, name: str, instance: Any, *args: Any) -> Any:
        """Call a method of the object with as many of the arguments as it takes."""
        return _call(getattr(instance, self._attributes[name]), args)

    def _explain(self, config: Mapping[str, Any], error: BadChart) -> BadChart:
        """The same error for who wrote the class; where functions were lost, that is what is wrong."""
        if error.code not in ("chart.depth", "chart.unbound"):
            try:
                refuse_losses(config)
            except BadChart as loss:
                error = loss
        hint = self._hint(*vars(error).get("missing", ("", "")))
        return BadChart(f"{self.name}.chart: {error.message}{hint}", code=error.code)

    def _hint(self, kind: str, name: str) -> str:
        """What to write so that something stands for the name."""
        if not kind:
            return ""
        wanted = "` or `".join(_method_form(self.cls, mark, form, name) for mark, form in _WANTED[kind])
        method = self._methods.get(name)
        if method is None:
            home = next((f" ({mark[1:]} is in wakeful.machine)" for mark in _NEEDLESS if f"{mark}(" in wanted), "")
            others = "" if kind != "actor" else f", or register the machine {name!r} before {self.name}"
            return f"; give {self.name} `{wanted}`{home}{others}"
        mark = _mark(method)
        is_async = inspect.iscoroutinefunction(method)
        is_what = f"{_article(mark)} @{mark}" if mark else "an `async def`" if is_async else "a plain method"
        return f"; {self.name}.{self._attributes[name]} is {is_what}: make it `{wanted}`"

    def _hide_actors(self) -> None:
        """What the chart invokes is not for callers, who send it events."""
        for src in {*_sources(self.config)}:
            if src in self.actors and self._attributes[src] in vars(self.cls):
                self._methods[src].__wakeful_internal__ = True

    def _implementations(self) -> Implementations:
        by_kind: dict[str, dict[str, Any]] = {"guard": {}, "assign": {}, "action": {}}
        for name, method in self._methods.items():
            kind = _mark(method)
            if kind is not None:
                _check_kind(self.name, self._attributes[name], method, kind)
            if kind in by_kind:
                by_kind[kind][name] = self._bridge(name)
        plain = {
            name: self._bridge(name)
            for name, method in self._methods.items()
            if inspect.isfunction(method) and not inspect.iscoroutinefunction(method) and not _mark(method)
        }
        return Implementations(
            guards=by_kind["guard"],
            assigns=by_kind["assign"],
            actions=set(by_kind["action"]),
            enqueues=plain,
            delays={**self.lengths, **plain},
            actors=_Actors(self),
            values=plain,
        )

    def _bridge(self, name: str) -> Callable[..., Any]:
        attribute = self._attributes[name]

        def call(context: Any, event: Any, params: Any = None, *more: Any) -> Any:
            return _call(getattr(self._instance, attribute), (context, event, params, *more))

        return call


class _Actors:
    """Names of actors: methods of the class, or other machines, which may be registered later."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._bound.actors or self._bound.is_child(name))

    def __iter__(self) -> Any:
        return iter(sorted(self._bound.actors))

    def __len__(self) -> int:
        return len(self._bound.actors)


def _call(method: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return method(*args[: _most(getattr(method, "__func__", method), hasattr(method, "__self__"))])


@lru_cache(maxsize=4_096)  # and not more: classes that are replaced, as by a notebook, are let go some day
def _most(function: Callable[..., Any], is_bound: bool) -> int | None:
    """How many arguments it takes beside the object that it is bound to; None: any number."""
    parameters = inspect.signature(function).parameters.values()
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return None
    return len(parameters) - is_bound


def _mark(method: Any) -> str | None:
    return getattr(method, MARK, None) if callable(method) else None


def _attributes(name: str, cls: type) -> dict[str, str]:
    """What a class has for its chart: how it is called there, and what that is in the class."""
    taken = _own_names(cls)
    by_name: dict[str, str] = {}
    for attribute in (one for one in dir(cls) if not one.startswith("__")):
        member = inspect.getattr_static(cls, attribute)
        said, mark = getattr(member, NAME, None), _mark(member)
        if attribute in taken and (said or mark):
            form = f'@{mark or "value"}("{said or attribute}")'
            raise BadChart(
                f"{name}.{attribute}: every machine has {attribute!r} for itself; call the method "
                f"{_method_name(cls, attribute)!r} and put {form} on it: so the chart finds it by that name",
                code="chart.name",
            )
        if attribute in taken:
            continue
        called = said or attribute
        if called in by_name:
            first = by_name[called]
            raise BadChart(
                f"{name}: {first} and {attribute} both stand for {called!r} in the chart; give one another name",
                code="chart.name",
            )
        by_name[called] = attribute
    return by_name


def _own_names(cls: type) -> set[str]:
    """What our base classes have under names of their own, which no method may take."""
    return {*OWN, *(one for base in cls.__mro__ for one in vars(base).get("__wakeful_names__", ()))}


def _method_name(cls: type, name: str) -> str:
    """A name that a method can have, for one in a chart."""
    plain = re.sub(r"\W+", "_", name).strip("_") or "it"
    is_free = plain.isidentifier() and not keyword.iskeyword(plain) and plain not in _own_names(cls)
    return plain if is_free else f"do_{plain}"


def _method_form(cls: type, mark: str, form: str, name: str) -> str:
    """How a method is written that stands for a name."""
    method = _method_name(cls, name)
    said = form.format(name=method)
    if method != name:
        return f"{mark}({json.dumps(name, ensure_ascii=False)}) {said}"
    return said if mark in _NEEDLESS else f"{mark} {said}"


def _article(mark: str) -> str:
    return "an" if mark[0] == "a" else "a"


_ASYNC = ("action", "actor", "callback")


def _check_kind(cls: str, name: str, method: Any, kind: str) -> None:
    is_async = inspect.iscoroutinefunction(method)
    if kind in _ASYNC and not is_async:
        raise BadChart(
            f"{cls}.{name}: {_article(kind)} @{kind} does something in the world, so it must be `async def`",
            code="chart.method",
        )
    if kind not in _ASYNC and is_async:
        raise BadChart(
            f"{cls}.{name}: a @{kind} is pure, so it can't be `async def`; make it a plain `def`", code="chart.method"
        )
    count = len(inspect.signature(method).parameters)
    if kind == "callback" and count != 4:
        raise BadChart(
            f"{cls}.{name}: a @callback takes (self, input, send_back, receive), not {count} parameters",
            code="chart.method",
        )
    if not 2 <= count <= 4:
        more = "input" if kind == "actor" else "params"
        raise BadChart(
            f"{cls}.{name}: a @{kind} takes (self, context, event) or (self, context, event, {more}), not {count} parameters",
            code="chart.method",
        )


def _each(config: Any) -> Iterator[Any]:
    """Everything in a chart, however deep."""
    yield config
    inside = config.values() if isinstance(config, Mapping) else config if isinstance(config, list | tuple) else ()
    for one in inside:
        yield from _each(one)


# Where in a chart states, transitions and actions are; elsewhere is data, which may look like anything.
_PARTS = frozenset({"invoke", "entry", "exit", "always", "initial", "route", "onDone", "onError", "onSnapshot"})
_PARTS |= {"actions", "else"}
_NAMED = frozenset({"states", "on", "after"})  # the same, each under a name of its own
_SPAWN = ("xstate.spawnChild", "spawnChild")


def _sources(config: Any) -> Iterator[str]:
    """The names of all actors in a chart."""
    for node in _list_of(config):
        if not isinstance(node, Mapping):
            continue
        kind, params = node.get("type"), node.get("params")
        if isinstance(kind, str) and kind.startswith("xstate.") and isinstance(params, Mapping):
            node = {**node, **params}
        starts = [node] if kind in _SPAWN else _list_of(node.get("invoke"))
        yield from (
            start["src"] for start in starts if isinstance(start, Mapping) and isinstance(start.get("src"), str)
        )
        for key, part in node.items():
            inside = part.values() if key in _NAMED and isinstance(part, Mapping) else [part] if key in _PARTS else ()
            for inner in inside:
                yield from _sources(inner)


def _list_of(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _spawned_ids(config: Any, enqueues: Collection[str]) -> set[str] | None:
    """The ids under which actions of a chart start actors; None when that is decided as it runs."""
    ids = set()
    for action in _each(config):
        kind = action.get("type") if isinstance(action, Mapping) else action
        if isinstance(kind, str) and kind in enqueues:
            return None
        if isinstance(action, Mapping) and kind in _SPAWN:
            id = {**action, **(action.get("params") or {})}.get("id")
            if not isinstance(id, str):
                return None
            ids.add(id)
    return ids


def _version(name: str, cls: type) -> int:
    version = getattr(cls, "version", 1)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise BadOption(f"{name}.version must be a whole number from 1, not {version!r}", code="chart.version")
    return version


def _one_of(name: str, cls: type, option: str, known: tuple[str, ...]) -> str:
    value = getattr(cls, option, known[0])
    if value not in known:
        raise BadOption(f"{name}.{option} must be one of {', '.join(known)}, not {value!r}", code=f"chart.{option}")
    return str(value)


def _retry(name: str, cls: type) -> Retry:
    retry = getattr(cls, "retry", None)
    if retry is None:
        return Retry()
    if not isinstance(retry, RetryPolicy):
        raise BadOption(f"{name}.retry must be a RetryPolicy(…), not {retry!r}", code="chart.retry")
    return retry.kept


def config_of(name: str, cls: type) -> dict[str, Any]:
    """The chart that a class gives, or that is in the file it names."""
    chart = getattr(cls, "chart", None)
    if isinstance(chart, Mapping):
        return dict(_text_keys(chart))
    if not isinstance(chart, str | Path):
        raise BadChart(
            f"{name}.chart must be a dict, or the path of a .json or .yaml file, not {chart!r}", code="chart.type"
        )
    path = Path(chart)
    if not path.is_absolute():
        path = Path(inspect.getfile(cls)).parent / path  # beside the program, wherever it is started
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadChart(f"{name}.chart: {path} can't be read: {error.strerror}", code="chart.file") from None
    try:
        config = json.loads(text, object_pairs_hook=_Pairs) if path.suffix == ".json" else _yaml(text)
        _refuse_twice(config, "")
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise BadChart(f"{name}.chart: {path} can't be read as {path.suffix[1:]}: {why}", code="chart.file") from None
    if not isinstance(config, dict):
        raise BadChart(f"{name}.chart: {path} holds no chart but {type(config).__name__}", code="chart.file")
    return dict(_text_keys(config))


class _Pairs(dict[str, Any]):
    """A mapping that was read from JSON, and which of its keys were there before."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice = _twice([key for key, _ in pairs])


def _twice(keys: list[str]) -> str | None:
    """The first key that is there twice; readers keep the last, and a state would be gone without a word."""
    return (
        next((key for place, key in enumerate(keys) if key in keys[:place]), None) if len({*keys}) < len(keys) else None
    )


def _refuse_twice(config: Any, path: str) -> None:
    if isinstance(config, _Pairs) and config.twice is not None:
        raise ValueError(f"{path}{config.twice}: it is there twice")
    inside = config.items() if isinstance(config, dict) else enumerate(config) if isinstance(config, list) else ()
    for key, one in inside:
        _refuse_twice(one, f"{path}{key}.")


def _text_keys(config: Any) -> Any:
    """The same with the numbers among the keys of `after` as JSON would have them."""
    if isinstance(config, list):
        return [_text_keys(one) for one in config]
    if not isinstance(config, Mapping):
        return config
    found = {key: _text_keys(value) for key, value in config.items()}
    after = found.get("after")
    if isinstance(after, dict):
        found["after"] = {str(key) if type(key) is int else key: value for key, value in after.items()}
    return found


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise MissingExtra("charts in YAML need PyYAML; pip install pyyaml, or use JSON", code="extra.yaml") from None

    class Loader(yaml.SafeLoader):  # type: ignore[misc, unused-ignore]
        """In YAML of old, `on` is a truth value; in a chart it is where the events are."""

        def construct_document(self, node: Any) -> Any:
            if _count_unfolded(node, {}) > UNFOLDED_MAX:
                raise ValueError(f"with its aliases written out it has more than {UNFOLDED_MAX:,} values")
            _refuse_twice(_pairs(node), "")
            return super().construct_document(node)

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in known if not tag.endswith(":bool") or first in "tTfF"]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        return yaml.load(text, Loader)  # a safe one, see above
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _count_unfolded(node: Any, sizes: dict[int, int]) -> int:
    """How many values a node of YAML stands for, its aliases written out: some lines of them can stand for billions."""
    if isinstance(node.value, str):
        return 1
    known = sizes.get(id(node))
    if known == 0:
        raise ValueError("an alias stands inside of what it stands for")
    if known is None:
        sizes[id(node)] = 0
        inside = [one for pair in node.value for one in pair] if node.id == "mapping" else node.value
        known = sizes[id(node)] = 1 + sum(_count_unfolded(one, sizes) for one in inside)
    return known


def _pairs(node: Any) -> Any:
    """A node of YAML as far as its keys go."""
    if isinstance(node.value, str):
        return None
    if node.id == "mapping":
        return _Pairs([(str(key.value), _pairs(one)) for key, one in node.value if key.tag[-6:] != ":merge"])
    return [_pairs(one) for one in node.value]
