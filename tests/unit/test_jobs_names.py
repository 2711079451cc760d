"""Names, ids and places in the order of insertion; what is kept of a job."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.jobs.ids import check_job_key, job_id, key_of, method_of, parse_id, timer_name
from wakeful.jobs.payload import JobPayload, decode_kept, encode_kept, is_same
from wakeful.policy.order import EPOCH_MS, Order
from wakeful.policy.retry import Retry
from wakeful.values.errors import BadName, UnknownJob
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Timer

keys = st.text(st.characters(blacklist_categories=["Cc", "Cs"]), min_size=1, max_size=60)


@given(keys, st.text(min_size=1, max_size=40).filter(lambda text: text.isprintable()))
def test_an_id_names_its_target_and_key_exactly(key: str, own: str) -> None:
    target = ObjectId("Some.Class-1", key)
    name = timer_name("work", "abc", own)
    id = job_id(target, name)
    assert id.count("/") == 2
    assert id.isascii()
    assert parse_id(id) == (target, name)
    assert key_of(name) == check_job_key(own) == own


@given(keys)
def test_an_id_without_a_key_has_method_and_token(key: str) -> None:
    name = timer_name("work", "abc", None)
    assert (key_of(name), method_of(name)) == (None, "work")
    assert parse_id(job_id(ObjectId("C", key), name)) == (ObjectId("C", key), "job:work:abc")


@pytest.mark.parametrize("text", ["", "a", "a/b", "a/b/", "/b/c", "a/b/c/d", "1x/b/c", 5, None, "a//c", "a/%00/c"])
def test_what_is_no_id_is_an_unknown_job(text: object) -> None:
    with pytest.raises(UnknownJob):
        parse_id(text)


@pytest.mark.parametrize("key", ["", None, 5, "a\nb", "x" * 201, "é" * 101])
def test_what_can_not_be_a_key(key: object) -> None:
    with pytest.raises(BadName):
        check_job_key(key)


@given(st.lists(st.integers(-5_000, 5_000), min_size=1, max_size=300))
def test_places_rise_whatever_the_clock_does(steps: list[int]) -> None:
    order, now, last = Order("node"), EPOCH_MS + 10**11, 0
    for step in steps:
        now += step
        place = order.next(now)
        assert last < place < 1 << 63
        assert place >> 62 == 1
        last = place


def test_places_of_later_milliseconds_come_after_those_of_other_nodes() -> None:
    now = EPOCH_MS + 2 * 10**11
    assert Order("a").next(now) < Order("b").next(now + 1)
    assert Order("b").next(now) < Order("a").next(now + 1)


def test_more_than_fit_a_millisecond_borrow_from_the_next() -> None:
    order, now = Order("a"), EPOCH_MS + 10**11
    places = [order.next(now) for _ in range(10_000)]
    assert len(set(places)) == 10_000
    assert places == sorted(places)


def test_places_last_until_2089() -> None:
    assert Order("a").next(3_755_000_000_000) < 1 << 63


def kept(**changes: object) -> JobPayload:
    fields: dict[str, object] = {
        "method": "m", "args": b"a", "token": "t", "key": "k", "created_at": 1, "at": 5, "after": None, "due_at": 5
    }  # fmt: skip
    return JobPayload(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("retry", [None, "policy", "module:function", Retry(3)])
def test_what_is_kept_comes_back(retry: Retry | str | None) -> None:
    mine = kept(retry=retry, waits=("a", "b"), batch=("c", 5), tags=("x",), trace="00-1", ended=(1, 2, 3))
    assert decode_kept(Timer(ObjectId("C", "k"), "job:=k", 1, 1, 1, payload=encode_kept(mine))) == mine


def test_the_same_is_asked_for_when_call_time_and_metadata_are_the_same() -> None:
    assert is_same(kept(), kept(token="u", created_at=9, retry=Retry(3), due_at=9, tags=("x",)))
    for other in ({"method": "n"}, {"args": None}, {"metadata": b""}, {"at": 6}, {"at": None, "after": 5}):
        assert not is_same(kept(), kept(**other))
