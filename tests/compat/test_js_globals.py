"""`import js` and the modules beside it, as a Worker's Python code uses them."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.compat.workers_stage import played, write_worker
from wakeful.compat.workers import Request
from wakeful.compat.workers.failures import JsException, JsRangeError, JsTypeError, Unsupported
from wakeful.compat.workers.js_globals import Date, js_globals
from wakeful.compat.workers.urls import FIELDS_MAX, URL, URLSearchParams
from wakeful.compat.workers.values import plain
from wakeful.values.codec import decode, encode


@pytest.fixture
def js() -> Any:
    from types import SimpleNamespace

    return SimpleNamespace(**js_globals(env="the env"))


def test_a_part_of_a_url_that_is_set_changes_it() -> None:
    url = URL.new("https://example.com/a?x=1#end")
    url.pathname, url.hash, url.hostname, url.port = "/b c", "top", "example.org", 8443
    assert str(url) == "https://example.org:8443/b%20c?x=1#top"
    url.search = "?y=2"
    assert url.searchParams.get("y") == "2"
    assert url.searchParams.get("x") is None
    url.protocol = "http:"
    url.port = "not a port"  # is not taken, as there
    assert url.href == "http://example.org:8443/b%20c?y=2#top"
    url.href = "https://other.example/?z=3"
    assert (url.origin, url.searchParams.get("z")) == ("https://other.example", "3")


def test_a_query_that_is_set_changes_its_url() -> None:
    url = URL("https://example.com/a?x=1&y=2&x=3")
    url.searchParams.set("x", 5)
    assert url.search == "?x=5&y=2"
    url.searchParams.append("name", "a b~*")
    assert url.href == "https://example.com/a?x=5&y=2&name=a+b%7E*"
    url.searchParams.delete("y")
    url.searchParams.delete("x")
    url.searchParams.delete("name")
    assert url.href == "https://example.com/a"


def test_urls_are_joined_and_judged() -> None:
    assert str(URL.new("../c?d", "https://example.com/a/b/")) == "https://example.com/a/c?d"
    assert str(URL.new("HTTPS://EXAMPLE.com:443/%7ea/../b")) == "https://example.com/b"
    assert URL.canParse("/a") is False
    assert URL.parse("nothing whole") is None
    with pytest.raises(JsTypeError, match="no whole URL"):
        URL.new("/a", "b")


def test_a_query_is_iterated_counted_and_sorted() -> None:
    query = URLSearchParams("?b=2&a=1&b=3&c")
    assert list(query) == [("b", "2"), ("a", "1"), ("b", "3"), ("c", "")]
    assert (query.size, query.has("b", "3"), query.has("b", "4")) == (4, True, False)
    query.sort()
    assert str(query) == "a=1&b=2&b=3&c="
    seen: list[tuple[str, str]] = []
    query.forEach(lambda value, name, whole: seen.append((name, value)))
    assert seen == query.entries()
    assert list(dict(query.items())) == ["a", "b", "c"]


def test_a_query_of_a_stranger_is_bounded() -> None:
    with pytest.raises(JsTypeError, match="fields"):
        URLSearchParams("&" * FIELDS_MAX)


def test_a_date_is_a_datetime_with_the_methods_of_both() -> None:
    date = Date.new("2026-03-01T12:30:15.250Z")
    assert date.getTime() == 1_772_368_215_250
    assert date.toISOString() == "2026-03-01T12:30:15.250Z"
    assert (date.getFullYear(), date.getMonth(), date.getDate(), date.getDay()) == (2026, 2, 1, 0)
    assert (date.getHours(), date.getUTCMinutes(), date.getMilliseconds()) == (12, 30, 250)
    assert Date.new(date.getTime()) == date
    assert Date.UTC(2026, 2, 1, 12, 30, 15, 250) == date.getTime()
    assert Date.parse("1970-01-01") == 0
    assert isinstance(Date.now(), int)
    assert decode(encode(plain(date))) == date  # it can be stored


def test_names_of_objects(js: Any) -> None:
    same = getattr(js.Object, "is")
    assert same("a", "a")
    assert same(float("nan"), float("nan"))
    assert not same({}, {})
    assert js.Object.assign({"a": 1}, {"b": 2}, None) == {"a": 1, "b": 2}
    assert js.JSON.parse(js.JSON.stringify({"a": [1, None]})).a == [1, None]
    assert js.JSON.stringify({"a": 1}, None, 2) == '{\n  "a": 1\n}'
    assert js.btoa("hé") == "aOk="
    assert js.atob("aOk=") == "hé"
    assert js.TextDecoder.new().decode(js.TextEncoder.new().encode("hé")) == "hé"
    with pytest.raises(JsTypeError):
        js.TextDecoder.new("utf-8", {"fatal": True}).decode(b"\xff")
    clone = js.structuredClone(given := {"a": [1]})
    clone["a"].append(2)
    assert given == {"a": [1]}


async def test_digests_and_chance(js: Any) -> None:
    subtle = js.crypto.subtle
    assert await subtle.digest("SHA-256", b"a") == hashlib.sha256(b"a").digest()
    key = await subtle.importKey("raw", b"secret", {"name": "HMAC", "hash": "SHA-256"}, False, ["sign", "verify"])
    signed = await subtle.sign("HMAC", key, b"message")
    assert await subtle.verify("HMAC", key, signed, b"message")
    assert not await subtle.verify("HMAC", key, signed, b"another")
    assert subtle.timingSafeEqual(b"ab", b"ab")
    with pytest.raises(Unsupported, match="cryptography"):
        await subtle.importKey("jwk", {}, "RSA", False, [])
    with pytest.raises(JsException, match="SHA-256"):
        await subtle.digest("SHA-3", b"")
    with pytest.raises(AttributeError, match=r"crypto\.subtle\.encrypt"):
        subtle.encrypt(b"")
    filled = js.crypto.getRandomValues(js.Uint8Array.new(16))
    assert len(filled) == 16
    assert any(filled)
    with pytest.raises(JsRangeError):
        js.crypto.getRandomValues(bytearray(65_537))


async def test_timers_and_what_is_awaited_together(js: Any) -> None:
    rung: list[int] = []
    often = js.setInterval(rung.append, 0, 1)
    once = js.setTimeout(rung.append, 0, 2)
    js.clearTimeout(once)
    while len(rung) < 3:  # noqa: ASYNC110  it rings on the loop
        await asyncio.sleep(0)
    js.clearInterval(often)
    count = len(rung)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(rung) == count
    assert set(rung) == {1}

    async def give(value: int) -> int:
        return value

    async def fail() -> None:
        raise ValueError("no")

    assert await js.Promise.all([give(1), 2]) == [1, 2]
    assert await js.Promise.race([give(1)]) == 1
    settled = await js.Promise.allSettled([give(1), fail()])
    assert [one.status for one in settled] == ["fulfilled", "rejected"]


async def test_what_is_aborted_is_not_asked(js: Any) -> None:
    controller = js.AbortController.new()
    heard: list[Any] = []
    controller.signal.addEventListener("abort", heard.append)
    controller.abort("enough")
    controller.abort("again")
    assert [event.type for event in heard] == ["abort"]
    with pytest.raises(JsException, match="enough"):
        await js.fetch("http://127.0.0.1:1/", {"signal": controller.signal})


async def test_forms_blobs_and_headers_have_what_javascript_calls_them_by(tmp_path: Path) -> None:
    code = """
        from js import Blob, File, FormData, Headers, Math, Number, Object, Set, encodeURIComponent
        from workers import Response, WorkerEntrypoint, env, import_from_javascript, patch_env

        class Default(WorkerEntrypoint):
            async def fetch(self, request):
                form, seen = FormData.new(), []
                form.append("note", Blob.new(["some ", b"text"], {"type": "text/plain"}))
                form.append("file", File.new(["x"], "a.txt", type="text/html"), "b.txt")
                form.append("word", 5)
                form.forEach(lambda value, name, whole: seen.append([name, getattr(value, "name", value)]))
                note = form.get("note")
                headers = Headers.new({"a": "1"})
                headers.forEach(lambda value, name, whole: seen.append([name, value]))
                theirs = await import_from_javascript("cloudflare:workers")
                with patch_env(GREETING="patched"):
                    patched = theirs.env.GREETING
                return Response.json([
                    seen, note.size, note.type, await note.text(), await note.slice(5).text(),
                    (await note.slice(-4, -2).arrayBuffer()).decode(), len(form.entries()),
                    Math.floor(2.7), Math.round(2.5), Math.max(1, 3), Number.isInteger(3.0), len(Set.new([1, 1])),
                    encodeURIComponent("a b/ü!"), getattr(Object, "is")(float("nan"), float("nan")), Object.is_(0, "0"),
                    patched, env.GREETING,
                ])
    """
    wrangler = 'name = "sample"\nmain = "entry.py"\n[vars]\nGREETING = "hello"\n'
    async with played(write_worker(tmp_path, code, wrangler)) as (worker, _):
        answer = await worker.fetch(Request("http://x/"))
        assert await answer.json() == [
            [["note", "blob"], ["file", "b.txt"], ["word", "5"], ["a", "1"]],
            *[9, "text/plain", "some text", "text", "te", 3],
            *[2, 3, 3, True, 1, "a%20b%2F%C3%BC!", True, False, "patched", "hello"],
        ]


async def test_a_javascript_module_that_is_not_here_is_named(tmp_path: Path) -> None:
    code = """
        from workers import Response, WorkerEntrypoint, import_from_javascript

        class Default(WorkerEntrypoint):
            async def fetch(self, request):
                import_from_javascript("cloudflare:sockets")
    """
    wrangler = 'name = "sample"\nmain = "entry.py"\n'
    async with played(write_worker(tmp_path, code, wrangler)) as (worker, _):
        with pytest.raises(NotImplementedError, match="cloudflare:sockets"):
            await worker.fetch(Request("http://x/"))
