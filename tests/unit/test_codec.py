"""Values come back exactly as they were, or are refused with the place that is to blame."""

import dataclasses
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.values.codec import RESTS, copy_value, decode, decode_loosely, encode, rebuild
from wakeful.values.errors import BadValue, Undecodable


@dataclasses.dataclass
class Point:
    x: int
    y: list[Any]
    hidden: int = dataclasses.field(default=3, init=False)


@dataclasses.dataclass(frozen=True)
class Frozen:
    when: datetime


class Packed(msgspec.Struct):
    name: str
    inner: Point


class Loud(StrEnum):
    YES = "yes"


class Size(IntEnum):
    BIG = 3


class Colour(Enum):
    RED = 1


PARIS = ZoneInfo("Europe/Paris")
EXACT = [
    None, True, False, 0, -1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**60, -(10**60), 0.0, 1.5, -1e308, math.inf,
    "", "text", "nul\0", "😀", b"", b"\x00\xff", datetime(2026, 1, 1), datetime(2026, 1, 1, 2, 3, 4, 567891, tzinfo=UTC),
    datetime(2026, 10, 25, 2, 30, tzinfo=timezone(timedelta(hours=5, minutes=45))), date(1, 1, 1), time(23, 59, 59, 999999),
    timedelta(days=-999, microseconds=1), timedelta.max, UUID(int=2**128 - 1), Decimal("1.10"), Decimal("-0E+10"),
    [], [1, [2, [3]]], {}, {"a": {"b": None}}, {1: "int", b"b": 1, None: 2}, {(1, 2): "tuple key", UUID(int=1): 2},
    (), (1, (2,)), {1, 2}, frozenset({3}), Point(1, [Decimal(1)]), Frozen(datetime(2026, 1, 1, tzinfo=UTC)),
    Packed("n", Point(2, [{"deep": (1,)}])), Colour.RED, {Colour.RED: [Loud.YES, Size.BIG]},
]  # fmt: skip


@pytest.mark.parametrize("value", EXACT, ids=repr)
def test_a_value_comes_back_equal_and_of_the_same_type(value: object) -> None:
    found = decode(encode(value))
    assert found == value
    assert type(found) is type(value)


def test_nan_and_minus_zero_come_back() -> None:
    assert math.isnan(decode(encode(math.nan)))
    assert math.copysign(1, decode(encode(-0.0))) == -1


@pytest.mark.parametrize("fold", [0, 1])
def test_a_zone_keeps_its_name_and_the_hour_that_happens_twice_its_fold(fold: int) -> None:
    value = datetime(2026, 10, 25, 2, 30, tzinfo=PARIS, fold=fold)
    found = decode(encode(value))
    assert (found.tzinfo.key, found.fold, found.timestamp()) == ("Europe/Paris", fold, value.timestamp())


def test_a_field_that_the_constructor_does_not_take_comes_back() -> None:
    point = Point(1, [])
    point.hidden = 9
    assert decode(encode(point)).hidden == 9


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.datetimes(timezones=st.sampled_from([None, UTC, PARIS]))
    | st.timedeltas()
    | st.uuids()
    | st.decimals(allow_nan=False),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.integers() | st.uuids(), inner) | st.lists(inner).map(tuple)
    ),
    max_leaves=20,
)


@given(PLAIN)
def test_any_plain_value_comes_back(value: object) -> None:
    assert decode(encode(value)) == value


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (object(), "value is a builtins.object"),
        ({"a": [1, object()]}, "value['a'][1] is a"),
        ([{"x": {2: print}}], "value[0]['x'][2] is a"),
        (Point(1, [{print}]), "value.y[0][0] is a"),
        ({print: 1}, "key <built-in function print> of value is a"),
        ([lambda: None], "value[0] is a"),
    ],
)
def test_what_can_not_be_stored_is_named_with_its_place(value: object, where: str) -> None:
    with pytest.raises(BadValue) as caught:
        encode(value)
    assert where in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_is_refused_with_the_remedy() -> None:
    class Item:
        def model_dump(self) -> dict[str, Any]:
            return {}

    with pytest.raises(
        BadValue, match=r"value\['a'\]\[0\] is a .*Item, a model and not plain data; give its model_dump\(\)"
    ):
        encode({"a": [Item()]})


def test_a_foreign_time_zone_is_refused_with_the_remedy() -> None:
    class Odd(timezone.__base__):  # type: ignore[misc,name-defined]
        def utcoffset(self, when: datetime | None) -> timedelta | None:
            return None if when is None else timedelta(hours=1)

    class Broken(timezone.__base__):  # type: ignore[misc,name-defined]
        def utcoffset(self, when: datetime | None) -> timedelta:
            return timedelta(hours=when.hour)  # type: ignore[union-attr]

    for zone in (Odd(), Broken()):
        with pytest.raises(BadValue, match="use zoneinfo"):
            encode({"at": datetime(2026, 1, 1, tzinfo=zone)})


