"""`import workers` means ours in a Worker's modules, and nobody else's is touched."""

import sys
import types
from pathlib import Path

import pytest

from tests.compat.workers_stage import WRANGLER, played, write_worker
from wakeful.compat.workers import Request, load
from wakeful.values.errors import BadOption

CODE = """
    from workers import DurableObject, Response, WorkerEntrypoint, env
    from beside import greeting
    from parts.deep import where

    class Sample(DurableObject):
        pass

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            import js
            import pyodide.ffi
            from pyodide.ffi import to_js
            import late
            parts = [greeting, where, late.here, env.GREETING, js.JSON.stringify(to_js({"a": [1]}))]
            return Response.json([*parts, pyodide.ffi.JsException.__name__])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_worker(tmp_path, CODE, WRANGLER.replace("[[", '[vars]\nGREETING = "hi"\n\n[[', 1))
    (tmp_path / "beside.py").write_text("from js import JSON\ngreeting = JSON.parse('\"hello\"')\n")
    (tmp_path / "late.py").write_text("from workers import Response\nhere = Response('x').status\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("")
    (tmp_path / "parts" / "deep.py").write_text("from .near import where\n")
    (tmp_path / "parts" / "near.py").write_text("import workers\nwhere = workers.Response('x').status + 1\n")
    return tmp_path


async def test_imports_at_the_top_beside_and_late_find_ours(folder: Path) -> None:
    async with played(folder) as (worker, _):
        answer = await worker.fetch(Request("http://x/"))
        assert await answer.json() == ["hello", 201, 200, "hi", '{"a":[1]}', "JsException"]


async def test_a_programs_own_modules_of_those_names_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = types.ModuleType("workers")
    monkeypatch.setitem(sys.modules, "workers", mine)
    before = list(sys.meta_path), list(sys.path)
    async with played(folder) as (worker, _):
        await worker.fetch(Request("http://x/"))
        import workers

        assert workers is mine
        assert (list(sys.meta_path), list(sys.path)) == before
        with pytest.raises(ModuleNotFoundError):
            import js  # noqa: F401
    assert not {"entry", "beside", "late", "parts", "parts.deep", "parts.near"} & set(sys.modules)


def test_two_workers_do_not_share_modules(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    write_worker(
        other, "from workers import DurableObject\nfrom beside import greeting\nclass Sample(DurableObject): pass"
    )
    (other / "beside.py").write_text("greeting = 'bye'\n")
    one, two = load(folder), load(other)
    assert (one.module.greeting, two.module.greeting) == ("hello", "bye")
    assert (sys.modules["entry"], sys.modules["entry_2"]) == (one.module, two.module)
    two.unload()
    assert sys.modules["entry"] is one.module
    one.unload()
    assert not {"entry", "entry_2", "beside"} & set(sys.modules)


async def test_a_module_beside_the_worker_comes_before_one_of_the_program(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = {name: types.ModuleType(name) for name in ("beside", "late", "parts")}
    for name, module in mine.items():
        monkeypatch.setitem(sys.modules, name, module)
    async with played(folder) as (worker, _):
        answer = await worker.fetch(Request("http://x/"))
        assert (await answer.json())[:3] == ["hello", 201, 200]
        answer = await worker.fetch(Request("http://x/"))
        assert (await answer.json())[:3] == ["hello", 201, 200]
        assert {name: sys.modules[name] for name in mine} == mine
    assert {name: sys.modules[name] for name in mine} == mine


async def test_what_is_stored_is_found_again_whichever_worker_was_loaded_first(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    write_worker(
        own,
        """
        from dataclasses import dataclass
        from workers import DurableObject

        @dataclass
        class Item:
            n: int

        class Own(DurableObject):
            async def keep(self):
                await self.ctx.storage.put("item", Item(3))
            async def kept(self):
                return (await self.ctx.storage.get("item")).n
        """,
        WRANGLER.replace("Sample", "Own"),
    )
    store = f"sqlite:{tmp_path}/objects.db"
    alone = load(own)
    async with alone.app.run(store):
        await alone.env.SAMPLE.getByName("x").keep()
    alone.unload()
    first, second = load(folder), load(own)
    async with second.app.run(store):
        assert await second.env.SAMPLE.getByName("x").kept() == 3
    first.unload()
    second.unload()


def test_an_error_in_the_code_is_the_codes_own(tmp_path: Path) -> None:
    write_worker(tmp_path, "import nowhere_at_all")
    with pytest.raises(ModuleNotFoundError, match="nowhere_at_all"):
        load(tmp_path)
    write_worker(tmp_path, "x = 1")
    with pytest.raises(BadOption, match=r"SAMPLE is bound to the class Sample, which entry\.py does not have"):
        load(tmp_path)
    assert "entry" not in sys.modules
