"""Layer 5. What does Cloudflare's code see when something goes wrong?

The names are those of JavaScript, because that is what the runtime there raises; each is a Python error of the same
meaning too, so that `except TypeError` works on both.
"""

from wakeful.values.errors import BadInput, BadValue, LimitExceeded


class JsException(Exception):
    """An error of the runtime; `name` and `message` as in JavaScript."""

    name = "Error"

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


class JsTypeError(JsException, TypeError):
    """A value of the wrong kind, or one that can't be."""

    name = "TypeError"


class JsRangeError(JsException, ValueError):
    """A value past a bound."""

    name = "RangeError"


class InvalidAccessError(JsTypeError):
    """A code that a socket can't be closed with."""

    name = "InvalidAccessError"


class DataCloneError(JsTypeError):
    """A value that is not data, so it can be neither stored nor sent."""

    name = "DataCloneError"


class ObjectReset(JsException):
    """The object was reset while it answered: its memory is gone, and so is what it had not yet stored."""

    durableObjectReset = True  # noqa: N815  the name there


class Unsupported(JsException, NotImplementedError):
    """Something of Cloudflare's that is not here; docs/cloudflare.md says what to use instead."""


class MissingBinding(Unsupported, AttributeError):  # type: ignore[misc]  # `name` is JavaScript's here
    """A binding of the wrangler file that nothing here stands behind: `hasattr(env, …)` says no, as for one that is not bound."""


class Reset(BaseException):
    """Unwinds the object's code after `abort` or a failed `blockConcurrencyWhile`; no `except Exception` can hold it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def reset_error(message: str, cause: BaseException | None = None) -> ObjectReset:
    """What callers of an object that was reset are told."""
    error = ObjectReset(message)
    error.__cause__ = cause
    return error


def as_js_error(error: Exception) -> JsException:
    """An error of Wakeful's as one of the kind that is raised there."""
    kind = DataCloneError if isinstance(error, BadValue) else JsRangeError if isinstance(error, LimitExceeded) else None
    return (kind or JsTypeError)(error.message if isinstance(error, BadInput) else str(error))
