"""A worker of pytest that dies takes one test with it, and the rest is run by others."""

from pathlib import Path
from typing import Any

import pytest

from tests.scheduling import TOGETHER, PatientScheduling

NAMES = [f"tests/test_a.py::test_{number}" for number in range(7)]


class Worker:
    """What the scheduler knows of one: what it was given, and whether it may end."""

    def __init__(self, name: str) -> None:
        self.gateway = type("Gateway", (), {"id": name})()
        self.given: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indexes: list[int]) -> None:
        self.given += indexes

    def shutdown(self) -> None:
        self.shutting_down = True

    def can_begin(self) -> bool:
        """As pytest's worker does: when it knows the next test too, or that there is none."""
        return len(self.given) > 1 or (self.shutting_down and bool(self.given))


def join(schedule: PatientScheduling, worker: Any) -> None:
    schedule.add_node(worker)
    schedule.add_node_collection(worker, NAMES)


def run_all(schedule: PatientScheduling, *workers: Any) -> list[str]:
    """What they run, until none of them can begin another."""
    ran = []
    while able := [worker for worker in workers if worker.can_begin()]:
        number = able[0].given.pop(0)
        ran.append(NAMES[number])
        schedule.mark_test_complete(able[0], number)
    return ran


@pytest.fixture
def schedule(request: pytest.FixtureRequest) -> PatientScheduling:
    class Two:
        option = type("Option", (), {"loadscopereorder": True})()

        def getvalue(self, name: str) -> Any:
            return {"tx": ["popen", "popen"], "px": None}.get(name)

        def getoption(self, name: str) -> Any:
            return self.getvalue(name)

    return PatientScheduling(Two())  # type: ignore[arg-type]


def test_the_test_that_killed_its_worker_is_not_run_again_and_all_others_are_run_once(
    schedule: PatientScheduling,
) -> None:
    first, second, third = Worker("gw0"), Worker("gw1"), Worker("gw2")
    join(schedule, first)
    join(schedule, second)
    schedule.schedule()
    crashed = NAMES[first.given[0]]
    assert schedule.remove_node(first) == crashed  # type: ignore[arg-type]
    join(schedule, third)
    schedule.schedule()
    assert sorted([*run_all(schedule, second, third), crashed]) == NAMES


def test_who_takes_the_place_of_the_last_worker_can_begin(schedule: PatientScheduling) -> None:
    first, second, third = Worker("gw0"), Worker("gw1"), Worker("gw2")
    join(schedule, first)
    join(schedule, second)
    schedule.schedule()
    ran = run_all(schedule, second)  # all that is not the first's, which is at its first test all the time
    crashed = schedule.remove_node(first)  # type: ignore[arg-type]
    assert second.shutting_down
    join(schedule, third)
    schedule.schedule()
    assert sorted([*ran, *run_all(schedule, third), crashed]) == NAMES


def test_what_shares_something_dear_is_one_piece_of_work_and_all_of_it_is_there(schedule: PatientScheduling) -> None:
    scopes = {schedule._split_scope(f"{group}::test") for group in TOGETHER}
    assert scopes == set(TOGETHER)
    assert schedule._split_scope(NAMES[0]) == NAMES[0]
    assert [group for group in TOGETHER if not (Path(__file__).parents[2] / group).exists()] == []
