"""Nobody learns over HTTP which store there is, and where: not from an outage, and not from a link that is lost."""

import pytest

from tests.security.stage_security import Door, program
from wakeful.http.problems import Raised, problem_of
from wakeful.runtime.calls import Call
from wakeful.runtime.routes import _unrouted_error
from wakeful.values.errors import (
    BadOption,
    BadUrl,
    ClusterError,
    DeadlineExceeded,
    LinkLost,
    OutcomeUnknown,
    StoreDown,
    Unavailable,
    WakefulError,
)
from wakeful.values.ids import ObjectId

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


async def test_who_is_let_in_reads_no_more_than_that() -> None:
    app = program()
    async with app.world() as world:
        door = Door(app, world)
        token = await door.token("admin")
        assert (await door.ask("POST", "/v1/objects/Box/eu%2F1/put", token=token, body=b'["x"]')).status == 200
        world.faults.is_down = True
        world.node.store_failed(StoreDown(SECRET))
        found = await door.ask("POST", "/v1/objects/Box/eu%2F2/put", token=token, body=b'["x"]')
        assert (found.status, found.json["detail"]) == (503, "the store can't be reached now; try again")
        world.faults.is_down = False


@pytest.mark.parametrize("error", [StoreDown(SECRET), BadUrl(SECRET), OutcomeUnknown(SECRET)])
def test_errors_of_stores_lose_their_words_and_the_log_has_them(
    error: WakefulError, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    body = problem_of(error, "/x", is_operator=True).body
    assert "ada" not in str(body)
    assert body["code"] == error.code
    assert ("is unknown" in body["detail"]) == isinstance(error, OutcomeUnknown)  # it may have happened: not just again
    assert SECRET in caplog.text


@pytest.mark.parametrize(
    "place",
    ["postgresql://ada@/shop?host=/run/pg", "sqlite:/home/ada/shop.db", "unix:/run/ada/x.sock", "tcp:10.1.2.3:74"],
)
@pytest.mark.parametrize("cls", [Unavailable, LinkLost, DeadlineExceeded, ClusterError, BadOption])
def test_other_errors_lose_only_the_places(place: str, cls: type[WakefulError]) -> None:
    detail = problem_of(cls(f"nobody answers at {place} (refused); try again"), "/x", is_operator=True).body["detail"]
    assert detail == "nobody answers at a place that the log names (refused); try again"


def test_what_the_object_says_stays_as_it_is() -> None:
    assert problem_of(Raised(ValueError(f"no {SECRET}")), "/x").body["detail"] == f"ValueError: no {SECRET}"


async def test_a_call_that_could_not_begin_does_not_say_where_the_store_is() -> None:
    call = Call("put", (), {}, deadline_at=0, request_key=None, chain=(ObjectId("Box", "a"),))
    assert "ada" not in _unrouted_error(call, StoreDown(SECRET)).message
    assert "on the move" in _unrouted_error(call, Unavailable("it is on the move")).message


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
