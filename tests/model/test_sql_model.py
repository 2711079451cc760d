"""An object's database holds what plain SQLite would, whatever is asked of it in whatever order, and whenever the process dies."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.sql_model import SqlModel
from tests.model.test_object_model import QUIETLY

EXAMPLES = {"memory": 60, "sqlite": 10, "postgres": 4}


@pytest.mark.parametrize("store", list(EXAMPLES))
def test_random_lives_of_a_database_are_those_of_plain_sqlite(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    numbers = count()
    postgres: Any = request.getfixturevalue("postgres_url") if store == "postgres" else None

    class OnStore(SqlModel):
        def store_url(self) -> str:
            number = next(numbers)
            if store == "postgres":
                return f"{postgres}{'&' if '?' in postgres else '?'}schema=sql_model_{number}"
            return "memory:" if store == "memory" else f"sqlite:{tmp_path}/{number}.db"

    run_state_machine_as_test(
        OnStore, settings=settings(max_examples=EXAMPLES[store], stateful_step_count=20, **QUIETLY)
    )
