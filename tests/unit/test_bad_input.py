"""What people get wrong: each a typed error in one line that names what was wrong and what to do, and nothing happened."""

import math
import re
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from wakeful import AlarmInfo, App, DurableObject, Limits, internal
from wakeful.store import open_url
from wakeful.values.errors import (
    BadInput,
    BadName,
    BadOption,
    BadTime,
    BadUrl,
    BadValue,
    LimitExceeded,
    MissingExtra,
    NoAlarmHandler,
    NotRunning,
    StoreError,
    UnknownClass,
    UnknownMethod,
    WakefulError,
)


class Foreign:
    pass


HALF = "\ud83d"  # of a character; no bytes stand for it


@dataclass
class Order:
    lines: list[Any]


class Desk(DurableObject):
    async def take(self, value: Any = None, **options: Any) -> None:
        await self.storage.put("taken", True)

    async def give(self, what: str) -> Any:
        await self.storage.put("given", True)
        return {
            "object": Foreign(),
            "nested": {"a": [1, Foreign()]},
            "order": Order([Foreign()]),
            "huge": b"." * 2**20,
            "half": HALF,
        }[what]

    async def put(self, what: str) -> None:
        await self.storage.put("before", True)
        value: Any = {"nested": {"a": [1, Foreign()]}, "key": {Foreign(): 1}, "zone": _odd_time()}[what]
        await self.storage.put("k", value)

    async def large(self, size: int) -> None:
        await self.storage.put("k", b"." * size)

    async def long_key(self, size: int) -> None:
        await self.storage.put("k" * size, 1)

    async def ring(self, what: str) -> None:
        await self.storage.put("before", True)
        await self.storage.set_alarm(TIMES[what])

    async def alarm(self, info: AlarmInfo) -> None: ...
    async def _private(self) -> None: ...
    def sync(self) -> None: ...

    @internal
    async def hidden(self) -> None: ...


class Silent(DurableObject):
    async def ring(self) -> None:
        await self.storage.set_alarm(timedelta(seconds=1))


class Stranger(DurableObject):
    async def take(self) -> None: ...


TIMES: dict[str, Any] = {
    "naive": datetime(2030, 1, 1),
    "nan": math.nan,
    "infinite": math.inf,
    "zero": 0,
    "negative": -5,
    "far": 10**18,
    "text": "tomorrow",
    "none": None,
    "bool": True,
}


def _odd_time() -> datetime:
    from datetime import tzinfo

    class Odd(tzinfo):
        def utcoffset(self, when: datetime | None) -> timedelta | None:
            return None if when is None else timedelta(hours=1)  # it may have summers, for all that one can know

    return datetime(2030, 1, 1, tzinfo=Odd())


def make() -> App:
    app = App()
    app.object(Desk)
    app.object(Silent)
    return app


