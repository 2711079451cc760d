"""Layer 5. What the doctor says: one finding, and how it looks."""

from typing import NamedTuple


class Finding(NamedTuple):
    """One thing looked at."""

    check: str
    status: str  # ok, warn, fail
    text: str
    remedy: str = ""
    evidence: str = ""  # what it was seen by, where there is more to see than the text says


def split(message: str) -> tuple[str, str]:
    """Of an error's message: what, and what to do about it."""
    what, _, remedy = message.partition("; ")
    return what, remedy


def put(finding: Finding) -> None:
    """A line for it, what was seen and its remedy under that."""
    from rich.text import Text

    from wakeful.cli.exit_codes import one_line
    from wakeful.cli.output import console

    styles = {"ok": "green", "warn": "yellow", "fail": "bold red"}
    line = Text.assemble(
        (f"{finding.status:<4}", styles[finding.status]), f"  {finding.check:<8}  {one_line(finding.text)}"
    )
    console().print(line, soft_wrap=True)
    if finding.evidence:
        console().print(Text(f"{'':16}{one_line(finding.evidence)}", style="dim"), soft_wrap=True)
    if finding.remedy:
        console().print(Text(f"{'':16}→ {one_line(finding.remedy)}", style="dim"), soft_wrap=True)
