"""Layer 1, pure. What does a chain of words know so far, and what becomes of the function it is called with?"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache
from types import FunctionType
from typing import Any, TypeVar, cast

from wakeful.specs.interval import interval
from wakeful.specs.recurrence import Meaning, spec_of
from wakeful.specs.spec import Spec
from wakeful.specs.zones import Fold, Gap
from wakeful.values.errors import BadHandler, BadSpec
from wakeful.values.runs import Run

F = TypeVar("F", bound=Callable[..., Any])


class NoSuchWord(BadSpec, AttributeError):
    """A chain that does not go on like that, or not yet; an AttributeError too, so that `hasattr` can ask."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A schedule declared on a function: its spec, and the options that the schedule will read."""

    spec: Spec
    options: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainState:
    """All that a chain knows; each step makes a new one."""

    target: Callable[..., Any] | None
    path: str = field(default="every", compare=False)  # as typed, for messages
    meaning: Meaning = field(default_factory=Meaning)
    fixed: Spec | None = None  # a spec that was given whole
    zone: str | None = None
    gap: Gap = "shift"
    fold: Fold = "first"
    anchor: datetime | None = None
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def said(self, path: str, **changes: Any) -> "ChainState":
        """The state after one more word, with what that word changed in the meaning."""
        return replace(self, path=self.path + path, meaning=replace(self.meaning, **changes))

    def having(self, options: Mapping[str, Any]) -> "ChainState":
        """The state with more options: those of the spec to the spec, the others kept for the schedule."""
        own = {name: value for name, value in options.items() if name in ("zone", "gap", "fold", "anchor")}
        others = {name: value for name, value in options.items() if name not in own}
        return replace(self, **own, options={**self.options, **others}) if options else self

    def spec(self) -> Spec:
        """The spec that is meant."""
        if self.anchor is not None:
            return self._anchored(self.anchor)
        if self.fixed is None:
            return _spec(self.meaning, self.path, self.zone, self.gap, self.fold)
        if self.zone is not None or self.gap != "shift" or self.fold != "first":
            raise BadSpec(
                f"{self.path}: zone, gap and fold are part of the spec {self.fixed.text!r}; give them where it is made",
                code="spec.option",
            )
        return self.fixed

    def _anchored(self, anchor: datetime) -> Spec:
        step = self.meaning.step_ms
        if self.fixed is not None or step is None or replace(self.meaning, is_length=False) != Meaning(step_ms=step):
            raise BadSpec(
                f"{self.path}: an anchor is where an interval counts from, and this is a rule of the calendar; "
                'use it with every("5m", anchor=…) or every(5).minutes(anchor=…)',
                code="spec.option",
            )
        if self.zone is not None or self.gap != "shift" or self.fold != "first":
            raise BadSpec(f"{self.path}: an interval of elapsed time has no zone, gap or fold", code="spec.option")
        return interval(f"{step}ms", anchor)


@lru_cache(maxsize=512)
def _spec(meaning: Meaning, path: str, zone: str | None, gap: Gap, fold: Fold) -> Spec:
    return spec_of(meaning, what=path, zone=zone, gap=gap, fold=fold)


def declare(function: F, declared: Declared, path: str) -> F:
    """The very function, marked with one more schedule; what can't be called by name later is refused."""
    name = getattr(function, "__qualname__", repr(function))
    if inspect.isclass(function):
        why = "is a class; decorate its async methods"
    elif inspect.ismethod(function):
        why = f"is bound already; in an object use self.{path}(self.{function.__name__})"
    elif not isinstance(function, FunctionType):
        why = "is not a function; decorate an `async def` (below @staticmethod or @classmethod, none of them works)"
    elif function.__name__ == "<lambda>":
        why = "is a lambda, which has no name to find it by after a restart; use an `async def`"
    elif not inspect.iscoroutinefunction(function):
        why = "is not async; write `async def`"
    elif _is_plain(function):
        why = f"is not a method, so nothing would run it; for a function on the app's clock write @app.{path}"
    else:
        marked = (*getattr(function, "__wakeful_schedules__", ()), declared)
        function.__wakeful_schedules__ = marked  # type: ignore[attr-defined]
        return cast("F", function)
    raise BadHandler(f"@{path}: {name} {why}", code="handler.type")


def _is_plain(function: FunctionType) -> bool:
    """It is outside of a class body, and takes no object: nothing, or the run alone.

    One that takes an object may become a method yet, and so may what a decorator put around one.
    """
    owner = function.__qualname__.rpartition(".")[0]
    if owner and not owner.endswith("<locals>"):
        return False
    try:
        first = next(iter(inspect.signature(function).parameters.values()), None)
    except NameError:  # an annotation that is not there yet; newer Pythons look
        return False
    return first is None or first.name == "run" or first.annotation in (Run, "Run", "wakeful.Run")


def unknown(chain: object, path: str, name: str, how: str) -> NoSuchWord:
    """The error for a word that the chain does not have, with the nearest that it has."""
    known = [one for one in dir(type(chain)) if not one.startswith("_")]
    found = get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    hint = f"did you mean {path}.{found[0]}?" if found else how
    return NoSuchWord(f"{path} has no {name!r}; {hint}", code="spec.word")
