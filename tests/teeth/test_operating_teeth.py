"""Each mistake of `broken_operating.py` is caught by the suites named beside it, which pass when nothing is broken."""

import asyncio
import io
import json
import os
from contextlib import redirect_stdout
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conformance import test_calls_underway as underway
from tests.conformance import test_parked_dropped as parked_dropped
from tests.conformance.conftest import staging
from tests.http import test_looks as http_looks
from tests.http import test_raised as http_raised
from tests.teeth import broken_operating
from tests.teeth.catching import Catcher, Teeth
from tests.unit import test_cli_config as cli_config
from tests.unit import test_cli_start as cli_start
from tests.unit import test_lock_watch as lock_watch
from tests.unit import test_postgres_hosts as postgres_hosts
from tests.unit import test_reach as reach
from tests.unit import test_standstill as standstill
from tests.unit import test_underway as looks
from tests.unit.views import test_arguments as view_arguments
from wakeful.cli import run
from wakeful.testing.timewarp import Timewarp
from wakeful.values.errors import Unavailable, Unreachable, WakefulError

HERE = SimpleNamespace()  # the test that runs, whose fixtures catchers may ask for


def dropped_job() -> None:
    """tests/conformance: a job that is dropped, and one that waits for it."""
    stage = SimpleNamespace(url="memory:")
    asyncio.run(parked_dropped.test_a_job_that_is_dropped_is_cancelled_and_so_are_those_that_wait_for_it(stage))


def dropped_alarm() -> None:
    """tests/conformance: an alarm that is dropped."""
    with staging("memory:") as stage:
        asyncio.run(parked_dropped.test_an_alarm_that_is_dropped_never_runs_and_its_attempts_stay_in_the_ledger(stage))


def masked_rows() -> None:
    """tests/unit: who sees what methods are called with."""
    asyncio.run(view_arguments.test_who_may_only_look_sees_how_many_there_are_and_no_value())


def masked_answers() -> None:
    """tests/http: the same over HTTP."""
    asyncio.run(http_looks.test_arguments_are_for_operators_and_others_see_how_many_there_are())


def play(test: Any) -> None:
    """It passes, or says what it missed."""
    with staging("memory:") as stage:
        try:
            asyncio.run(test(stage))
        except (WakefulError, pytest.fail.Exception) as error:
            raise AssertionError(str(error)) from None


def undone_call() -> None:
    """tests/conformance: a turn that an operator cancels."""
    play(underway.test_a_turn_that_is_cancelled_is_undone_and_its_caller_is_told_by_whom)


def freed_key() -> None:
    """tests/conformance: the request key of a call that was cancelled."""
    play(underway.test_a_request_key_whose_call_was_cancelled_is_free_for_a_repeat)


def ended_call() -> None:
    """tests/conformance: a call whose turn has ended."""
    play(underway.test_one_whose_turn_has_ended_is_not_undone_though_its_commit_is_on_its_way)


def strange_name() -> None:
    """tests/unit: the name of another object's call."""
    asyncio.run(looks.test_a_call_is_stopped_by_the_name_of_its_own_object_only())


def crowded_line() -> None:
    """tests/unit: a look at an object for which many wait."""
    patch = HERE.request.getfixturevalue("monkeypatch")
    asyncio.run(looks.test_due_timers_that_wait_for_one_object_are_gone_through_once(patch))


def lingering_code() -> None:
    """tests/unit: code of a turn that is over."""
    asyncio.run(looks.test_code_of_a_turn_that_is_over_is_seen_while_its_object_waits_for_it())


def slotless_call() -> None:
    """tests/conformance: cancelling where no slot is free."""
    play(underway.test_a_turn_without_a_slot_says_so)


def long_lock() -> None:
    """tests/unit: a lock that is no hiccup."""
    asyncio.run(lock_watch.test_a_lock_is_told_once_it_is_no_hiccup_and_until_it_is_gone())


def short_locks() -> None:
    """tests/unit: locks that come and go."""
    asyncio.run(lock_watch.test_locks_that_come_and_go_are_a_server_that_works())


def said() -> None:
    """tests/unit: what /readyz says."""
    reason = "the table objects is locked by session 4711 of the database, and can't be read"
    asyncio.run(lock_watch.test_what_readyz_says_of_it(lock_watch.LOCK, reason))


def outage_by_lock() -> None:
    """tests/unit: an outage under a lock."""
    patch, log = (HERE.request.getfixturevalue(name) for name in ("monkeypatch", "caplog"))
    log.clear()
    asyncio.run(lock_watch.test_an_outage_that_a_lock_makes_is_not_said_beside_it(patch, log))


