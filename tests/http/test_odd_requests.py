"""Paths and bodies that say of themselves what they are not: refused with what to write instead."""

import pytest

from tests.http.http_stage import opened, problem
from tests.http.test_fuzz import send
from wakeful.server import Site


@pytest.mark.parametrize("path", [b"%zz", b"100%", b"%4", b"%4g", b"a%2", b"%%41", b"%u0041"])
async def test_a_percent_sign_that_encodes_nothing_is_refused(path: bytes) -> None:
    async with opened() as stage:
        request = (b"/v1/objects/Shop/" + path + b"/add", b"", [(b"host", b"localhost")], b"[1]")
        status, said = await send(stage, ("POST", *request))
        assert status == 400, said
        assert b'"path.encoding"' in said
        assert b"write %25" in said


async def test_what_is_percent_encoded_is_a_key_like_any_other() -> None:
    async with opened() as stage:
        for key in ("100%25", "%2F", "%c3%A4", "%41"):
            answer = await stage.ask("POST", f"/v1/objects/Shop/{key}/add", json=[1])
            assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("said", "is_taken"),
    [
        ("application/json", True),
        ("application/json; charset=utf-8", True),
        ('application/json;Charset="UTF-8"', True),
        ("application/json; charset=utf8", True),
        ("application/json; charset=us-ascii", True),
        ("application/json; profile=x", True),
        ("application/json; charset=utf-16", False),
        ("application/json; charset=utf-16le; x=y", False),
        ("application/json; charset=iso-8859-1", False),
        ('application/json; charset="UTF-32"', False),
        ("application/json; charset='utf-8'", True),
        ("application/json; charset=' UTF-8 '", True),
        ("application/json; charset=", True),
        ('application/json; charset=""', True),
        ("application/json; charset=; x=y", True),
        ("application/json; charset='utf-16'", False),
    ],
)
async def test_json_is_utf_8_and_what_is_said_to_be_something_else_is_refused(said: str, is_taken: bool) -> None:
    async with opened() as stage:
        answer = await stage.ask("POST", "/v1/objects/Shop/a/add", content=b"[1]", headers={"content-type": said})
        if is_taken:
            assert answer.status_code == 200, answer.text
        else:
            assert "UTF-8" in problem(answer, 415, "body.charset")["detail"]


@pytest.mark.parametrize(("method", "status", "words"), [("OPTIONS", 204, b""), ("GET", 404, b'"path.unknown"')])
async def test_a_star_in_the_place_of_a_path_is_the_server_as_a_whole(method: str, status: int, words: bytes) -> None:
    """Beside a dashboard it was a bare 404."""
    async with opened() as stage:
        stage.site = Site(stage.app)
        found, said = await send(stage, (method, b"*", b"", [(b"host", b"localhost")], b""))
        assert found == status, said
        assert words in said
