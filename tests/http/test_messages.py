"""What is wrong with a request is said so that it can be mended: what, where, and what there is instead."""

import re
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests.http.http_stage import opened, problem
from tests.tidy.tidy_pages import DOCS
from wakeful.http.asks import MSGPACK
from wakeful.values.codec import VERSION, encode

PACKED = {"content-type": MSGPACK.decode()}
FAULTS = {
    "nothing": (b"", "it is empty"),
    "json": (b"[[7], {}]", "it begins with 0x5b, not with 0x01, the version of Wakeful's codec"),
    "newer": (b"\x02\x92\x91\x07\x80", "it begins with 0x02, not with 0x01"),
    "version only": (b"\x01", "it ends too early, at byte 1"),
    "ends": (b"\x01\x92\x91\x07", "it ends too early, at byte 4"),
    "more": (b"\x01\x92\x91\x07\x80\x00", "trailing characters (byte 5)"),
    "no such head": (b"\x01\x92\x91\xc1\x80", "invalid opcode '\\xc1' (byte 3)"),
    "text": (b"\x01\x92\x91\xa2\xff\xff\x80", "utf-8"),
    "bare number": (b"\x01\x92\x91\xc7\x09\x01\x01" + bytes(8) + b"\x80", "extension type 1 (int) at byte 3: "),
    "bare uuid": (b"\x01\x92\x91\xd8\x06" + b"\xc1" * 16 + b"\x80", "extension type 6 (UUID) at byte 3: "),
    "no date": (b"\x01\x92\x91\xc7\x03\x03\xa2xx\x80", "its content must be text of ISO 8601, in MessagePack"),
    "none of ours": (b"\x01\x92\x91\xd4\x63\x05\x80", "extension type 99 at byte 3 is not known"),
    "within": (encode([[("a", "b")], {}]).replace(b"\xa1b", b"\xd4\x08"), "extension type 8 (tuple)"),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_of_our_own_encoding_says_what_and_at_which_byte(name: str) -> None:
    body, words = FAULTS[name]
    async with opened() as stage:
        answer = await stage.ask("POST", "/v1/objects/Shop/a/echo", content=body, headers=PACKED)
        detail = problem(answer, 400, "body.msgpack")["detail"]
        assert detail.startswith("the body is not what Wakeful's codec writes: ")
        assert words in detail, detail


async def test_a_place_that_is_not_certain_is_not_said() -> None:
    odd = msgspec.msgpack.Ext(6, b"\xa1x")
    async with opened() as stage:
        body = VERSION + msgspec.msgpack.encode([[odd, odd], {}])
        answer = await stage.ask("POST", "/v1/objects/Shop/a/echo", content=body, headers=PACKED)
        assert "extension type 6 (UUID): its content must be 16 bytes" in problem(answer, 400, "body.msgpack")["detail"]


EXAMPLES = re.findall(r"`echo\((.+?)\)` is the body `([0-9a-f ]+)`", (DOCS / "http.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("argument", "body"), EXAMPLES)
async def test_the_bodies_on_the_page_are_those_that_the_codec_writes_and_reads(argument: str, body: str) -> None:
    value = eval(argument, {"UUID": UUID})
    assert bytes.fromhex(body) == encode([[value], {}])
    async with opened() as stage:
        headers = PACKED | {"accept": MSGPACK.decode()}
        answer = await stage.ask("POST", "/v1/objects/Shop/a/echo", content=bytes.fromhex(body), headers=headers)
        assert answer.status_code == 200, answer.text


def test_the_page_has_them() -> None:
    assert [argument for argument, _ in EXAMPLES] == ["7", "2**64", "UUID(int=1)"]


UNKNOWN: list[tuple[str, Any, str]] = [
    ("POST /v1/jobs", {"odd": 1}, "no field 'odd'; known: class, key, method, args, kwargs, at, after, job_key,"),
    ("POST /v1/jobs", {"retry": {"odd": 1}}, "no field 'odd' at $.retry; known: max_attempts, first, factor, most, on"),
    ("POST /v1/jobs/batch", {"jobs": [{"odd": 1}]}, "no field 'odd' at $.jobs[0]; known: class, key, method,"),
    ("POST /v1/jobs/batch", {"jobs": [], "then": {"odd": 1}}, "no field 'odd' at $.then; known: class, key, method,"),
    ("POST /v1/parked/redrive", {"odd": 1}, "no field 'odd'; known: numbers, all, class, key"),
    ("POST /v1/parked/redrive", {"o" * 5_000: 1}, "; known: numbers, all, class, key"),
    ("POST /v1/jobs", {"retry": {"o" * 5_000: 1}}, "at $.retry; known: max_attempts, first, factor, most, on"),
]


@pytest.mark.parametrize(("request_line", "body", "words"), UNKNOWN)
async def test_a_field_that_is_none_is_answered_with_those_that_there_are(
    request_line: str, body: dict[str, Any], words: str
) -> None:
    async with opened() as stage:
        method, path = request_line.split()
        answer = await stage.ask(method, path, json=body)
        assert words in problem(answer, 422, "body.fields")["detail"]


@pytest.mark.parametrize(
    ("text", "code"),
    [("99d", "deadline.long"), ("1h", "deadline.long"), ("9999999999", "deadline.long"), ("16m", "deadline.long"),
     ("soon", "deadline.form"), ("0", "deadline.form"), ("-1", "deadline.form"), ("1.5", "deadline.form"),
     ("9" * 5_000, "deadline.long"), ("", "deadline.form"), ("030s", "deadline.form")],
)  # fmt: skip
async def test_a_deadline_has_the_same_code_by_header_and_by_query(text: str, code: str) -> None:
    async with opened() as stage:
        for options in ({"headers": {"Wakeful-Deadline": text}}, {"params": {"deadline": text}}):
            answer = await stage.ask("POST", "/v1/objects/Shop/a/add", json=[1], **options)
            assert len(problem(answer, 400, code)["detail"]) < 200
