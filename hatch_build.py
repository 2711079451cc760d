"""Compiles the hot modules with mypyc, when a wheel is asked for with `make wheel`.

`pip install .`, an sdist and an editable install don't load this (`enable-by-default = false` in pyproject.toml): they are
pure Python and need no C compiler.
"""

import os
import shlex
import shutil
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

GROUP = "wakeful"  # all modules are one library, `wakeful__mypyc`, so that they call each other directly
# Leniently: what is strict is `make types`, with all that the extras bring. Here a library may be missing, and then what is
# made of it has other types: only what is compiled is judged, which needs none of them.
MYPY = (
    "--config-file=",
    "--follow-imports=silent",
    "--ignore-missing-imports",
    "--namespace-packages",
    "--explicit-package-bases",
    "--warn-unreachable",
)


def check_compiler() -> None:
    """SystemExit with what to do, before mypyc works for a minute."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(command) is None:
        raise SystemExit(
            f"error: a compiled wheel needs a C compiler, and there is no {command} here; install one (apt install gcc), "
            "or install without: pip install . is pure Python"
        )
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.is_file():
        raise SystemExit(
            f"error: a compiled wheel needs {header}, which is not there; on Debian: apt install python3-dev"
        )


def compile_modules(names: list[str], source: Path, work: Path) -> dict[Path, str]:
    """The libraries, and where each lies in the wheel. `source` is the folder with the package, `work` one to make things in."""
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    class BuildLibraries(build_ext):
        """Each file of C in a thread of its own: by itself it would take one after the other."""

        def build_extension(self, ext: Any) -> None:
            compile_all = self.compiler.compile

            def compile_each(sources: list[str], **options: Any) -> list[str]:
                with ThreadPoolExecutor(os.cpu_count()) as pool:
                    return [
                        one for made in pool.map(lambda file: compile_all([file], **options), sources) for one in made
                    ]

            self.compiler.compile = compile_each
            try:
                super().build_extension(ext)
            finally:
                self.compiler.compile = compile_all

    before, paths = Path.cwd(), [str(Path(*name.split(".")).with_suffix(".py")) for name in names]
    os.chdir(source)  # module names are paths from here
    try:
        # As C it is compiled quickly and once: what it does in the interpreter is what takes time (docs/decisions/0045).
        found = mypycify([*MYPY, *paths], opt_level="1", multi_file=True, group_name=GROUP, target_dir=str(work / "c"))
        for extension in found:
            extension.extra_compile_args = [one for one in extension.extra_compile_args if one != "-Werror"]
            if sys.platform.startswith("linux"):
                extension.extra_link_args = ["-Wl,--strip-all"]  # half of it: names that nobody looks up
        command = BuildLibraries(Distribution({"name": GROUP, "ext_modules": found}))
        command.build_lib, command.build_temp = str(work / "lib"), str(work / "objects")
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(before)
    lib = work / "lib"
    return {path: path.relative_to(lib).as_posix() for path in sorted(lib.rglob("*")) if path.is_file()}


class CompiledWheel(BuildHookInterface):  # type: ignore[type-arg]
    """The libraries beside the sources, which stay: they are what `WAKEFUL_PURE=1` runs, and what tracebacks show."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        check_compiler()
        self._work = tempfile.TemporaryDirectory(prefix="wakeful-compiled-")
        root = Path(self.root)
        made = compile_modules(self.config["modules"], root / "src", Path(self._work.name))
        build_data["pure_python"], build_data["infer_tag"] = False, True
        build_data["force_include"].update({str(path): place for path, place in made.items()})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_work"):
            self._work.cleanup()
