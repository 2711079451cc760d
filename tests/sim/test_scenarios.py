"""Moments that chance finds too seldom."""

from collections.abc import Awaitable, Callable

import pytest

from tests.sim.scenarios import SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_scenario(scenario: Callable[[], Awaitable[None]]) -> None:
    await scenario()
