"""Layer 5. From what JSON can say to what a method takes: by its annotations, before any turn begins.

A datetime is text of ISO 8601 (its seconds may be left out), a timedelta a number of seconds or text like "5m", a Decimal what was written, bytes are base64, an enum its value,
a dataclass or struct an object. A model of pydantic's is checked, and its fields go in. Where an annotation can't be resolved, or is of a kind that no JSON can become, the
value goes in as it came, and the method decides.
"""

import inspect
import json
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from wakeful.machines.event_shapes import EventShapes
from wakeful.operations.conversion import convert_json
from wakeful.operations.exact_numbers import (
    Number,
    convert_exactly,
    has_decimals,
    holds_numbers,
    to_decimals,
    to_floats,
)
from wakeful.runtime.registry import ObjectClass
from wakeful.values.codec import encode, fields_of
from wakeful.values.errors import BadTime, BadValue, message_of
from wakeful.values.packed import ALIKE_MAX, check_alike
from wakeful.values.timers import Run
from wakeful.values.times import duration_ms
from wakeful.values.weights import LIST, NAME, TYPED, VALUE, WEIGHT_MAX, too_heavy

# Does an annotation make sets or dicts of what a stranger sent, and would one of them be quadratic?
#
# Looked at in the value as it came, before it becomes one: every long list in it as the members of each set that the
# annotation has anywhere, and the names of every long object as the keys of each dict. See `values/packed.py`.

SEND, EVENT = "send", "event"  # the method of a machine that takes one of its `events`, and where
START = "start"  # the method of a workflow that takes what its `run` does
_SAFE = (str, bytes)  # their hashes are another in each process


def keys_in(hint: Any) -> tuple[Any, ...]:
    """What the sets and dicts of an annotation are made of, as deep as it says; without texts."""
    keys: list[Any] = []
    seen: set[int] = set()
    todo = [hint]
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        args, origin = get_args(one), get_origin(one) or one
        todo += args
        if isinstance(origin, type):
            if issubclass(origin, set | frozenset | dict) or origin.__module__ == "collections.abc":
                keys += [key for key in args[:1] if key not in _SAFE] if args else [Any]
            elif not args and origin.__module__ != "builtins":
                with suppress(Exception):  # names that are there for checkers only
                    todo += get_type_hints(origin).values()
    return tuple(keys)


def check_keys(value: Any, keys: tuple[Any, ...]) -> None:
    """`BadValue` when a long list or object in it would be slow as a set or a dict."""
    for members in _long(value):
        for key in keys:
            try:
                made = (
                    list(members)
                    if key is Any
                    else msgspec.convert(list(members), list.__class_getitem__(key), strict=False)
                )
                hash(tuple(made))
            except Exception:  # it is none of those, then; what it is instead is said when it is converted
                continue
            check_alike(made, "a set or dict of it")


def _long(value: Any) -> Iterator[Any]:
    """Every list, set and object in a value with more members than may be alike."""
    level = [value]
    while level:
        deeper: list[Any] = []
        for one in level:
            if len(one) > ALIKE_MAX:
                yield one
            inner = one.values() if type(one) is dict else one
            deeper += [item for item in inner if type(item) in _DEEP]
        level = deeper


_DEEP = frozenset({dict, list, tuple, set, frozenset})


Convert = Callable[[Any], Any]
# What msgspec says of texts, and what people can do about it.
_EXAMPLES = {
    "Invalid RFC3339 encoded datetime": "it is no datetime in ISO 8601, like 2030-01-01T09:00:00+00:00",
    "Invalid RFC3339 encoded date": "it is no date in ISO 8601, like 2030-01-01",
    "Invalid RFC3339 encoded time": "it is no time in ISO 8601, like 09:00:00",
    "Invalid ISO8601 duration": "it is no length of time, like 1m30s or PT90S",
}
ARGUMENTS_MAX = 1_000  # each is looked at by itself


class Parameter(NamedTuple):
    """One parameter of a method: what it is called, what it becomes, and whether it must be there."""

    name: str
    hint: Any  # `Any` when nothing is known
    convert: Convert | None
    is_needed: bool
    is_exact: bool = False  # it has a Decimal, for which numbers of JSON are kept as they were written


