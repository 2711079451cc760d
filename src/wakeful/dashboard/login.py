"""Layer 5. The pages around the door: logging in and out, who did what, who may come in."""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from wakeful.dashboard.renderer import address
from wakeful.dashboard.visits import Desk, Visit, error_words, read_form
from wakeful.security import audit, tokens
from wakeful.values.errors import BadInput, Denied, TooMany, Unavailable

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

ROWS = 100


async def audit_page(visit: Visit) -> "Response":
    """Audit rows, newest first."""
    found = await audit.page(visit.node.store, limit=ROWS, cursor=visit.query("cursor"))
    return await visit.render("audit.html", "audit", rows=found.rows, cursor=found.cursor)


async def tokens_page(visit: Visit) -> "Response":
    """The tokens without their secrets, which nobody has but their owners."""
    rows = [
        {
            "id": token.id,
            "name": token.name,
            "state": token.state(visit.now),
            "scopes": token.scopes,
            "tenant": token.tenant,
            "expires_at": token.expires_at,
            "used_at": token.used_at,
            "created_at": token.created_at,
        }
        for token in await tokens.tokens_of(visit.node.store)
    ]
    return await visit.render("tokens.html", "tokens", lives=False, rows=rows)


class Door:
    """Login and logout; the only pages that someone sees who is not let in."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def show(self, request: "Request") -> "Response":
        """The login page; without tokens there is nothing to log in to."""
        from starlette.responses import RedirectResponse

        target = back(request.query_params.get("next"))
        try:
            if self._desk.deployment.node is not None and await self._desk.gate.is_open():
                return RedirectResponse(address(request, "/"), status_code=303)
        except Unavailable as error:
            return self._desk.bare(request, "login.html", status=503, next=target, problem=error_words(error, None))
        return self._desk.bare(request, "login.html", next=target)

    async def enter(self, request: "Request") -> "Response":
        """A token for a session."""
        from starlette.responses import RedirectResponse

        target = "/"
        try:
            form = await read_form(request)
            target = back(form.get("next", [""])[0])
            login = await self._desk.gate.login(request, form.get("token", [""])[0])
        except (Denied, BadInput, Unavailable) as error:
            status = 429 if isinstance(error, TooMany) else 503 if isinstance(error, Unavailable) else 403
            problem = _refusal(error)
            again = self._desk.bare(request, "login.html", status=status, next=target, problem=problem)
            if isinstance(error, TooMany):
                again.headers["retry-after"] = str(max(1, round(error.retry_after_s)))
            return again
        answer = RedirectResponse(address(request, "") + target, status_code=303)
        answer.headers["set-cookie"] = login.set_cookie
        answer.headers["cache-control"] = "no-store"
        return answer

    async def leave(self, request: "Request") -> "Response":
        """The end of the session."""
        from starlette.responses import RedirectResponse

        try:
            form = await read_form(request)
            header = await self._desk.gate.logout(request, csrf=form.get("csrf", [None])[0])
        except (Denied, BadInput, Unavailable) as error:
            status = 503 if isinstance(error, Unavailable) else 403
            text = error_words(error, None)
            return self._desk.bare(request, "problem.html", status=status, heading="Not logged out", text=text)
        answer = RedirectResponse(address(request, "/login"), status_code=303)
        answer.headers["set-cookie"] = header
        return answer


def back(text: str | None) -> str:
    """A page of the dashboard to go to after login; never one of somewhere else."""
    parts = urlsplit(text or "/")
    is_ours = not parts.scheme and not parts.netloc and parts.path.startswith("/") and not parts.path.startswith("//")
    if not is_ours or "\\" in (text or "") or parts.path in ("/login", "/logout") or len(text or "") > 4_000:
        return "/"
    return parts.path + (f"?{parts.query}" if parts.query else "")


def _refusal(error: Denied | BadInput | Unavailable) -> str:
    if isinstance(error, Unavailable):
        return error_words(error, None)
    if not isinstance(error, Denied) or isinstance(error, TooMany) or error.code == "denied.site":
        return error.message
    return "This token is not known here, or it has expired or was revoked."
