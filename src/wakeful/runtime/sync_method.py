"""Layer 3. How does code that does not await use what does? By the same names, each of which blocks until the answer is there."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Blocking(Protocol):
    """Something with such names: it brings a method of what it stands for to the loop, and waits."""

    def _call(self, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...


class Blocked(Generic[P, R]):
    """A method that is awaited, to be had without: same arguments, same answer."""

    def __init__(self, method: Callable[Concatenate[Any, P], Awaitable[R]]) -> None:
        self._method = method

    def __get__(self, blocking: Blocking, owner: type | None = None) -> Callable[P, R]:
        method = self._method
        if blocking is None:
            return method  # type: ignore[unreachable]  # asked of the class: for whoever reads what it says of itself

        @wraps(method)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            answer: R = blocking._call(method, args, kwargs)
            return answer

        return call
