"""No module imports one that imports it, by whatever way: not while it loads, for its types, or inside a function.

Who reads one module of a circle has to read them all. What is named here is what is left; it only becomes less.
"""

from tests.tidy import tidy_source as source

# To the server, which is an extra, and to the world of tests: an App shows both, and both run an App.
DOORS = {("wakeful.app", "wakeful.server"), ("wakeful.app", "wakeful.testing.world")}
# Each with how many modules it may have.
LEFT = {
    "wakeful.runtime.node": 8,
}

Graph = dict[str, set[str]]


def imported() -> Graph:
    """What each module imports, but for the doors."""
    found = {name: {other for _, other in source.imports(text)} - {name} for name, text in source.modules()}
    return {name: {other for other in others if (name, other) not in DOORS} for name, others in found.items()}


def circles(graph: Graph) -> list[set[str]]:
    """Modules that reach each other, biggest first."""
    reached = {name: reachable(graph, name) for name in graph}
    found = {
        frozenset(other for other in reached[name] if name in reached[other]) for name in graph if name in reached[name]
    }
    return sorted(map(set, found), key=len, reverse=True)


def reachable(graph: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    todo = list(graph.get(start, ()))
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += graph.get(name, ())
    return seen


def test_modules_import_in_one_direction() -> None:
    strange = {}
    for circle in circles(imported()):
        known = next((name for name in LEFT if name in circle), None)
        if known is None or len(circle) > LEFT[known]:
            strange[known] = sorted(circle)
    assert not strange, "these import each other; move what both need into a third, or pass it in"


def test_no_circle_is_allowed_that_is_gone_or_smaller() -> None:
    sizes = {name: len(circle) for circle in circles(imported()) for name in LEFT if name in circle}
    assert sizes == LEFT


def test_a_circle_is_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]
