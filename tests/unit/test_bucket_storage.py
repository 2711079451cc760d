"""What is beneath a store that is a bucket: storages, creates whose answers are lost, and URLs."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from obstore.exceptions import GenericError

from wakeful.store import open_url
from wakeful.store.bucket import BucketStore
from wakeful.store.bucket.cloud import CloudStorage
from wakeful.store.bucket.folder import FolderStorage
from wakeful.store.bucket.storage import ObjectStorage, Patient, Refused, Unsure, check_conditions
from wakeful.store.bucket.url import parse_url
from wakeful.testing.buckets import EmulatedBucket
from wakeful.values.errors import (
    BadUrl,
    OutcomeUnknown,
)


@pytest.fixture(params=["emulated", "folder", "obstore"])
def objects(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStorage:
    if request.param == "emulated":
        return EmulatedBucket()
    if request.param == "folder":
        return FolderStorage(str(tmp_path / "folder"))
    from obstore.store import MemoryStore as Objects

    monkeypatch.setattr("wakeful.store.bucket.cloud._open", lambda *where: Objects())
    return CloudStorage("s3", "bucket", "prefix", {}, place="s3://bucket/prefix")


def test_every_storage_does_what_the_seam_says(objects: ObjectStorage) -> None:
    assert objects.get("a/1") is None
    assert objects.create("a/1", b"one")
    assert not objects.create("a/1", b"two")
    objects.put("a/2", b"")
    objects.put("a/2", b"again")
    objects.put("b/1", b"other")
    assert (objects.get("a/1"), objects.get("a/2")) == (b"one", b"again")
    assert objects.keys("a/") == ["a/1", "a/2"]
    assert objects.keys("a/2") == ["a/2"]
    objects.delete(["a/1", "a/1", "b/1"])
    assert objects.keys("") == ["a/2"]
    assert objects.create("a/1", b"three")
    check_conditions(Patient(objects, lambda seconds: None), "probe")


def test_of_many_who_create_one_is_told_yes(objects: ObjectStorage) -> None:
    told: list[bool] = []
    gate = threading.Barrier(8)

    def create(n: int) -> None:
        gate.wait()
        told.append(objects.create("one", b"%d" % n))

    threads = [threading.Thread(target=create, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == [False] * 7 + [True]


def test_a_create_whose_answer_was_lost_finds_that_it_was_done() -> None:
    bucket = EmulatedBucket()
    real = bucket.create

    def lose(key: str, data: bytes) -> bool:
        real(key, data)
        bucket.create = real  # type: ignore[method-assign]
        raise Unsure("lost")

    bucket.create = lose  # type: ignore[method-assign]
    patient = Patient(bucket, lambda seconds: None)
    assert patient.create("a", b"mine")
    assert not patient.create("a", b"another's")
    assert bucket.objects["a"] == b"mine"


def test_a_refusal_after_a_lost_answer_is_no_answer() -> None:
    bucket = EmulatedBucket()
    answers: Iterator[Callable[[], bool]] = iter([_raise(Unsure("lost")), _raise(Refused("403"))])
    bucket.create = lambda key, data: next(answers)()  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown):
        Patient(bucket, lambda seconds: None).create("a", b"mine")


def _raise(error: Exception) -> Callable[[], bool]:
    def answer() -> bool:
        raise error

    return answer


# URLs


def test_urls_name_a_place_and_a_file_for_it() -> None:
    one, same = parse_url("s3://acme/app/?region=eu-west-1"), parse_url("s3://acme/app?cache=/tmp/x")
    assert (one.bucket, one.prefix, one.options) == ("acme", "app", {"region": "eu-west-1"})
    assert one.place == same.place == "s3://acme/app"
    assert parse_url("s3://acme/app?endpoint=http://localhost:9000").place != one.place
    assert same.cache.startswith("/tmp/x/bucket-")
    assert isinstance(open_url("gs://acme/app"), BucketStore)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("s3:", "needs the name of a bucket"),
        ("s3:///prefix", "needs the name of a bucket"),
        ("s3://KEY:hunter2@bucket/x", "credentials do not belong into the URL"),
        ("s3://bucket/x?regoin=eu", "regoin"),
        ("gs://bucket/x?region=eu", "region"),
        ("s3://bucket?lease=15s", "lease=15s"),
        ("s3://bucket/x?cache=", "cache of 's3:' has no value"),
        ("s3://bucket/x?region=eu&region=us", "region of 's3:' is there twice"),
        ("s3://bucket/x?endpoint=localhost:9000", "no address of a server; write endpoint=https://HOST"),
        ("s3://bucket/x?endpoint=ftp://host", "no address of a server"),
        ("s3://bucket/x?endpoint=http://", "no address of a server"),
        ("s3://bucket/x?endpoint=http://host:99999", "no address of a server"),
        ("az://bucket/x?endpoint=https://a%20b", "no address of a server"),
        ("bucket:", "needs a folder"),
        ("bucket:@nobody", "nobody in this process"),
        ("bucket:/srv/b?cache=/srv/b", "inside of it, in /srv/b: .*elsewhere with .cache=FOLDER"),
        ("bucket:/srv/b?cache=/srv/x/../b/cache", "inside of it, in /srv/b/cache"),
        (f"bucket:{Path.home()}", "inside of it"),
    ],
)
def test_a_url_that_can_t_be_one_is_refused(url: str, says: str) -> None:
    with pytest.raises(BadUrl, match=says) as refused:
        open_url(url)
    assert "hunter2" not in str(refused.value)


async def test_a_folder_that_can_t_be_one_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    for folder in (file, file / "below" / "it"):
        for readonly in (False, True):
            store = open_url(f"bucket:{folder}?cache={tmp_path}/cache")
            with pytest.raises(BadUrl, match=f"bucket:{folder} can't be a folder: {file} is no folder; give another"):
                await store.open(now=0, readonly=readonly)
    monkeypatch.setattr(os, "access", lambda *asked: False)  # root may do everything
    store = open_url(f"bucket:{tmp_path}/new?cache={tmp_path}/cache")
    with pytest.raises(BadUrl, match=f"{tmp_path} is not writable for this user"):
        await store.open(now=0)


# What is said when it can't be reached


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> CloudStorage:
    """Of the client itself, with credentials, at a port where nobody listens."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    return CloudStorage("s3", "b", "p", {"endpoint": "http://127.0.0.1:1"}, place="s3://b/p")


