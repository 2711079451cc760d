"""Layer 2. How does an error keep its type between nodes that run the same program?

So that `except ValueError` means the same whether the object lives here or on another node. The
type is looked for among what this process has loaded: nothing is imported and no constructor of the
program runs on the way in. What can't be had that way arrives as `TurnFailed`.
"""

import sys

from wakeful.transport.messages import Failure, failure_of, raised
from wakeful.values.codec import decode, encode
from wakeful.values.errors import WakefulError

# An error that carries more than this carries data; its text will do.
BODY_BYTES_MAX = 64 * 1024


def sent(error: BaseException, *, is_started: bool = True) -> Failure:
    """The error as it travels to another node, with what it holds where that can travel."""
    failure = failure_of(error)
    failure.is_started = failure.is_started and is_started
    if not isinstance(error, WakefulError):
        try:
            state = {name: value for name, value in vars(error).items() if name != "__notes__"}
            body = encode((error.args, state))
        except WakefulError:
            body = None
        if body is not None and len(body) <= BODY_BYTES_MAX:
            failure.body = body
    return failure


def received(failure: Failure) -> Exception:
    """The error to raise at the caller: of the type that was raised at the node where that is possible."""
    error = _rebuilt(failure)
    if error is None:
        return raised(failure)
    if failure.traceback:
        error.add_note(failure.traceback)
    return error


def _rebuilt(failure: Failure) -> Exception | None:
    kind = loaded(failure.type) if failure.body is not None else None
    if kind is None or failure.body is None:
        return None
    try:
        args, state = decode(failure.body)
        if kind.__module__ == "builtins":
            return kind(*args)
        error = kind.__new__(kind, *args)
        error.args = args
        error.__dict__.update(state)
        str(error)  # one that can't even be shown is of no use
    except Exception:
        return None
    return error


def loaded(name: str) -> type[Exception] | None:
    """The error class of that full name, if this process has it already."""
    module, _, rest = name.rpartition(".")
    while module:
        if module in sys.modules:
            found: object = sys.modules[module]
            for part in rest.split("."):
                found = getattr(found, part, None)
            is_it = isinstance(found, type) and issubclass(found, Exception) and found.__module__ == module
            return found if is_it else None  # type: ignore[return-value]
        module, _, last = module.rpartition(".")
        rest = f"{last}.{rest}"
    return None
