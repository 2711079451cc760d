"""Points in time from outside: what there are, what going back would change, and going back, with its audit row."""

from datetime import UTC, datetime

import pytest

from tests.http.client_stage import client_of, served
from tests.http.http_stage import opened, problem
from wakeful import App, DurableObject, errors

SHELF = "/v1/objects/Shelf/eu:oak"


def make_app() -> App:
    app = App()

    @app.object
    class Shelf(DurableObject):
        history = "30d"

        async def put(self, key: str) -> None:
            await self.storage.put(key, 1)

        async def stock(self) -> None:
            self.sql("CREATE TABLE books (name TEXT)")

    return app


async def test_points_are_pages_and_looking_wakes_nothing() -> None:
    async with opened(make_app()) as stage:
        for key in "abc":
            await stage.ask("POST", f"{SHELF}/put", json=[key])
        await stage.ask("POST", f"{SHELF}/stock")
        await stage.world.sleep_all()
        page = await stage.get(f"{SHELF}/history?limit=3")
        assert [(row["by"], row["changed"]["keys"]) for row in page["rows"]] == [
            ("stock", []),
            ("put", ["c"]),
            ("put", ["b"]),
        ]
        rest = await stage.get(f"{SHELF}/history?limit=3&cursor={page['cursor']}")
        assert ([row["changed"]["keys"] for row in rest["rows"]], rest["cursor"]) == ([["a"]], None)
        assert stage.awake == set()
        problem(await stage.ask("GET", "/v1/objects/Shelf/none/history"), 404, "object.unknown")
        problem(await stage.ask("GET", f"{SHELF}/history?cursor=x"), 422, "history.bookmark")


async def test_a_restore_can_be_seen_before_it_is_done_and_leaves_a_row() -> None:
    async with opened(make_app()) as stage:
        for key in "ab":
            await stage.ask("POST", f"{SHELF}/put", json=[key])
        to = (await stage.get(f"{SHELF}/history"))["rows"][1]["bookmark"]
        seen = (await stage.ask("POST", f"{SHELF}/history/restore", json={"to": to, "dry_run": True})).json()
        assert (seen["points"], seen["changed"]["keys"], seen["before"]) == (1, ["b"], None)
        done = (await stage.ask("POST", f"{SHELF}/history/restore", json={"to": to, "timers": False})).json()
        assert (await stage.get(SHELF))["storage"] == {"a": 1}
        await stage.ask("POST", f"{SHELF}/history/restore", json={"to": done["before"]})
        assert (await stage.get(SHELF))["storage"] == {"a": 1, "b": 1}
        rows = (await stage.get("/v1/audit?refusals=false"))["rows"]
        assert [(row["act"], row["target"], row["outcome"]) for row in rows] == [
            ("history.restore", "Shelf/eu:oak", "done")
        ] * 2
        for to, status, code in (
            ("2999-01-01T00:00:00Z", 404, "history.unknown"),
            ("soon", 422, "time.text"),
        ):
            problem(await stage.ask("POST", f"{SHELF}/history/restore", json={"to": to}), status, code)


async def test_who_may_see_and_who_may_go_back() -> None:
    async with opened(make_app()) as stage:
        await stage.ask("POST", f"{SHELF}/put", json=["a"])
        reads, eu = await stage.token("reads", "read"), await stage.token("eu", "operate", tenant="eu:")
        us = await stage.token("us", "operate", tenant="us:")
        [point] = (await stage.get(f"{SHELF}/history", token=reads))["rows"]
        body = {"to": point["bookmark"]}
        problem(await stage.ask("POST", f"{SHELF}/history/restore", json=body, token=reads), 403, "denied.scope")
        assert (await stage.ask("POST", f"{SHELF}/history/restore", json=body, token=us)).status_code in (403, 404)
        assert (await stage.ask("POST", f"{SHELF}/history/restore", json=body, token=eu)).status_code == 200


async def test_the_client_lists_points_and_goes_back() -> None:
    async with served(make_app()) as shop, client_of(shop) as client:
        for key in "ab":
            await client.get("Shelf", "oak").put(key)
        newest, first = await client.history("Shelf", "oak")
        assert (newest["changed"]["keys"], first["changed"]["keys"]) == (["b"], ["a"])
        seen = await client.restore("Shelf", "oak", first["bookmark"], dry_run=True)
        assert (seen["points"], seen["before"]) == (1, None)
        done = await client.restore("Shelf", "oak", first["bookmark"])
        assert (done["before"], [row["key"] for row in await client.storage("Shelf", "oak")]) == (
            newest["bookmark"],
            ["a"],
        )
        with pytest.raises(errors.UnknownPoint, match="still to come"):
            await client.restore("Shelf", "oak", datetime(2999, 1, 1, tzinfo=UTC))