def test_why_a_server_is_not_reached_is_said(s3: CloudStorage) -> None:
    with pytest.raises(Unsure, match=r"error sending request \(Connection refused\)"):
        s3.get("slots/1")


def test_that_there_are_no_credentials_is_said(s3: CloudStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not only that the machine has no role."""
    said = "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 1ms - HTTP error"

    def ask(*where: object) -> None:
        raise GenericError(said)

    monkeypatch.setattr("obstore.get", ask)
    with pytest.raises(Unsure, match=r"no credentials were found: .*AWS_ACCESS_KEY_ID.*latest/api/token"):
        s3.get("slots/1")


def test_a_client_that_fails_in_itself_ends_no_node(s3: CloudStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its panics are no `Exception`; whether a create was done is unknown then, as after any lost answer."""
    panic = type("PanicException", (BaseException,), {})

    def ask(*where: object, **how: object) -> None:
        raise panic("called `Result::unwrap()` on an `Err` value")

    monkeypatch.setattr("obstore.put", ask)
    with pytest.raises(Unsure, match="the client of the storage failed: called"):
        s3.create("slots/1", b"x")


@pytest.mark.parametrize("verb", ["create", "put"])
def test_a_full_disk_beneath_a_folder_is_a_refusal_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    folder = FolderStorage(str(tmp_path))

    def fill(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fill)
    with pytest.raises(Refused, match="No space left on device: slots/1; make room"):
        getattr(folder, verb)("slots/1", b"x")
    monkeypatch.undo()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert folder.create("slots/1", b"x")
