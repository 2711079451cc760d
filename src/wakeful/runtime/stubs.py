"""Layer 3. How does a caller get hold of an object?"""

from typing import Any

from wakeful.runtime.calls import Stub
from wakeful.runtime.requests import check_request_key
from wakeful.values.errors import BadTime
from wakeful.values.ids import check_key
from wakeful.values.times import Duration, duration_ms


def make_stub(node: Any, known: Any, key: str, deadline: Duration | None, request_key: str | None) -> Stub:
    """A stub whose names and options have been checked."""
    check_key(known.name, key)
    if request_key is not None:
        check_request_key(request_key)
    length = None if deadline is None else duration_ms(deadline, what="deadline")
    if length == 0:
        raise BadTime(
            f"deadline {deadline!r} leaves no time at all; leave it out for the default", code="time.deadline"
        )
    return Stub(node, known, key, length, request_key)
