"""An object can be as it was at any of its points, whatever happened in between, and whenever the process died."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.history_model import HistoryModel
from tests.model.test_object_model import QUIETLY

EXAMPLES = {"memory": 60, "sqlite": 10, "postgres": 4}


@pytest.mark.parametrize("store", list(EXAMPLES))
def test_an_object_that_goes_back_is_what_a_copy_of_it_was(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    numbers = count()
    postgres: Any = request.getfixturevalue("postgres_url") if store == "postgres" else None

    class OnStore(HistoryModel):
        def store_url(self) -> str:
            number = next(numbers)
            if store == "postgres":
                return f"{postgres}{'&' if '?' in postgres else '?'}schema=history_model_{number}"
            return "memory:" if store == "memory" else f"sqlite:{tmp_path}/{number}.db"

    run_state_machine_as_test(
        OnStore, settings=settings(max_examples=EXAMPLES[store], stateful_step_count=20, **QUIETLY)
    )
