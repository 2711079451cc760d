"""R2 buckets of a Worker: objects, ranges, conditions, lists, uploads in parts; on disk and over nodes."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.compat.workers_stage import played, write_worker
from wakeful.compat.workers import Headers

CODE = """
    from workers import DurableObject, WorkerEntrypoint

    class Sample(DurableObject):
        async def keep(self, key, text):
            await self.env.FILES.put(key, text)
            return await (await self.env.FILES.get(key)).text()

    class Default(WorkerEntrypoint):
        pass
"""
WRANGLER = """
name = "sample"
main = "entry.py"
compatibility_date = "2026-03-01"

[[durable_objects.bindings]]
name = "SAMPLE"
class_name = "Sample"

[[r2_buckets]]
binding = "FILES"
bucket_name = "files"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_worker(tmp_path, CODE, WRANGLER)


def cls_of(worker: Any) -> Any:
    return worker.app.deployment.registry.by_name("R2Bucket").cls


async def test_an_object_is_what_was_put(folder: Path) -> None:
    async with played(folder) as (worker, world):
        files = worker.env.FILES
        assert (await files.get("a"), await files.head("a")) == (None, None)
        put = await files.put(
            "a", '{"n": 1}', httpMetadata={"contentType": "application/json"}, customMetadata={"by": "me", "n": 1}
        )
        digest = hashlib.md5(b'{"n": 1}').hexdigest()
        assert (put.key, put.size, put.etag, put.httpEtag) == ("a", 8, digest, f'"{digest}"')
        assert put.uploaded.timestamp() == world.now().timestamp()
        got = await files.get("a")
        assert (await got.json()).n == 1
        assert got.bodyUsed
        assert got.httpMetadata.contentType == "application/json"
        assert got.customMetadata.to_py() == {"by": "me", "n": "1"}
        assert (got.checksums.md5.hex(), got.checksums.sha1, got.checksums.toJSON()) == (digest, None, {"md5": digest})
        headers = Headers()
        got.writeHttpMetadata(headers)
        assert headers.items() == [("content-type", "application/json")]
        await files.put("a", b"\0\1")
        assert await (await files.get("a")).bytes() == b"\0\1"
        assert (await files.head("a")).httpMetadata == {}
        await files.delete(["a", "none"])
        assert await files.get("a") is None
        assert list(await world.rows(cls_of(worker), "files")) == ["n"], "its bytes are gone too"
        assert await worker.env.SAMPLE.getByName("o").keep("b", "text") == "text"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"offset": 2}, "cdefghij"),
        ({"offset": 2, "length": 3}, "cde"),
        ({"length": 4}, "abcd"),
        ({"suffix": 3}, "hij"),
        ({"offset": 8, "length": 9}, "ij"),
        ({"suffix": 99}, "abcdefghij"),
        (Headers({"range": "bytes=1-2"}), "bc"),
        (Headers({"range": "bytes=8-"}), "ij"),
        (Headers({"range": "bytes=-1"}), "j"),
    ],
)
async def test_a_part_of_it(folder: Path, given: Any, expected: str) -> None:
    async with played(folder) as (worker, _):
        await worker.env.FILES.put("a", "abcdefghij")
        got = await worker.env.FILES.get("a", range=given)
        assert await got.text() == expected
        assert (got.range.length, got.size) == (len(expected), 10)


async def test_conditions_of_puts_and_gets(folder: Path) -> None:
    async with played(folder) as (worker, world):
        files = worker.env.FILES
        etag = (await files.put("a", "1")).etag
        at = world.now()
        await world.advance("1m")
        for given, is_read in (
            ({"etagMatches": etag}, True),
            ({"etagMatches": "x"}, False),
            ({"etagDoesNotMatch": etag}, False),
            ({"etagDoesNotMatch": "x"}, True),
            ({"uploadedBefore": world.now()}, True),
            ({"uploadedBefore": at}, False),
            ({"uploadedAfter": at}, False),
            (Headers({"if-none-match": f'"{etag}"'}), False),
            (Headers({"if-match": "*"}), True),
        ):
            got = await files.get("a", onlyIf=given)
            assert got.key == "a"
            assert hasattr(got, "body") is is_read, given
        assert await files.put("a", "2", onlyIf={"etagMatches": "x"}) is None
        assert await files.put("new", "2", onlyIf={"etagMatches": "x"}) is None
        assert await (await files.get("a")).text() == "1"
        assert (await files.put("a", "2", onlyIf={"etagMatches": etag})).size == 1
        assert await files.put("a", "3", onlyIf=Headers({"if-none-match": "*"})) is None
        assert await files.put("a", b"x" * (9 << 20), onlyIf={"etagMatches": "x"}) is None
        rows = await world.rows(cls_of(worker), "files")
        assert sorted(name[0] for name in rows) == ["n", "o", "p"], "what was not put left nothing behind"