def test_a_zone_of_a_single_offset_is_that_offset_whoever_made_it() -> None:
    class Parsed(timezone.__base__):  # type: ignore[misc,name-defined]
        def utcoffset(self, when: datetime | None) -> timedelta:
            return timedelta(hours=5, minutes=45)

    at = datetime(2026, 10, 25, 2, 30, tzinfo=Parsed(), fold=1)
    found = decode(encode({"at": at}))["at"]
    assert (found, found.isoformat(), found.fold) == (at, at.isoformat(), 1)
    assert type(found.tzinfo) is timezone


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(BadValue, match="nested too deeply"):
        encode(loop)


def test_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(BadValue):
        encode(["\ud800"])


def test_a_copy_shares_nothing_that_can_change() -> None:
    value = {"a": [1]}
    found = copy_value(value)
    found["a"].append(2)
    assert value == {"a": [1]}
    text = "same"
    assert copy_value(text) is text


def test_the_form_is_pinned_so_that_old_rows_stay_readable() -> None:
    assert encode({"a": [1, "x", None]}) == bytes.fromhex("0181a1619301a178c0")
    assert encode(Decimal("1.10")) == bytes.fromhex("01c70507a4312e3130")
    assert encode(2**64) == bytes.fromhex("01c70b01c409010000000000000000")


def test_another_version_and_damaged_bytes_are_typed_errors() -> None:
    with pytest.raises(Undecodable, match="upgrade Wakeful"):
        decode(b"\x02\x01")
    with pytest.raises(Undecodable, match="damaged"):
        decode(b"\x01\xc7")
    with pytest.raises(Undecodable, match="extension type 99"):
        decode(b"\x01" + msgspec.msgpack.encode(msgspec.msgpack.Ext(99, b"\x01")))


def test_a_type_that_is_not_loaded_is_named_and_never_imported() -> None:
    data = encode(Point(1, [])).replace(b"Point", b"Pxint")
    with pytest.raises(Undecodable, match="Pxint, which is not loaded here; import its module"):
        decode(data)
    assert decode_loosely(data) == {"$type": "Pxint", "x": 1, "y": [], "hidden": 3}


def test_only_dataclasses_and_structs_are_built_from_stored_names() -> None:
    inner = msgspec.msgpack.encode(["subprocess:Popen", {"args": ["true"]}])
    with pytest.raises(Undecodable, match="not loaded"):
        decode(b"\x01" + msgspec.msgpack.encode(msgspec.msgpack.Ext(11, inner)))


def test_a_member_of_an_enum_is_found_by_its_value_or_refused() -> None:
    data = encode(Colour.RED)
    assert decode_loosely(data) == Colour.RED.value
    with pytest.raises(Undecodable, match="not one of its members any more"):
        decode(data[:-1] + b"\x07")


def _newer(value: object, **more: Any) -> bytes:
    """The value as a program would have written it whose class has these fields more; raw ones may be of any kind."""
    name = f"{type(value).__module__}:{type(value).__qualname__}"
    known = decode_loosely(encode(value))
    del known["$type"]
    inner = msgspec.msgpack.encode([name, {**more, **known}])
    return b"\x01" + msgspec.msgpack.encode([msgspec.msgpack.Ext(11, inner)])


def test_fields_that_a_class_does_not_have_go_out_again_with_the_very_object() -> None:
    strange = msgspec.msgpack.Ext(11, msgspec.msgpack.encode(["nowhere:Thing", {"n": 1}]))
    data = _newer(Point(1, []), colour="red", thing=strange, newest=msgspec.msgpack.Ext(99, b"\x01"))
    (point,) = decode(data)
    assert point == Point(1, [])
    point.x = 2
    (raw,) = msgspec.msgpack.decode(encode([{"moved": point}])[1:])
    fields = msgspec.msgpack.decode(raw["moved"].data)[1]
    assert (fields["x"], fields["colour"], fields["newest"].code) == (2, "red", 99)
    assert (fields["thing"].code, fields["thing"].data) == (strange.code, strange.data)
    assert encode(dataclasses.replace(point)) == encode(Point(2, []))
    key = id(point)
    del point
    assert key not in RESTS


def test_a_type_that_is_not_loaded_is_refused_where_somebody_would_read_it() -> None:
    strange = msgspec.msgpack.Ext(11, msgspec.msgpack.encode(["nowhere:Thing", {"n": 1}]))
    inner = msgspec.msgpack.encode([f"{__name__}:Point", {"x": 1, "y": [strange], "more": 1}])
    with pytest.raises(Undecodable, match="nowhere:Thing, which is not loaded here"):
        decode(b"\x01" + msgspec.msgpack.encode(msgspec.msgpack.Ext(11, inner)))


def test_what_can_not_be_read_deep_inside_is_refused_at_once() -> None:
    raw = msgspec.msgpack.Ext(11, msgspec.msgpack.encode(["nowhere:Thing", {}]))
    for _ in range(40):  # to try each level twice would take until the end of days
        raw = msgspec.msgpack.Ext(11, msgspec.msgpack.encode([f"{__name__}:Point", {"x": 1, "y": raw, "more": 1}]))
    with pytest.raises(Undecodable, match="nowhere:Thing"):
        decode(b"\x01" + msgspec.msgpack.encode(raw))


def test_fields_may_come_and_go() -> None:
    assert rebuild(Point, {"x": 1, "y": [], "gone": 5}) == Point(1, [])
    with pytest.raises(Undecodable, match="give new fields a default"):
        rebuild(Point, {"x": 1})