CALLS: list[tuple[str, Any, type[WakefulError], str]] = [
    ("an unknown class", lambda w: w.get(Stranger, "a").take(), UnknownClass, r"Stranger.* put @app\.object on it"),
    ("an unknown method", lambda w: w.get(Desk, "a").tale(), UnknownMethod, r"Desk\.tale does not exist; it has take"),
    ("a private method", lambda w: w.get(Desk, "a")._private(), UnknownMethod, r"Desk\._private is private"),
    ("an internal method", lambda w: w.get(Desk, "a").hidden(), UnknownMethod, r"Desk\.hidden is @internal"),
    ("a method that is not async", lambda w: w.get(Desk, "a").sync(), UnknownMethod, "is not an `async def` method"),
    ("a lifecycle method", lambda w: w.get(Desk, "a").alarm(None), UnknownMethod, "called by Wakeful"),
    ("an empty key", lambda w: w.get(Desk, "").take(), BadName, "key of Desk is empty; give the object a name"),
    ("a key that is no text", lambda w: w.get(Desk, 5).take(), BadName, "must be text, not int"),
    ("a key with a control character", lambda w: w.get(Desk, "a\0").take(), BadName, "control character; leave it out"),
    ("an oversize key", lambda w: w.get(Desk, "k" * 513).take(), BadName, "513 bytes, 1 more than the limit of 512"),
    ("an argument", lambda w: w.get(Desk, "a").take(Foreign()), BadValue, r"arguments of Desk/a\.take: value\[0\]"),
    (
        "half a character",
        lambda w: w.get(Desk, "a").take(HALF),
        BadValue,
        r"arguments of Desk/a\.take: .*can't be encoded",
    ),
    ("half a character by name", lambda w: w.get(Desk, "a").take(x=HALF), BadValue, "can't be encoded"),
    ("half a character as answer", lambda w: w.get(Desk, "a").give("half"), BadValue, "answer of Desk/a.give: "),
    (
        "a deep argument",
        lambda w: w.get(Desk, "a").take([{"x": {1: Foreign()}}]),
        BadValue,
        r"value\[0\]\[0\]\['x'\]\[1\] is a .*Foreign, which is not plain data; store None, bool",
    ),
    ("a named argument", lambda w: w.get(Desk, "a").take(x=[Foreign()]), BadValue, r"value\['x'\]\[0\] is a"),
    (
        "oversize arguments",
        lambda w: w.get(Desk, "a").take(b"." * 2**20),
        LimitExceeded,
        r"arguments of Desk/a\.take: \d+ bytes, \d+ more than the limit of 1048576",
    ),
    (
        "an oversize answer",
        lambda w: w.get(Desk, "a").give("huge"),
        LimitExceeded,
        r"answer of Desk/a\.give: \d+ bytes, \d+ more than the limit of 1048576",
    ),
    ("an answer", lambda w: w.get(Desk, "a").give("object"), BadValue, r"answer of Desk/a\.give: value is a .*Foreign"),
    ("a deep answer", lambda w: w.get(Desk, "a").give("nested"), BadValue, r"value\['a'\]\[1\] is a"),
    ("an answer's field", lambda w: w.get(Desk, "a").give("order"), BadValue, r"value\.lines\[0\] is a"),
    ("a stored value", lambda w: w.get(Desk, "a").put("nested"), BadValue, r"storage key 'k': value\['a'\]\[1\] is a"),
    ("a stored key of a dict", lambda w: w.get(Desk, "a").put("key"), BadValue, r"key <.*Foreign.*> of value is a"),
    ("a foreign time zone", lambda w: w.get(Desk, "a").put("zone"), BadValue, "use zoneinfo"),
    (
        "an oversize value",
        lambda w: w.get(Desk, "a").large(2**21),
        LimitExceeded,
        r"value of 'k' has 2097158 bytes encoded, 6 more than the limit of 2097152; split it",
    ),
    (
        "an oversize storage key",
        lambda w: w.get(Desk, "a").long_key(2_050),
        LimitExceeded,
        r"storage key 'k+'… has 2050 bytes, 2 more than the limit of 2048",
    ),
    ("a naive time", lambda w: w.get(Desk, "a").ring("naive"), BadTime, r"has no time zone; use datetime\.now\(UTC\)"),
    ("NaN as a time", lambda w: w.get(Desk, "a").ring("nan"), BadTime, "nan is not a time"),
    ("an infinite time", lambda w: w.get(Desk, "a").ring("infinite"), BadTime, "inf is not a time"),
    ("zero as a time", lambda w: w.get(Desk, "a").ring("zero"), BadTime, "must be positive"),
    ("a negative time", lambda w: w.get(Desk, "a").ring("negative"), BadTime, "must be positive"),
    ("a time too far", lambda w: w.get(Desk, "a").ring("far"), BadTime, "past the latest time, 9999-01-01"),
    ("text as a time", lambda w: w.get(Desk, "a").ring("text"), BadTime, "give epoch milliseconds, an aware datetime"),
    ("None as a time", lambda w: w.get(Desk, "a").ring("none"), BadTime, "give epoch milliseconds"),
    ("a bool as a time", lambda w: w.get(Desk, "a").ring("bool"), BadTime, "give epoch milliseconds"),
    ("no handler", lambda w: w.get(Silent, "a").ring(), NoAlarmHandler, "add it before set_alarm"),
    ("a negative deadline", lambda w: w.get(Desk, "a", deadline=-1).take(), BadTime, "deadline -1 is negative"),
    ("no deadline at all", lambda w: w.get(Desk, "a", deadline=0).take(), BadTime, "deadline 0 leaves no time"),
    ("a deadline in words", lambda w: w.get(Desk, "a", deadline="soon").take(), BadTime, "write it like '250ms'"),
    ("an empty request key", lambda w: w.get(Desk, "a", request_key="").take(), BadOption, "1 to 255 bytes"),
    ("a long request key", lambda w: w.get(Desk, "a", request_key="k" * 256).take(), BadOption, "1 to 255 bytes"),
    ("an unprintable request key", lambda w: w.get(Desk, "a", request_key="a\n").take(), BadOption, "printable"),
    ("a request key that is no text", lambda w: w.get(Desk, "a", request_key=7).take(), BadOption, "printable text"),
]


