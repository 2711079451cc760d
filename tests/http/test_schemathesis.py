"""Schemathesis over the whole API: every answer is as the document says, nothing is a 5xx, nothing wrong is accepted."""

import ast
import asyncio
from collections.abc import Iterator
from threading import Lock
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from msgspec import to_builtins
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.http.bridge import Bridge, bridged
from tests.http.http_stage import make_app
from wakeful.http.openapi import document
from wakeful.security.tokens import ALL, PREFIX, Token, new_secret

EXAMPLES = 6
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@pytest.fixture(scope="module", autouse=True)
def parser() -> Iterator[None]:
    """One syntax tree at a time: Python 3.11 can't make two (gh-106905), and the tool makes some of its own lambdas, the
    server's thread of each line of a traceback."""
    lock, parse = Lock(), ast.parse

    def locked(*args: Any, **options: Any) -> Any:
        with lock:
            return parse(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ast, "parse", locked)
        yield


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Bridge, str]]:
    """The shop with something in it, and a token for everything."""
    app = make_app()
    with bridged(app) as bridge:
        text, id, hashed = new_secret(PREFIX, lambda count: b"schemathesis".ljust(count, b"."))
        made = Token(id=id, name="all", hash=hashed, scopes=("admin",), created_at=1, created_by="test")

        async def furnish() -> None:
            node = app.deployment.node
            assert node is not None
            await node.send(ALL, "create", (to_builtins(made),), {})
            for cls, key, method in (("Shop", "a", "plan"), ("Shop", "b", "doomed"), ("Lamp", "hall", "start")):
                await app.get(app.deployment.registry.by_name(cls).cls, key).__getattr__(method)()

        asyncio.run_coroutine_threadsafe(furnish(), bridge._loop).result(30)
        yield bridge, text


@pytest.fixture(scope="module")
def api(served: tuple[Bridge, str]) -> Any:
    bridge, token = served
    made = schemathesis.openapi.from_asgi("/openapi.json", bridge, headers={"Authorization": f"Bearer {token}"})
    made.config.checks.positive_data_acceptance.expected_statuses += ["424"]  # what the object says is its own
    made.config.checks.negative_data_rejection.expected_statuses += ["413", "414"]
    return made


def operations() -> list[str]:
    """All but one that never ends, and one that sleeps for as long as it is told."""
    paths = document(make_app().deployment.registry)["paths"]
    labels = [f"{method.upper()} {path}" for path, found in paths.items() for method in found]
    return [label for label in labels if not label.endswith(("/v1/events", "/watch", "/slow"))]


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fits", "does-not"])
@pytest.mark.parametrize("label", operations())
def test_every_answer_is_as_the_document_says(
    label: str, mode: GenerationMode, api: Any, served: tuple[Bridge, str]
) -> None:
    operation = api.find_operation_by_label(label)
    # Of times inside an argument the tool does not always keep the format, depending on which modules are loaded.
    is_method = label.startswith("POST /v1/objects/Shop/") and not label.endswith(("/order", "/plan", "/nightly"))
    cases = operation.as_strategy(generation_mode=mode)

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=QUIET,
    )
    @given(case=cases)
    def run(case: Any) -> None:
        # That an argument fits its annotation, the document can say; that a cursor, a time or a spec is one, it can't.
        excluded = [] if is_method else [positive_data_acceptance]
        case.call_and_validate(headers={"Authorization": f"Bearer {served[1]}"}, excluded_checks=excluded)

    try:
        run()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE  # there is nothing about it that could be wrong
