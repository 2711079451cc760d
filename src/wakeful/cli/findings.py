"""Layer 5. What the doctor says: one finding, how it looks, and the one about clocks."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from wakeful.store.protocol import Store

# Clocks only decide who tries, so a small difference is harmless; a lease has 5 s.
CLOCK_OFFSET_WARN_MS = 1_000


class Finding(NamedTuple):
    """One thing looked at."""

    check: str
    status: str  # ok, warn, fail
    text: str
    remedy: str = ""


async def clock(store: "Store", url: str) -> list[Finding]:
    """How far this machine's clock is from the database server's."""
    from wakeful.cli.printing import length, now_ms

    if not store.shared:
        return []
    from wakeful.store.postgres.statements import Statement
    from wakeful.store.postgres.url import parse_url
    from wakeful.store.postgres.wire import Wire

    wire = await Wire.connect(parse_url(url), readonly=True)
    try:
        ask = Statement("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint", ())
        await wire.run(ask)  # the first one also prepares
        before = now_ms()
        [(theirs,)] = await wire.run(ask)
        offset = theirs - (before + now_ms()) // 2
    finally:
        await wire.close()
    text = f"this machine is {length(abs(offset))} {'behind' if offset > 0 else 'ahead of'} the database server"
    if abs(offset) < CLOCK_OFFSET_WARN_MS:
        return [Finding("clock", "ok", text)]
    return [Finding("clock", "warn", text, "run NTP on both; timers fire by the node's clock")]


def put(findings: list[Finding]) -> None:
    """A line for each, its remedy under it."""
    from rich.text import Text

    from wakeful.cli.failing import one_line
    from wakeful.cli.printing import console

    styles = {"ok": "green", "warn": "yellow", "fail": "bold red"}
    for finding in findings:
        line = Text.assemble(
            (f"{finding.status:<4}", styles[finding.status]), f"  {finding.check:<8}  {one_line(finding.text)}"
        )
        console().print(line, soft_wrap=True)
        if finding.remedy:
            console().print(Text(f"{'':16}→ {one_line(finding.remedy)}", style="dim"), soft_wrap=True)
