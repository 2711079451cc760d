"""Each mistake of `broken_spread.py` is caught by the suites named beside it, which pass when nothing is broken."""

import json
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest

from tests.conformance import test_slot_moves as moves
from tests.conformance import test_spread_commands as commands
from tests.teeth import broken_spread
from tests.teeth.catching import Catcher, Teeth, run_test
from wakeful.cli import run

BASE: list[str] = []  # the URL of a database, while a test runs


def killed() -> None:
    """tests/conformance: movers killed at every trip."""
    run_test(moves.test_a_mover_that_is_killed_at_any_trip_is_taken_up_and_nothing_is_lost_or_doubled, servers())


def steps() -> None:
    """tests/conformance: movers killed after each step."""
    run_test(moves.test_after_every_step_of_a_killed_mover_the_next_one_goes_on, servers())


def kept() -> None:
    """tests/conformance: all that is kept of an object."""
    run_test(moves.test_all_that_is_kept_of_an_object_goes_with_its_slot, servers())


def frozen() -> None:
    """tests/conformance: two movers of one slot."""
    run_test(moves.test_two_movers_of_one_slot_do_no_harm, servers())


def late() -> None:
    """tests/conformance: what is old is refused."""
    run_test(moves.test_what_is_old_is_refused_at_either_server, servers())


def coming() -> None:
    """tests/conformance: objects that come and go while a slot is copied."""
    run_test(moves.test_objects_that_come_and_go_while_a_slot_is_copied_are_not_overlooked, servers())


def sealed() -> None:
    """tests/conformance: servers under different keys."""
    with pytest.MonkeyPatch.context() as patch:
        _judge(lambda: commands.test_servers_that_are_not_sealed_alike_are_not_mixed(_wakeful, servers(), patch))


def alone() -> None:
    """tests/conformance: a rotation and a mover."""
    with pytest.MonkeyPatch.context() as patch:
        run_test(
            commands.test_nobody_moves_slots_while_a_server_is_sealed_anew_nor_the_other_way_round,
            *(_wakeful, servers(), patch),
        )


def _judge(test: Callable[[], None]) -> None:
    try:
        test()
    except (Exception, pytest.fail.Exception) as error:
        raise AssertionError(f"{error}") from error


def _wakeful(*args: str, code: int = 0) -> Any:
    """As the fixture of that suite."""
    out = StringIO()
    with redirect_stdout(out):
        found = run([*args, "--json"])
    assert found == code, out.getvalue()
    return json.loads(out.getvalue())


def servers() -> dict[str, str]:
    [url] = BASE
    schema = f"{url}{'&' if '?' in url else '?'}schema=teeth_{uuid4().hex[:12]}"
    return {name: f"{schema}_{name}" for name in ("a", "b")}


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "flipped_before_the_fence": (steps,),
    "no_fence": (killed, steps),
    "an_epoch_that_stays": (steps,),
    "a_claim_of_what_is_away": (steps, late),
    "removed_before_it_landed": (steps,),
    "copied_once": (steps,),
    "changes_found_by_their_time": (steps,),
    "receipts_left_behind": (kept,),
    "an_outbox_left_behind": (kept,),
    "an_insert_that_does_not_look": (steps, late),
    "a_late_mover": (frozen, late),
    "an_epoch_of_its_own": (kept,),
    "names_read_but_once": (coming,),
    "a_moment_too_late": (coming,),
    "servers_are_mixed": (sealed,),
    "the_first_server_is_locked": (alone,),
    "sealed_behind_the_mover": (alone,),
}
TEETH = Teeth(
    broken_spread,
    BROKEN,
    beside={"_rewritten", "_pass_all", "_all_moves"},
    shown=(killed, steps, kept, frozen, late, coming, sealed, alone),
)


@pytest.fixture(autouse=True)
def base(postgres_url: str) -> Iterator[None]:
    BASE[:] = [postgres_url]
    yield
    BASE.clear()


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_the_mistake_is_caught(variant: str, catcher: str) -> None:
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_a_suite() -> None:
    TEETH.check_complete()
