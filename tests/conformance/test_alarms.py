"""Every line of conformance-alarms.md and the tests that hold it, so that nothing is forgotten."""

import ast
from pathlib import Path

# `LATER` names what other issues build.

SETTING = {
    "kept to the millisecond, get_alarm() returns it": [
        "test_a_future_time_is_kept_to_the_millisecond",
        "test_the_alarm_that_get_alarm_returns_is_an_aware_datetime_in_utc",
        "test_the_alarm_methods_are_on_ctx_too",
    ],
    "a fraction of a millisecond is dropped": ["test_a_fraction_of_a_millisecond_is_dropped"],
    "a past time means now": ["test_a_past_time_means_now"],
    "zero, negative, NaN, infinite, text, None, bool, naive: typed errors, the alarm stays": [
        "test_a_wrong_time_is_a_typed_error_and_the_alarm_that_was_set_stays"
    ],
    "the latest accepted time is named": ["test_the_latest_time_is_named_and_accepted_and_one_millisecond_more_is_not"],
    "setting replaces, only the last fires": [
        "test_setting_replaces_and_only_the_last_one_fires",
        "test_setting_replaces_within_one_turn",
    ],
    "set twice to the same instant fires once": [
        "test_set_twice_to_the_same_instant_fires_once",
        "test_set_again_to_now_while_due_fires_once",
    ],
    "get_alarm() is None before, after it ran, after delete": [
        "test_get_alarm_is_none_before_and_after_it_ran_and_after_delete"
    ],
    "deleting when none is set is fine": ["test_deleting_when_none_is_set_is_fine"],
    "a set is visible to the next read in the same turn": [
        "test_a_set_is_visible_to_the_next_read_in_the_same_turn_before_anything_is_committed"
    ],
    "set_alarm without an alarm method is an error, also in the constructor; get and delete are allowed": [
        "test_set_alarm_without_an_alarm_method_is_an_error_at_the_call",
        "test_set_alarm_without_an_alarm_method_is_an_error_in_the_constructor",
        "test_get_and_delete_are_allowed_without_an_alarm_method",
    ],
    "in the constructor or on_wake get_alarm() sees the alarm that woke it; setting replaces it": [
        "test_on_wake_sees_the_alarm_whose_firing_woke_the_object",
        "test_setting_in_on_wake_replaces_the_alarm_that_woke_the_object",
        "test_setting_in_the_constructor_replaces_the_alarm_that_woke_the_object",
        "test_set_only_if_none_in_on_wake_keeps_the_alarm_that_woke_the_object",
    ],
    "delete_all() removes keys and alarm; keep_alarm keeps it; other timers are never touched": [
        "test_delete_all_removes_every_key_and_the_alarm",
        "test_delete_all_with_keep_alarm_keeps_it",
        "test_delete_all_never_touches_timers_of_schedules_jobs_and_machines",
    ],
}

FIRING = {
    "the constructor first, then the handler; its info": [
        "test_the_constructor_runs_first_then_the_handler",
        "test_the_handler_is_told_count_zero_no_retry_and_the_time_that_was_set",
    ],
    "inside the handler get_alarm() is None; a new one fires after this handler, also when due; set then delete": [
        "test_inside_the_handler_get_alarm_is_none",
        "test_inside_the_handler_a_new_alarm_is_seen_and_fires_after_this_handler_ended",
        "test_inside_the_handler_an_alarm_that_is_due_already_fires_after_this_handler",
        "test_set_then_delete_inside_the_handler_fires_nothing_more",
        "test_delete_inside_the_handler_is_harmless",
        "test_delete_all_inside_the_handler_is_harmless",
    ],
    "re-arming at now a thousand times": [
        "test_rearming_at_now_a_thousand_times_runs_a_thousand_times_without_starving_others"
    ],
    "one handler at a time; a slow one delays the next": [
        "test_one_handler_at_a_time_and_a_slow_one_delays_the_next_which_runs_once"
    ],
    "calls do not interleave with a handler; readers run beside it": [
        "test_calls_do_not_interleave_with_a_running_handler",
        "test_readers_run_beside_a_running_handler",
    ],
    "a call that sets the alarm is before or after the handler, never in the middle": [
        "test_a_call_that_sets_the_alarm_before_the_waiting_handlers_turn_replaces_it",
        "test_a_call_that_sets_the_alarm_after_the_waiting_handler_comes_after_it",
        "test_a_call_that_sets_the_alarm_while_the_handler_runs_comes_after_it",
    ],
    "due order; same due time all fire; several timers of one object": [
        "test_objects_with_different_due_times_fire_in_due_order",
        "test_the_same_due_time_on_many_objects_fires_them_all",
        "test_several_timers_of_one_object_run_in_one_activation_by_due_time_then_insertion",
        "test_the_alarm_and_other_timers_share_the_order",
    ],
    "due while the node was down": [
        "test_due_while_the_node_was_down_fires_at_once_on_start_once_with_its_original_time"
    ],
    "a sleeping object is woken by its alarm; one whose alarm is far stays asleep": [
        "test_an_object_that_sleeps_is_woken_by_its_alarm",
        "test_an_object_whose_alarm_is_far_stays_asleep",
    ],
}

