"""The compiled build: what it is made of, when it runs, and what is said about it."""

import os
import shutil
import subprocess
import sys
import sysconfig
import traceback
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import hatch_build
from tests.tidy import tidy_source as source
from tests.tidy.test_compiled import modules
from wakeful import App, DurableObject
from wakeful.values import compilation
from wakeful.values.errors import TurnFailed

ONE = "wakeful.policy.order"
WHERE = f"""
import json, sys, {ONE}
from wakeful.values.compilation import compilation_words, is_compiled
print(json.dumps([sys.modules["{ONE}"].__file__, compilation_words(), is_compiled()]))
"""
# What mypyc makes takes a minute and is made by `make compiled`: here a module of C stands for it, with all that is asked of it.
IN_C = """
#include <Python.h>
static struct PyModuleDef order = {PyModuleDef_HEAD_INIT, "order", "Made of C.", -1, NULL};
PyMODINIT_FUNC PyInit_order(void) { return PyModule_Create(&order); }
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with one of its modules compiled beside its source, as the wheel has all of them."""
    compiler = shutil.which("cc")
    if compiler is None or not Path(sysconfig.get_path("include"), "Python.h").is_file():
        pytest.skip("no C compiler here, or no Python.h")
    site = tmp_path_factory.mktemp("compiled")
    shutil.copytree(source.PACKAGE, site / "wakeful", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    (site / "order.c").write_text(IN_C)
    made = site / "wakeful" / "policy" / f"order{EXTENSION_SUFFIXES[0]}"
    way = ["-shared", "-fPIC", *(["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else [])]
    subprocess.run([compiler, *way, f"-I{sysconfig.get_path('include')}", site / "order.c", "-o", made], check=True)
    return site


def run(site: Path, *args: str, pure: str | None = None) -> str:
    env = {name: value for name, value in os.environ.items() if name != "WAKEFUL_PURE"}
    env |= {"PYTHONPATH": str(site)} | ({} if pure is None else {"WAKEFUL_PURE": pure})
    return subprocess.run(
        [sys.executable, *args], env=env, capture_output=True, text=True, check=True, timeout=120
    ).stdout


@pytest.mark.parametrize(
    ("pure", "ending", "words", "is_compiled"),
    [
        (None, EXTENSION_SUFFIXES[0], "compiled (1 modules)", "true"),
        ("0", EXTENSION_SUFFIXES[0], "compiled (1 modules)", "true"),
        ("", EXTENSION_SUFFIXES[0], "compiled (1 modules)", "true"),
        ("1", ".py", "pure Python (WAKEFUL_PURE is set; 1 compiled modules are passed over)", "false"),
    ],
)
def test_what_is_compiled_runs_unless_the_sources_are_asked_for(
    site: Path, pure: str | None, ending: str, words: str, is_compiled: str
) -> None:
    assert run(site, "-c", WHERE, pure=pure).endswith(f'order{ending}", "{words}", {is_compiled}]\n')


def test_doctor_and_version_say_which_it_is(site: Path, tmp_path: Path) -> None:
    assert run(site, "-m", "wakeful.cli", "--version").endswith(", compiled (1 modules)\n")
    url = f"sqlite:{tmp_path}/a.db"
    code = f"""
import asyncio
from wakeful import App
async def main():
    async with App().run({url!r}): pass
asyncio.run(main())
"""
    run(site, "-c", code, pure="1")
    said = run(site, "-m", "wakeful.cli", "doctor", "--store", url, pure="1").splitlines()[-1].split()
    assert said[:5] == ["ok", "build", "pure", "Python", "(WAKEFUL_PURE"]


def test_nothing_is_passed_over_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    compilation.run_sources()
    compilation.run_sources()
    assert sys.meta_path.count(compilation.SourceFinder) == 1


def test_only_modules_of_ours_are_found_by_their_sources() -> None:
    found = compilation.SourceFinder.find_spec("wakeful.values.ids", [str(source.PACKAGE / "values")])
    assert found is not None
    assert found.origin == str(source.PACKAGE / "values" / "ids.py")
    assert compilation.SourceFinder.find_spec("json.decoder", [os.path.dirname(os.__file__) + "/json"]) is None
    assert compilation.SourceFinder.find_spec("wakeful.values.none", [str(source.PACKAGE / "values")]) is None


def test_without_a_compiler_the_compiled_wheel_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-cc -O1")
    with pytest.raises(SystemExit, match=r"no no-such-cc here; install one .*pip install \. is pure Python"):
        hatch_build.check_compiler()


def test_what_is_compiled_has_no_error_of_types_where_nothing_else_is_installed() -> None:
    """`make wheel` checks it in an environment without the extras, where whoever inherits from a class of theirs can't be judged."""
    paths = [str(Path(*name.split(".")).with_suffix(".py")) for name in modules()]
    command = [sys.executable, "-m", "mypy", *hatch_build.MYPY, "--no-site-packages", f"--cache-dir={os.devnull}"]
    done = subprocess.run([*command, *paths], cwd=source.ROOT / "src", capture_output=True, text=True, timeout=300)
    assert done.stdout == f"Success: no issues found in {len(paths)} source files\n"


def test_an_install_from_sources_asks_for_no_compiler(tmp_path: Path) -> None:
    """An sdist, then a wheel from it, with no compiler to be found: a wheel for any machine."""
    env = {**os.environ, "CC": "no-such-cc"}
    code = "from hatchling.build import *; print(build_{}({!r}))"
    made = [sys.executable, "-c", code.format("sdist", str(tmp_path))]
    name = subprocess.run(made, cwd=source.ROOT, env=env, capture_output=True, text=True, check=True).stdout.strip()
    shutil.unpack_archive(tmp_path / name, tmp_path, filter="data")
    unpacked = tmp_path / name.removesuffix(".tar.gz")
    assert (unpacked / "hatch_build.py").is_file()
    made = [sys.executable, "-c", code.format("wheel", str(tmp_path))]
    name = subprocess.run(made, cwd=unpacked, env=env, capture_output=True, text=True, check=True).stdout.strip()
    assert name.endswith("-py3-none-any.whl")
    code = "from hatchling.build import *; print(get_requires_for_build_wheel())"
    needed = [sys.executable, "-c", code]
    assert subprocess.run(needed, cwd=unpacked, env=env, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_teeth_bite_sources_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.teeth import broken_start_notes
    from tests.teeth.catching import Teeth

    monkeypatch.setattr(compilation, "is_compiled", lambda: False)
    Teeth(broken_start_notes, {})
    monkeypatch.setattr(compilation, "is_compiled", lambda: True)
    with pytest.raises(RuntimeError, match="WAKEFUL_PURE=1"):
        Teeth(broken_start_notes, {})


class Failing(DurableObject):
    async def fail(self) -> None:
        self._deeper()

    def _deeper(self) -> None:
        raise ValueError("here it is")


async def test_a_traceback_shows_the_users_lines_and_ours() -> None:
    """Also through compiled modules: files, lines and the names of functions (`make compiled` runs this on them)."""
    app = App()
    app.object(Failing)
    async with app.world() as world:
        with pytest.raises(Exception, match="here it is") as caught:
            await world.get(Failing, "a").fail()
    shown = "".join(traceback.format_exception(caught.value))
    if isinstance(caught.value, TurnFailed):
        shown += caught.value.remote_traceback
    assert f'{Path(__file__).name}", line {Failing._deeper.__code__.co_firstlineno + 1}, in _deeper' in shown
    assert 'raise ValueError("here it is")' in shown
    assert 'wakeful/runtime/activation.py", line ' in shown
