"""A URL that is a little wrong may hold a password: what is said of it must not."""

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from wakeful import App, DurableObject
from wakeful.cli.exit_codes import CommandError
from wakeful.cli.stores import kind_of
from wakeful.store import open_url
from wakeful.store.postgres.url import parse_url
from wakeful.store_move import move
from wakeful.values.errors import BadUrl, MissingExtra

ENCODE = "must be percent-encoded"
WRITE = "write memory:, sqlite:PATH, postgresql://user@host/database or s3://bucket/prefix"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://shop:hunTER/2pw@127.0.0.1:5432/shop", ENCODE),
        ("postgresql://shop:12/2pw@127.0.0.1:5432/shop", ENCODE),
        ("postgresql://shop:hunTER#2pw@127.0.0.1:5432/shop", ENCODE),
        ("postgresql://shop:12#2pw@127.0.0.1:5432/shop", ENCODE),
        ("postgresql://shop:hunTER?2pw@127.0.0.1:5432/shop", ENCODE),
        ("postgresql://shop:12?schema=2pw@127.0.0.1/shop", ENCODE),
        ("postgresql://shop:a@hunTER:2pw/x@127.0.0.1:5432/shop", ENCODE),
        ("postgresql://shop:hunTER[2pw@127.0.0.1:5432/shop", ENCODE),
        ("postgresql://shop:[hunTER2pw]@127.0.0.1:5432/shop", ENCODE),
        ("postgresql://shop:hunTER\u21002pw@127.0.0.1:5432/shop", "can't be read"),
        ("postgresql://shop:hunTER2pw@127.0.0.1:549311/shop", "with a port up to 65535"),
        ("postgresql://127.0.0.1/shop?user=shop;password=hunTER2pw", "separated by &"),
        ("postgresql+asyncpg://shop:hunTER2pw@127.0.0.1/shop", "'postgresql\\+asyncpg' names a driver, leave that out"),
        ("postgresql:shop:hunTER2pw@127.0.0.1/shop", "begins with postgresql://"),
        ("postgresql:/shop:hunTER2pw@127.0.0.1/shop", "begins with postgresql://"),
        ("postgresql:///shop:hunTER2pw@127.0.0.1/shop", ENCODE),
        ("postgres//shop:hunTER2pw@127.0.0.1/shop", WRITE),
        ("shop:hunTER2pw@127.0.0.1/shop", WRITE),
        ("host=127.0.0.1 user=shop password=hunTER2pw", WRITE),
        ("mysql://shop:hunTER2pw@127.0.0.1/shop", f"'mysql:' is not a store; {WRITE}"),
    ],
)
def test_a_wrong_url_is_refused_without_its_password(url: str, says: str) -> None:
    with pytest.raises(BadUrl, match=says) as caught:
        open_url(url)
    for part in ("hunTER", "2pw", "12"):
        assert part not in str(caught.value).replace("127.0.0.1", "")


@pytest.mark.parametrize("name", ["password", "passwd", "PASSWORD", "sslpassword", "pwd", "options"])
def test_only_known_options_are_shown(name: str) -> None:
    target = parse_url(f"postgresql://db/shop?user=me@tenant&{name}=hunTER2pw&sslmode=require&schema=mine")
    assert target.shown == "postgresql://db/shop?user=me%40tenant&sslmode=require&schema=mine"
    assert f"{name}=hunTER2pw" in target.dsn


def test_passwords_that_are_encoded_or_plain_are_taken() -> None:
    for url in (
        "postgresql://shop:hunTER%2F%23%3F%402pw@127.0.0.1/shop",
        "postgresql://shop:hunTER@2pw@127.0.0.1/shop",
        "POSTGRESQL://shop@127.0.0.1/shop",
    ):
        target = parse_url(url)
        assert target.shown == "postgresql://shop@127.0.0.1/shop"
        assert target.dsn.partition("://")[2] == url.partition("://")[2]


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], None]:
    """Installs a package that brings a store, as far as that is two files."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(package: str, scheme: str, code: str) -> None:
        (tmp_path / f"{package}.py").write_text(code)
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[wakeful.stores]\n{scheme} = {package}:make\n")
        importlib.invalidate_caches()

    return install


STORE = """
from wakeful.store import MemoryStore
class DrawerStore(MemoryStore):
    def __init__(self, url):
        super().__init__()
        self.url = url
make = DrawerStore
"""


async def test_a_package_brings_a_store_by_an_entry_point(packages: Callable[[str, str, str], None]) -> None:
    packages("drawers_one", "drawer", STORE)
    store = open_url("drawer:oak/top")
    assert (type(store).__name__, store.url) == ("DrawerStore", "drawer:oak/top")
    app = App()

    @app.object
    class Note(DurableObject):
        async def keep(self) -> int:
            await self.storage.put("n", 1)
            return 1

    async with app.run("drawer:oak/top"):
        assert await app.get(Note, "a").keep() == 1
    with pytest.raises(BadUrl, match=r"'chest:' is not a store; .* or drawer:…"):
        open_url("chest://oak")
    with pytest.raises(BadUrl, match="can't be moved: its kind of store has no way to be copied"):
        await move("drawer:oak/top", "sqlite:other.db", now=0)
    with pytest.raises(CommandError, match="drawers_one brings this store, and its tables"):
        kind_of("drawer:oak/top")


def test_a_store_that_two_packages_bring_is_refused(packages: Callable[[str, str, str], None]) -> None:
    packages("drawers_two", "drawer", STORE)
    packages("drawers_three", "drawer", STORE)
    with pytest.raises(BadUrl, match="drawers_three and drawers_two both bring the store 'drawer:'; uninstall one"):
        open_url("drawer:oak")


def test_a_package_that_lacks_something_says_so(packages: Callable[[str, str, str], None]) -> None:
    packages("drawers_four", "drawer", "import something_that_is_not_there\n")
    with pytest.raises(MissingExtra, match="drawers_four brings the store 'drawer:' and can't be imported: No module"):
        open_url("drawer:oak")
