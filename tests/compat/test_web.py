"""Requests, responses, headers and forms as Cloudflare's Python code uses them."""

import json
from urllib.parse import parse_qsl

import pytest

from wakeful.compat.workers import Headers, Request, Response
from wakeful.compat.workers.forms import Blob, File, FormData
from wakeful.compat.workers.js_globals import Date
from wakeful.compat.workers.urls import URL, URLSearchParams
from wakeful.compat.workers.web import request_data, request_of, response_data, response_of

FORM = "application/x-www-form-urlencoded"


async def test_a_response_is_read_once_and_says_its_type() -> None:
    response = Response("hi", status=201, headers={"X-A": "1"})
    assert (response.status, response.ok, response.headers["x-a"]) == (201, True, "1")
    assert response.headers.get("Content-Type") == "text/plain;charset=UTF-8"
    copy = response.clone()
    assert await response.text() == "hi"
    with pytest.raises(OSError, match="read already"):
        await response.text()
    assert await copy.bytes() == b"hi"


async def test_json_is_made_and_read_by_one_name() -> None:
    made = Response.json({"a": [1, None]}, status=202)
    assert (made.status, made.headers.get("content-type")) == (202, "application/json")
    assert await made.json() == {"a": [1, None]}
    assert Response.json([], headers={"content-type": "text/x"}).headers.get("content-type") == "text/x"


async def test_javascripts_ways_to_make_one() -> None:
    made = Response.new("x", {"status": 404, "headers": {"a": "b"}})
    assert (made.status, made.headers.get("a"), await made.text()) == (404, "b", "x")
    assert Response.new("x", status=418).status == 418
    moved = Response.redirect("https://example.com/", 301)
    assert (moved.status, moved.headers.get("location")) == (301, "https://example.com/")
    assert (
        Response.redirect("https://example.com/é?a=%20").headers.get("location") == "https://example.com/%C3%A9?a=%20"
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: Response("x", status=204),
        lambda: Response({"not": "a body"}),
        lambda: Response("x", status=99),
        lambda: Response("x", colour="red"),
        lambda: Response.redirect("/", 200),
        lambda: Request("/not/whole"),
        lambda: Request("http://x/", body="x"),
        lambda: Headers({"a": "b\r\nc: d"}),
        lambda: Headers({"a b": "c"}),
        lambda: Headers({"a": "日本"}),
        lambda: Response(iter([b"nothing is streamed"])),
        lambda: URL.new("not whole"),
    ],
)
def test_what_can_not_be_is_refused(make: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        make()  # type: ignore[operator]


def test_headers_are_by_name_in_any_case_and_missing_ones_are_none() -> None:
    headers = Headers([("Set-Cookie", "a=1"), ("set-cookie", "b=2"), ("X", "1")])
    assert headers.getSetCookie() == ["a=1", "b=2"]
    assert (headers["x"], headers["none"], headers.get("none", "d"), "X" in headers) == ("1", None, "d", True)
    headers.set("x", 2)
    headers.delete("set-cookie")
    assert (headers.items(), list(headers), len(headers)) == ([("x", "2")], ["x"], 1)


async def test_they_travel_whole() -> None:
    request = Request("http://x/é?q=1", method="POST", headers={"a": "b"}, body=b"\0\xff")
    got = request_of(request_data(request))
    assert (got.url, got.method, got.headers.get("a"), await got.bytes()) == ("http://x/é?q=1", "POST", "b", b"\0\xff")
    response = response_of(response_data(Response(b"\1", 203, "Fine", [("a", "1"), ("a", "2")])))
    assert (response.status, response.status_text, response.headers.get("a")) == (203, "Fine", "1, 2")
    assert await response.bytes() == b"\1"


async def test_a_request_from_another_takes_its_body() -> None:
    first = Request("http://x/", method="PUT", body="hello", headers={"a": "b"})
    second = Request(first, headers={"c": "d"})
    assert (second.method, second.headers.get("a"), second.headers.get("c")) == ("PUT", None, "d")
    assert await second.text() == "hello"
    assert first.bodyUsed


async def test_a_request_at_another_place_is_the_same_otherwise() -> None:
    first = Request("http://x?q", method="PUT", body="hello", headers={"a": "b"}, redirect="manual")
    second = Request("http://y", first)
    assert (first.url, second.url, second.method, second.headers.get("a")) == ("http://x/?q", "http://y/", "PUT", "b")
    assert (second.redirect, second.clone().redirect, await second.text()) == ("manual", "manual", "hello")
    assert request_of(request_data(Request(first.url, redirect="error"))).redirect == "error"


async def test_a_query_is_a_body_too() -> None:
    query = URLSearchParams.new({"a": 1, "b": "x y"})
    query.append("a", "é")
    sent = Request("http://x/", method="POST", body=query)
    assert (query.toString(), (await sent.form_data()).get_all("a")) == ("a=1&b=x+y&a=%C3%A9", ["1", "é"])


def test_a_form_is_a_mapping() -> None:
    form = FormData({"a": "1"})
    form["b"] = Blob("x", "text/x")
    form["b"] = "2"
    del form["a"]
    assert (len(form), form.values(), dict(form.items())) == (1, ["2"], {"b": "2"})


async def test_forms_come_and_go_in_both_encodings() -> None:
    plain = Request(
        "http://x/", method="POST", body="a=1&a=2&b=%20", headers={"content-type": "application/x-www-form-urlencoded"}
    )
    found = await plain.form_data()
    assert (found.getAll("a"), found["b"], "c" in found) == (["1", "2"], " ", False)
    form = FormData({"text": "ünï", "many": ["1", "2"]})
    form.append("file", File(b"\0data\r\n", "a.bin", content_type="application/x-thing"))
    sent = Request("http://x/", method="POST", body=form)
    got = await sent.formData()
    file = got["file"]
    assert (got["text"], got.get_all("many"), file.name, file.content_type) == (
        "ünï", ["1", "2"], "a.bin", "application/x-thing",
    )  # fmt: skip
    assert await file.bytes() == b"\0data\r\n"
    with pytest.raises(TypeError, match="no form"):
        await Request("http://x/", method="POST", body="x").form_data()


async def test_a_blob_is_bytes_with_a_type() -> None:
    blob = Blob(["a", b"b", Blob("c")], content_type="text/x")
    assert (blob.size, await blob.text(), Response(blob).headers.get("content-type")) == (3, "abc", "text/x")


def test_urls_and_dates() -> None:
    url = URL.new("https://user@example.com:8443/a%20b?x=1&x=2&y=#end")
    assert (url.pathname, url.host, url.port, url.hash) == ("/a%20b", "example.com:8443", "8443", "#end")
    assert (url.searchParams.getAll("x"), url.searchParams.get("y"), url.searchParams.has("z")) == (
        ["1", "2"],
        "",
        False,
    )
    assert Date.new(1_000).isoformat() == "1970-01-01T00:00:01+00:00"


PART = b"--x\r\nContent-Disposition: form-data; "


def form_request(body: bytes, boundary: str = "x") -> Request:
    return Request(
        "http://x/", method="POST", body=body, headers={"content-type": f"multipart/form-data; boundary={boundary}"}
    )


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (b'name="a%20b"', ("a%20b", "v\r\n--xy", None)),
        (b'name="a\\"b"', ('a"b', "v\r\n--xy", None)),
        (b"name=a; filename=b.txt", ("a", "v\r\n--xy", "b.txt")),
        (b'name="a"; filename="x;y.txt"\r\nContent-Type: text/x; b=c', ("a", "v\r\n--xy", "x;y.txt")),
        ("name=\"é\"; filename*=utf-8''%C3%A9.txt".encode(), ("é", "v\r\n--xy", "é.txt")),
        (b'name="a"; filename=""', ("a", "v\r\n--xy", "")),
    ],
)
async def test_the_parts_of_a_form(said: bytes, found: tuple[str, str, str | None]) -> None:
    form = await form_request(b"before\r\n" + PART + said + b"\r\n\r\nv\r\n--xy\r\n--x--\r\nafter").form_data()
    [(name, value)] = form.items()
    text = value if isinstance(value, str) else await value.text()
    assert (name, text, getattr(value, "name", None)) == found


