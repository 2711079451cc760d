"""The page of the HTTP API has every request that can be made, with the scope that it needs and its query."""

from tests.tidy import tidy_pages as tidy
from wakeful.http.rows import ROWS
from wakeful.http.table import Route


def missing(page: str, routes: list[Route]) -> list[str]:
    """The routes without a row, or whose row lacks the scope or a parameter."""
    lines = page.splitlines()
    found = []
    for route in routes:
        row = next((line for line in lines if line.startswith(f"| `{route.method} {route.path}` |")), "")
        wanted = [f"| {route.scope or '–'} |", *(f"`{param.name}`" for param in route.query)]
        if not row or any(text not in row for text in wanted):
            found.append(f"| `{route.method} {route.path}` | {route.scope or '–'} | {route.about} |")
    return found


def test_the_page_has_every_request() -> None:
    assert missing((tidy.DOCS / "http.md").read_text(encoding="utf-8"), ROWS) == []


def test_a_request_that_is_not_on_the_page_is_found() -> None:
    assert len(missing("", ROWS)) == len(ROWS) > 30
