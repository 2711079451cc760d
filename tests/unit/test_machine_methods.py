"""How many arguments a method of a machine is called with."""

from functools import wraps
from typing import Any

import pytest

from wakeful.machines.bindings import _call


class Ship:
    def none(self) -> tuple[Any, ...]:
        return ()

    def two(self, context: Any, event: Any) -> tuple[Any, ...]:
        return context, event

    def any(self, *args: Any) -> tuple[Any, ...]:
        return args

    @staticmethod
    def alone(context: Any) -> tuple[Any, ...]:
        return (context,)

    @wraps(two)
    def wrapped(self, *args: Any) -> tuple[Any, ...]:
        return args


@pytest.mark.parametrize(("name", "most"), [("none", 0), ("two", 2), ("any", 9), ("alone", 1), ("wrapped", 2)])
def test_it_gets_as_many_as_it_takes_each_time(name: str, most: int) -> None:
    method = getattr(Ship(), name)
    for count in (2, 4, 3):  # what the first call had says nothing about the next
        args = tuple(range(count))
        assert _call(method, args) == args[:most]
