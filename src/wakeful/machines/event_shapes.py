"""Layer 4. Which events may a machine be sent, and what do they carry? What the class says in `events`, looked at once.

A shape is a dataclass, a `TypedDict` or a msgspec `Struct` of what an event carries beside its type, or None for nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import msgspec

from wakeful.values.errors import BadChart, BadValue

REFS = "#/components/schemas/{name}"
_FIELDED = (msgspec.inspect.StructType, msgspec.inspect.DataclassType, msgspec.inspect.TypedDictType)
# Made of what a stranger sent, one of these can be quadratic; see `values/packed.py`.
_SETS = (msgspec.inspect.SetType, msgspec.inspect.FrozenSetType)
SAID_MAX = 400  # characters of what is wrong: it may quote what was sent


class EventShapes:
    """The events that a machine takes from callers, by their types."""

    def __init__(self, name: str, events: Any) -> None:
        self._name = name
        if not isinstance(events, Mapping):
            raise BadChart(
                f"{name}.events must be a dict of shapes by event types, not {events!r}", code="machine.events"
            )
        self.shapes: dict[str, Any] = dict(events)
        self._fields = {type: _fields(name, type, shape) for type, shape in self.shapes.items()}

    def check_type(self, type: str) -> None:
        """`BadValue` unless it takes events of that type."""
        if type not in self.shapes:
            raise BadValue(
                f"{self._name} takes no event {type[:60]!r}; it takes {', '.join(self.shapes)}", code="event.unknown"
            )

    def check(self, event: dict[str, Any], convert: Callable[..., Any] = msgspec.convert) -> dict[str, Any]:
        """The event with its fields as their annotations say; `BadValue` names the one that does not fit."""
        type = event["type"]
        self.check_type(type)
        given = {name: value for name, value in event.items() if name != "type"}
        unknown = next((name for name in given if name not in self._fields[type]), None)
        if unknown is not None:
            known = ", ".join(self._fields[type]) or "nothing"
            raise BadValue(
                f"event {type!r} of {self._name} has no field {str(unknown)[:60]!r}; it carries {known}",
                code="event.fields",
            )
        if self.shapes[type] is None:
            return event
        try:
            made = convert(given, self.shapes[type], str_keys=True)
        except msgspec.ValidationError as error:
            words = str(error)[:SAID_MAX]
            raise BadValue(f"event {type!r} of {self._name} does not fit: {words}", code="event.fields") from None
        return {"type": type, **_plain(made)}

    def schema(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The JSON Schema of an event, and what it names, under the machine's name."""
        shapes = [shape for shape in self.shapes.values() if shape is not None]
        _, components = msgspec.json.schema_components(shapes, ref_template=REFS.format(name=f"{self._name}.{{name}}"))
        schemas, _ = msgspec.json.schema_components(shapes)
        ways: list[dict[str, Any]] = []
        for type, shape in self.shapes.items():
            fields: dict[str, Any] = {}
            if shape is not None:
                fields = components[schemas[shapes.index(shape)]["$ref"].rpartition("/")[2]]
            needed = list(fields.get("required", ()))
            if not needed:
                ways.append({"const": type})
            ways.append(
                {
                    "title": type,
                    "type": "object",
                    "properties": {"type": {"const": type}, **fields.get("properties", {})},
                    "required": ["type", *needed],
                    "additionalProperties": False,
                }
            )
        return {"anyOf": ways}, {f"{self._name}.{name}": one for name, one in components.items()}


def _plain(value: Any) -> Any:
    """Shapes as dicts, all fields included: msgspec's own way leaves out those of dataclasses that have their defaults."""
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        return {spelled: _plain(getattr(value, name)) for name, spelled in names}
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def _fields(name: str, type: Any, shape: Any) -> tuple[str, ...]:
    """What an event of that type may carry."""
    if not isinstance(type, str) or type in ("", "*") or type.startswith("xstate."):
        raise BadChart(f"{name}.events: {type!r} is no event's type", code="machine.events")
    if shape is None:
        return ()
    try:
        info = msgspec.inspect.type_info(shape)
    except Exception as error:
        raise BadChart(f"{name}.events: {type!r}: {error}", code="machine.events") from None
    if not isinstance(info, _FIELDED):
        raise BadChart(
            f"{name}.events: {type!r} must be a dataclass, a TypedDict, a msgspec Struct or None, not {shape!r}",
            code="machine.events",
        )
    if any(isinstance(one, _SETS) or _has_odd_keys(one) for one in _all_within(info)):
        raise BadChart(
            f"{name}.events: {type!r}: a list is what JSON has, and no set or dict by anything but texts",
            code="machine.events",
        )
    names = tuple(field.encode_name for field in info.fields)
    if "type" in names:
        raise BadChart(
            f"{name}.events: {type!r}: its type stands beside its fields; leave it out", code="machine.events"
        )
    return names


def _all_within(info: Any) -> list[Any]:
    """A type and all that it is made of, as deep as it says."""
    seen: list[Any] = []
    todo = [info]
    while todo:
        one = todo.pop()
        if any(one is other for other in seen):
            continue
        seen.append(one)
        todo += [field.type for field in getattr(one, "fields", ())]
        todo += [*getattr(one, "types", ()), *getattr(one, "item_types", ())]
        todo += [inner for part in ("item_type", "value_type") if (inner := getattr(one, part, None)) is not None]
    return seen


def _has_odd_keys(info: Any) -> bool:
    return isinstance(info, msgspec.inspect.DictType) and not isinstance(info.key_type, msgspec.inspect.StrType)
