"""What others rely on is still there, and takes what it took: `tests/vectors/surface.json`, made before the house was put in order."""

import json
from typing import Any

from tests.tidy import tidy_source as source
from tests.tidy.surface import surface

# What `wakeful run` and the server ask of a program, and no user ever called: it is of its Deployment now, so that an App
# shows only what users call (decision 31).
MOVED = {f"/exports/wakeful.App/{name}" for name in ("attach", "detach", "equip", "send", "started", "stopping")}
BEFORE = source.ROOT / "tests" / "vectors" / "surface.json"


def broken(before: Any, now: Any, where: str = "") -> list[str]:
    """What was there and is not, or is otherwise. More is no harm: new names, routes, options that may be left out."""
    if isinstance(before, dict):
        if not isinstance(now, dict):
            return [where]
        return [one for name in before for one in broken(before[name], now.get(name, "gone"), f"{where}/{name}")]
    if where.startswith(("/exports/", "/metrics/", "/tables/")) and isinstance(before, list) and isinstance(now, list):
        added = [name for name in now if name not in before]
        kept = [name for name in now if name in before]
        may_be_left_out = all(name.endswith("=") or name.startswith("*") for name in added)
        return [] if kept == before and (may_be_left_out or where.startswith("/tables/")) else [f"{where}: {now}"]
    if isinstance(before, list) and isinstance(now, list):
        return [f"{where}: {name}" for name in before if name not in now]
    return [] if before == now else [where]


def test_nothing_that_others_rely_on_is_gone() -> None:
    gone = broken(json.loads(BEFORE.read_text(encoding="utf-8")), json.loads(json.dumps(surface())))
    assert set(gone) == MOVED


def test_what_is_gone_or_otherwise_is_found() -> None:
    before = {"exports": {"w.f": ["a", "b="]}, "codes": ["x.y"], "tables": {"s.t": ["id"]}}
    assert broken(before, before) == []
    assert broken(before, {**before, "exports": {"w.f": ["a", "b=", "c="]}, "tables": {"s.t": ["id", "more"]}}) == []
    for name, value in (
        ("exports", {}),
        ("exports", {"w.f": ["b=", "a"]}),
        ("exports", {"w.f": ["a", "b=", "c"]}),
        ("codes", ["z"]),
        ("tables", {"s.t": []}),
    ):
        assert broken(before, {**before, name: value}) != []