class Signature:
    """What a method takes."""

    def __init__(
        self,
        owner: str,
        name: str,
        function: Callable[..., Any],
        *,
        has_run: bool = False,
        events: EventShapes | None = None,
        body: Callable[..., Any] | None = None,
    ) -> None:
        """`has_run` leaves out the parameter that a schedule fills with its run; `events`: what it is given is one of these.

        `body`: it hands on what it is given to that, the body of a workflow, which says itself when there is too little of it.
        """
        self.what = f"{owner}.{name}"
        function = getattr(function, "__func__", function)
        hints = resolve_hints(function)
        parameters = list(inspect.signature(function).parameters.values())[1:]
        left_out = _run_of(parameters, hints) if has_run else None
        parameters = [one for one in parameters if one is not left_out]
        handed: list[inspect.Parameter] = []
        if body is not None:
            handed = list(inspect.signature(body).parameters.values())[2:]  # after self and step
            found = resolve_hints(body)
            hints |= {one.name: found.get(one.name, Any) for one in handed}
        self.by_place: list[Parameter] = []
        self.by_name: dict[str, Parameter] = {}
        self.rest: Parameter | None = None  # *args
        self.others: Parameter | None = None  # **kwargs
        self.only_place: set[str] = set()
        for parameter in (*parameters, *handed):
            made = _parameter(parameter, hints.get(parameter.name, Any))
            made = made._replace(is_needed=made.is_needed and parameter not in handed)
            if events is not None and parameter.name == EVENT:
                made = made._replace(convert=_event_converter(events, made.convert), is_exact=True)
            if parameter.kind is parameter.VAR_POSITIONAL:
                self.rest = made
            elif parameter.kind is parameter.VAR_KEYWORD:
                self.others = made
            else:
                if parameter.kind is not parameter.KEYWORD_ONLY:
                    self.by_place.append(made)
                if parameter.kind is parameter.POSITIONAL_ONLY:
                    self.only_place.add(parameter.name)
                else:
                    self.by_name[parameter.name] = made
        self.answer = hints.get("return", Any)
        every = (*self.by_place, *self.by_name.values(), self.rest, self.others)
        self.is_exact = any(one is not None and one.is_exact for one in every)  # a body is read with each `Number` kept
        is_free = not any(one.convert for one in (*self.by_place, self.rest) if one is not None)
        self.is_plain = is_free and not self.is_exact
        self._least = sum(one.is_needed for one in self.by_place)
        self._needs_names = any(one.is_needed for name, one in self.by_name.items() if one not in self.by_place)

    def read(self, value: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of what a body says: a list by place, an object by name, nothing for none."""
        if value is None:
            return self.convert((), {})
        if type(value) is list:
            return self.convert(value, {})
        if type(value) is dict:
            return self.convert((), value)
        raise BadValue(
            f"{self.what}: the body must be a list of arguments, or an object of them by name, not {_kind(value)}",
            code="arguments.body",
        )

    def convert(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments as the method takes them; `BadValue` names the one that is wrong, missing or too much."""
        if not kwargs and not self._needs_names and self.is_plain and self._least <= len(args) <= len(self.by_place):
            return tuple(args), {}
        self.check_count(args, kwargs)
        placed = [
            self._one(self.by_place[at] if at < len(self.by_place) else self.rest, at, value)
            for at, value in enumerate(args)
        ]
        named = {}
        for name, value in kwargs.items():
            known = self.by_name.get(name) or self.others
            named[name] = self._one(known, name, value)
        if weighs_more([placed, named], WEIGHT_MAX):  # a number may have become a member of an Enum, a text a time
            raise too_heavy(WEIGHT_MAX)
        return tuple(placed), named

    def read_texts(self, texts: Sequence[str]) -> list[Any]:
        """Arguments of a command line: each as JSON where that fits, else as the text that it is."""
        self.check_count(texts, {})
        places = [*self.by_place[: len(texts)], *[self.rest] * (len(texts) - len(self.by_place))]
        return [self._of_text(known, at, text) for at, (known, text) in enumerate(zip(places, texts, strict=True))]

    def _of_text(self, known: Parameter | None, place: int, text: str) -> Any:
        try:
            value = json.loads(text, parse_float=Number if known is not None and known.is_exact else None)
        except ValueError:
            return self._one(known, place, text)
        try:
            return self._one(known, place, value)
        except BadValue as error:
            with suppress(BadValue):
                return self._one(known, place, text)
            raise error

    def check_count(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """`BadValue` names what is missing, unknown or too much."""
        if len(args) + len(kwargs) > ARGUMENTS_MAX:
            raise BadValue(
                f"{self.what}: {len(args) + len(kwargs)} arguments, {ARGUMENTS_MAX} at most; "
                "give many values as one list",
                code="arguments.many",
            )
        if len(args) > len(self.by_place) and self.rest is None:
            raise BadValue(
                f"{self.what} takes {self._words()}, and {len(args)} were given by place", code="arguments.many"
            )
        given = {one.name for one in self.by_place[: len(args)]}
        for name in kwargs:
            if not isinstance(name, str) or (name not in self.by_name and self.others is None):
                raise BadValue(
                    f"{self.what} has no argument {str(name)[:60]!r}; it takes {self._words()}",
                    code="arguments.unknown",
                )
            if name in given:
                raise BadValue(f"{self.what}: {name!r} is given twice, by place and by name", code="arguments.twice")
        missing = [
            one.name
            for one in self.by_place[len(args) :]
            if one.is_needed and (one.name not in kwargs or one.name in self.only_place)
        ]
        missing += [
            name
            for name, one in self.by_name.items()
            if one.is_needed and one not in self.by_place and name not in kwargs
        ]
        if missing:
            raise BadValue(
                f"{self.what}: {missing[0]!r} is missing; it takes {self._words()}", code="arguments.missing"
            )

    def _one(self, known: Parameter | None, place: int | str, value: Any) -> Any:
        if known is None or (known.convert is None and not self.is_exact):
            return value
        try:
            if self.is_exact and (known.convert is None or not known.is_exact):
                value = to_decimals(value) if known.is_exact else to_floats(value)
            return value if known.convert is None else known.convert(value)
        except BadValue as error:
            if error.code == "value.alike":
                raise BadValue(f"{self.what}: argument {known.name!r}: {error.message}", code=error.code) from None
            raise self._wrong(known, place, error) from None
        except Exception as error:  # also whatever `__post_init__` of the program's own types raises
            raise self._wrong(known, place, error) from None

    def _wrong(self, known: Parameter, place: int | str, error: Exception) -> BadValue:
        said = message_of(error) or type(error).__name__
        for form, example in _EXAMPLES.items():
            said = said.replace(form, example)
        where = known.name if known.name in self.by_name or isinstance(place, int) else place
        return BadValue(f"{self.what}: argument {where!r}: {said}", code="arguments.type")

    def _words(self) -> str:
        names = [one.name for one in self.by_place] + [
            name for name, one in self.by_name.items() if one not in self.by_place
        ]
        names += [f"*{self.rest.name}"] if self.rest else []
        names += [f"**{self.others.name}"] if self.others else []
        return ", ".join(names) or "no arguments"


@lru_cache(maxsize=4_096)
def _signature(cls: type, owner: str, method: str, has_run: bool) -> Signature:
    declared = getattr(cls, "events", None) if method == SEND and getattr(cls, "chart", None) is not None else None
    events = EventShapes(owner, declared) if isinstance(declared, Mapping) else None
    if events is not None and not any(map(has_decimals, events.shapes.values())):
        events = None
    is_start = method == START and getattr(cls, "__wakeful_workflow__", False)
    body = getattr(cls, "run", None) if is_start else None
    return Signature(owner, method, getattr(cls, method), has_run=has_run, events=events, body=body)


def signature_of(known: ObjectClass, method: str, *, has_run: bool = False) -> Signature:
    """What the method takes, looked at once; `has_run`: from a schedule, which gives it its run besides."""
    return _signature(known.cls, known.name, method, has_run)


def _parameter(one: inspect.Parameter, hint: Any) -> Parameter:
    is_needed = one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    return Parameter(one.name, hint, converter(hint), is_needed, has_decimals(hint))


def _event_converter(events: EventShapes, convert: Convert | None) -> Convert:
    """Of an event that was read exactly, the fields as the class says; it is the machine that refuses what does not fit."""

    def convert_event(value: Any) -> Any:
        if type(value) is dict and holds_numbers(value):
            with suppress(BadValue):
                made = events.check(value, convert_exactly)
                value = {name: made[name] for name in value}  # without defaults: the machine may be of another version
        value = to_floats(value)
        return value if convert is None else convert(value)

    return convert_event


def _run_of(found: list[inspect.Parameter], hints: dict[str, Any]) -> inspect.Parameter | None:
    """The parameter that takes the run: by its annotation, else by its name."""
    annotated = [
        one for one in found if hints.get(one.name) is Run or set(get_args(hints.get(one.name))) == {Run, type(None)}
    ]
    return next(iter(annotated or [one for one in found if one.name == "run"]), None)


def converter(hint: Any) -> Convert | None:
    """How JSON becomes that; None when nothing is to be done, or nothing is known."""
    convert, keys = _converter(hint), keys_in(hint)
    if convert is None or not keys:
        return convert

    is_exact = has_decimals(hint)

    def wary(value: Any) -> Any:
        if type(value) in (list, dict, tuple, set, frozenset):
            check_keys(to_decimals(value) if is_exact else value, keys)
        return convert(value)

    return wary


def _converter(hint: Any) -> Convert | None:
    if hint is Any or hint is inspect.Parameter.empty:
        return None
    if not is_known(hint):
        return _model_converter(hint) if _has_model(hint) else None
    if hint is timedelta:
        return _length
    if get_origin(hint) in (Union, types.UnionType) and timedelta in get_args(hint):
        rest: Any = Union.__getitem__(tuple(one for one in get_args(hint) if one is not timedelta))
        return lambda value: _length_or(value, rest)
    if has_decimals(hint):
        return lambda value: convert_json(value, hint, convert_exactly)
    return lambda value: convert_json(value, hint, str_keys=True)  # as JSON has no other keys


def is_known(hint: Any) -> bool:
    """Nothing in it is of a kind that only the program can make."""
    try:
        _, components = msgspec.json.schema_components([hint])
    except Exception:  # of what the program's own types may raise, names that are there for checkers only
        return False
    return components is not None


def is_model(kind: Any) -> bool:
    """A model of pydantic's, known by what it can do: Wakeful itself does without it."""
    return isinstance(kind, type) and hasattr(kind, "model_validate") and hasattr(kind, "model_dump")


def _has_model(hint: Any) -> bool:
    return is_model(hint) or any(map(_has_model, get_args(hint)))


def _model_converter(hint: Any) -> Convert | None:
    """Checked by the models in it, and handed on as their fields: a model itself is no value. None in a union that can't be told apart."""
    is_exact = has_decimals(hint)

    def convert(value: Any) -> Any:
        value = to_decimals(value) if is_exact else value
        try:
            fields = _dump(convert_json(value, hint, str_keys=True, dec_hook=_validate))
        except NotImplementedError:  # beside the model is something that only the program can make
            return value
        try:
            encode(fields)
        except BadValue:  # a URL, a path, a secret: it is checked, and goes in as it came
            return value
        return fields

    try:
        msgspec.convert(None, hint, str_keys=True, dec_hook=_refuse)  # no validator of the program's runs for this
    except msgspec.ValidationError:
        pass
    except Exception:
        return None
    return convert


def _refuse(kind: Any, value: Any) -> Any:
    raise ValueError if is_model(kind) else NotImplementedError


def _validate(kind: Any, value: Any) -> Any:
    if not is_model(kind):
        raise NotImplementedError
    try:
        return kind.model_validate(value)
    except ValueError as error:
        with suppress(TypeError, ValueError):  # model_dump() has fields by name, whatever their aliases; pydantic 2.11
            return kind.model_validate(value, by_alias=True, by_name=True)
        found: list[Any] = getattr(error, "errors", list)()
        words = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}".removeprefix(": ") for one in found]
        raise ValueError("; ".join(words) or str(error)) from None


def _dump(value: Any) -> Any:
    if is_model(type(value)):
        return value.model_dump()
    if type(value) in (list, tuple):
        return type(value)(map(_dump, value))
    return {name: _dump(one) for name, one in value.items()} if type(value) is dict else value


def _length(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str) and value[:2].lstrip("-").startswith("P"):
        return msgspec.convert(value, timedelta)
    try:
        return timedelta(milliseconds=duration_ms(value))
    except BadTime as error:
        raise BadTime(error.message.replace("give a timedelta, seconds", "give seconds"), code=error.code) from None


def _length_or(value: Any, rest: Any) -> Any:
    try:
        return convert_json(value, rest, convert_exactly)
    except msgspec.ValidationError:
        return _length(to_floats(value))


def resolve_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations that can be resolved, each by itself: one that can't must not hide the others."""
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:
        pass
    hints = {}
    for name, hint in getattr(function, "__annotations__", {}).items():
        holder = types.SimpleNamespace(__annotations__={name: hint}, __module__=getattr(function, "__module__", None))
        try:
            hints[name] = get_type_hints(holder, getattr(function, "__globals__", {}), include_extras=True)[name]
        except Exception:
            continue
    return hints


def _kind(value: Any) -> str:
    return {str: "text", bool: "a boolean", int: "a number", float: "a number"}.get(type(value), type(value).__name__)


# What do arguments weigh, once they are of the types that a method takes?
#
# A number may have become a member of an Enum, a text a time.

_SCALARS: frozenset[Any] = frozenset({type(None), bool, int, float, str, bytes})


def weighs_more(value: Any, most: int) -> bool:
    """Than so much; looks no further then."""
    weight, todo = 0, [value]
    while todo and weight <= most:
        item = todo.pop()
        kind = type(item)
        if kind in _SCALARS:
            weight += VALUE
        elif kind in _DEEP:
            weight += _weight_around(item)
            todo += _unlike(item)
            if kind is dict:
                todo += _unlike(item.values())
        else:
            weight += TYPED
            todo += fields_of(item).values()
    return weight > most


def _weight_around(value: Any) -> int:
    """Of a list, set or object, with the plain values in it."""
    if type(value) is list:
        return LIST + VALUE * len(value)
    if type(value) is dict:
        return LIST + (NAME + VALUE) * len(value)
    return TYPED + 2 * VALUE * len(value)


def _unlike(values: Iterable[Any]) -> list[Any]:
    """Those that are more than plain values."""
    return [] if _SCALARS.issuperset(map(type, values)) else [one for one in values if type(one) not in _SCALARS]
