"""Ctrl-C ends a command, and not the turn that it asked for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from wakeful.cli import run, session
from wakeful.cli.exit_codes import INTERRUPTED
from wakeful.store import MemoryStore


@pytest.mark.parametrize("is_sent", [True, False])
@pytest.mark.parametrize("more", [(), ("--request-key", "k1")])
def test_who_interrupts_a_call_is_told_that_its_turn_goes_on(
    is_sent: bool, more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    @asynccontextmanager
    async def reaching(*_: Any, **__: Any) -> AsyncIterator[session.Reached]:
        if not is_sent:
            raise KeyboardInterrupt
        yield session.Reached(interrupted, [], lambda _: MemoryStore())

    monkeypatch.setattr(session, "reaching", reaching)
    assert run(["call", *more, "Account", "a b", "add", "1"]) == INTERRUPTED
    out, err = capsys.readouterr()
    assert out == ""
    assert ("if its turn has begun it goes on to its end; `wakeful show Account 'a b'`" in err) == is_sent
    assert ("interrupted before Account/a b was called; nothing was done" in err) != is_sent
    assert ("with the same --request-key has its answer" in err) == (is_sent and bool(more))
