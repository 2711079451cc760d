"""Bodies in our own encoding that no client of ours writes: extension types around what does not belong there."""

import threading
from typing import Any

import msgspec
import pytest

from tests.http.http_stage import opened
from tests.http.test_fuzz import send
from wakeful.http import asks
from wakeful.http.asks import MSGPACK, read_msgpack
from wakeful.values.codec import VERSION, encode

INNER: list[Any] = [
    None, True, 0, -1, 2**63, 1.5, float("nan"), float("inf"), "", "x", "NaN", "sNaN", "1e999999", "9" * 5_000, b"",
    b"\xff" * 17, [], [None], [1], ["x"], [1, 2, 3], ["x", 1], [["x"], {}], [{}, {}], [[[]], [[]]], ["a:b", None],
    ["a:b", []], ["a:b", {"$type": 1}], [1, {}], [None, None], {}, {"a": 1}, {"0": "1"}, ["12:00", 7], ["12:00", None],
    [10**9, 0, 0], ["2026-01-01T00:00:00", "Nowhere/Land", 0], ["2026-01-01T00:00:00", 10**9, 0],
    ["9999-12-31T23:59:59", -86399, 0], [["2026-01-01", None, 0]], [[[1, []]]], [[{}, 1]], [[None, 1], [None, 2]],
]  # fmt: skip
PATHS = [
    *(f"/v1/objects/Shop/a/{method}" for method in ("echo", "order", "typed", "loose")),
    *("/v1/jobs", "/v1/jobs/batch", "/v1/parked/redrive"),
]


def bodies(code: int) -> list[bytes]:
    """Every place in which such a value may stand."""
    found: list[bytes] = []
    for inner in INNER:
        odd = msgspec.msgpack.Ext(code, msgspec.msgpack.encode(inner))
        for value in (
            odd,
            [odd, {}],
            [[odd], {}],
            [[], odd],
            [[], {"value": odd}],
            [[odd, odd], {"colour": odd}],
            {"args": odd},
        ):
            found.append(VERSION + msgspec.msgpack.encode(value))
        twice = msgspec.msgpack.Ext(code, msgspec.msgpack.encode([odd]))
        found.append(VERSION + msgspec.msgpack.encode([[twice], {}]))
        keys = msgspec.msgpack.encode(odd) + msgspec.msgpack.encode(1)
        found.append(VERSION + b"\x92\x91\x81" + keys + b"\x80")  # a key of a map
    return found


@pytest.mark.parametrize("code", [*range(15), 127, -1])
async def test_no_odd_value_is_a_fault_of_ours(code: int) -> None:
    async with opened() as stage:
        token = (await stage.token("odd", "read", "call", "operate")).encode()
        headers = [(b"host", b"localhost"), (b"content-type", MSGPACK), (b"authorization", b"Bearer " + token)]
        wrong, statuses = [], set[int]()
        for path in PATHS:
            for body in bodies(code):
                status, said = await send(stage, ("POST", path.encode(), b"", headers, body))
                statuses.add(status)
                if status >= 500:
                    wrong.append((path, body, status, said))
        assert not wrong, (len(wrong), wrong[:10])
        assert 400 in statuses


async def test_a_long_body_is_decoded_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    where: list[threading.Thread] = []

    def read(body: bytes, weight_max: int) -> Any:
        where.append(threading.current_thread())
        return read_msgpack(body, weight_max)

    monkeypatch.setattr(asks, "read_msgpack", read)
    async with opened() as stage:
        token = (await stage.token("long", "call")).encode()
        headers = [(b"host", b"localhost"), (b"content-type", MSGPACK), (b"authorization", b"Bearer " + token)]
        for size, status in ((100, 200), (200_000, 200), (200_001, 400)):
            body = encode([["x" * size], {}]) if size % 2 == 0 else VERSION + b"\xd4\x04\x80" + b"x" * size
            assert (await send(stage, ("POST", b"/v1/objects/Shop/a/echo", b"", headers, body)))[0] == status
    assert [one is threading.main_thread() for one in where] == [True, False, False]
