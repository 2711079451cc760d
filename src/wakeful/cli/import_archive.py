"""Layer 5. `wakeful import` of one object that `wakeful export` wrote, into a store that no process runs."""

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from wakeful.cli.exit_codes import UNAVAILABLE, CommandError, one_line
from wakeful.cli.output import many, now_ms, put_json, put_line, put_table

if TYPE_CHECKING:
    from wakeful.importers.archive import Carried
    from wakeful.store.protocol import Store

BYTES_MAX = 256 * 1024 * 1024


async def unpack(file: Path, url: str, *, is_dry: bool, as_json: bool) -> None:
    """Put the object into the store, or only say what that would be."""
    from wakeful.cli.progress import pulse
    from wakeful.cli.store_session import opened, reading
    from wakeful.importers import archive

    with pulse("import", is_shown=not as_json):
        carried = _read(file)
        async with reading(url) as store:
            await _check_idle(store)
            await archive.check_absent(store, carried)
        if not is_dry:
            async with opened(url) as store:  # `FileOwned` when a process has come since
                await archive.unpack(store, carried, name=f"import-{uuid.uuid4().hex[:8]}", now=now_ms())
    _put(carried, url=store.url, is_dry=is_dry, as_json=as_json)


def _read(file: Path) -> "Carried":
    from wakeful.importers import archive
    from wakeful.importers.findings import bad

    try:
        if file.stat().st_size > BYTES_MAX:
            raise bad(str(file), f"it has more than {BYTES_MAX:,} bytes")
        return archive.read(file.read_bytes(), str(file))
    except OSError as error:
        raise bad(str(file), f"it can't be read: {error.strerror}") from None


async def _check_idle(store: "Store") -> None:
    """Nobody owns shards: an owner would not see what is put beside it."""
    from wakeful.views.nodes import members

    alive = (await members(store, now_ms())).alive if store.shared else []
    if alive:
        raise CommandError(
            f"node {alive[0].row.node} ({alive[0].row.about}) runs {store.url}; stop all nodes, import, start them again",
            code="owner.alive",
            exit_code=UNAVAILABLE,
        )


def _put(carried: "Carried", *, url: str, is_dry: bool, as_json: bool) -> None:
    counts = carried.counts()
    if as_json:
        put_json({"is_dry": is_dry, "objects": [{"class": carried.id.cls, "key": carried.id.key, **counts}]})
        return
    put_table(["what", ">rows"], [(name, f"{count:,}") for name, count in counts.items()])
    said = "would import" if is_dry else "imported"
    put_line(one_line(f"{said} {carried.id} into {url}"), "green")
    if not is_dry and carried.timers:
        put_line(
            f"it owes {many(len(carried.timers), 'timer')}: don't let the one that it was made from live on", "yellow"
        )
