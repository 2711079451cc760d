"""What the simulation of a cluster says of the app's function: each occurrence has its run, or a reason."""

import pytest

from tests.sim.cluster_invariants import check_ticks
from tests.sim.invariants import Violation
from wakeful.schedules.functions import CLASS
from wakeful.store import Disk
from wakeful.values.ids import ObjectId
from wakeful.values.timers import Entry, Timer, Verdict

TICK = ObjectId(CLASS, "tick")


def told(*verdicts: tuple[int, int, Verdict]) -> Disk:
    """A disk whose ledger has these, each with its second, the second in which it ended, and what came of it."""
    disk = Disk()
    for number, (nominal, ended, verdict) in enumerate(verdicts):
        at = nominal * 1_000, ended * 1_000, ended * 1_000
        disk.entries[number] = Entry(TICK, "tick", f"r{nominal}", *at, 0, verdict, "n")
    return disk


def test_runs_and_occurrences_behind_one_that_was_tried_again_are_fine() -> None:
    check_ticks(told((4, 4, "run"), (8, 8, "run")), 1_000, 12_000)
    check_ticks(told((4, 4, "failed"), (4, 9, "run"), (8, 9, "overlap"), (12, 12, "run")), 5_000, 16_000)
    waiting = told((4, 4, "failed"))
    waiting.timers[TICK, "schedule:tick"] = Timer(TICK, "schedule:tick", 20_000, 4_000, 1, attempt=1)
    check_ticks(waiting, 1_000, 16_000)


@pytest.mark.parametrize(
    "disk",
    [
        told((4, 4, "run")),
        told((4, 4, "run"), (8, 8, "failed")),
        told((4, 4, "run"), (8, 8, "overlap")),
        told((4, 9, "run"), (12, 12, "run")),
    ],
    ids=["it stopped", "it failed", "nothing was in its way", "one is missing"],
)
def test_others_are_not(disk: Disk) -> None:
    with pytest.raises(Violation, match="the app's function"):
        check_ticks(disk, 1_000, 12_000)
