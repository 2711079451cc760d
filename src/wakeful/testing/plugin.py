"""Layer 5. The pytest plugin: a `world` fixture, and the seed of a world printed when its test fails.

Write `def test_x(world): world(app, body)` or, in async test frameworks, use `app.world()` directly.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from wakeful.app import App
from wakeful.testing.world import World

Body = Callable[[World], Awaitable[Any]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("wakeful").addoption(
        "--world-seed", type=int, default=0, help="seed of the worlds made by the `world` fixture (printed on failure)"
    )


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Run an async body in a fresh world of an app: `world(app, body, start=…, store=…)`; its result."""
    seed = request.config.getoption("--world-seed")

    def run(app: App, body: Body, **options: Any) -> Any:
        async def inside() -> Any:
            async with app.world(seed=seed, **options) as made:
                return await body(made)

        return asyncio.run(inside())

    return run
