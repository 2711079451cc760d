"""Layer 5, pure. How does a browser carry its session, and how does a form prove that our page made it?"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

COOKIE = "wakeful_session"
LENGTH_MS = 12 * 3_600_000


def cookie_of(header: bytes | None) -> str | None:
    """The session in a Cookie header; None when there is none, or more than one."""
    if not header:
        return None
    found = []
    for part in header.decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE and value:
            found.append(value)
    return found[0] if len(found) == 1 else None


def set_cookie(value: str, scope: Mapping[str, Any], *, is_secure: bool, age_s: int) -> str:
    """The Set-Cookie header: not for scripts, not for other sites, not for other paths, and over https only there."""
    path = str(scope.get("root_path") or "").rstrip("/") or "/"
    if any(char in path for char in ";, \r\n\t"):
        path = "/"
    parts = [f"{COOKIE}={value}", f"Path={path}", f"Max-Age={age_s}", "HttpOnly", "SameSite=Strict"]
    return "; ".join([*parts, "Secure"] if is_secure else parts)


def csrf_of(session: str) -> str:
    """What a form of this session carries; nobody can tell it who does not have the cookie."""
    return hmac.new(session.encode(), b"wakeful form", hashlib.sha256).hexdigest()


def is_csrf(session: str, given: str | None) -> bool:
    return given is not None and hmac.compare_digest(csrf_of(session).encode(), given.encode())
