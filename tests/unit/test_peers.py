"""What a command learns of a node before it calls: is it of this very store, and is it there?"""

from typing import Any

import pytest

from wakeful.cli import node_access
from wakeful.cli.cluster_access import Pass
from wakeful.store.memory import MemoryStore
from wakeful.store.protocol import NodeRow
from wakeful.transport.protocol import PeerReply
from wakeful.values.codec import encode
from wakeful.values.errors import DeadlineExceeded, LinkLost

ROW = NodeRow("n1", "tcp:127.0.0.1:1", 0, 10**15, "")


def store(identity: str) -> MemoryStore:
    made = MemoryStore()
    made.identity = identity
    return made


@pytest.mark.parametrize(
    ("status", "identity", "is_it"),
    [
        ({"store_id": "a", "store_ids": ["a", "b"]}, "a", True),
        ({"store_id": "a", "store_ids": ["a", "b"]}, "b", True),  # a program may have several
        ({"store_id": "a", "store_ids": ["a", "b"]}, "c", False),
        ({"store_id": "a"}, "c", False),
        ({}, "c", True),  # a node of the version before says nothing
        ({"store_id": "", "store_ids": ["", ""]}, "c", True),
        ({"store_id": "a", "store_ids": ["a"]}, "", True),
    ],
)
def test_a_node_runs_a_store_when_it_says_so_or_can_t_say(status: dict[str, Any], identity: str, is_it: bool) -> None:
    assert node_access.runs(status, store(identity)) is is_it


class Link:
    is_closed = is_leaving = False

    def __init__(self, said: Any) -> None:
        self._said = said

    async def ask(self, call: Any, *, timeout_ms: int) -> PeerReply:
        if isinstance(self._said, Exception):
            raise self._said
        return PeerReply(1, encode(self._said))

    async def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("said", [LinkLost("it broke"), DeadlineExceeded("too slow"), {"store_ids": ["other"]}])
async def test_a_node_that_can_t_be_asked_has_not_been_called(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    link = Link(said)

    async def connect(self: Any, address: str, *, expect_node: str) -> Link:
        return link

    monkeypatch.setattr(node_access.SocketTransport, "connect", connect)
    async with node_access.Peers(store("mine"), Pass(None, None)) as some:
        with pytest.raises(LinkLost) as lost:
            await some.link(ROW)
    assert not lost.value.was_sent
    assert link.is_closed
