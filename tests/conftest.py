"""How tests run: a coroutine test gets an event loop of its own."""

import asyncio
import inspect
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from wakeful.store import MemoryStore, Store, open_url


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run `async def` tests with asyncio.run; what a suite opened is closed in the same loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def run() -> Any:
        try:
            await pyfuncitem.obj(**arguments)
        finally:
            close = getattr(pyfuncitem.instance, "close_stores", None)
            if close is not None:
                await close()

    asyncio.run(run())
    return True


_numbers = count(1)


@pytest.fixture
def store_of(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Store]:
    """A new and empty store of a kind (memory, sqlite, postgres) at every call, not opened."""

    def make(kind: str) -> Store:
        number = next(_numbers)
        if kind == "memory":
            return MemoryStore()
        if kind == "sqlite":
            return open_url(f"sqlite:{tmp_path}/{number}.db")
        try:
            url = request.getfixturevalue("postgres_url")
        except pytest.FixtureLookupError:
            pytest.skip("no fixture postgres_url")
        return open_url(f"{url}{'&' if '?' in url else '?'}schema=suite_{number}")

    return make
