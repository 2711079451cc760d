"""Pickles of strangers: none hangs the import, takes the memory, or changes a function of ours."""

import dbm.dumb
import pickle
import pickletools
import struct
import time
import uuid
from collections import OrderedDict
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from datetime import time as clock_time
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.garbage import without_collections
from wakeful.importers import celery, pickles
from wakeful.values.errors import BadValue

SECONDS_MAX = 5.0  # of the processor; most of these took for ever
ALLOWED = ("apscheduler.triggers.",)
MODULUS = (1 << 61) - 1


def glob(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def long(value: int) -> bytes:
    data = pickle.encode_long(value)
    return b"\x8b" + struct.pack("<i", len(data)) + data


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def doubled(times: int, seed: bytes = b"]") -> bytes:
    """A tuple of two of a tuple of two of …: some bytes that are 2 ** times values."""
    return seed + b"".join(b"q" + bytes([n]) + b"h" + bytes([n]) + b"\x86" for n in range(times))


CHANGES = {
    "the defaults of a function": (None, {"__defaults__": ("x",)}),
    "the dictionary of a function": {"planted": 1},
    "its code": (None, {"__code__": 1}),
}
HOSTILE = {
    "doubled": b"\x80\x02" + doubled(60) + b".",
    "doubled as a key": b"\x80\x02}" + doubled(60, b")") + b"Ks.",
    "doubled in a set": b"\x80\x04\x8f(" + doubled(60, b")") + b"\x90.",
    "doubled in a thing": b"\x80\x02" + glob("apscheduler.triggers.x", "T") + doubled(60) + b"\x85R.",
    "doubled in a state": b"\x80\x02"
    + glob("apscheduler.triggers.x", "T")
    + b")R}X\x01\x00\x00\x00a"
    + doubled(60)
    + b"sb.",
    "a long text again and again": b"\x80\x02(" + text("x" * 1_000_000) + b"q\x00" + b"h\x00" * 100_000 + b"t.",
    "a cycle": b"\x80\x02]q\x00h\x00a.",
    "a bytearray of a size": b"\x80\x02" + glob("builtins", "bytearray") + long(10**11) + b"\x85R.",
    "numbers that hash alike in a set": b"\x80\x04\x8f("
    + b"".join(long(n * MODULUS) for n in range(1, 60_000))
    + b"\x90.",
    "numbers that hash alike as keys": b"\x80\x02}("
    + b"".join(long(n * MODULUS) + b"N" for n in range(1, 60_000))
    + b"u.",
    "numbers that hash alike in a list for a set": b"\x80\x02"
    + glob("builtins", "frozenset")
    + b"]("
    + b"".join(long(n * MODULUS) for n in range(1, 60_000))
    + b"e\x85R.",
    "a number without end": b"\x80\x02" + long(1 << 8_000_000) + b".",
    "a decimal without end": b"\x80\x02" + glob("decimal", "Decimal") + text("1e999999999") + b"\x85R.",
    "steps without end": b"\x80\x02" + b"N0" * 4_000_000 + b"N.",
    "nested lists": b"\x80\x02" + b"]" * 300_000 + b"a" * 299_999 + b".",
    "nested things": b"\x80\x02N" + b"".join([b"\x85"] * 300_000) + b".",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_none_hangs_the_import(name: str) -> None:
    began = time.thread_time()
    with without_collections(), pytest.raises(BadValue) as caught:
        repr_of(pickles.read(HOSTILE[name], "x", ALLOWED))
    assert time.thread_time() - began < SECONDS_MAX
    assert caught.value.code == "import.file"
    assert len(caught.value.message) < 400


def repr_of(value: Any) -> None:
    """What whoever was given it would do: go through it. The review's went on for ever."""
    from wakeful.importers.schedule_import import plain

    plain(value)


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize(
    ("module", "name"), [("builtins", "getattr"), ("pytz", "_UTC"), ("_codecs", "encode"), ("zoneinfo", "ZoneInfo")]
)
def test_none_changes_a_function_of_ours(module: str, name: str, how: str) -> None:
    data = b"\x80\x02" + glob(module, name) + pickle.dumps(CHANGES[how], 2)[2:-1] + b"b."
    before = _functions()
    with pytest.raises(BadValue):
        pickles.read(data, "x", ALLOWED)
    assert _functions() == before


def _functions() -> dict[str, Any]:
    found = {}
    for name, one in vars(pickles).items():
        if callable(one) and getattr(one, "__module__", "") == pickles.__name__:
            about = {part: getattr(one, part, None) for part in ("__defaults__", "__code__", "__kwdefaults__")}
            found[name] = (sorted(vars(one)), about)
    return found


def test_a_number_of_the_memo_takes_no_room() -> None:
    """Python's own makes a table of as many places: 64 GiB for eleven bytes."""
    assert pickles.read(b"\x80\x02Nr\xff\xff\xff\xff.", "x", ALLOWED) is None


def test_no_opcode_of_python_is_forgotten() -> None:
    """Each is either read or refused with words: none falls through."""
    known = {*pickles._PLAIN, *pickles._CONSTANTS, *pickles._EMPTY, *pickles._COUNTS, *pickles._RULES}
    known |= {"STOP", "MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "GET", "BINGET", "LONG_BINGET"}
    refused = {"PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER"}
    assert {one.name for one in pickletools.opcodes} == known | refused


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data_is_read_as_pickle_reads_it(protocol: int) -> None:
    value = {
        "none": None,
        "bools": [True, False],
        "numbers": [0, -1, 255, 256, 65_536, 1 << 40, -(1 << 70), 1.5, -0.0],
        "texts": ["", "é", "x" * 300, b"", b"\x00\xff", b"y" * 300],
        "tuples": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
        "sets": [set(), {1, 2}, frozenset({"a"})],
        "inner": {1: {"a": [{}]}},
    }
    shared: list[Any] = [1]
    value["shared"] = [shared, shared]
    if protocol >= 2:
        value |= {
            "times": [date(2026, 1, 2), datetime(2026, 1, 2, tzinfo=UTC), clock_time(3), timedelta(1, 2, 3)],
            "zones": [ZoneInfo("Europe/Berlin"), datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2)))],
            "others": [Decimal("1.50"), uuid.UUID(int=7), bytearray(b"ab"), OrderedDict(a=1)],
        }
    found = pickles.read(pickle.dumps(value, protocol), "x", ())
    assert found == value
    assert found["shared"][0] is found["shared"][1]


