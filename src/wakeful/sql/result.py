"""Layer 4. What does a query give?"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, overload

import msgspec

from wakeful.values.errors import BadSql, BadValue

T = TypeVar("T")


class SqlRows:
    """The rows of one statement, all read when it ran; each is a dict by column.

    >>> from wakeful import App, DurableObject
    >>> app = App()
    >>> @app.object
    ... class Shop(DurableObject):
    ...     async def stock(self) -> list[dict]:
    ...         self.sql("CREATE TABLE items (name TEXT, qty INTEGER)")
    ...         self.sql("INSERT INTO items VALUES (?, ?), (?, ?)", "cup", 3, "pot", 1)
    ...         return self.sql("SELECT name FROM items WHERE qty < :n", n=2).all()
    >>> async with app.world() as world:
    ...     print(await world.get(Shop, "a").stock())
    [{'name': 'pot'}]
    """

    __slots__ = ("_rows", "columns", "written")

    def __init__(self, columns: Sequence[str], rows: list[tuple[Any, ...]], written: int) -> None:
        self.columns = tuple(columns)
        self.written = written  # rows that the statement inserted, changed or deleted
        self._rows = rows

    @property
    def read(self) -> int:
        """How many rows came back."""
        return len(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        columns = self.columns
        return (dict(zip(columns, row, strict=True)) for row in self._rows)

    def raw(self) -> list[tuple[Any, ...]]:
        """As tuples, in the order of `columns`: for columns of one name, too."""
        return list(self._rows)

    @overload
    def all(self) -> list[dict[str, Any]]: ...

    @overload
    def all(self, kind: type[T]) -> list[T]: ...

    def all(self, kind: Any = None) -> Any:
        """All rows, or each as a value of that type: a dataclass, struct, TypedDict or pydantic model."""
        return list(self) if kind is None else [_convert(row, kind) for row in self]

    @overload
    def one(self) -> dict[str, Any]: ...

    @overload
    def one(self, kind: type[T]) -> T: ...

    def one(self, kind: Any = None) -> Any:
        """The only row; `BadSql` says how many there are when it is not one."""
        if len(self._rows) != 1:
            raise BadSql(f"one() is for exactly one row, and there are {len(self._rows)}", code="sql.one")
        return self.all(kind)[0] if kind is not None else next(iter(self))

    @overload
    def first(self) -> dict[str, Any] | None: ...

    @overload
    def first(self, kind: type[T]) -> T | None: ...

    def first(self, kind: Any = None) -> Any:
        """The first row, None when there is none."""
        row = next(iter(self), None)
        return row if row is None or kind is None else _convert(row, kind)

    def value(self) -> Any:
        """The first column of the first row, None when there is none."""
        return self._rows[0][0] if self._rows else None


def _convert(row: dict[str, Any], kind: Any) -> Any:
    validate = getattr(kind, "model_validate", None)  # pydantic's
    try:
        return msgspec.convert(row, kind, strict=False) if validate is None else validate(row)
    except (ValueError, TypeError) as error:
        name = getattr(kind, "__name__", str(kind))
        raise BadValue(f"a row does not fit {name}: {error}", code="sql.row") from None
