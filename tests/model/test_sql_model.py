"""An object's database holds what plain SQLite would, whatever is asked of it in whatever order, whenever the process dies, and wherever it moves."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.sql_model import MovingSqlModel, SqlModel
from tests.model.test_object_model import QUIETLY

EXAMPLES = {"memory": 60, "sqlite": 10, "postgres": 4}
MOVING = {"memory": 15, "postgres": 2}


def live(model: type[SqlModel], store: str, examples: int, place: Path, request: pytest.FixtureRequest) -> None:
    numbers = count()
    postgres: Any = request.getfixturevalue("postgres_url") if store == "postgres" else None

    class OnStore(model):  # type: ignore[valid-type, misc]
        def store_url(self) -> str:
            number = next(numbers)
            if store == "postgres":
                return f"{postgres}{'&' if '?' in postgres else '?'}schema={model.__name__.lower()}_{number}"
            return "memory:" if store == "memory" else f"sqlite:{place}/{number}.db"

    run_state_machine_as_test(OnStore, settings=settings(max_examples=examples, stateful_step_count=20, **QUIETLY))


@pytest.mark.parametrize("store", list(EXAMPLES))
def test_random_lives_of_a_database_are_those_of_plain_sqlite(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    live(SqlModel, store, EXAMPLES[store], tmp_path, request)


@pytest.mark.parametrize("store", list(MOVING))
def test_random_lives_on_two_nodes_are_those_of_plain_sqlite(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    live(MovingSqlModel, store, MOVING[store], tmp_path, request)
