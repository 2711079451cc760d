"""What becomes of a test that waits for real and failed beside all the others?

    python -m pytest --second-look -n 3 tests

Tests of real processes and of a real browser share two cores with three workers, and meet moments that no virtual clock
can repeat. When no more than two of them are all that failed, each runs alone, three times, on a machine that has nothing
else to do. One failure there, and the run has failed. Three passes, and it has not, but it says which they were and why
they failed: such a test is to be looked into, since what it met may be real. Whatever else fails has failed.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Sequence

import pytest

PLACES = ("tests/live/", "tests/browser/")  # where tests wait for real
FAILED_MAX = 2
TIMES = 3
_GROUP = re.compile(r"@[^\]/]*$")  # by which xdist keeps tests together


def deserving(failed: Iterable[str]) -> list[str]:
    """Those that failed, if all of them are tests that wait for real, and few.

    >>> deserving(["tests/live/test_kill.py::test_a[1]@disk"])
    ['tests/live/test_kill.py::test_a[1]']
    >>> deserving(["tests/live/test_kill.py::test_a", "tests/unit/test_codec.py::test_b"])
    []
    """
    names = sorted({_GROUP.sub("", one) for one in failed})
    return names if len(names) <= FAILED_MAX and all(name.startswith(PLACES) for name in names) else []


class SecondLook:
    """Of one session: what failed in it, and what that was worth."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.passed_alone: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
            print(f"\nfailed: {report.nodeid}", flush=True)  # what failed is printed whole when all others have run

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(f"{report.nodeid} (not collected)")

    @pytest.hookimpl(trylast=True)  # the workers have ended by then
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        names = deserving(self.failed) if exitstatus == pytest.ExitCode.TESTS_FAILED else []
        if names and pass_alone(names):
            self.passed_alone = names
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.passed_alone:
            terminalreporter.section("failed beside the others, passed alone", yellow=True)
            for name in self.passed_alone:
                terminalreporter.line(f"{name}: passed {TIMES} of {TIMES} times; look into why it failed above")


def pass_alone(names: Sequence[str]) -> bool:
    """Each of them, time after time; the first failure is enough, and is printed."""
    for number in range(TIMES):
        print(f"\nalone, {number + 1} of {TIMES}: {' '.join(names)}", flush=True)
        if subprocess.run([sys.executable, "-m", "pytest", *names], check=False).returncode:
            return False
    return True


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--second-look", action="store_true", help="of the few that wait for real: tests/second_look.py")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--second-look") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SecondLook(), "second-look")
