"""What is too much is refused with words that name the limit and the remedy, and nothing is kept of it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from enum import Enum
from functools import partial
from typing import Any

import pytest

from tests.http.http_stage import Stage, opened, problem
from wakeful import App, DurableObject
from wakeful.http import asks
from wakeful.http.asks import LONG_BYTES, MSGPACK, in_thread
from wakeful.http.jobs import MANY_MAX
from wakeful.policy.shares import Asker
from wakeful.values.codec import encode
from wakeful.values.weights import LIST, NAME, TYPED, VALUE, WEIGHT_MAX

SCHEDULE = "/v1/objects/Shop/k/schedules/nightly"
JOB = {"class": "Shop", "key": "k", "method": "echo", "args": [1]}
PLAN = {"handler": "nightly", "spec": "every 1h"}
LATE = "ends past the latest time, 9999-01-01; give a shorter delay"


@pytest.mark.parametrize(
    ("tag", "words"),
    [
        ("x" * 201, f"'{'x' * 40}'… has 201 characters, 200 at most; shorten it"),
        ("", "'' is empty; leave it out"),
        ("a\nb", "'a\\nb' has characters that can't be printed; leave them out"),
    ],
)
async def test_a_tag_that_can_not_be_one(tag: str, words: str) -> None:
    async with opened() as stage:
        said = problem(await stage.ask("POST", "/v1/jobs", json=JOB | {"tags": [tag]}), 422, "job.tags")
        assert said["detail"] == f"job Shop/k.echo: tag {words}"
        words = words.replace("characters, ", "bytes, ")
        said = problem(await stage.ask("PUT", SCHEDULE, json=PLAN | {"tags": [tag]}), 422, "schedule.tags")
        assert said["detail"] == f"tag {words}"


async def test_too_many_tags() -> None:
    async with opened() as stage:
        tags = [f"t{number}" for number in range(33)]
        said = problem(await stage.ask("POST", "/v1/jobs", json=JOB | {"tags": tags}), 422, "job.tags")
        assert said["detail"] == "job Shop/k.echo: 33 tags, 32 at most; what else there is goes into metadata"


@pytest.mark.parametrize("after", ["999999999d", "3000000d"])
async def test_a_delay_that_ends_past_all_time(after: str) -> None:
    async with opened() as stage:
        said = problem(await stage.ask("POST", "/v1/jobs", json=JOB | {"after": after}), 422, "time.late")
        assert said["detail"] == f"job Shop/k.echo: after '{after}' {LATE}"
        for when in ({"after": after}, {"spec": f"after {after}"}):
            said = problem(await stage.ask("PUT", SCHEDULE, json={"handler": "nightly"} | when), 422, "time.late")
            assert said["detail"] == f"after '{after}' {LATE}"


@pytest.mark.parametrize("length", ["99999999999999d", 1e300])
async def test_a_length_that_none_can_be(length: Any) -> None:
    async with opened() as stage:
        said = problem(await stage.ask("POST", "/v1/jobs", json=JOB | {"after": length}), 422, "time.late")
        assert said["detail"].endswith("is longer than a timedelta can be, 999999999 days; give a shorter one")


async def test_an_option_of_a_megabyte_is_refused_in_a_line() -> None:
    async with opened() as stage:
        said = problem(
            await stage.ask("PUT", SCHEDULE, json=PLAN | {"catch_up": "x " * 400_000}), 422, "schedule.catch_up"
        )
        assert len(said["detail"]) < 2_100


async def echoed(stage: Stage, body: str) -> Any:
    return await stage.ask("POST", "/v1/objects/Shop/k/echo", content=body)


def filled(part: str, count: int) -> str:
    return f"[[{','.join([part] * count)}]]"


# What is sent, and what one of it weighs with the comma behind it.
WEIGHTS = {
    "[]": LIST + 2 * VALUE,
    "{}": LIST + 2 * VALUE,
    '{"a":1}': LIST + NAME + 2 * VALUE,
    "1": VALUE,
    '"a"': VALUE,
    "9007199254740993.0": 2,
    "1e23": 2,
    "1.2345678912345000455e-99": 12,
    "3e-324": 42,
    "1E308": 42,
    "1.7e+300": 42,
}


@pytest.mark.parametrize("part", WEIGHTS)
async def test_what_is_in_a_body_is_weighed(part: str) -> None:
    """Numbers at the ends of what a float can be took the decoder 2.4 s, 200,000 ties 0.15 s."""
    code = "body.parts" if part in list(WEIGHTS)[:5] else "body.digits"
    async with opened() as stage:
        most = WEIGHT_MAX // WEIGHTS[part]
        answer = await echoed(stage, filled(part, most - 20))
        assert answer.status_code == 200, answer.text[:200]
        said = problem(await echoed(stage, filled(part, most + 20)), 400, code)
        if code == "body.parts":
            assert "a list or object 5, a typed value 22, and 125000 in all is the most" in said["detail"]
            assert said["detail"].endswith("; send it in several requests, or as one text or bytes")
        else:
            assert said["detail"].endswith("; send them as text, or in our own encoding")


async def test_what_stands_in_quotes_weighs_nothing() -> None:
    async with opened() as stage:
        texts = (
            "[" * 90_000,
            '\\"[' * 90_000,
            "\\\\" * 90_000 + '\\"' + "{" * 90_000,
            "9" * 800_000,
            "3e-324," * 50_000,
        )
        for text in texts:
            answer = await echoed(stage, f'[["{text}"]]')
            assert answer.status_code == 200, answer.text[:200]


async def test_long_numbers_are_weighed_by_their_digits() -> None:
    async with opened() as stage:
        problem(await echoed(stage, filled("9" * 4_000, 200)), 400, "body.digits")
        assert (await echoed(stage, filled("9" * 4_000, 100))).status_code == 200


@pytest.mark.parametrize(
    "body", [b"\x93[{," * 50_000, b"[[{[," * 50_000, b"[[]]" + b"[]," * 50_000], ids=["bytes", "lists", "end"]
)
async def test_what_is_no_json_is_called_so_however_much_it_is(body: bytes) -> None:
    async with opened() as stage:
        answer = await stage.ask("POST", "/v1/objects/Shop/k/echo", content=body)
        assert problem(answer, 400, "body.json")["detail"].startswith("the body is not JSON: ")
        headers = {"content-type": MSGPACK.decode()}
        body = b"\x01" + b"\xdd\xff\xff\xff\xff" + b"\x90" * 100_000
        answer = await stage.ask("POST", "/v1/objects/Shop/k/echo", content=body, headers=headers)
        assert problem(answer, 400, "body.msgpack")["detail"].startswith(
            "the body is not what Wakeful's codec writes: "
        )


NUMBERED = range(100_000)
PACKED: dict[str, tuple[int, Callable[[int], Any]]] = {
    "lists": (LIST + VALUE, lambda count: [[]] * count),
    "maps": (LIST + VALUE, lambda count: [{}] * count),
    "tuples": (TYPED + VALUE + LIST + 2 * VALUE, lambda count: [()] * count),
    "sets": (TYPED + VALUE + LIST + 2 * VALUE, lambda count: [frozenset()] * count),
    "names": (NAME + 2 * VALUE, lambda count: {f"{one}": 1 for one in NUMBERED[:count]}),
    "names that are numbers": (NAME + 2 * VALUE, lambda count: dict.fromkeys(NUMBERED[:count], 1)),
    "names that are floats": (NAME + 2 * VALUE, lambda count: {one / 2: 1 for one in NUMBERED[:count]}),
    "members of a set": (2 * VALUE, lambda count: set(NUMBERED[:count])),
}


@pytest.mark.parametrize("kind", PACKED)
async def test_our_own_encoding_is_weighed_by_its_heads(kind: str) -> None:
    """A map of 90,000 numbers took 0.45 s."""
    headers = {"content-type": MSGPACK.decode()}
    weight, make = PACKED[kind]
    async with opened() as stage:
        most = WEIGHT_MAX // weight
        for count, status in ((most - 200, 200), (most + 200, 400)):
            # What looks like heads within bytes and texts is none.
            body = encode([[[b"\x90" * 90_000, "\u0410" * 90_000, make(count)]], {}])
            answer = await stage.ask("POST", "/v1/objects/Shop/k/echo", content=body, headers=headers)
            assert answer.status_code == status, answer.content[:200]
        assert answer.json()["code"] == "body.parts"


class Colour(Enum):
    RED = 1


async def test_arguments_are_weighed_again_as_what_they_became() -> None:
    """A number of one byte may become a member of an Enum, which is copied by Python."""
    app = App()

    @app.object
    class Shop(DurableObject):
        async def paint(self, colours: list[Colour]) -> int:
            return len(colours)

    async with opened(app) as stage:
        assert (await stage.call("k", "paint", [[1] * 5_000])).json() == {"result": 5_000}
        problem(await stage.call("k", "paint", [[1] * 6_000]), 422, "body.parts")


async def test_a_batch_has_room_for_all_its_jobs_and_none_of_them_has_more_than_one_may() -> None:
    async with opened() as stage:
        full = JOB | {"tags": ["a"], "metadata": {"a": 1}, "kwargs": {}, "args": [[{}]]}
        answer = await stage.ask("POST", "/v1/jobs/batch", json={"jobs": [full] * MANY_MAX})
        assert answer.status_code == 201, answer.text[:200]
        heavy = JOB | {"args": [[[]] * (WEIGHT_MAX // LIST)]}
        said = problem(await stage.ask("POST", "/v1/jobs/batch", json={"jobs": [JOB, heavy]}), 422, "body.parts")
        assert said["detail"].startswith("jobs[1]: ")
        said = problem(
            await stage.ask("POST", "/v1/jobs/batch", json={"jobs": [JOB] * (MANY_MAX + 1)}), 422, "limit.count"
        )
        assert said["detail"].startswith(f"jobs: give 1 to {MANY_MAX} of them")


async def test_arguments_that_a_stranger_sends_one_by_one_are_counted() -> None:
    async with opened() as stage:
        numbers = [1] * 1_001
        assert (await stage.call("k", "typed", numbers[1:])).status_code == 200
        said = problem(await stage.call("k", "typed", numbers), 422, "arguments.many")
        assert said["detail"] == "Shop.typed: 1001 arguments, 1000 at most; give many values as one list"


async def test_arguments_of_a_long_body_are_copies_of_the_right_types() -> None:
    app = App()
    given: list[Any] = []

    @app.object
    class Shop(DurableObject):
        async def echo(self, rows: set[int], /, *, name: str = "") -> list[int]:
            given.append(type(rows))
            return [len(rows), len(name)]

    async with opened(app) as stage:
        body = encode([[list(range(5_000))], {"name": "x" * 50_000}])
        headers = {"content-type": MSGPACK.decode()}
        answer = await stage.ask("POST", "/v1/objects/Shop/k/echo", content=body, headers=headers)
        assert answer.status_code == 200, answer.content
        assert given == [set]
        said = problem(await stage.call("k", "echo", ["x" * 1_100_000]), 422, "arguments.type")
        assert said["detail"].startswith("Shop.echo: argument 'rows'")
        headers |= {"accept": MSGPACK.decode()}
        body = encode([[[1]], {"name": "x" * 1_100_000}])
        answer = await stage.ask("POST", "/v1/objects/Shop/k/echo", content=body, headers=headers)
        assert answer.json()["code"] == "limit.arguments"


@pytest.mark.parametrize("path", ["/v1/objects", "/objects", "/metrics", "/nothing"])
async def test_a_url_that_is_too_long_is_called_so_wherever_it_leads(path: str) -> None:
    async with opened() as stage:
        said = problem(await stage.ask("GET", f"{path}?{'x' * 9_001}"), 414, "path.long")
        assert said["detail"] == f"the URL has {len(path) + 9_001} bytes, 8192 at most"


async def test_a_parked_number_that_is_too_long_is_not_called_none() -> None:
    async with opened() as stage:
        said = problem(await stage.ask("GET", f"/v1/parked/{'9' * 20}"), 404, "parked.unknown")
        assert said["detail"] == "nothing is parked under a number of 20 digits, 18 at most; GET /v1/parked has them"


async def test_of_several_long_bodies_one_is_read_at_a_time() -> None:
    """Two beside the loop took it from everybody else for twice as long."""
    lock, reading, most = threading.Lock(), 0, 0
    others = threading.Event()

    def read() -> None:
        nonlocal reading, most
        with lock:
            reading += 1
            most = max(most, reading)
            if reading > 1:
                others.set()
        others.wait(0.05)  # the others come meanwhile, if they may
        with lock:
            reading -= 1

    await asyncio.gather(*(in_thread(read, Asker("one")) for _ in range(4)))
    assert most == 1


async def test_a_long_body_waits_for_one_of_a_neighbours_and_not_for_all() -> None:
    """Behind sixty of 400 KB, one of 20 KB took eleven seconds."""
    order: list[str] = []
    houses = ["busy"] * 10 + ["calm"]
    await asyncio.gather(*(in_thread(partial(order.append, house), Asker(house)) for house in houses))
    assert order.index("calm") <= 2


@pytest.mark.parametrize("parts", [1, 3])
async def test_a_body_that_waits_to_be_read_is_counted_as_one_that_comes(
    parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    part = b'"' + b"x" * LONG_BYTES + b'"'
    body = b"[" + b",".join([part] * parts) + b"]"

    async with opened() as stage:
        shares = stage.site.api._room._shares

        async def noted(make: Callable[[], Any], asker: Asker) -> Any:
            taken.append(shares.taken)
            return await in_thread(make, asker)

        async def pieces() -> AsyncIterator[bytes]:
            for at in range(0, len(body), len(part)):
                yield body[at : at + len(part)]

        monkeypatch.setattr(asks, "in_thread", noted)
        await stage.call("a", "echo", content=body if parts == 1 else pieces())
        assert taken[0] == len(body)
        assert shares.taken == 0
