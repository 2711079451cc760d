"""The client for browsers that docs/watching.md has, as it stands there, in a real Chromium with a token for one object."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import ROOT, _started
from tests.tidy import tidy_pages as tidy


@pytest.fixture(scope="module")
def basket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Where the program is, and a token for one basket."""
    store = f"sqlite:{tmp_path_factory.mktemp('watched')}/all.db"
    command = [sys.executable, "-m", "wakeful.cli"]
    for url in _started([*command, "dev", "tests/browser/watched.py", "--store", store], ", dashboard at ", str):
        asked = [*command, "tokens", "object", "Basket", "b", "--event", "ADD", "--event", "DROP", "--json"]
        made = subprocess.run([*asked, "--store", store], capture_output=True, text=True, check=True, cwd=ROOT)
        yield url.rstrip("/"), json.loads(made.stdout)["token"]


def client() -> str:
    """The function that the page has, without the lines that use it."""
    [block] = [one for one in tidy.blocks((tidy.DOCS / "watching.md").read_text()) if one.language == "js"]
    return block.body.partition("const order")[0]


def test_a_page_watches_and_sends_with_a_token_for_one_object(pages: Any, basket: tuple[str, str]) -> None:
    url, token = basket
    page = pages.open(f"{url}/healthz", expected=("404",))  # of an icon that it does not have
    state, refused = page.evaluate(
        """async ([source, url, token]) => {
            const watch = new Function(source + "; return watch")();
            let last, told;
            const news = new Promise((resolve) => { told = resolve; });
            const basket = watch(url.replace("http", "ws") + "/v1/objects/Basket/b", token, (state) => {
                last = state;
                if (state.context["a/b~c"] === 4) told();
            });
            for (const text of ["a", "b", "c", "d"]) await basket.send({ type: "ADD", text });
            await basket.send({ type: "DROP" });
            await basket.send({ type: "ADD", text: "e" });
            await news;
            while (last.context.lines.at(-1).text !== "e") await new Promise((next) => setTimeout(next, 5));
            const refused = await basket.send({ type: "CLEAR" }).catch((error) => [error.status, error.code]);
            basket.close();
            return [last, refused];
        }""",
        [client(), url, token],
    )
    assert [line["text"] for line in state["context"]["lines"]] == ["b", "c", "d", "e"]
    assert state["context"]["a/b~c"] == 4
    assert refused == [403, "denied.event"]
