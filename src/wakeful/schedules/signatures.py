"""Layer 4. What do type checkers know of putting a method on a schedule? The types of its arguments.

As for jobs there is one form for each number of arguments by place, since options follow them. The forms in which an object
stands before the arguments are for a method that is given unbound, `Shop.report`, which has its `self` there.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Concatenate, Protocol, TypeVar, Unpack, overload

from wakeful.schedules.options import AddOptions
from wakeful.schedules.records import Schedule


class Object(Protocol):
    """What a class of objects has, and no argument."""

    @property
    def ctx(self) -> Any: ...


S = TypeVar("S", bound=Object)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
Ran = Awaitable[Any]
Made = Coroutine[Any, Any, Schedule]


# fmt: off
class AddSchedule(Protocol):
    """`schedules.add`, where it is awaited."""

    @overload
    def __call__(self, spec: Any, handler: str, *args: Any, name: str | None = ..., **options: Unpack[AddOptions]) -> Made: ...
    @overload
    def __call__(self, spec: Any, handler: Callable[..., Ran], *, name: str | None = ..., **options: Unpack[AddOptions]) -> Made: ...
    @overload
    def __call__(self, spec: Any, handler: Callable[Concatenate[A, ...], Ran], a: A, /, *,
                 name: str | None = ..., **options: Unpack[AddOptions]) -> Made: ...
    @overload
    def __call__(self, spec: Any, handler: Callable[Concatenate[S, A, ...], Ran], a: A, /, *,
                 name: str | None = ..., **options: Unpack[AddOptions]) -> Made: ...
    @overload
    def __call__(self, spec: Any, handler: Callable[Concatenate[A, B, ...], Ran], a: A, b: B, /, *,
                 name: str | None = ..., **options: Unpack[AddOptions]) -> Made: ...
    @overload
    def __call__(self, spec: Any, handler: Callable[Concatenate[S, A, B, ...], Ran], a: A, b: B, /, *,
                 name: str | None = ..., **options: Unpack[AddOptions]) -> Made: ...
    @overload
    def __call__(self, spec: Any, handler: Callable[Concatenate[A, B, C, ...], Ran], a: A, b: B, c: C, /, *args: Any,
                 name: str | None = ..., **options: Unpack[AddOptions]) -> Made: ...
    @overload
    def __call__(self, spec: Any, handler: Callable[Concatenate[S, A, B, C, ...], Ran], a: A, b: B, c: C, /, *args: Any,
                 name: str | None = ..., **options: Unpack[AddOptions]) -> Made: ...

class AddScheduleBlocking(Protocol):
    """`schedules.add`, where it blocks: its methods may block too, as those that `wakeful stubs` writes down."""

    @overload
    def __call__(self, spec: Any, handler: str, *args: Any, name: str | None = ..., **options: Unpack[AddOptions]) -> Schedule: ...
    @overload
    def __call__(self, spec: Any, handler: Callable[..., Any], *, name: str | None = ..., **options: Unpack[AddOptions]) -> Schedule: ...
    @overload
    def __call__(self, spec: Any, handler: Callable[Concatenate[A, ...], Any], a: A, /, *,
                 name: str | None = ..., **options: Unpack[AddOptions]) -> Schedule: ...
    @overload
    def __call__(self, spec: Any, handler: Callable[Concatenate[A, B, ...], Any], a: A, b: B, /, *,
                 name: str | None = ..., **options: Unpack[AddOptions]) -> Schedule: ...
    @overload
    def __call__(self, spec: Any, handler: Callable[Concatenate[A, B, C, ...], Any], a: A, b: B, c: C, /, *args: Any,
                 name: str | None = ..., **options: Unpack[AddOptions]) -> Schedule: ...
# fmt: on


def type_add(add: Callable[..., Made]) -> AddSchedule:
    """The same function, as checkers are to see it."""
    return add
