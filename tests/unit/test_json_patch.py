"""JSON patches: what `diff` writes makes the one document of the other, whatever is in them, and harms neither."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.values.errors import BadValue
from wakeful.values.json_patch import apply, diff, json_bytes

names = st.text(max_size=4) | st.sampled_from(["/", "~", "~1", "a/b", "", "0", "-", "~0~1"])
leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.integers() | st.floats(allow_nan=False) | names
documents = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(names, inner, max_size=5), max_leaves=20
)


@given(documents, documents)
def test_the_diff_of_two_documents_makes_the_one_of_the_other(old: Any, new: Any) -> None:
    kept = copy.deepcopy(old)
    patch = diff(old, new)
    made = apply(old, patch)
    assert _sorted(made) == _sorted(new)
    assert _sorted(old) == _sorted(kept)  # neither is changed
    assert bool(patch) == (_sorted(old) != _sorted(new))


@given(documents, st.lists(documents, max_size=6))
def test_patches_one_after_the_other_never_touch_what_came_before(first: Any, others: list[Any]) -> None:
    seen = state = first
    for one in others:
        before = copy.deepcopy(seen)
        state = apply(seen, diff(seen, one))
        assert _sorted(state) == _sorted(one)
        assert _sorted(seen) == _sorted(before)
        seen = state


def _sorted(value: Any) -> bytes:
    """As it is spelled, whatever the order of names."""
    import msgspec

    try:
        return msgspec.json.encode(value, order="sorted")
    except (OverflowError, UnicodeEncodeError):
        import json

        return json.dumps(value, sort_keys=True).encode()


@pytest.mark.parametrize(
    ("old", "new"), [(1, True), (0, False), (1, 1.0), ([1], [True]), ({"a": 0}, {"a": False}), ([[0]], [[0.0]])]
)
def test_what_python_takes_for_equal_is_told_apart(old: Any, new: Any) -> None:
    assert json_bytes(apply(old, diff(old, new))) == json_bytes(new)


@pytest.mark.parametrize("name", ["/", "~", "~1", "~0", "a/b", "~01", "", "0", "-"])
def test_names_stay_what_they_are(name: str) -> None:
    for old, new in (({}, {name: 1}), ({name: 1}, {name: 2}), ({name: {name: 1}}, {name: {}}), ({name: 1}, {})):
        assert apply(old, diff(old, new)) == new


def test_one_more_line_is_one_operation_wherever_it_stands() -> None:
    lines = [{"id": n, "text": "x" * 20} for n in range(1_000)]
    for at in (0, 500, 1_000):
        more = [*lines[:at], {"id": -1}, *lines[at:]]
        assert diff(lines, more) == [{"op": "add", "path": f"/{at}", "value": {"id": -1}}]
        assert diff(more, lines) == [{"op": "remove", "path": f"/{at}"}]


def test_what_is_nested_too_deeply_is_replaced_as_a_whole() -> None:
    def nested(leaf: int) -> Any:
        value: Any = {"leaf": leaf, "other": "x"}
        for _ in range(90):
            value = {"in": value}
        return value

    [operation] = diff(nested(1), nested(2))
    assert operation["path"].count("/") == 32
    assert apply(nested(1), [operation]) == nested(2)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/nobody"},
        {"op": "replace", "path": "/nobody", "value": 1},
        {"op": "replace", "path": "/list/2", "value": 1},
        {"op": "add", "path": "/list/3", "value": 1},
        {"op": "add", "path": "/list/01", "value": 1},
        {"op": "add", "path": "/list/-1", "value": 1},
        {"op": "add", "path": "/text/0", "value": 1},
        {"op": "add", "path": "/n/x", "value": 1},
        {"op": "add", "path": "list/0", "value": 1},
        {"op": "move", "path": "/n", "from": "/text"},
        {"op": "add", "path": "/n"},
        {"path": "/n"},
        {},
    ],
)
def test_a_patch_that_does_not_fit_is_refused(operation: dict[str, Any]) -> None:
    document = {"list": [1, 2], "text": "abc", "n": 1}
    with pytest.raises(BadValue) as failure:
        apply(document, [operation])
    assert failure.value.code == "patch.unfit"
    assert document == {"list": [1, 2], "text": "abc", "n": 1}
