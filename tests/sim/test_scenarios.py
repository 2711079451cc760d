"""Moments that chance finds too seldom."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
from scenarios import SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_scenario(scenario: Callable[[], Awaitable[None]]) -> None:
    await scenario()
