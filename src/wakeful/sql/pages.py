"""Layer 4. What are the pages of a database, and which of them does nobody need yet?"""

from collections.abc import Callable, Iterator, Mapping

from wakeful.values.commits import PAGE_BYTES

# Two counters in the first page change with every transaction: for other connections, which there are none of.
_COUNTERS = ((0, 24), (28, 92), (96, PAGE_BYTES))


class DatabasePages:
    """Those that finished turns left, by number from 0. Where `fetch` is given, only the first ones may be here.

    The others are read when somebody asks for them. Whatever a turn changed is here from then on, so those in the store
    are as they were when the object woke: it has one writer, which is its object.
    """

    __slots__ = ("_fetch", "_here")

    def __init__(self, first: list[bytes], total: int = 0, fetch: Callable[[int], bytes] | None = None) -> None:
        self._here: list[bytes | None] = [*first, *([None] * (total - len(first)))]
        self._fetch = fetch

    def __len__(self) -> int:
        return len(self._here)

    def __getitem__(self, number: int) -> bytes:
        page = self._here[number]
        if page is None:
            assert self._fetch is not None
            page = self._here[number] = self._fetch(number)
        return page

    def __iter__(self) -> Iterator[bytes]:
        return (self[number] for number in range(len(self)))

    def adopt(self, changes: Mapping[int, bytes], total: int) -> None:
        """A turn ended well: these are others now, and there are so many."""
        del self._here[total:]
        for number, page in sorted(changes.items()):
            self._here[number : number + 1] = [page]

    def is_first_same(self, page: bytes) -> bool:
        """That page would be the first, and nothing but counters is different in it."""
        if not self._here:
            return False
        before = self[0]
        return all(page[first:last] == before[first:last] for first, last in _COUNTERS)
