"""What the tests of broken variants have in common: mistakes, and the suites that catch them."""

import asyncio
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from types import ModuleType
from typing import Any

import pytest

from wakeful.values import compilation

Catcher = Callable[[], Any]


def run_test(test: Callable[..., Any], *args: Any) -> None:
    """A test of another suite: whatever it says is that it failed."""
    try:
        asyncio.run(test(*args))
    except (Exception, pytest.fail.Exception) as error:
        raise AssertionError(f"{error}") from error


class Teeth:
    """The mistakes of one module, each with the suites that must catch it."""

    def __init__(
        self,
        module: ModuleType,
        broken: Mapping[str, tuple[Catcher, ...]],
        *,
        beside: AbstractSet[str] = frozenset(),
        shown: tuple[Catcher, ...] = (),
    ) -> None:
        """`beside` are the module's functions that are no mistakes themselves.

        That the catchers in `shown` pass when nothing is broken is shown by tests/sim, tests/model and tests/unit, of
        which they are parts; to do it again takes minutes of a run of all tests.
        """
        if compilation.is_compiled():
            raise RuntimeError(
                "the teeth swap methods, and compiled modules would not notice: set WAKEFUL_PURE=1, and these run the sources"
            )
        self._module = module
        self._broken = broken
        self._beside = beside
        self.catchers = {catcher.__name__: catcher for catchers in broken.values() for catcher in catchers}
        self.controls = [name for name, catcher in self.catchers.items() if catcher not in shown]

    @property
    def pairs(self) -> list[Any]:
        """Every mistake with every suite that must catch it, as parameters of a test."""
        return [
            pytest.param(variant, catcher.__name__, id=f"{variant}-is-caught-by-{catcher.__name__}")
            for variant, catchers in self._broken.items()
            for catcher in catchers
        ]

    def check_unbroken(self, catcher: str) -> None:
        """The suite passes on Wakeful as it is."""
        self.catchers[catcher]()

    def check_caught(self, variant: str, catcher: str) -> None:
        """The suite fails on the mistake, and for what it does: not because the patch no longer fits the code."""
        with getattr(self._module, variant)(), pytest.raises(AssertionError) as caught:
            self.catchers[catcher]()
        assert not [name for name in ("AttributeError", "TypeError", "NameError") if name in str(caught.value)]

    def check_complete(self) -> None:
        """Every mistake of the module has a suite."""
        name = self._module.__name__
        made = {one for one, thing in vars(self._module).items() if getattr(thing, "__module__", "") == name}
        assert made - self._beside == set(self._broken)
