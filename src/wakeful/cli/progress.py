"""Layer 5. How far is long work? A bar on a terminal; nothing where nobody watches."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wakeful.cli.exit_codes import is_plain

if TYPE_CHECKING:
    from rich.progress import Progress

Step = Callable[[int], None]
Note = Callable[[str], None]


def is_watched() -> bool:
    """Whether somebody sees what goes to stderr, which is where bars go, and may be drawn to: stdout is for the answer."""
    return sys.stderr.isatty() and not is_plain()


@contextmanager
def progress(*, is_shown: bool) -> Iterator["Progress | None"]:
    """Bars of rich, or None where nobody watches."""
    if not is_shown or not is_watched():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:<14}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True), expand=False) as found:
        yield found


@contextmanager
def bar(what: str, total: int, *, is_shown: bool = True) -> Iterator[Step]:
    """One bar: the function that is given says by how much it went on."""
    with progress(is_shown=is_shown) as shown:
        if shown is None:
            yield lambda steps: None
            return
        line = shown.add_task(what, total=total)
        yield lambda steps: shown.update(line, advance=steps)


@contextmanager
def pulse(what: str, *, is_shown: bool = True) -> Iterator[Note]:
    """A bar for work of which nobody knows how much it is: that it goes on, and for how long; gone at its end.

    The function that is given says what there is to say meanwhile.
    """
    if not is_shown or not is_watched():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<14}"), BarColumn(bar_width=20), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        line = shown.add_task(what, total=None)
        yield lambda text: shown.update(line, description=text)
