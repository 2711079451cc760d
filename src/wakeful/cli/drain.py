"""Layer 5. `wakeful drain`: a node hands over all it owns and goes on running, so that stopping it is felt by nobody."""

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from wakeful.cli import options
from wakeful.cli.failing import UNAVAILABLE, USAGE, CommandError

if TYPE_CHECKING:
    from wakeful.store.protocol import Store

LOOK_S = 0.2


@options.command("drain")
@click.argument("name", metavar="NODE")
@click.option("--undo", is_flag=True, help="Let it own shards again.")
@click.option("--wait", is_flag=True, help="Until it owns nothing.")
@click.option("--timeout", metavar="LENGTH", help="With --wait: give up after this long, like 30s; the wish stays.")
@options.store_option
def drain(name: str, undo: bool, wait: bool, timeout: str | None, url: str, as_json: bool) -> None:
    """Let NODE (its name, or how that begins) hand its shards over to the other nodes and take no new ones.

    It keeps running and passes calls on; stop it when it owns nothing. The wish is kept in the store for as long as
    the node is there.
    """
    if undo and wait:
        raise CommandError("--undo has nothing to wait for; leave --wait out", code="usage", exit_code=USAGE)
    if timeout is not None and not wait:
        raise CommandError("--timeout is how long to wait, so give --wait too", code="usage", exit_code=USAGE)
    asyncio.run(_drain(name, undo, wait, timeout, url, as_json))


async def _drain(name: str, undo: bool, wait: bool, timeout: str | None, url: str, as_json: bool) -> None:
    from wakeful.cli.finding import writing
    from wakeful.cli.members import members
    from wakeful.cli.printing import many, put_json, put_line
    from wakeful.values.times import duration_ms

    timeout_ms = None if timeout is None else duration_ms(timeout, what="--timeout")
    async with writing(url, what="drain") as store:
        found = await members(store)
        member = found.named(name)
        node = member.row.node
        others = [other.row.node for other in found.alive if other.row.node != node and not other.row.is_draining]
        if not undo and wait and not others and member.shards:
            raise _alone(node)
        if not await store.drain(node, not undo):
            raise CommandError(f"node {node} has just left; there is nothing to drain", code="node.left")
        await store.tell([])
        left = await _wait(store, node, timeout_ms, is_shown=not as_json) if wait else len(member.shards)
    if as_json:
        put_json({"node": node, "is_draining": not undo, "shards_left": left, "others": others})
        return
    if undo:
        put_line(f"node {node} takes shards again", "green")
    elif not left:
        put_line(f"node {node} owns nothing; stop it when you like", "green")
    else:
        put_line(f"node {node} hands over {many(left, 'shard')}; wakeful nodes shows how far it is", "green")
        if not others:
            put_line(f"there is nobody to take them: {_alone(node).message}", "yellow")


async def _wait(store: "Store", node: str, timeout_ms: int | None, *, is_shown: bool) -> int:
    """Until it owns nothing."""
    from wakeful.cli.members import members

    loop = asyncio.get_running_loop()
    until = None if timeout_ms is None else loop.time() + timeout_ms / 1000
    with _Bar(is_shown=is_shown and sys.stderr.isatty(), what=f"drain {node}") as show:
        while True:
            found = await members(store)
            left = sum(len(member.shards) for member in found.nodes if member.row.node == node)
            left += len(found.lost.get(node, ()))
            show(left)
            if not left:
                return 0
            if not any(other.row.node != node and not other.row.is_draining for other in found.alive):
                raise _alone(node)
            if until is not None and loop.time() >= until:
                raise CommandError(
                    f"node {node} still owns {left} shards; it goes on handing over, wakeful nodes shows how far it is",
                    code="drain.timeout",
                    exit_code=UNAVAILABLE,
                )
            await asyncio.sleep(LOOK_S)


def _alone(node: str) -> CommandError:
    return CommandError(
        f"no other node can take what {node} owns; start one first, or just stop it (its objects then wait)",
        code="drain.alone",
    )


class _Bar:
    """How many shards have gone; nothing where nobody watches."""

    def __init__(self, *, is_shown: bool, what: str) -> None:
        self._what = what
        self._progress: Any = None
        self._line: Any = None
        self._is_shown = is_shown

    def __enter__(self) -> Any:
        if self._is_shown:
            from rich.console import Console
            from rich.progress import Progress

            self._progress = Progress(console=Console(stderr=True))
            self._progress.start()
        return self._show

    def __exit__(self, *exc: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _show(self, left: int) -> None:
        if self._progress is None:
            return
        if self._line is None:
            self._line = self._progress.add_task(self._what, total=max(left, 1))
        task = self._progress.tasks[0]
        self._progress.update(self._line, completed=max(0, task.total - left))
