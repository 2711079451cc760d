"""Layer 5. How is a Worker's code imported so that `import workers` means ours there, and nowhere else?

Each module under the Worker's folder is run with an `__import__` of its own, which knows the names that exist only on
Cloudflare, and looks beside the Worker's main file first, even where the program or another Worker has a module of that
name. Nothing is put into `sys.path`, and no module of the program's is replaced: its own `workers` stays what it is.
"""

import builtins
import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import chain, count
from pathlib import Path
from types import ModuleType
from typing import Any

from wakeful.values.codec import look_in


class Imports(MetaPathFinder):
    """The imports of one Worker's modules."""

    def __init__(self, main: Path, theirs: Mapping[str, ModuleType]) -> None:
        self._main = main
        self._theirs = theirs
        folders = (main.parent, main.parent / "python_modules", main.parent.parent / "python_modules")
        self._folders = [str(folder) for folder in folders if folder.is_dir()]
        # What it has beside it comes before all but Python's own; what it brought along before what is not loaded yet.
        self._own = _names_in(self._folders[:1]) - sys.stdlib_module_names
        self._names = _names_in(self._folders)
        self._modules: dict[str, ModuleType] = {}

    def load(self) -> ModuleType:
        """The module of the main file, with whatever it imports from beside it."""
        importlib.invalidate_caches()
        stem = self._main.stem
        name = next(one for one in chain([stem], (f"{stem}_{n}" for n in count(2))) if one not in sys.modules)
        loader = _Loader(name, str(self._main))
        loader.imports = self
        module = ModuleType(name)
        module.__file__, module.__loader__ = str(self._main), loader
        sys.modules[name] = self._modules[name] = module  # so that stored dataclasses find their types,
        look_in(name)  # whatever it was called when they were stored
        try:
            loader.exec_module(module)
        except BaseException:
            self.unload()
            raise
        return module

    def unload(self) -> None:
        """Take the Worker's modules out of the process again."""
        for name, module in self._modules.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]

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
        if level == 0 and name.partition(".")[0] not in self._names:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        with self._first():
            return builtins.__import__(name, globals, locals, fromlist or (), level)

    @contextmanager
    def _first(self) -> Iterator[None]:
        """Look under the Worker's folder before anywhere else, for as long as one of its imports lasts."""
        if self in sys.meta_path:
            yield
            return
        others = {
            name: module
            for name, module in list(sys.modules.items())
            if name.partition(".")[0] in self._own and not self._is_ours(module)
        }
        for name in others:
            del sys.modules[name]
        sys.modules.update(self._modules)
        sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)
            self._modules |= {name: module for name, module in list(sys.modules.items()) if self._is_ours(module)}
            sys.modules.update(others)

    def _is_ours(self, module: Any) -> bool:
        loader = getattr(module, "__loader__", None)
        return isinstance(loader, _Loader) and loader.imports is self


class _Loader(SourceFileLoader):
    """Runs a module of a Worker with the imports that it expects."""

    imports: Imports

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": self.imports.import_}
        super().exec_module(module)


def _names_in(folders: Sequence[str]) -> frozenset[str]:
    """What can be imported from there, by the first part of its name."""
    return frozenset(path.name.partition(".")[0] for folder in folders for path in Path(folder).iterdir())
