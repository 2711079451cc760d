"""Collections of garbage go through what all tests of the process left: half a second after ten thousand of them, at
any moment. What is judged by processor time is measured without.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