FAILING = {
    "tried again 2, 4, … 64 s after, jittered, count 1 to 6, same scheduled_at; then parked": [
        "test_a_handler_that_raises_is_tried_six_more_times_at_doubling_intervals",
        "test_the_interval_counts_from_the_end_of_the_failed_attempt_and_is_jittered",
        "test_after_the_last_retry_it_is_parked_with_its_error_and_history",
        "test_a_failure_with_any_text_is_written_down_retried_and_parked",
    ],
    "get_alarm() during the wait; the retry survives sleep, crash and restart": [
        "test_during_the_wait_for_a_retry_get_alarm_returns_the_failing_alarms_time",
        "test_a_retry_survives_sleep_crash_and_restart_with_its_count",
    ],
    "a call during the wait replaces or ends it": [
        "test_a_call_that_sets_the_alarm_during_the_wait_for_a_retry_replaces_it",
        "test_a_call_that_deletes_the_alarm_during_the_wait_for_a_retry_ends_it",
    ],
    "a handler that set a new alarm and raised: the retry stands": [
        "test_a_handler_that_set_a_new_alarm_and_then_raised_keeps_the_retry_and_nothing_else",
        "test_a_handler_that_deleted_its_alarm_and_then_raised_is_retried",
    ],
    "success after retries clears the count": ["test_a_handler_that_succeeds_after_retries_clears_the_count"],
    "a crash is tried again at once, not counted; three kills park": [
        "test_a_crash_during_the_handler_is_tried_again_at_once_without_being_counted",
        "test_a_handler_that_kills_its_process_three_times_is_parked",
        "test_innocents_that_ran_beside_a_killer_are_not_parked",
    ],
    "node stops: not counted; store unreachable: not counted, backs off": [
        "test_a_handler_cancelled_because_the_node_stops_is_not_counted_and_runs_again",
        "test_a_store_that_goes_away_during_the_handler_is_not_counted",
        "test_an_unavailable_object_called_by_the_handler_is_not_counted_and_backs_off",
    ],
}

TRANSACTIONS = {
    "alarm and keys commit and roll back together": [
        "test_alarm_and_keys_commit_together",
        "test_a_rolled_back_set_leaves_the_alarm_that_was_there",
        "test_a_rolled_back_delete_leaves_the_alarm_that_was_there",
    ],
    "transaction() is a savepoint, nested ones too": [
        "test_raising_inside_a_transaction_and_catching_outside_drops_only_its_writes",
        "test_nested_transactions_are_savepoints_too",
    ],
    "an un-awaited write that fails to encode fails the turn": [
        "test_an_unawaited_write_that_fails_to_encode_fails_the_turn"
    ],
    "values are copied when stored and when read": ["test_values_are_copied_when_stored_and_when_read"],
}

LISTING = {
    "order by UTF-8 bytes; start, start_after, end, prefix, reverse, limit": [
        "test_order_is_by_the_keys_utf8_bytes",
        "test_start_is_inclusive_and_start_after_exclusive_and_both_together_an_error",
        "test_end_is_exclusive",
        "test_prefix_combines_with_every_other_option",
        "test_empty_and_inverted_ranges_give_nothing",
        "test_reverse_walks_the_same_range_from_its_end",
        "test_limit_must_be_positive",
        "test_every_combination_of_list_options_agrees_with_a_naive_listing",
    ],
    "odd keys work, one byte too long is an error; get, delete and delete_many answers": [
        "test_odd_keys_and_the_longest_key_work",
        "test_one_byte_longer_is_an_error",
        "test_get_of_a_missing_key_gives_the_default",
        "test_delete_says_whether_it_was_there_and_delete_many_how_many",
    ],
    "listing shows the turn's own puts and hides its deletes, across pages, limit and reverse": [
        "test_listing_in_a_turn_shows_its_own_puts_and_hides_its_deletes"
    ],
    "5,000 keys in one put_many are one atomic write": ["test_five_thousand_keys_in_one_put_many_are_one_atomic_write"],
}

SLEEP = {
    "idle 9 s the same instance, idle 11 s a new one; calls, turns and transactions keep it awake": [
        "test_idle_for_nine_seconds_is_the_same_instance",
        "test_idle_for_eleven_seconds_is_a_new_instance_with_its_storage",
        "test_a_call_in_flight_keeps_it_awake",
        "test_a_running_turn_keeps_it_awake",
        "test_an_open_transaction_keeps_it_awake",
    ],
    "a constructor or on_wake that raises": [
        "test_a_constructor_that_raises_gives_the_caller_that_error_and_the_object_stays_asleep",
        "test_on_wake_that_raises_gives_the_caller_that_error_and_undoes_its_writes",
        "test_the_next_call_tries_to_wake_it_again",
        "test_a_due_alarm_counts_a_failed_wake_as_a_failure_of_the_handler",
    ],
}

LATER = {
    "in compat.workers writes before the raise are kept": "the issue that builds wakeful.compat",
}

SPECIFICATION = {
    "test_alarms_setting.py": SETTING,
    "test_alarms_firing.py": FIRING,
    "test_alarms_failing.py": FAILING,
    "test_transactions.py": TRANSACTIONS,
    "test_storage.py": LISTING,
    "test_sleep.py": SLEEP,
}


def test_every_line_of_the_specification_has_its_tests() -> None:
    folder = Path(__file__).parent
    for file, lines in SPECIFICATION.items():
        tree = ast.parse((folder / file).read_text())
        there = {node.name for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef)}
        for line, tests in lines.items():
            missing = [name for name in tests if name not in there]
            assert tests, f"{line}: no test"
            assert not missing, f"{line}: {file} has no {missing}"
        if file.startswith("test_alarms_"):
            named = {name for tests in lines.values() for name in tests}
            assert {name for name in there if name.startswith("test_")} == named
