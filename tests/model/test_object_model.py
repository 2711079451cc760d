"""Objects do what a hundred-line oracle says, whatever is asked of them in whatever order, and whenever the process dies."""

from itertools import count
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.object_model import ObjectModel

QUIETLY = {"deadline": None, "derandomize": True, "database": None, "suppress_health_check": list(HealthCheck)}


def test_objects_on_memory_do_what_the_oracle_says() -> None:
    run_state_machine_as_test(ObjectModel, settings=settings(max_examples=120, stateful_step_count=25, **QUIETLY))


def test_objects_on_sqlite_do_what_the_oracle_says() -> None:
    numbers = count()
    with TemporaryDirectory(prefix="wakeful-model-") as folder:

        class OnSqlite(ObjectModel):
            def store_url(self) -> str:
                return f"sqlite:{folder}/{next(numbers)}.db"

        run_state_machine_as_test(OnSqlite, settings=settings(max_examples=12, stateful_step_count=20, **QUIETLY))
