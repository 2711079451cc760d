"""What is too much is refused with words that name the limit and the remedy, and nothing is kept of it."""

from typing import Any

import pytest

from tests.http.http_stage import opened, problem
from wakeful import App, DurableObject
from wakeful.http.asks import MSGPACK
from wakeful.http.jobs import MANY_MAX
from wakeful.values.codec import encode
from wakeful.values.packed_parts import PARTS_MAX, VALUES_EACH

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


def bodies(count: int) -> list[str]:
    """With so many lists and objects."""
    return [f"[[{','.join(['[]'] * (count - 2))}]]", f"[[{','.join(['{}'] * (count - 2))}]]"]


async def test_lists_and_objects_are_counted_and_what_stands_in_quotes_is_not() -> None:
    async with opened() as stage:
        for body in bodies(PARTS_MAX):
            answer = await stage.ask("POST", "/v1/objects/Shop/k/echo", content=body)
            assert answer.status_code == 200, answer.text
        for body in bodies(PARTS_MAX + 1):
            said = problem(await stage.ask("POST", "/v1/objects/Shop/k/echo", content=body), 400, "body.parts")
            assert "has more than 5000 lists, objects and typed values" in said["detail"]
            assert said["detail"].endswith("; send it in several requests, or as one text or bytes")
        for text in ("[" * 9_000, '\\"[' * 9_000, "\\\\" * 9_000 + '\\"' + "{" * 9_000, "9" * 200_000):
            answer = await stage.ask("POST", "/v1/objects/Shop/k/echo", content=f'[["{text}", ["{text}"]]]')
            assert answer.status_code == 200, answer.text


async def test_values_and_long_numbers_are_counted() -> None:
    async with opened() as stage:
        ones = ",".join(["1"] * (VALUES_EACH * PARTS_MAX + 2))
        said = problem(await stage.ask("POST", "/v1/objects/Shop/k/echo", content=f"[[{ones}]]"), 400, "body.parts")
        assert "has more than 200000 values" in said["detail"]
        long = ",".join(["9" * 4_000] * 40)
        said = problem(await stage.ask("POST", "/v1/objects/Shop/k/echo", content=f"[[{long}]]"), 400, "body.digits")
        assert "numbers of more than 200 digits" in said["detail"]
        few = ",".join(["9" * 4_000] * 20)
        assert (await stage.ask("POST", "/v1/objects/Shop/k/echo", content=f"[[{few}]]")).status_code == 200


@pytest.mark.parametrize("number", ["3e-324", "1E308", "1.7e+300"])
async def test_numbers_near_the_ends_of_what_a_float_can_be_are_counted(number: str) -> None:
    """190,000 of them took the decoder 2.4 s."""
    async with opened() as stage:
        texts = ",".join([f'"{number}"'] * 5_000)  # in quotes it is a text, and quick
        for count, status in ((1_000, 200), (1_001, 400)):
            body = f"[[{','.join([number] * count)},{texts}]]"
            answer = await stage.ask("POST", "/v1/objects/Shop/k/echo", content=body)
            assert answer.status_code == status, answer.text[:200]
        said = problem(answer, 400, "body.digits")
        assert "more than 1000 numbers with exponents of three digits" in said["detail"]


PARTS: list[Any] = [[], {}, (), frozenset()]


@pytest.mark.parametrize("part", PARTS, ids=str)
async def test_in_our_own_encoding_they_are_counted_by_their_heads(part: Any) -> None:
    headers = {"content-type": MSGPACK.decode()}
    async with opened() as stage:
        most = PARTS_MAX // (1 if type(part) in (list, dict) else 2)  # a tuple is a type and a list
        for count, status in ((most - 4, 200), (most, 400)):
            # What looks like heads within bytes and texts is none.
            body = encode([[[b"\x90" * 9_000, "\u0410" * 9_000, *[part] * count]], {}])
            answer = await stage.ask("POST", "/v1/objects/Shop/k/echo", content=body, headers=headers)
            assert answer.status_code == status, answer.content[:200]
        assert answer.json()["code"] == "body.parts"


async def test_a_batch_has_room_for_all_its_jobs_and_none_of_them_has_more_than_one_may() -> None:
    async with opened() as stage:
        full = JOB | {"tags": ["a"], "metadata": {"a": 1}, "kwargs": {}, "args": [[{}]]}
        answer = await stage.ask("POST", "/v1/jobs/batch", json={"jobs": [full] * MANY_MAX})
        assert answer.status_code == 201, answer.text[:200]
        heavy = JOB | {"args": [[[]] * (PARTS_MAX + 1)]}
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
