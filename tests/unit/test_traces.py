"""Traces as texts: what is a traceparent, and how does a timer carry one?"""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from wakeful.values.codec import encode
from wakeful.values.trace import UNSAMPLED, linked_trace, trace_in, trace_of_header, with_trace, without_trace

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("header", [PARENT, f" {PARENT.upper()} ", f"cc{PARENT[2:]}", f"cc{PARENT[2:]}-more"])
def test_a_traceparent_is_taken(header: str) -> None:
    assert (trace_of_header(header) or "")[2:] == PARENT[2:]


@pytest.mark.parametrize(
    "header",
    [
        None, "", "-", "~", "00", "garbage", PARENT[:-1], f"{PARENT}0", f"{PARENT}-more", f"ff{PARENT[2:]}",
        f"00-{'0' * 32}-b7ad6b7169203331-01", f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
        PARENT.replace("0af", "xyz"), "é" * 55, f"~{PARENT}",
    ],
)  # fmt: skip
def test_whatever_else_came_is_as_good_as_nothing(header: str | None) -> None:
    assert trace_of_header(header) is None


@given(some.none() | some.binary().map(encode), some.sampled_from([None, UNSAMPLED, PARENT, f"~{PARENT}"]))
def test_a_timer_carries_a_trace_before_what_it_carries(payload: bytes | None, trace: str | None) -> None:
    carried = with_trace(payload, trace)
    assert trace_in(carried) == trace
    assert without_trace(carried) == (payload or b"")


def test_without_a_trace_nothing_is_added() -> None:
    assert with_trace(None, None) is None
    assert with_trace(b"\x01x", None) == b"\x01x"
    assert without_trace(None) == b""


@given(some.binary())
def test_whatever_a_timer_carries_can_be_read(payload: bytes) -> None:
    """Nothing that is in a store may stop a timer."""
    trace_in(payload)
    without_trace(payload)


def test_what_comes_again_and_again_is_linked_once_and_not_when_nobody_looks() -> None:
    assert linked_trace(PARENT) == linked_trace(linked_trace(PARENT)) == f"~{PARENT}"
    assert linked_trace(UNSAMPLED) is linked_trace(None) is None
