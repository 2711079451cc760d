"""Layer 0. Do the hot modules of this process run compiled, and if not, why?"""

import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType

PACKAGE = Path(__file__).resolve().parent.parent


class SourceFinder:
    """Finds the source of a module of ours, whatever was compiled beside it."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith("wakeful."):
            return None
        return next((spec for folder in path or () if (spec := _finder(folder).find_spec(name))), None)


def run_sources() -> None:
    """From here on modules of ours are loaded as Python, also where they were compiled."""
    if SourceFinder not in sys.meta_path:
        sys.meta_path.insert(0, SourceFinder)


def compiled_modules() -> list[str]:
    """Those that lie here compiled for this Python, by their dotted names, whether they are run or not."""
    suffix = EXTENSION_SUFFIXES[0]
    found = [path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob(f"*{suffix}")]
    return sorted(".".join((*path.parts[:-1], path.name.removesuffix(suffix))) for path in found)


def is_compiled() -> bool:
    """Compiled modules of ours have been loaded by this process."""
    suffix, ours = (
        EXTENSION_SUFFIXES[0],
        [module for name, module in [*sys.modules.items()] if name.startswith("wakeful.")],
    )
    return any((getattr(module, "__file__", None) or "").endswith(suffix) for module in ours)


def compilation_words() -> str:
    """What runs, as people are told."""
    count = len(compiled_modules())
    if not count:
        return "pure Python (nothing is compiled in this install)"
    if SourceFinder in sys.meta_path:
        return f"pure Python (WAKEFUL_PURE is set; {count} compiled modules are passed over)"
    return f"compiled ({count} modules)"


@cache
def _finder(folder: str) -> FileFinder:
    return FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))
