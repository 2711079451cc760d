"""What exists for callers outside: names are checked before they reach anything, and tricks in paths lead nowhere."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.security.stage_security import Door, program
from wakeful.security.scopes import check_call, check_method_name
from wakeful.security.tokens import check_name, id_of, new_secret, redact
from wakeful.values.errors import BadName, UnknownClass, UnknownMethod


@asynccontextmanager
async def doors() -> AsyncIterator[Door]:
    app = program()
    async with app.world() as world:
        yield Door(app, world)


@pytest.mark.parametrize(
    "method",
    [
        *("inside", "_private", "__init__", "__class__", "alarm", "on_wake", "plain", "storage", "ctx", "nothing"),
        *("schedules.pause", "timers.redrive", "jobs.cancel", "schedules%2Epause", "put%00", "put%0a", "p%C3%BBt"),
        *("%D1%80ut", "put%20", "%2e%2e", "put%2F..%2Finside", "a" * 200, "%EF%BD%90ut"),
    ],
)
async def test_methods_that_are_not_for_callers_do_not_exist_outside(method: str) -> None:
    """Cyrillic and full-width look-alikes are other letters, and so other names."""
    async with doors() as door:
        token = await door.token("admin")
        found = await door.ask("POST", f"/v1/objects/Box/eu%2F1/{method}", token=token)
        assert found.status in (400, 404, 405, 422), found.body
        assert b"nobody outside" not in found.body
        assert await door.world.info(door.app.box, "eu/1") is None  # type: ignore[attr-defined]
        assert len(await door.refusals()) == 1


@pytest.mark.parametrize(
    "cls",
    [
        *("wakeful.Tokens", "wakeful.Audit", "wakeful.Keys", "wakeful.Function", "wakeful.Tenant", "wakeful.Pulse"),
        *("Nothing", "%2e%2e", "Box%00", "B%D0%BEx", "wakeful%2ETokens", "Box%2Feu"),
    ],
)
async def test_classes_that_are_not_for_callers_do_not_exist_outside(cls: str) -> None:
    async with doors() as door:
        token = await door.token("admin")
        for method in ("clear", "create", "begin", "page", "start", "put"):
            found = await door.ask("POST", f"/v1/objects/{cls}/all/{method}", token=token, body=b"[]")
            assert found.status in (400, 403, 404, 405, 422), found.body
            assert b"wakeful." not in found.body.replace(b"/wakeful.", b"").replace(b"'wakeful.", b"")
        assert len(await door.refusals()) == 1  # of one kind, so one row
        assert (await door.ask("GET", "/v1/objects", token=token)).status == 200  # tokens are still there


@pytest.mark.parametrize("cls", ["wakeful.Tokens", "wakeful.Audit", "wakeful.Keys"])
@pytest.mark.parametrize("tail", ["", "/storage", "/timers", "/ledger", "/schedules", "/jobs", "/parked"])
async def test_nobody_is_shown_what_the_reserved_objects_keep(cls: str, tail: str) -> None:
    async with doors() as door:
        token = await door.token("admin")
        found = await door.ask("GET", f"/v1/objects/{cls}/all{tail}", token=token)
        assert found.status == 403
        assert b"hash" not in found.body
        assert (await door.refusals())[0][0] == "denied.reserved"
        listed = await door.ask("GET", "/v1/objects", token=token)
        assert cls.encode() not in listed.body
        assert cls.encode() not in (await door.ask("GET", "/v1/search?q=wakeful", token=token)).body


TRICKS = [
    "us%2F1",
    "..%2Fus%2F1",
    "%2e%2e%2Fus%2F1",
    "eu%2F%2e%2e%2f..%2Fus%2F1",
    "eu%252F1",
    "EU%2F1",
    "eu",
    "europe%2F1",
    "eu%5C1",
    "%2Feu%2F1",
    "%20eu%2F1",
    "e%EF%BD%95%2F1",
    "eu%EF%BC%8F1",
    "%D0%B5u%2F1",
]


@pytest.mark.parametrize("key", TRICKS)
async def test_tricks_in_a_key_do_not_lead_out_of_a_tenant(key: str) -> None:
    """A key is a name, not a path: it is decoded once and compared letter by letter."""
    async with doors() as door:
        await door.object("us/1")
        token = await door.token("admin", tenant="eu/")
        for method, tail, body in (("GET", "", b""), ("GET", "/storage", b""), ("POST", "/put", b'["stolen"]')):
            found = await door.ask(method, f"/v1/objects/Box/{key}{tail}", token=token, body=body)
            if key.startswith("eu%2F"):  # an odd name within the tenant: not there, and another's is not touched
                assert found.status in (200, 404), found.body
            else:
                assert (found.status, found.code) == (403, "denied.tenant"), found.body
                assert (await door.refusals())[0][0] == "denied.tenant"
            assert b"value of us/1" not in found.body
        assert (await door.world.rows(door.app.box, "us/1"))["text"] == "value of us/1"  # type: ignore[attr-defined]


@pytest.mark.parametrize("key", ["%00", "eu%2F%00", "eu%2F%0A", "eu%2F" + "a" * 600, "eu%2F%7F", "%FF", "%C0%AE"])
async def test_keys_that_can_not_be_are_refused(key: str) -> None:
    async with doors() as door:
        token = await door.token("admin")
        for method, tail in (("GET", ""), ("POST", "/put")):
            found = await door.ask(method, f"/v1/objects/Box/{key}{tail}", token=token, body=b'["x"]' if tail else b"")
            assert found.status in (400, 404, 414, 422), found.body
        if "%FF" not in key and "%C0" not in key:  # those are no text, so the path is none
            assert {code for code, _ in await door.refusals()} == {"name.key"}


@pytest.mark.parametrize(
    "path", ["/v1/../v1/audit", "/v1//audit", "/v1/%61udit", "/V1/audit", "//v1/audit", "/v1/audit/"]
)
async def test_other_spellings_of_a_path_are_no_way_around_its_scope(path: str) -> None:
    async with doors() as door:
        token = await door.token("read,call,operate")
        found = await door.ask("GET", path, token=token)
        assert found.status in (303, 403, 404, 405), (path, found.body)


async def test_a_job_for_another_tenant_s_object_is_not_made() -> None:
    async with doors() as door:
        token = await door.token("call,operate", tenant="eu/")
        job = b'{"class": "Box", "key": "us/1", "method": "put", "args": ["x"]}'
        for path, body in (
            ("/v1/jobs", job),
            ("/v1/jobs/batch", b'{"jobs": [' + job + b"]}"),
            ("/v1/jobs/batch", b"[" + job + b"]"),
        ):
            found = await door.ask("POST", path, token=token, body=body)
            assert found.status in (400, 403, 422), found.body
        for method in ("inside", "_private", "alarm"):
            made = job.replace(b'"put"', f'"{method}"'.encode()).replace(b"us/1", b"eu/1")
            found = await door.ask("POST", "/v1/jobs", token=token, body=made)
            assert 400 <= found.status < 500, found.body
        assert await door.app.jobs.list() == []
        assert await door.world.due() == []


async def test_what_is_oversized_is_refused() -> None:
    async with doors() as door:
        token = await door.token("call")
        big = b'["' + b"x" * (3 << 20) + b'"]'
        assert (await door.ask("POST", "/v1/objects/Box/a/put", token=token, body=big)).status == 413
        assert (await door.ask("GET", "/v1/objects?contains=" + "x" * 20_000, token=token)).status == 414
        large = {"authorization": "Bearer " + "x" * 10_000}
        assert (await door.ask("GET", "/v1/objects", headers=large)).status == 401


def test_names_of_methods_follow_a_strict_pattern() -> None:
    for name in ("put", "a", "put_2", "A" * 128):
        assert check_method_name(name) == name
    for bad in ("", "_a", "a.b", "a-b", "a b", "ä", "1a", "A" * 129, "a\n", "a\0", None, 1, "аbc"):
        with pytest.raises(BadName):
            check_method_name(bad)


def test_an_error_of_a_call_names_no_class_of_our_own() -> None:
    registry = program().deployment.registry
    for cls, kind in (("Nothing", UnknownClass), ("wakeful.Tokens", UnknownClass)):
        with pytest.raises(kind) as caught:
            check_call(registry, cls, "a", "put")
        assert "wakeful." not in str(caught.value).replace(cls, "")
    with pytest.raises(UnknownMethod):
        check_call(registry, "Box", "a", "inside")
    assert check_call(registry, "Box", "a", "put") == ("Box", "a")


def test_tokens_are_recognised_and_taken_out_of_texts() -> None:
    text, id, _ = new_secret("wk_", lambda count: b"\xff" * count)
    assert id_of(text) == id
    assert len(text) == 3 + 8 + 1 + 43
    for bad in ("", "wk_", text[:-1], text + "a", " " + text, text.replace("_", "-"), "wk_aaaaaaaa_" + "é" * 43):
        assert id_of(bad) is None
    assert redact(f"x {text} y") == f"x wk_{id}_… y"
    for bad in ("", " a", "a b", "a" * 65, "ä", "a\n"):
        with pytest.raises(BadName):
            check_name(bad)
