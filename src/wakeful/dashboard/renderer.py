"""Layer 5. How does a page come out: its template, its addresses under any prefix, its headers?"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from markupsafe import escape

from wakeful import __version__
from wakeful.dashboard import words
from wakeful.views.timer_names import name_words

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.requests import Request
    from starlette.responses import Response

HERE = Path(__file__).parent
# Nothing inline, nothing from elsewhere, nobody around it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


@cache
def environment() -> "Environment":
    """The templates; everything that is put into them is escaped, and what can't be seen is shown but for `|exact`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=words.visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "mark": words.mark,
        "length": words.length,
        "size": words.size,
        "many": words.many,
        "moment": words.moment,
        "pretty": words.pretty,
        "value": words.value,
        "error_line": words.error_line,
        "instant": words.instant,
        "local": words.local,
        "brief": words.brief,
        "exact": escape,
        "timer_words": name_words,
    }
    templates.globals["version"] = __version__
    return templates


def base_of(request: "Request") -> str:
    """What stands before the dashboard's own paths: the prefix that it is mounted under."""
    return quote(str(request.scope.get("root_path", "")).rstrip("/"), safe="/~:@!$&'()*+,;=-._")


def path_of(request: "Request") -> str:
    """The dashboard's own path that was asked for, without that prefix."""
    return request.url.path.removeprefix(str(request.scope.get("root_path", "")).rstrip("/")) or "/"


def address(request: "Request", path: str, /, **query: Any) -> str:
    """A page of the dashboard, with what is not None as its query.

    Names go into the query and not into the path: browsers and proxies rewrite paths (`..`, `%2F`), and a key may be anything.
    """
    asked = {name.rstrip("_"): value for name, value in query.items() if value is not None and value != ""}
    return f"{base_of(request)}{path}" + (f"?{urlencode(asked)}" if asked else "")


Place = tuple[str, Mapping[str, Any]]  # a page's own path and query


def render(
    request: "Request", template: str, *, status: int = 200, now: int, place: Place | None = None, **given: Any
) -> "Response":
    """The page; of one that htmx asks for again only the part that lives. `place`: where it is, when a form asked for it."""
    from starlette.responses import HTMLResponse

    def url(path: str, /, **query: Any) -> str:
        return address(request, path, **query)

    def here(**query: Any) -> str:
        """This very page with another query."""
        path, asked = place or (path_of(request), request.query_params)
        return address(request, path, **{**asked, **query})

    page = environment().get_template(template)
    given |= {
        "url": url,
        "here": here,
        "base": base_of(request),
        "now": now,
        "when": lambda value: words.when(value, now),
        "is_part": "hx-request" in request.headers,
    }
    return HTMLResponse(page.render(given), status_code=status, headers=HEADERS)
