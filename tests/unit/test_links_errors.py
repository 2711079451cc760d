"""Errors between nodes keep their type where the caller's process has it, and never run anything to get it."""

import asyncio
import sys

import pytest

from tests.unit.links_stage import a_call, linked
from wakeful.transport.messages import BODY_BYTES_MAX, Failure, as_failure, error_from
from wakeful.values.codec import encode
from wakeful.values.errors import Fenced, LimitExceeded, LinkLost, TurnFailed, Unavailable


class Declined(Exception):
    """An error of a program, with a constructor that its args don't fit."""

    made = 0

    def __init__(self, *, code: int) -> None:
        super().__init__(f"declined with {code}")
        self.code = code
        Declined.made += 1

    class Twice(Exception):
        pass


sys.modules.setdefault(Declined.__module__, sys.modules[__name__])


def travelled(error: BaseException) -> Exception:
    return error_from(as_failure(error))


@pytest.mark.parametrize(
    "error",
    [ValueError("x", 3), KeyError("k"), OSError(2, "gone"), TimeoutError(), UnicodeDecodeError("u", b"x", 0, 1, "y")],
)
def test_pythons_own_errors_keep_their_type_and_arguments(error: Exception) -> None:
    found = travelled(error)
    assert type(found) is type(error)
    assert (found.args, str(found)) == (error.args, str(error))


def test_a_programs_error_keeps_type_and_attributes_without_its_constructor() -> None:
    error = Declined(code=7)
    found = travelled(error)
    assert isinstance(found, Declined)
    assert (str(found), found.code, Declined.made) == ("declined with 7", 7, 1)
    assert type(travelled(Declined.Twice("x"))) is Declined.Twice


def test_the_traceback_of_the_other_node_comes_as_a_note() -> None:
    try:
        raise ValueError("here")
    except ValueError as error:
        found = travelled(error)
    assert "test_the_traceback_of_the_other_node" in found.__notes__[0]


def test_what_cannot_be_had_is_turn_failed_with_its_text() -> None:
    class Local(Exception):
        pass

    for error in (Local("a"), ValueError(object()), ValueError("x" * (BODY_BYTES_MAX + 1))):
        found = travelled(error)
        assert isinstance(found, TurnFailed)
        assert type(error).__name__ in found.remote_type


@pytest.mark.parametrize(
    "name",
    ["os.system", "builtins.print", "builtins.SystemExit", "builtins.type", "no.such.Error", "os.error", "x", ""],
)
def test_only_loaded_exception_classes_are_ever_made(name: str) -> None:
    failure = Failure(name, "", "text", "", body=encode((("true",), {})))
    assert isinstance(error_from(failure), TurnFailed)


def test_a_body_that_makes_no_sense_is_turn_failed() -> None:
    for body in (b"", b"junk", encode(3), encode((3, 4)), encode((("a",) * 9, {}))):
        found = error_from(Failure("builtins.UnicodeDecodeError", "", "text", "", body=body))
        assert isinstance(found, TurnFailed)


def test_our_errors_keep_code_and_whether_the_call_began() -> None:
    found = travelled(LimitExceeded("too many", code="limit.x"))
    assert (type(found), found.code) == (LimitExceeded, "limit.x")  # type: ignore[attr-defined]
    assert isinstance(travelled(Fenced(1, 2)), Unavailable)
    for was_sent in (True, False):
        failure = as_failure(LinkLost("gone", was_sent=was_sent))
        assert failure.is_started is was_sent  # a second hop that never left is no start
        again = error_from(failure)
        assert isinstance(again, LinkLost)
        assert again.was_sent is was_sent


async def test_it_works_over_a_link() -> None:
    async with linked("tcp") as (link, _, _b):
        failure = (await link.ask(a_call("fail"), timeout_ms=5_000)).failure
        assert failure is not None
        with pytest.raises(ZeroDivisionError, match="by nothing"):
            raise error_from(failure)
        await asyncio.sleep(0)
