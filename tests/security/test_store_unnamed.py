"""Who was not let in does not learn from an outage which store there is."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
from stage_security import Door, program

from wakeful.http.problems import told
from wakeful.values.errors import BadUrl, StoreDown

SECRET = "postgresql://ada@db.internal/shop is not open"


@pytest.mark.parametrize("path", ["/v1/objects", "/openapi.json", "/metrics"])
async def test_before_admission_only_that_the_store_is_away(path: str) -> None:
    app = program()
    async with app.world() as world:
        door = Door(app, world)
        token = await door.token("admin")
        world.faults.is_down = True
        found = await door.ask("GET", path, token=token)
        assert (found.status, found.code) == (503, "store.down")
        assert found.json["detail"] == "the store can't be reached now; try again"
        world.faults.is_down = False


async def test_who_is_let_in_reads_what_it_is() -> None:
    app = program()
    async with app.world() as world:
        door = Door(app, world)
        token = await door.token("call")
        assert (await door.ask("POST", "/v1/objects/Box/eu%2F1/put", token=token, body=b'["x"]')).status == 200
        world.faults.is_down = True
        found = await door.ask("POST", "/v1/objects/Box/eu%2F2/put", token=token, body=b'["x"]')
        assert found.status == 503
        assert "the test says so" in found.json["detail"]
        world.faults.is_down = False


@pytest.mark.parametrize("error", [StoreDown(SECRET), BadUrl(SECRET)])
def test_only_errors_of_stores_lose_their_words(error: Exception) -> None:
    assert "ada" not in str(told(error, "/x", is_admitted=False).body)
    assert SECRET in str(told(error, "/x").body)


async def test_who_is_bound_to_a_tenant_reads_only_that_the_store_is_away() -> None:
    app = program()
    async with app.world() as world:
        door = Door(app, world)
        token = await door.token("call", tenant="eu/")
        assert (await door.ask("POST", "/v1/objects/Box/eu%2F1/put", token=token, body=b'["x"]')).status == 200
        world.faults.is_down = True  # for longer than a call waits
        world.node.store_failed(StoreDown(SECRET))
        found = await door.ask("POST", "/v1/objects/Box/eu%2F2/put", token=token, body=b'["x"]')
        assert (found.status, found.json["detail"]) == (503, "the store can't be reached now; try again")