async def test_lists_with_folders_and_cursors(folder: Path) -> None:
    async with played(folder) as (worker, _):
        files = worker.env.FILES
        for key in ("b", "a/1", "a/2", "a/x/1", "a/x/2", "c", "ä"):
            await files.put(key, key, httpMetadata={"contentType": "t"}, customMetadata={"k": key})

        def told(found: Any) -> Any:
            return [one.key for one in found.objects], list(found.delimitedPrefixes), found.truncated

        assert told(await files.list()) == (["a/1", "a/2", "a/x/1", "a/x/2", "b", "c", "ä"], [], False)
        assert told(await files.list(delimiter="/")) == (["b", "c", "ä"], ["a/"], False)
        assert told(await files.list(prefix="a/", delimiter="/")) == (["a/1", "a/2"], ["a/x/"], False)
        assert told(await files.list(startAfter="a/x/1")) == (["a/x/2", "b", "c", "ä"], [], False)
        pages, cursor = [], None
        while True:
            page = await files.list(limit=2, delimiter="/", cursor=cursor)
            pages.append(told(page)[:2])
            if not page.truncated:
                break
            cursor = page.cursor
        assert pages == [(["b"], ["a/"]), (["c", "ä"], [])]
        listed = (await files.list(limit=1))["objects"][0]
        assert (listed.httpMetadata, listed.customMetadata, listed.size) == ({}, {}, 3)
        full = (await files.list(limit=1, include=["httpMetadata", "customMetadata"]))["objects"][0]
        assert (full.httpMetadata.contentType, full.customMetadata.k) == ("t", "a/1")


async def test_large_objects_and_uploads_in_parts_cross_nodes(folder: Path) -> None:
    async with played(folder, nodes=2) as (worker, world):
        files = worker.env.FILES
        large = bytes(range(251)) * 90_000
        await files.put("large", large)
        assert await (await files.get("large")).bytes() == large
        middle = await files.get("large", range={"offset": 9_000_001, "length": 5_000})
        assert await middle.bytes() == large[9_000_001:9_005_001]
        upload = await files.createMultipartUpload("parts", customMetadata={"a": "b"})
        first = await upload.uploadPart(1, large[: 6 << 20])
        await upload.uploadPart(2, b"not this")
        again = files.resumeMultipartUpload("parts", upload.uploadId)
        second = await again.uploadPart(2, b"the end")
        assert await files.head("parts") is None
        done = await again.complete([second, first])
        assert (done.size, done.etag[-2:], done.customMetadata.a) == ((6 << 20) + 7, "-2", "b")
        assert await (await files.get("parts")).bytes() == large[: 6 << 20] + b"the end"
        tail = await files.get("parts", range={"suffix": 10})
        assert await tail.bytes() == large[(6 << 20) - 3 : 6 << 20] + b"the end"
        await files.delete(["large", "parts"])
        assert list(await world.rows(cls_of(worker), "files")) == ["n"]


async def test_an_upload_that_was_left_is_swept(folder: Path) -> None:
    async with played(folder) as (worker, world):
        files = worker.env.FILES
        upload = await files.createMultipartUpload("a")
        await upload.uploadPart(1, "x")
        gone = await files.createMultipartUpload("b")
        await gone.uploadPart(1, "y")
        await gone.abort()
        await world.advance(days=6)
        assert len(await world.rows(cls_of(worker), "files")) == 4
        await world.advance(days=2)
        assert list(await world.rows(cls_of(worker), "files")) == ["n"]
        with pytest.raises(Exception, match="does not exist"):
            await upload.uploadPart(2, "x")
        assert list(await world.rows(cls_of(worker), "files")) == ["n"], "the part that came too late is gone too"


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (lambda r2: r2.put("", "x"), r"put: The specified object name is not valid\. \(10020\)"),
        (lambda r2: r2.get("x" * 1025), "10020"),
        (lambda r2: r2.put("a", {"b": 1}), "takes text, bytes or a Blob"),
        (lambda r2: r2.put("a", b"x" * (100 * 2**20 + 1)), "put it in parts"),
        (lambda r2: r2.put("a", "x", customMetadata={"k": "x" * 8192}), "10012"),
        (lambda r2: r2.put("a", "x", md5="0" * 32), "The MD5 checksum you specified did not match"),
        (lambda r2: r2.put("a", "x", sha256=b"\0" * 32), "The SHA-256 checksum you specified did not match"),
        (lambda r2: r2.put("a", "x", ssecKey="0" * 64), "ssecKey"),
        (lambda r2: r2.list(limit=1001), "MaxKeys params must be positive integer <= 1000"),
        (lambda r2: r2.list(cursor="%"), "10031"),
        (lambda r2: r2.delete(["a"] * 1001), "1001 keys at once"),
        (lambda r2: r2.get("there", range={"offset": 1}), "range is not satisfiable"),
        (lambda r2: r2.resumeMultipartUpload("a", "no").complete([]), "10024"),
        (lambda r2: r2.resumeMultipartUpload("a", "no").uploadPart(0, "x"), "between 1 and 10000"),
    ],
)
async def test_what_is_wrong_is_said_as_there(folder: Path, what: Any, words: str) -> None:
    async with played(folder) as (worker, _):
        await worker.env.FILES.put("there", "x")
        with pytest.raises(Exception, match=words):
            await what(worker.env.FILES)
        assert await worker.env.FILES.head("a") is None


async def test_objects_are_on_disk_and_seen(folder: Path, tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'r2.db'}"
    async with played(folder, store=url) as (worker, world):
        await worker.env.FILES.put("a", b"x" * (2 << 20))
        await world.crash()
    async with played(folder, store=url) as (worker, _):
        assert (await worker.env.FILES.head("a")).size == 2 << 20
        assert [info.key async for info in worker.app.objects(cls_of(worker))] == ["files"]


async def test_parts_that_do_not_fit_are_refused(folder: Path) -> None:
    async with played(folder) as (worker, _):
        upload = await worker.env.FILES.createMultipartUpload("a")
        one, two = await upload.uploadPart(1, "small"), await upload.uploadPart(2, "last")
        with pytest.raises(Exception, match="10011"):
            await upload.complete([one, two])
        with pytest.raises(Exception, match="10025"):
            await upload.complete([{"partNumber": 1, "etag": "0" * 32}])
        assert (await upload.complete([two])).size == 4
