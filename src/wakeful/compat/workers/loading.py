"""Layer 5. How is a Worker's code imported so that `import workers` means ours there, and nowhere else?

Each module under the Worker's folder is run with an `__import__` of its own, which knows the names that exist only on
Cloudflare, and looks beside the Worker's main file first. Nothing is put into `sys.modules` or `sys.path` for it: a
program's own module `workers` stays what it is.
"""

import builtins
import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any


class Imports(MetaPathFinder):
    """The imports of one Worker's modules."""

    def __init__(self, main: Path, theirs: Mapping[str, ModuleType]) -> None:
        self._main = main
        self._theirs = theirs
        folders = (main.parent, main.parent / "python_modules", main.parent.parent / "python_modules")
        self._folders = [str(folder) for folder in folders if folder.is_dir()]

    def load(self) -> ModuleType:
        """The module of the main file, with whatever it imports from beside it."""
        _forget(None)  # modules of another Worker must not stand in for this one's of the same name
        importlib.invalidate_caches()
        name = self._main.stem if self._main.stem not in sys.modules else f"{self._main.stem}_worker"
        loader = _Loader(name, str(self._main))
        loader.imports = self
        module = ModuleType(name)
        module.__file__, module.__loader__ = str(self._main), loader
        sys.modules[name] = module  # so that stored dataclasses find their types
        loader.exec_module(module)
        return module

    def unload(self) -> None:
        """Take the Worker's modules out of the process again."""
        _forget(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        where = self._folders if path is None else [one for one in path if one.startswith(tuple(self._folders))]
        found = PathFinder.find_spec(name, where) if where else None
        if found is not None and isinstance(found.loader, SourceFileLoader):
            loader = _Loader(found.loader.name, found.loader.path)
            loader.imports = self
            found.loader = loader
        return found

    def import_(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Sequence[str] | None = (), level: int = 0
    ) -> Any:
        """`__import__` of the Worker's modules."""
        if level == 0 and name in self._theirs:
            found = self._theirs[name if fromlist else name.partition(".")[0]]
            missing = next((one for one in fromlist or () if one != "*" and not hasattr(found, one)), None)
            if missing is not None:
                raise ImportError(f"{name}.{missing} is not here; docs/cloudflare.md says what is", name=name)
            return found
        with self._first():
            return builtins.__import__(name, globals, locals, fromlist or (), level)

    @contextmanager
    def _first(self) -> Iterator[None]:
        """Look under the Worker's folder before anywhere else, for as long as one of its imports lasts."""
        is_nested = self in sys.meta_path
        if not is_nested:
            sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            if not is_nested:
                sys.meta_path.remove(self)


class _Loader(SourceFileLoader):
    """Runs a module of a Worker with the imports that it expects."""

    imports: Imports

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": self.imports.import_}
        super().exec_module(module)


def _forget(imports: Imports | None) -> None:
    """Drop the modules of this Worker, or of all."""
    for name, module in list(sys.modules.items()):
        loader = getattr(module, "__loader__", None)
        if isinstance(loader, _Loader) and imports in (None, loader.imports):
            del sys.modules[name]
