"""Which worker of pytest runs which tests, also when one of them has died?"""

from typing import Any

from xdist.scheduler import LoadGroupScheduling

# Each of these in one worker: they share a browser, a demo, a wheel, or what else is dear to start. Not by the marks of
# xdist, which the nodes of pytest 9 don't take any more.
TOGETHER = (
    "tests/browser/",
    "tests/http/test_schemathesis.py",
    "tests/live/test_new_user.py",
    "tests/live/test_postgres_restart.py",
    "tests/typing/test_typing.py",
)


class PatientScheduling(LoadGroupScheduling):
    """As `--dist loadgroup`, which after a worker's death runs the test that killed it again, or waits for ever."""

    def _split_scope(self, nodeid: str) -> str:
        return next((group for group in TOGETHER if nodeid.startswith(group)), nodeid)

    def remove_node(self, node: Any) -> str | None:
        """What it had not run goes to others, but for the test that took it with it: that one has failed."""
        work = self.assigned_work.pop(node)
        left = {scope: unit for scope, unit in work.items() if not all(unit.values())}
        if not left:
            return None
        unit, crashed = next((unit, name) for unit in left.values() for name, is_done in unit.items() if not is_done)
        unit[crashed] = True
        self.workqueue.update((scope, unit) for scope, unit in left.items() if not all(unit.values()))
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed

    def _reschedule(self, node: Any) -> None:
        """A worker begins a test when it knows the one behind it: who takes the place of a dead one needs two."""
        super()._reschedule(node)
        super()._reschedule(node)