async def test_a_form_of_many_parts_is_read_in_one_pass() -> None:
    """40,000 of them took 13.6 s."""
    one = PART + b'name="a"\r\n\r\n1\r\n'
    assert len(await form_request(one * 19_000 + b"--x--").form_data()) == 19_000
    for body in (one * 20_001 + b"--x--", one[:2] + b"x\r\n" + b"a: b\r\n" * 9_000):
        with pytest.raises(TypeError, match=r"more than 20000 fields|told from each other"):
            await form_request(body).form_data()
    with pytest.raises(TypeError, match="more than 20000 fields"):
        await Request("http://x/", method="POST", body="a=1&" * 30_000, headers={"content-type": FORM}).form_data()


@pytest.mark.parametrize("part", ["%C3%A9", "%", "%4", "%%41", "+", "é", "a%zz"])
async def test_escapes_of_a_long_field_are_what_they_were(part: str) -> None:
    text = part * 40_000
    sent = Request("http://x/", method="POST", body=f"a={text}&b&&=c", headers={"content-type": FORM})
    assert (await sent.form_data()).items() == parse_qsl(f"a={text}&b&&=c", keep_blank_values=True)


async def test_long_json_is_read_beside_the_loop_and_lists_are_counted() -> None:
    given = [{"a": [1, 2.5, None, "x"]}] * 9_000
    sent = Request("http://x/", method="POST", body=json.dumps(given))
    assert await sent.json() == given
    with pytest.raises(TypeError, match="more than 200000 lists"):
        await Request("http://x/", method="POST", body="[" + "[]," * 200_001 + "1]").json()