def starved() -> None:
    """tests/unit: a loop that is held up again and again."""
    log = HERE.request.getfixturevalue("caplog")
    log.clear()
    asyncio.run(standstill.test_a_node_whose_loop_is_starved_blames_itself_and_not_the_store(log))


def slow_store() -> None:
    """tests/unit: a pause, and then a store that is slow."""
    log = HERE.request.getfixturevalue("caplog")
    log.clear()
    asyncio.run(standstill.test_a_store_that_is_slow_long_after_a_pause_is_not_forgiven_for_it(log))


def late_store() -> None:
    """tests/unit: a store that comes later than the program."""

    async def play() -> None:
        warp = Timewarp(0)
        warp.install()
        try:
            assert await cli_start.Start(warp, until_ms=20_000).come_up() == "the node"
        except Unavailable as error:
            raise AssertionError(error.message) from None
        finally:
            warp.remove()

    asyncio.run(play())


def late_name() -> None:
    """tests/unit: a name that others learn later."""
    try:
        asyncio.run(reach.test_others_are_given_time_to_learn_a_name())
    except Unreachable as error:
        raise AssertionError(error.message) from None


def demoted() -> None:
    """tests/unit: a primary that takes no writes any more."""
    url = HERE.request.getfixturevalue("postgres_schema_url")
    patch = HERE.request.getfixturevalue("monkeypatch")
    try:
        asyncio.run(
            postgres_hosts.test_a_server_that_takes_no_writes_any_more_is_left_for_the_next(f"{url}&timeout=1s", patch)
        )
    except Unavailable as error:
        raise AssertionError(error.message) from None


def precedence() -> None:
    """tests/unit: command line, environment, file, default."""
    patch: pytest.MonkeyPatch = HERE.request.getfixturevalue("monkeypatch")
    for name in [name for name in os.environ if name.startswith("WAKEFUL_")]:
        patch.delenv(name)
    patch.chdir(HERE.request.getfixturevalue("tmp_path"))
    cli_config.test_the_command_line_goes_before_the_environment_that_before_the_file_and_that_before_the_default(
        config, patch
    )


def config(*args: str) -> dict[str, dict[str, Any]]:
    with redirect_stdout(io.StringIO()) as out:
        assert run(["config", "--json", *args]) == 0
    return {row["option"]: row for row in json.loads(out.getvalue())["options"]}


def charged_again() -> None:
    """tests/http: a client that retries, and code that met somebody who is away."""
    asyncio.run(http_raised.test_an_effect_outside_happens_once_for_a_client_that_retries("unavailable"))


BROKEN: dict[str, tuple[Catcher, ...]] = {
    "what_an_object_raised_is_a_fault_of_the_call": (charged_again,),
    "who_may_look_sees_arguments": (masked_rows, masked_answers),
    "a_list_shows_arguments_to_everybody": (masked_rows, masked_answers),
    "a_call_that_is_cancelled_goes_on": (undone_call,),
    "a_call_that_is_cancelled_frees_no_key": (freed_key,),
    "a_turn_that_has_ended_is_cancelled": (ended_call,),
    "a_call_is_cancelled_through_any_object": (strange_name,),
    "a_look_goes_through_the_line_for_each_that_waits": (crowded_line,),
    "code_that_lingers_is_nowhere": (lingering_code,),
    "operators_wait_for_slots": (slotless_call,),
    "what_is_dropped_tells_nobody": (dropped_job,),
    "what_is_dropped_stays_parked": (dropped_alarm,),
    "ready_though_a_table_is_locked": (long_lock, said),
    "a_lock_is_known_by_its_table": (short_locks,),
    "ready_says_away_before_it_says_locked": (said,),
    "an_outage_that_a_lock_makes_is_said": (outage_by_lock,),
    "a_starved_node_blames_the_store": (starved,),
    "who_was_held_up_once_is_always_to_blame": (slow_store,),
    "a_program_gives_up_on_a_store_that_is_away": (late_store,),
    "a_name_is_right_or_wrong_at_once": (late_name,),
    "a_host_that_was_demoted_is_kept": (demoted,),
    "the_file_goes_before_the_environment": (precedence,),
}
TEETH = Teeth(broken_operating, BROKEN)


@pytest.mark.parametrize("catcher", TEETH.controls)
def test_the_check_passes_when_nothing_is_broken(catcher: str, request: pytest.FixtureRequest) -> None:
    HERE.request = request
    TEETH.check_unbroken(catcher)


@pytest.mark.parametrize(("variant", "catcher"), TEETH.pairs)
def test_the_mistake(variant: str, catcher: str, request: pytest.FixtureRequest) -> None:
    HERE.request = request
    TEETH.check_caught(variant, catcher)


def test_every_mistake_has_a_catcher() -> None:
    TEETH.check_complete()
