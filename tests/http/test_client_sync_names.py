"""The blocking client has every method that the other has, under its name, with its arguments: type checkers see them."""

import asyncio
import inspect

import pytest

from wakeful import Client
from wakeful.client import SyncClient
from wakeful.client.client import SyncJobs, SyncSchedules
from wakeful.client.jobs import ClientJobs
from wakeful.client.schedules import ClientSchedules
from wakeful.runtime.sync_method import Blocked

OWN = {"close", "send"}  # which block in their own way


@pytest.mark.parametrize(
    ("kind", "blocking"), [(Client, SyncClient), (ClientJobs, SyncJobs), (ClientSchedules, SyncSchedules)]
)
def test_none_is_missing_and_none_is_another(kind: type, blocking: type) -> None:
    methods = {name for name in dir(kind) if name[0] != "_" and asyncio.iscoroutinefunction(getattr(kind, name))} - OWN
    named = {name: inspect.getattr_static(blocking, name, None) for name in methods}
    assert [name for name, found in named.items() if not isinstance(found, Blocked)] == []
    for name in methods:
        assert getattr(blocking, name) is getattr(kind, name)
    made = object.__new__(blocking)
    assert all(not asyncio.iscoroutinefunction(getattr(made, name)) for name in methods)
    assert all(getattr(made, name).__doc__ == getattr(kind, name).__doc__ for name in methods)


def test_its_options_are_those_of_the_other() -> None:
    from wakeful.client.client import ClientOptions

    taken = [name for name in inspect.signature(Client).parameters if name != "url"]
    assert sorted(ClientOptions.__annotations__) == sorted(taken)
