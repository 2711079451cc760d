"""Placement: even, with as few moves as that takes, and reached by single steps in any order."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from wakeful.policy.placement import place
from wakeful.values.ids import SHARDS

Owners = dict[int, str | None]

NAMES = st.lists(st.text("abcdefgh", min_size=1, max_size=3), unique=True, max_size=12)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[str], Owners, int]:
    """Live nodes, and owners of which some are live, some gone, some nobody; some shards not even listed."""
    shards = draw(st.sampled_from([1, 2, 7, 32, 256]))
    nodes = draw(NAMES)
    gone = draw(st.lists(st.sampled_from(["gone1", "gone2"]), unique=True))
    owner = st.sampled_from([*nodes, *gone, None])
    if draw(st.booleans()):
        owners: Owners = {shard: draw(owner) for shard in range(shards)}
    else:  # a few owners in runs: the shapes that a cluster really has
        cuts = draw(st.lists(st.integers(0, shards), max_size=6).map(sorted))
        owners = {}
        for start, end in zip([0, *cuts], [*cuts, shards], strict=True):
            owners |= dict.fromkeys(range(start, end), draw(owner))
    for shard in draw(st.lists(st.integers(0, shards - 1), max_size=5)):
        owners.pop(shard, None)
    return nodes, owners, shards


def moves(before: Owners, after: dict[int, str]) -> list[int]:
    return [shard for shard, node in after.items() if before.get(shard) != node]


def fewest_moves(nodes: list[str], owners: Owners, shards: int) -> int:
    """Shards that nobody live owns must move; of the rest the most stay when the odd ones go to those who have them."""
    least, odd = divmod(shards, len(nodes))
    counts = Counter(owner for owner in owners.values() if owner in nodes)
    stay = sum(min(count, least) for count in counts.values())
    return shards - stay - min(odd, sum(count > least for count in counts.values()))


@given(clusters())
def test_every_shard_has_one_live_owner_and_nobody_has_two_more_than_another(
    cluster: tuple[list[str], Owners, int],
) -> None:
    nodes, owners, shards = cluster
    placed = place(nodes, owners, shards=shards)
    if not nodes:
        assert placed == {}
        return
    assert list(placed) == list(range(shards))
    counts = Counter(placed.values())
    assert set(counts) <= set(nodes)
    assert {counts[node] for node in nodes} <= {shards // len(nodes), -(-shards // len(nodes))}


@given(clusters())
def test_no_even_placement_needs_fewer_moves(cluster: tuple[list[str], Owners, int]) -> None:
    nodes, owners, shards = cluster
    if nodes:
        assert len(moves(owners, place(nodes, owners, shards=shards))) == fewest_moves(nodes, owners, shards)


@given(clusters())
def test_a_node_within_its_share_keeps_every_shard(cluster: tuple[list[str], Owners, int]) -> None:
    nodes, owners, shards = cluster
    placed = place(nodes, owners, shards=shards)
    counts = Counter(owners.values())
    for shard, node in placed.items():
        owner = owners.get(shard)
        if owner != node and owner in nodes:
            assert counts[owner] > shards // len(nodes)


@given(clusters(), st.randoms(use_true_random=False))
def test_the_answer_does_not_depend_on_the_order_of_what_is_asked(
    cluster: tuple[list[str], Owners, int], random: object
) -> None:
    nodes, owners, shards = cluster
    shuffled = sorted(owners.items(), key=lambda _: random.random())  # type: ignore[attr-defined]
    again = place([*reversed(nodes), *nodes], dict(shuffled), shards=shards)
    assert again == place(nodes, owners, shards=shards)


@given(clusters())
def test_asked_again_after_it_was_followed_it_moves_nothing(cluster: tuple[list[str], Owners, int]) -> None:
    nodes, owners, shards = cluster
    placed = place(nodes, owners, shards=shards)
    assert place(nodes, placed, shards=shards) == placed


@given(clusters(), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_single_claims_and_releases_in_any_order_end_in_the_same_placement(
    cluster: tuple[list[str], Owners, int], random: object
) -> None:
    nodes, owners, shards = cluster
    if not nodes:
        return
    shards = min(shards, 32)
    owners = {shard: owner for shard, owner in owners.items() if shard < shards}
    goal = place(nodes, owners, shards=shards)
    steps = 0
    while True:
        placed = place(nodes, owners, shards=shards)
        assert placed == goal  # each step leaves the rest of the answer as it was
        # A live owner lets go of what is to be another's; who is to have a free shard, or a dead node's, takes it.
        releases = [shard for shard in moves(owners, placed) if owners.get(shard) in nodes]
        claims = [shard for shard in moves(owners, placed) if owners.get(shard) not in nodes]
        if not releases and not claims:
            break
        shard = random.choice(releases + claims)  # type: ignore[attr-defined]
        owners[shard] = None if shard in releases else placed[shard]
        steps += 1
        assert steps <= 2 * shards
    assert owners == goal


@given(clusters(), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_nodes_that_act_on_what_they_saw_earlier_meet_all_the_same(
    cluster: tuple[list[str], Owners, int], random: object
) -> None:
    """Each sees the owners of an earlier moment; a claim counts only when the shard is as it was seen (its epoch)."""
    nodes, owners, shards = cluster
    if not nodes:
        return
    shards = min(shards, 32)
    owners = {shard: owners.get(shard) for shard in range(shards)}
    seen = {node: dict(owners) for node in nodes}
    for _ in range(200):
        node = random.choice(nodes)  # type: ignore[attr-defined]
        placed = place(nodes, seen[node], shards=shards)
        for shard, wanted in placed.items():
            if owners[shard] == node != wanted:
                owners[shard] = None
            elif wanted == node and seen[node][shard] == owners[shard] and owners[shard] not in nodes:
                owners[shard] = node
        if random.random() < 0.5:  # type: ignore[attr-defined]
            seen[random.choice(nodes)] = dict(owners)  # type: ignore[attr-defined]
    for _ in range(2):  # then everybody looks: once to let go, once to take
        for node in nodes:
            placed = place(nodes, owners, shards=shards)
            for shard, wanted in placed.items():
                if owners[shard] == node != wanted:
                    owners[shard] = None
                elif wanted == node and owners[shard] not in nodes:
                    owners[shard] = node
    assert owners == place(nodes, owners, shards=shards)


@given(NAMES.filter(lambda nodes: len(nodes) > 1), st.integers(0, 11))
def test_when_one_node_leaves_only_its_shards_move(nodes: list[str], index: int) -> None:
    before: Owners = dict(place(nodes, {}))
    leaver = nodes[index % len(nodes)]
    after = place([node for node in nodes if node != leaver], before)
    assert set(moves(before, after)) == {shard for shard, node in before.items() if node == leaver}


@given(NAMES)
def test_when_one_node_joins_it_gets_its_share_and_nobody_else_gets_anything(nodes: list[str]) -> None:
    before: Owners = dict(place(nodes, {}))
    after = place([*nodes, "new"], before)
    assert {after[shard] for shard in moves(before, after)} == {"new"}
    assert Counter(after.values())["new"] == SHARDS // (len(nodes) + 1)


def test_the_answer_is_the_same_in_every_process_and_version() -> None:
    placed = place(["a", "b", "c"], {}, shards=16)
    assert "".join(placed.values()) == "bcaabbbcccabacac"


def test_with_more_nodes_than_shards_some_have_none() -> None:
    placed = place([f"node{number}" for number in range(10)], {}, shards=4)
    assert len(placed) == 4
    assert len(set(placed.values())) == 4


def test_shards_beyond_the_last_are_nobodys_business() -> None:
    assert place(["a"], {0: "a", 5: "b", -1: "a"}, shards=2) == {0: "a", 1: "a"}
