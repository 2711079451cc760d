"""How commands reach nodes, of which one may be frozen."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wakeful.cli import node_access
from wakeful.cli.node_access import Peers, control_addresses
from wakeful.store import NodeRow, Store


def at(address: str, node: str = "n1") -> NodeRow:
    return NodeRow(node, address, 0, 1_000, "host")


def test_a_command_does_not_speak_to_the_socket_of_the_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There it would be a stranger, in the audit rows of a node that was only frozen."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert control_addresses(at(f"unix:{tmp_path}/7-n1.links.sock")) == []
    assert control_addresses(at(f"unix:{tmp_path}/own.sock")) == []
    control = f"unix:{tmp_path}/7-n1.sock"
    assert control_addresses(at(control)) == [control]  # of a user with another folder


async def test_all_nodes_have_one_deadline_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is frozen takes what is sent, by each of its sockets."""

    @asynccontextmanager
    async def controlled(store: Store, row: NodeRow) -> AsyncIterator[tuple[None, dict[str, Any]] | None]:
        if row.node == "well":
            yield None, {"state": "up"}
            return
        await asyncio.sleep(node_access.ALL_S * 0.7)
        yield None

    async def status_of(self: Peers, row: NodeRow, *, timeout_ms: int) -> dict[str, Any]:
        await asyncio.sleep(node_access.ALL_S * 300)
        raise AssertionError

    monkeypatch.setattr(node_access, "ALL_S", 0.1)
    monkeypatch.setattr(node_access, "controlling", controlled)
    monkeypatch.setattr(Peers, "status_of", status_of)
    store: Any = SimpleNamespace(shared=True, identity="")
    began = time.monotonic()
    said = await node_access.statuses(store, [at("tcp:127.0.0.1:1", node) for node in ("frozen", "well", "stuck")])
    assert said == {"well": {"state": "up"}}
    assert time.monotonic() - began < 15


@pytest.mark.parametrize(("shared", "answered"), [(False, {"n1": {"state": "up"}}), (True, {})])
async def test_the_owner_of_a_file_is_given_more_time_than_one_of_many_nodes(
    shared: bool, answered: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`wakeful nodes` gave up after three seconds, where other commands give it six."""
    waiting = 0.0

    @asynccontextmanager
    async def limited(s: float) -> AsyncIterator[None]:
        yield
        if waiting > s:
            raise TimeoutError

    @asynccontextmanager
    async def controlled(store: Store, row: NodeRow) -> AsyncIterator[tuple[None, dict[str, Any]] | None]:
        nonlocal waiting
        waiting = node_access.OWNER_S - 0.5
        yield None, {"state": "up"}

    monkeypatch.setattr(node_access, "controlling", controlled)
    monkeypatch.setattr(node_access.asyncio, "timeout", limited)
    store: Any = SimpleNamespace(shared=shared, identity="")
    assert await node_access.statuses(store, [at("")]) == answered