@pytest.mark.parametrize(("what", "call", "error", "words"), CALLS, ids=[case[0] for case in CALLS])
async def test_a_wrong_call_is_a_typed_error_in_one_line_and_changes_nothing(
    what: str, call: Any, error: type[WakefulError], words: str
) -> None:
    async with make().world() as world:
        with pytest.raises(error) as caught:
            await call(world)
        text = str(caught.value)
        assert isinstance(caught.value, BadInput)
        assert re.search(words, text), text
        assert "\n" not in text
        assert text.endswith(f"[{caught.value.code}]")
        assert "." in caught.value.code
        assert await world.store.count("objects") == 0
        assert await world.store.count("timers") == 0
        await world.get(Desk, "a").take()  # and the object works on
        assert await world.rows(Desk, "a") == {"taken": True}


@pytest.mark.parametrize(
    "url",
    ["", "nonsense", "mysql://x", "memory", "http://x", "sqlite", None, 5, "/path/only.db", "postgres"],
)
def test_a_wrong_url_says_what_to_write(url: Any) -> None:
    with pytest.raises(
        BadUrl, match="write memory:, sqlite:PATH, postgresql://user@host/database or s3://bucket/prefix"
    ) as caught:
        open_url(url)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, StoreError)


async def test_a_wrong_url_stops_the_app_before_anything_starts() -> None:
    app = make()
    with pytest.raises(BadUrl):
        async with app.run("mysql://x"):
            raise AssertionError("never here")
    assert app.deployment.node is None


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("asyncpg", "wakeful.store.postgres"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'wakeful\[postgres\]'") as caught:
        open_url("postgresql://localhost/x")
    assert isinstance(caught.value, ImportError)
    assert "\n" not in str(caught.value)


async def test_a_call_when_the_app_does_not_run_says_how_to_run_it() -> None:
    app = make()
    stub = app.get(Desk, "a")
    with pytest.raises(NotRunning, match=r"Desk/a\.take: the app is not running; call it inside `async with app\.run"):
        await stub.take()


async def test_one_node_per_app() -> None:
    app = make()
    async with app.world():
        with pytest.raises(NotRunning, match="running already"):
            async with app.run("memory:"):
                raise AssertionError("never here")


@pytest.mark.parametrize("idle", [-1, "soon", True, None, math.nan])
def test_a_wrong_idle_time_is_refused_when_the_app_is_made(idle: Any) -> None:
    with pytest.raises(BadTime, match="idle"):
        App(idle=idle)


def test_a_wrong_limit_is_refused_when_it_is_made() -> None:
    with pytest.raises(BadOption, match="limit mailbox must be a whole number from 1, not 0"):
        Limits(mailbox=0)


async def test_a_wrong_number_of_arguments_is_the_callers_error_and_the_object_goes_on() -> None:
    async with make().world() as world:
        desk: Any = world.get(Desk, "a")
        with pytest.raises(TypeError):
            await desk.take(1, 2, 3)
        assert await world.store.count("objects") == 0
        await desk.take()


@pytest.mark.parametrize("start", ["2026-01-01", "yesterday", datetime(2026, 1, 1)])
def test_a_world_starts_at_an_aware_time(start: Any) -> None:
    with pytest.raises((BadTime, ValueError)):
        make().world(start=start)
