"""What a stub says of itself at a prompt, and what is written down of it for type checkers."""

import inspect
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from pydoc import render_doc
from typing import Any

from wakeful import App, Client, DurableObject, reader
from wakeful.operations.client_stubs import write_stubs

app = App()


@app.object
class Shop(DurableObject):
    """A shop, and its "stock"."""

    async def add(self, name: str, qty: int = 1, *more: int, at: "datetime | None" = None) -> Sequence[str]:
        """How many there are now."""
        return []

    @reader
    async def look(self, known, maybe: "Nowhere" = None, **rest):  # type: ignore[no-untyped-def]  # noqa: F821
        r"""Two lines, with a \\ in them.

        And a third.
        """

    async def plain(self) -> None: ...

    async def _hidden(self) -> None: ...


async def test_a_stub_lists_its_methods_and_each_says_what_it_takes() -> None:
    async with app.world():
        shop: Any = app.get(Shop, "corner")
        assert dir(shop) == ["add", "look", "plain"]
        signature = (
            "(name: str, qty: int = 1, *more: int, at: 'datetime | None' = None) -> collections.abc.Sequence[str]"
        )
        assert str(inspect.signature(shop.add)) == signature
        assert (shop.add.__name__, shop.add.__doc__) == ("add", f"add{signature}\n\nHow many there are now.")
        assert "How many there are now." in render_doc(shop.add)
        assert "plain() -> None" in render_doc(shop.plain)


async def test_of_a_class_that_is_only_known_by_its_name_nothing_is_said() -> None:
    async with Client("http://127.0.0.1:1") as client:
        shop = client.get("Shop", "corner")
        assert dir(shop) == []
        assert getattr(shop.add, "__signature__", None) is None
        assert shop.add.__name__ == "add"


EXPECTED = '''"""Objects of shop.py as `Client.sync(…)` has them; made by `wakeful stubs shop.py`, to be made anew with it."""

import typing
import collections.abc
import datetime


class Shop(typing.Protocol):
    """A shop, and its "stock"."""

    def add(self, name: str, qty: int = ..., *more: int, at: datetime.datetime | None = ...) -> collections.abc.Sequence[str]:
        """How many there are now."""

    def look(self, known: typing.Any, maybe: typing.Any = ..., **rest: typing.Any) -> typing.Any:
        """Two lines, with a \\\\\\\\ in them.

        And a third."""

    def plain(self) -> None: ...
'''


def test_a_protocol_has_the_methods_as_they_are_where_they_block() -> None:
    text = write_stubs([app.deployment.registry.by_name("Shop")], "shop.py")
    assert text == EXPECTED
    made: dict[str, Any] = {}
    exec(compile(text, "shop_stubs.py", "exec"), made)
    assert inspect.getdoc(made["Shop"].look) == inspect.getdoc(Shop.look)


def test_the_command_writes_a_file_or_says_why_not(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from wakeful import App, DurableObject\napp = App()\n@app.object\nclass A(DurableObject): ...\n"
    )
    command = [sys.executable, "-m", "wakeful.cli", "stubs", "shop.py", "-o"]
    run = subprocess.run([*command, "out.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "A in out.py\n")
    assert (tmp_path / "out.py").read_text().endswith("class A(typing.Protocol):\n    ...\n")
    run = subprocess.run([*command, "no/out.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr == "error: no/out.py can't be written: No such file or directory [stubs.file]\n"
