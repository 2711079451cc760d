"""Layer 5. Of several processes of one program on a machine: how many, and what is each told of its place among them?"""

import contextlib
import json
import os
from typing import NamedTuple

from wakeful.cli.exit_codes import USAGE, CommandError
from wakeful.values.errors import BadOption
from wakeful.views.nodes import ProcessPlace

PROCESSES_MAX = 64
STOP, STOP_NOW = b"s", b"n"  # what the parent says on the lifeline; its end says the first too


class Assignment(NamedTuple):
    """What a process is told of its place among the others: `--under`, of which nobody is to know."""

    number: int  # from 1 on
    among: int
    is_odd: bool  # every other start: the one before may still have its port
    parent: str  # which family: its pid, and some letters
    lifeline: int  # readable when the parent is gone, or wants a stop
    report: int
    http: int | None  # a socket that listens

    @property
    def words(self) -> str:
        """What others see of it in the table of nodes."""
        return ProcessPlace(self.number, self.parent).words

    @classmethod
    def read(cls, text: str) -> "Assignment":
        try:
            return cls(*json.loads(text))
        except (TypeError, ValueError):
            raise CommandError("--under is what the parent says", code="usage", exit_code=USAGE) from None

    def say_ready(self, node: str) -> None:
        """Tell the parent."""
        with contextlib.suppress(OSError):  # which is gone: the lifeline says so
            os.write(self.report, json.dumps({"node": node}).encode() + b"\n")

    def shift(self, address: str | None) -> str | None:
        """HOST:PORT of this process, where the first has the port that was given; what is no such thing stays."""
        host, colon, port = (address or "").rpartition(":")
        if not colon or not port.isdecimal() or int(port) == 0:
            return address
        number = int(port) + self.number - 1 + (self.among if self.is_odd else 0)
        if number > 65_535:
            raise CommandError(
                f"{address}: {self.among} processes take {2 * self.among} ports from there on, and there are 65535",
                code="address.listen",
                exit_code=USAGE,
            )
        return f"{host}:{number}"


def count_of(text: str | None) -> int:
    """How many processes `--processes` means; `auto` is one for each core that this process may use."""
    if text is None:
        return 1
    if text == "auto":
        return min(_cores(), PROCESSES_MAX)
    if not (text.isascii() and text.isdecimal() and len(text) <= 9) or not 1 <= int(text) <= PROCESSES_MAX:
        raise BadOption(f"--processes {text}: give a number from 1 to {PROCESSES_MAX}, or auto", code="processes.count")
    return int(text)


def _cores() -> int:
    """Those of the machine, of what this process is pinned to, and of its container's share, whichever is least."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
        count = min(count, max(1, int(quota) // int(period)))  # "max" is no number: there is no share
    return count
