"""What callers hear of errors: one table, complete over the tree; nothing internal."""

import re
from pathlib import Path

import pytest

from tests.http.http_stage import make_app, opened, problem
from wakeful.http.problems import FAILED, STATUS, Problem, Raised, problem_of, status_of
from wakeful.values import errors
from wakeful.values.errors import BadOption, LimitExceeded, TooMany, TurnFailed, Unavailable, WakefulError
from wakeful.values.json_patch import json_bytes


def tree(cls: type) -> list[type]:
    return [
        cls,
        *(below for child in cls.__subclasses__() if child.__module__ == errors.__name__ for below in tree(child)),
    ]


@pytest.mark.parametrize("cls", tree(WakefulError), ids=lambda cls: cls.__name__)
def test_every_error_has_a_status_of_its_own_in_the_table(cls: type[WakefulError]) -> None:
    assert cls in STATUS


def test_no_named_error_is_a_500() -> None:
    assert [cls.__name__ for cls, status in STATUS.items() if status == 500] == ["WakefulError"]


def test_only_what_is_ours_or_late_is_a_5xx() -> None:
    for cls, status in STATUS.items():
        if status >= 500 and cls is not WakefulError:
            ours = (errors.Unavailable, errors.ClusterError, errors.StoreError, errors.DeadlineExceeded)
            assert issubclass(cls, ours), cls


def test_the_page_has_the_same_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d{3}) \| ((?:`\w+`(?:, )?)+) \|$", page, re.MULTILINE)
    said = {name: int(status) for status, names in rows for name in re.findall(r"\w+", names)}
    assert said == {cls.__name__: status for cls, status in STATUS.items() if cls is not WakefulError}


def test_a_code_may_decide_instead_of_the_class() -> None:
    assert status_of(BadOption("x")) == 422
    assert status_of(BadOption("x", code="cursor")) == 400
    assert status_of(LimitExceeded("x")) == 422
    assert status_of(LimitExceeded("x", code="limit.arguments")) == 413


def test_an_error_of_a_user_that_derives_from_ours_goes_by_its_base() -> None:
    class Own(errors.Conflict):
        pass

    assert status_of(Own("x")) == 409


def test_a_problem_has_type_title_status_detail_code_and_instance() -> None:
    found = problem_of(Unavailable("it is away\nfor now"), "/v1/x")
    assert found.status == 503
    assert found.body == {
        "type": "urn:wakeful:problem:unavailable",
        "title": "Service Unavailable",
        "status": 503,
        "detail": "it is away for now",
        "code": "unavailable",
        "instance": "/v1/x",
        "error": "Unavailable",
    }
    assert (b"retry-after", b"1") in found.headers


def test_too_many_says_when_to_come_again_and_no_token_how() -> None:
    assert (b"retry-after", b"3") in problem_of(TooMany("x", retry_after_s=2.4), "/").headers
    assert (b"www-authenticate", b'Bearer realm="wakeful"') in problem_of(errors.NoToken("x"), "/").headers


def test_tracebacks_are_for_operators_only() -> None:
    error = TurnFailed("x", remote_type="ValueError", remote_traceback="File secret.py")
    assert "traceback" not in problem_of(error, "/").body
    assert problem_of(error, "/", is_operator=True).body["traceback"] == "File secret.py"
    try:
        raise ValueError("mine")
    except ValueError as raised:
        local = Raised(raised)
    assert "traceback" not in problem_of(local, "/").body
    assert "test_problems.py" in problem_of(local, "/", is_operator=True).body["traceback"]
    assert problem_of(local, "/").status == FAILED


def test_a_fault_of_ours_says_nothing_but_that(caplog: pytest.LogCaptureFixture) -> None:
    found = problem_of(KeyError("/etc/secret"), "/v1/x", is_operator=True)
    assert found.status == 500
    assert "secret" not in str(found.body)
    assert "secret" in caplog.text


def test_headers_of_a_problem_are_sent() -> None:
    assert problem_of(Problem(405, "x", "y", allow="GET"), "/").headers == [(b"allow", b"GET")]


def test_half_a_character_in_an_error_is_no_fault() -> None:
    found = problem_of(Raised(ValueError("half \ud83d of it")), "/")
    assert json_bytes(found.body)
    assert found.body["detail"] == "ValueError: half ? of it"


async def test_what_a_turn_raises_is_424_and_undone() -> None:
    async with opened() as stage:
        found = problem(await stage.call("a", "fails", ["too bad"]), 424, "turn.failed")
        assert found["detail"] == "ValueError: too bad"
        assert found["remote_type"] == "builtins.ValueError"
        assert "never" not in (await stage.result("a", "add"), await stage.get("/v1/objects/Shop/a"))[1]["storage"]


async def test_while_the_store_is_away_calls_are_503_and_reading_too() -> None:
    async with opened() as stage:
        await stage.call("a", "add")
        stage.world.faults.is_down = True
        problem(await stage.call("a", "add"), 503, "store.down")
        answer = await stage.ask("GET", "/readyz")
        assert (answer.status_code, answer.json()["reason"]) == (503, "the store can't be reached")
        stage.world.faults.is_down = False
        await stage.world.advance(minutes=5)
        assert await stage.result("a", "add") == 2
        assert (await stage.ask("GET", "/readyz")).status_code == 200


async def test_without_a_node_everything_is_503() -> None:
    app = make_app()
    async with opened(app) as stage:
        await stage.world.crash()
        problem(await stage.call("a", "add"), 503, "node.stopped")
        assert (await stage.ask("GET", "/readyz")).json()["reason"] == "the app is not running"
        assert (await stage.ask("GET", "/healthz")).status_code == 200
        await stage.world.restart()
