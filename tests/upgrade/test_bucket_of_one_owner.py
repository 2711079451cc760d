"""A prefix as the first form of the bucket store left it: one owner, a log for each session, the last one killed."""

import base64
import json
from pathlib import Path

import pytest

from tests.unit.bucket_process import Process, everything, kill
from wakeful.store import open_url
from wakeful.store.bucket import storage, takeover
from wakeful.testing.buckets import EmulatedBucket
from wakeful.testing.suites.harness import NOW
from wakeful.values.errors import FileOwned, StoreError

FILE = Path(__file__).parent / "data" / "bucket_of_one_owner.json"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> EmulatedBucket:
    monkeypatch.setattr(takeover, "LEASE_S", 0.15)
    made = EmulatedBucket()
    made.objects = {key: base64.b64decode(data) for key, data in json.loads(FILE.read_text()).items()}
    return made


async def test_everything_is_there_and_it_goes_on_in_the_new_form(bucket: EmulatedBucket, tmp_path: Path) -> None:
    first = await Process(bucket, tmp_path / "a").start()
    assert await first.keys() == ["first", "fourth", "second", "third"]
    assert [one.name for one in await first.store.find_timers(everything())] == ["job:1"]
    await first.put("fifth")
    await first.store.close()
    second = await Process(bucket, tmp_path / "b").start()
    assert await second.keys() == ["fifth", "first", "fourth", "second", "third"]
    await second.store.close()
    assert [key for key in bucket.objects if key.startswith(("snap/", "chunk/", "beat/"))] == []


async def test_who_stood_still_since_meets_a_seal(bucket: EmulatedBucket, tmp_path: Path) -> None:
    process = await Process(bucket, tmp_path).start()
    await process.store.close()
    for session, slot in ((1, 5), (2, 4), (3, 1)):
        assert bucket.objects[f"log/{session:08d}/{slot:010d}"].startswith(b"WKL1s")
    assert "owners/00000003" in bucket.objects, "who would be the next owner knows that it is late"


async def test_an_owner_that_lives_is_not_taken_over(bucket: EmulatedBucket, tmp_path: Path) -> None:
    count = 0

    def beat(verb: str, key: str) -> None:
        nonlocal count
        count += 1
        bucket.objects["beat/00000002"] = f"token {count}".encode()

    bucket.on_request = beat
    there = bucket.objects.keys() - {"beat/00000002"}
    with pytest.raises(FileOwned, match="in use by an earlier Wakeful"):
        await open_url(bucket.url(cache=tmp_path)).open(now=NOW)
    assert bucket.objects.keys() - {"beat/00000002"} == there


async def test_killed_at_every_request_it_is_taken_over_by_the_next_one(
    bucket: EmulatedBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "REST_MAX_S", 0.002)
    monkeypatch.setattr(storage, "REST_S", 0.001)
    monkeypatch.setattr(takeover, "LEASE_S", 0.01)
    before, asked, last = dict(bucket.objects), 0, 0

    def count(verb: str, key: str) -> None:
        nonlocal asked
        asked += 1
        bucket.is_down = asked > last

    while True:
        bucket.objects, bucket.is_down, asked = dict(before), False, 0
        bucket.on_request = count
        process = Process(bucket, tmp_path / f"{last}")
        try:
            await process.start()
        except Exception:
            kill(process.store)
        else:
            break
        bucket.on_request, bucket.is_down = lambda verb, key: None, False
        after = await Process(bucket, tmp_path / f"{last}-after").start()
        assert await after.keys() == ["first", "fourth", "second", "third"], f"killed after {last} requests"
        await after.store.close()
        last += 2
    await process.store.close()
    assert last > 40


async def test_who_only_looks_changes_nothing(bucket: EmulatedBucket, tmp_path: Path) -> None:
    there = dict(bucket.objects)
    with pytest.raises(StoreError, match="start the program once"):
        await open_url(bucket.url(cache=tmp_path)).open(now=NOW, readonly=True)
    assert bucket.objects == there
