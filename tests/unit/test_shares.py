"""Places that several want: one alone has most of them, two have about the same, and a newcomer finds some."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakeful import App
from wakeful.policy.shares import Asker, Rounds, Shares, Verdict
from wakeful.security.crowd import STRANGERS, Askers, Crowding, Turnstile, asker_of
from wakeful.security.scopes import LOCAL, Caller
from wakeful.values.errors import TooMany

ONE, TWO = Asker("one"), Asker("two")


def all_of(shares: Shares, asker: Asker) -> int:
    """How many it gets when it asks for all."""
    count = 0
    while shares.take(asker) is Verdict.TAKEN:
        count += 1
    return count


def test_one_alone_has_most_and_never_all() -> None:
    shares = Shares(512)
    assert all_of(shares, ONE) == 343
    assert shares.verdict(ONE) is Verdict.SHARE
    assert all_of(shares, Asker("one", "another room")) > 40
    assert 380 <= shares.count_of("one") <= 392


def test_whoever_comes_new_finds_some_though_nobody_gives_any_back() -> None:
    shares = Shares(512)
    counts = [all_of(shares, Asker(f"h{number}")) for number in range(30)]
    assert min(counts) >= 2
    assert counts == sorted(counts, reverse=True)


def test_two_that_want_all_have_about_the_same_when_theirs_come_and_go() -> None:
    shares = Shares(512)
    all_of(shares, ONE)
    for number in range(5_000):  # each in turn, as calls end: whoever may takes the next
        shares.give(ONE if shares.count_of("one") >= shares.count_of("two") else TWO)
        for asker in (TWO, ONE) if number % 2 else (ONE, TWO):
            shares.take(asker)
    assert abs(shares.count_of("one") - shares.count_of("two")) <= 0.2 * shares.count_of("one")


def test_when_all_are_taken_a_newcomer_is_told_so_and_who_has_some_that_it_has_its_share() -> None:
    shares = Shares(4)
    for asker in (ONE, ONE, TWO, TWO):
        assert shares.take(asker) is Verdict.TAKEN
    assert shares.is_full
    assert shares.take(ONE) is Verdict.SHARE
    assert shares.take(Asker("three")) is Verdict.FULL
    shares.give(TWO)
    assert shares.take(Asker("three")) is Verdict.TAKEN


def test_rooms_add_nothing_to_what_their_house_has() -> None:
    shares = Shares(512)
    for number in range(600):
        shares.take(Asker("one", str(number)))
    assert shares.count_of("one") == 392


@settings(max_examples=200)
@given(
    st.integers(1, 64),
    st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 2), st.integers(1, 3)), max_size=200),
)
def test_counts_are_right_whatever_comes(places: int, steps: list[tuple[bool, int, int, int]]) -> None:
    shares, held = Shares(places), list[tuple[Asker, int]]()
    for takes, house, room, count in steps:
        asker = Asker(str(house), str(room))
        if not takes and held:
            shares.give(*held.pop(house % len(held)))
        elif takes:
            before = shares.count_of(asker.house)
            verdict = shares.take(asker, count)
            if verdict is Verdict.TAKEN:
                held.append((asker, count))
            if before == 0 and count <= 2 and shares.taken + count <= places:
                assert verdict is Verdict.TAKEN  # a newcomer, while there is any
        totals = Counter[str]()
        for one, number in held:
            totals[one.house] += number
        assert shares.taken == sum(totals.values()) <= places
        assert all(shares.count_of(name) == totals[name] for name in "0123")
    for one in held:
        shares.give(*one)
    assert (shares.taken, shares._houses, shares._rooms) == (0, {}, {})


def test_those_who_wait_come_house_by_house_and_room_by_room() -> None:
    rounds: Rounds[str] = Rounds()
    for name in ("a1", "a2", "a3"):
        rounds.add(Asker("a", "x"), name)
    rounds.add(Asker("a", "y"), "a4")
    rounds.add(Asker("b"), "b1")
    assert list(rounds) == ["a", "b"]
    assert [rounds.next() for _ in range(len(rounds))] == ["a1", "b1", "a4", "a2", "a3"]
    assert len(rounds) == 0
    assert "a" not in rounds


def scope(text: str | None = None, address: str = "10.0.0.1", name: bytes = b"authorization") -> dict[str, object]:
    headers = [(b"host", b"x")] + ([] if text is None else [(name, text.encode())])
    return {"headers": headers, "client": (address, 1)}


def test_a_token_is_known_once_it_was_let_in_and_nobody_is_taken_for_its_owner() -> None:
    askers = Askers()
    caller = Caller("token:deploy", frozenset({"call"}), None, "abcdefgh")
    good = scope("Bearer wk_abcdefgh_secret")
    assert askers.guess(good) == Asker(STRANGERS, "10.0.0.1")
    askers.remember(good, caller)
    assert askers.guess(good) == Asker("token:abcdefgh", "abcdefgh")
    assert askers.guess(scope("Bearer wk_abcdefgh_guess")) == Asker(STRANGERS, "10.0.0.1")
    askers.remember(scope(), LOCAL)
    assert askers.guess(scope(address="10.0.0.2")) == Asker(STRANGERS, "10.0.0.2")


def test_how_many_tokens_are_known_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakeful.security.crowd.KNOWN_MAX", 3)
    askers = Askers()
    for number in range(5):
        askers.remember(scope(f"Bearer {number}"), Caller("t", frozenset(), None, str(number)))
    assert [askers.guess(scope(f"Bearer {number}")).house for number in range(5)] == [
        STRANGERS, STRANGERS, "token:2", "token:3", "token:4",
    ]  # fmt: skip


def test_tokens_of_a_tenant_are_of_its_house() -> None:
    one = Caller("token:a", frozenset(), "eu/", "a")
    two = Caller("token:b", frozenset(), "eu/", "b")
    assert asker_of(one).house == asker_of(two).house == "eu/"
    assert asker_of(one) != asker_of(two)
    assert asker_of(one, "eu/1") != asker_of(two, "eu/1")
    assert asker_of(LOCAL, "acme/1") == asker_of(LOCAL, "acme/2") != asker_of(LOCAL, "bob/1")


async def test_a_turnstile_lets_through_asker_by_asker_and_loses_no_turn() -> None:
    turnstile, order = Turnstile(1, 64, "lists", Crowding(App().deployment)), list[str]()

    async def go(asker: Asker) -> None:
        async with turnstile.passing(asker):
            await asyncio.sleep(0)
            order.append(asker.house)

    tasks = [asyncio.ensure_future(go(ONE)) for _ in range(30)]
    await asyncio.sleep(0)
    tasks += [asyncio.ensure_future(go(TWO)) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[5].cancel()
    tasks[31].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order[:4].count("two") >= 1
    assert Counter(order) == {"one": 29, "two": 2}
    assert turnstile.shares.taken == 0
    assert turnstile.line.left == 1


async def test_a_turn_that_is_given_up_as_it_comes_goes_to_the_next() -> None:
    turnstile, go = Turnstile(1, 64, "lists", Crowding(App().deployment)), asyncio.Event()

    async def one(event: asyncio.Event | None) -> None:
        async with turnstile.passing(ONE):
            if event is not None:
                await event.wait()

    first, second, third = (asyncio.ensure_future(one(event)) for event in (go, None, None))
    await asyncio.sleep(0)
    first.cancel()  # its place goes to the second in the same pass in which that is cancelled
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(first, second, third, return_exceptions=True)
    assert not third.cancelled()
    assert turnstile.line.left == 1
    all_of(turnstile.shares, ONE)
    with pytest.raises(TooMany, match="places for lists"):
        await one(None)


def test_what_one_has_may_become_anothers() -> None:
    """Of whom it is may be known later than that it is there."""
    shares, stranger, known = Shares(100, few=10), Asker("strangers", "address"), Asker("tenant", "token")
    assert shares.take(stranger, 60) is Verdict.TAKEN
    shares.move(stranger, known, 60)
    assert (shares.taken, shares.count_of("strangers"), shares.count_of("tenant")) == (60, 0, 60)
    assert shares.take(known, 30) is Verdict.SHARE
    assert shares.take(stranger, 10) is Verdict.TAKEN
    shares.give(known, 60)
    shares.give(stranger, 10)
    assert shares.taken == 0


def test_what_becomes_anothers_does_not_give_it_more_than_its_share() -> None:
    """Strangers had some left each time, and one token had all of it in the end."""
    stranger, greedy, modest = Asker("strangers", "address"), Asker("greedy", "token"), Asker("modest", "token")
    shares, count, verdicts = Shares(1_000, few=20), 0, Counter[Verdict]()
    while shares.take(stranger, 10) is Verdict.TAKEN:
        count += 10
        verdicts[shares.move(stranger, greedy, 10)] += 1
    assert verdicts.keys() == {Verdict.TAKEN, Verdict.SHARE}
    assert shares.taken == count == shares.count_of("greedy") + shares.count_of("strangers")
    assert shares.count_of("greedy") == 10 * verdicts[Verdict.TAKEN] <= 1_000 * 7 // 8
    assert shares.take(modest, 20) is Verdict.TAKEN
    shares.give(modest, 20)
    shares.give(greedy, shares.count_of("greedy"))
    shares.give(stranger, shares.count_of("strangers"))
    assert (shares.taken, shares._houses, shares._rooms) == (0, {}, {})
