"""Layer 3. How do the next owners of its shards learn that a node ended cleanly, when its store was away to the end?

Timers that it had begun have their start notes on disk, and look as if the process had died of them. So the epochs that
it ends are told to whoever can be reached without the store: the other nodes, over their links, and the next process of
this user on this machine, by a small file beside the control sockets.
"""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from wakeful.runtime.env import Env, NodeRequest
from wakeful.store.protocol import NodeRow
from wakeful.transport.addresses import folder
from wakeful.values.errors import BadInput, Unavailable, WakefulError
from wakeful.values.ids import SHARDS

REQUEST = "ended"  # what another node is asked to note
TELL_MS = 2_000  # for all of them, side by side
KEEP_S = 30 * 86_400  # a file that nobody added to for so long is removed by the next who writes one
EPOCHS_MAX = 16  # of each shard; fewer than a node remembers of its own

Epochs = dict[int, list[int]]


async def tell(env: Env, epochs: Mapping[int, int], others: Sequence[NodeRow], ask: NodeRequest) -> None:
    """Tell everybody who can be told that these epochs end here and now, and that nothing died."""
    if not epochs:
        return
    if env.store.url.startswith("memory:"):
        _add(env.registry.ended.setdefault(env.store.url, {}), epochs)
    else:
        _write(env, epochs)
    asked = [ask(row, REQUEST, list(epochs.items()), timeout_ms=TELL_MS) for row in others]
    await asyncio.gather(*(_quietly(one) for one in asked))


def known(env: Env) -> Epochs:
    """Epochs of shards of this store that others on this machine ended so."""
    if env.store.url.startswith("memory:"):
        return env.registry.ended.get(env.store.url, {})
    path = _path(env)
    return {} if path is None else _read(path)


def check_epochs(pairs: Any) -> dict[int, int]:
    """What another node says, as shards and epochs; `BadInput` when it is no such thing."""
    try:
        found = {shard: epoch for shard, epoch in pairs if type(shard) is int and type(epoch) is int}
        if len(found) == len(pairs) and all(0 <= shard < SHARDS for shard in found):
            return found
    except (TypeError, ValueError):
        pass
    raise BadInput("what a node says of its end are pairs of a shard and an epoch")


async def _quietly(asking: Any) -> None:
    with suppress(WakefulError):  # an older program, one that stands still, or is away as well
        await asking


def _add(to: Epochs, epochs: Mapping[int, int]) -> None:
    for shard, epoch in epochs.items():
        to[shard] = [*to.get(shard, []), epoch][-EPOCHS_MAX:]


def _path(env: Env) -> Path | None:
    """The file of this store; None where there is no folder for it."""
    name = sha256((env.store.identity or env.store.url).encode()).hexdigest()[:32]
    try:
        return folder() / f"ended-{name}.json"
    except Unavailable:
        return None


def _read(path: Path) -> Epochs:
    """What the file says; nothing when it is missing or no such file. It does not age: an epoch ends once."""
    try:
        found = json.loads(path.read_bytes())
        return {int(shard): [int(epoch) for epoch in epochs] for shard, epochs in found.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _write(env: Env, epochs: Mapping[int, int]) -> None:
    path = _path(env)
    if path is None:
        return
    ended = _read(path)
    _add(ended, epochs)
    draft = path.with_suffix(f".{os.getpid()}.{env.name}")
    with suppress(OSError):  # a full disk: then it counts as a death
        draft.touch(mode=0o600)
        draft.write_text(json.dumps(ended))
        draft.replace(path)
        oldest = path.stat().st_mtime - KEEP_S
        for other in path.parent.glob("ended-*"):  # of stores that are no more
            if other.stat().st_mtime < oldest:
                other.unlink(missing_ok=True)
