"""What is numbered for the whole deployment tells a tenant nothing of the others: ledger, parked timers, cursors."""

import re
from typing import Any
from urllib.parse import quote

from tests.http.http_stage import Stage, opened, problem
from wakeful.security.veil import Veil


async def busy(stage: Stage, key: str, count: int = 1) -> None:
    """So many timers that ran, and as many that are parked."""
    path = f"/v1/objects/Shop/{quote(key, safe='')}"
    for number in range(count):
        for name, handler in (("ran", "add"), ("bad", "fails")):
            made = {"after": 1, "handler": handler, "retry": {"max_attempts": 1}}
            answer = await stage.ask("PUT", f"{path}/schedules/{name}-{number}", json=made)
            assert answer.status_code == 200, answer.text
    await stage.world.advance(seconds=2)


async def all_rows(stage: Stage, path: str, token: str) -> list[dict[str, Any]]:
    """Page by page."""
    rows: list[dict[str, Any]] = []
    cursor = ""
    while True:
        found = await stage.get(f"{path}{'&' if '?' in path else '?'}limit=1{cursor}", token=token)
        rows += found["rows"]
        if found["cursor"] is None:
            return rows
        assert re.fullmatch(r"[A-Za-z0-9_-]+", found["cursor"])
        cursor = f"&cursor={found['cursor']}"


async def test_numbers_of_a_tenant_are_its_own_and_have_a_way_back() -> None:
    async with opened() as stage:
        await busy(stage, "eu/1")
        await busy(stage, "us/1", 3)
        await busy(stage, "eu/2")
        plain = {(row["key"], row["timer"]): row["number"] for row in (await stage.get("/v1/parked?limit=50"))["rows"]}
        root = await stage.token("root", "admin")
        eu = await stage.token("eu", "admin", tenant="eu/")
        other = await stage.token("eu-too", "admin", tenant="eu/")
        us = await stage.token("us", "admin", tenant="us/")
        for path in ("/v1/parked", "/v1/ledger"):
            seen = await all_rows(stage, path, eu)
            assert {row["key"] for row in seen} == {"eu/1", "eu/2"}
            numbers = [row["number"] for row in seen]
            assert min(numbers) > 1_000_000, "by chance one in thousands of millions"
            assert len(set(numbers)) == len(numbers)
            assert numbers == [row["number"] for row in await all_rows(stage, path, other)]
            assert max(row["number"] for row in (await stage.get(f"{path}?limit=50", token=root))["rows"]) < 100
        [first, second] = await all_rows(stage, "/v1/parked", eu)
        one = await stage.get(f"/v1/parked/{first['number']}", token=eu)
        assert (one["number"], one["key"]) == (first["number"], "eu/1")
        real = plain["eu/1", first["timer"]]
        problem(await stage.ask("GET", f"/v1/parked/{real}", token=eu), 404, "parked.unknown")
        problem(await stage.ask("GET", f"/v1/parked/{first['number']}", token=us), 404, "parked.unknown")
        shown = await stage.get("/v1/objects/Shop/eu%2F1", token=eu)
        assert [row["number"] for row in shown["parked"]] == [first["number"]]
        found = await stage.get(f"/v1/search?q={first['number']}", token=eu)
        assert [row["number"] for row in found["rows"]] == [first["number"]]
        body = {"numbers": [second["number"], first["number"] + 1]}
        answer = await stage.ask("POST", "/v1/parked/redrive", token=eu, json=body)
        told = {row["number"]: row["ok"] for row in answer.json()["rows"]}
        assert told == {second["number"]: True, first["number"] + 1: False}
        assert str(real) not in re.findall(r"\d+", answer.text)


async def test_a_cursor_of_one_tenant_is_none_of_another_s() -> None:
    async with opened() as stage:
        for key in ("eu/1", "eu/2", "us/1", "us/2"):
            await busy(stage, key)
        eu, us, root = [
            await stage.token(name, "admin", tenant=tenant)
            for name, tenant in (("eu", "eu/"), ("us", "us/"), ("root", None))
        ]
        for path in ("/v1/parked", "/v1/ledger", "/v1/objects", "/v1/schedules", "/v1/jobs?state=failed"):
            sign = "&" if "?" in path else "?"
            given = {
                token: (await stage.get(f"{path}{sign}limit=1", token=token))["cursor"] for token in (eu, us, root)
            }
            for token in (eu, us, root):
                for cursor in {*given.values()} - {given[token], None}:
                    answer = await stage.ask("GET", f"{path}{sign}limit=1&cursor={cursor}", token=token)
                    problem(answer, 400, "cursor")


def test_a_veil_has_a_way_back_and_knows_what_it_made() -> None:
    veil, other = Veil(b"one"), Veil(b"other")
    numbers = [1, 2, 3, 1_000_000, 2**26, 2**26 + 1, 2**52 - 1, 2**52]
    hidden = [veil.mask(number) for number in numbers]
    assert [veil.unmask(number) for number in hidden] == numbers
    assert all(1 <= number <= 2**52 for number in hidden)
    assert len(set(hidden)) == len(hidden)
    assert hidden != [other.mask(number) for number in numbers]
    for text in ("", "a", "ä€𝄞" * 50, '["parked",[[7]]]'):
        sealed = veil.seal(text)
        assert veil.open(sealed) == text
        assert other.open(sealed) is None
        assert veil.open(sealed[:-1] + ("A" if sealed[-1] != "A" else "B")) in (
            None,
            text,
        )  # the last bits may not count
        assert "parked" not in sealed
    assert [veil.open(text) for text in ("", "x", "=", "ä", "A" * 16)] == [None] * 5
