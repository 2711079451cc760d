"""Which stores the conformance suite runs on."""

from collections.abc import Callable

import pytest

from wakeful.store import Store


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def new_store(request: pytest.FixtureRequest, store_of: Callable[[str], Store]) -> Callable[[], Store]:
    """Makes a new and empty store of one kind at every call."""
    kind: str = request.param
    return lambda: store_of(kind)
