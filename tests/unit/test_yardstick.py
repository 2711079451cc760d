"""What a promise in seconds comes to is what was promised on a machine that is at hand, and more on one that is not."""

import asyncio
import sys
import time
from pathlib import Path

from tests.yardstick import HOPS, QUICK_START_S, Yardstick


def of(late_s: float, start_s: float) -> Yardstick:
    machine = Yardstick()
    machine.late_s, machine.start_s = late_s, start_s
    return machine


def test_a_quick_machine_allows_what_was_promised_and_a_slow_one_as_much_more_as_it_is_slower() -> None:
    assert of(0.0, QUICK_START_S / 3).allows(2) == 2
    assert of(0.0, QUICK_START_S * 4).allows(2) == 8
    assert of(0.1, 0.0).allows(2) == 2 + HOPS * 0.1


async def test_it_measures_beside_the_test_and_not_the_test() -> None:
    with Yardstick() as machine:
        began = time.monotonic()
        await asyncio.sleep(0.2)
        while time.monotonic() - began < 1.5:
            pass  # this loop is 1.3 s late, and no machine is to blame
    assert machine.start_s > 0
    assert machine.late_s >= 0
    own_s = 1.3
    assert machine.late_s < own_s or machine.slowness > 10, f"{machine}, as the test itself was"
    assert f"{machine.slowness:.1f} times" in str(machine)


def test_it_needs_nothing_but_python() -> None:
    """Else what it measures would be the start of something large."""
    text = (Path(__file__).parents[1] / "yardstick.py").read_text(encoding="utf-8")
    modules = {line.split()[1] for line in text.splitlines() if line.startswith(("import ", "from "))}
    assert modules <= sys.stdlib_module_names