def test_any_change_of_a_byte_is_read_or_refused() -> None:
    """Damage is a bad file, whatever it is."""
    good = pickle.dumps({"a": [1, 2.5, "text"], "z": ZoneInfo("UTC"), "d": timedelta(1)}, 4)
    for at in range(len(good)):
        for byte in (0, 1, 0x28, 0x2E, 0x52, 0x62, 0x86, 0x94, 0xFF):
            with suppress(BadValue):
                pickles.read(good[:at] + bytes([byte]) + good[at + 1 :], "x", ALLOWED)


def test_a_hostile_shelf_is_a_bad_file(tmp_path: Path) -> None:
    with dbm.dumb.open(str(tmp_path / "beat"), "n") as shelf:
        shelf[b"entries"] = HOSTILE["doubled"]
    with pytest.raises(BadValue) as caught:
        celery.read_beat(tmp_path / "beat")
    assert caught.value.code == "import.file"
    (tmp_path / "beat.dir").write_text("[" * 5_000)
    with pytest.raises(BadValue) as caught:
        celery.read_beat(tmp_path / "beat")
    assert caught.value.code == "import.file"


@pytest.mark.parametrize(
    "source",
    [
        "beat_schedule = {'a': {'task': 'x', 'schedule': timedelta(days=10**20)}}",
        "beat_schedule = {'a': {'task': 'x', 'schedule': 1e400}}",
        "beat_schedule = {'a': {[]: 1}}",
        "beat_schedule = {'a': {'task': 'x', 'schedule': crontab(minute=[{}])}}",
        "beat_schedule = {'a': {'task': 'x', 'schedule': 5, 'options': {'expires': 1e400}}}",
        "beat_schedule = {'a': {'task': 'x', 'schedule': 5, 'args': {1: 2}, 'kwargs': 3}}",
        "beat_schedule = {'a': timedelta('x')}",
    ],
)
def test_a_hostile_beat_file_leaves_its_entry_with_a_reason(source: str, tmp_path: Path) -> None:
    (tmp_path / "beat.py").write_text(source)
    plan = celery.read_beat(tmp_path / "beat.py")
    assert not plan.wishes
    assert [name for name, _ in plan.left] == ["a"]


def test_a_beat_file_of_any_size_is_not_parsed(tmp_path: Path) -> None:
    (tmp_path / "beat.py").write_text("beat_schedule = {}\n" + "#" * 1_000_000)
    with pytest.raises(BadValue, match="bytes"):
        celery.read_beat(tmp_path / "beat.py")
