"""Mistakes in the streams of Workers, one each: tests/teeth/test_stream_teeth.py says who must catch them."""

import asyncio
from typing import Any

from tests.teeth.broken import swapped
from wakeful.compat.workers import site
from wakeful.compat.workers.conduits import Conduit, Conduits
from wakeful.compat.workers.site import Body
from wakeful.compat.workers.sources import Trickle


def a_stream_is_collected_before_it_is_sent() -> Any:
    """The first word comes with the last."""

    def make(tell: Any) -> Any:
        async def broken(stream: Any, packer: Any, send: Any) -> None:
            data = await stream._collect()
            await send({"type": "http.response.body", "body": data, "more_body": False})

        return broken

    return swapped(site, "_tell", make)


def a_generator_goes_on_without_its_client() -> Any:
    """Nobody tells it that the client is gone."""

    def make(gone: Any) -> Any:
        async def broken(self: Body) -> None:
            await asyncio.Event().wait()

        return broken

    return swapped(Body, "wait_until_gone", make)


def a_generator_runs_ahead_of_its_client() -> Any:
    """It makes all that it can, however slowly that is read."""

    def make(run: Any) -> Any:
        async def broken(self: Trickle) -> None:
            class Always:
                def clear(self) -> None: ...

                async def wait(self) -> None: ...

            self._wanted = Always()  # type: ignore[assignment]
            await run(self)

        return broken

    return swapped(Trickle, "_run", make)


def a_stream_does_not_keep_its_object_awake() -> Any:
    """It is put to sleep under the generator."""

    def make(offer: Any) -> Any:
        return lambda self, stream, activation=None, hear=None: offer(self, stream, None, hear)

    return swapped(Conduits, "offer", make)


def a_stream_that_was_cut_looks_whole() -> Any:
    """A part of it passes for all."""

    def make(cut: Any) -> Any:
        def broken(self: Conduit, error: Exception) -> None:
            cut(self, error)
            self._error = None

        return broken

    return swapped(Conduit, "cut", make)


def what_is_kept_of_a_body_does_not_count() -> Any:
    """Many large ones fill the memory."""
    return swapped(Body, "keep", lambda keep: lambda self: None)
