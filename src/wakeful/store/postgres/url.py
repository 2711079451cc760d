"""Layer 2. Which database does a URL mean, and what of it may be shown?"""

import re
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from wakeful.values.errors import BadUrl

SCHEMA = "wakeful"

# Unquoted identifiers that PostgreSQL keeps as they are; 63 bytes is its own limit.
_SCHEMA = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_PORT = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]*)(?::(\d{1,5}))?")


class Target(Struct, frozen=True):
    """A parsed store URL. `dsn` is what the driver gets, `shown` what people and logs get."""

    dsn: str
    shown: str
    schema: str
    statement_cache_size: int | None  # 0 behind a pooler that hands every transaction another connection
    names_itself: bool  # the URL has an application_name of its own


def parse_url(url: str) -> Target:
    """The parts of a postgresql:// URL, with our own options taken out; `BadUrl` says what is wrong with it."""
    try:
        parts = urlsplit(url)
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise BadUrl(f"not a PostgreSQL URL: {error}; write postgresql://user@host:5432/database") from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise BadUrl(
            f"not a PostgreSQL URL: it begins with {parts.scheme!r}; write postgresql://user@host:5432/database"
        )
    login, at, hosts = parts.netloc.rpartition("@")
    for host in hosts.split(","):
        port = _PORT.fullmatch(host)
        if port is None or (port[1] and not 0 < int(port[1]) < 65_536):
            raise BadUrl(f"host {host!r} of the PostgreSQL URL is not host:port")
    ours = {name: value for name, value in options if name in ("schema", "statement_cache_size")}
    theirs = [(name, value) for name, value in options if name not in ours]
    schema = ours.get("schema", SCHEMA)
    if not _SCHEMA.fullmatch(schema):
        raise BadUrl(f"schema={schema!r}: use lower-case letters, digits and '_', at most 63, not beginning with pg_")
    cache = ours.get("statement_cache_size")
    if cache is not None and not cache.isdecimal():
        raise BadUrl(f"statement_cache_size={cache!r} is not a number")
    shown_login = login.partition(":")[0]
    shown = [(name, value) for name, value in options if name not in ("password", "sslpassword")]
    return Target(
        dsn=_joined(parts._replace(netloc=login + at + hosts), theirs),
        shown=_joined(parts._replace(netloc=shown_login + ("@" if shown_login else "") + hosts), shown),
        schema=schema,
        statement_cache_size=None if cache is None else int(cache),
        names_itself=any(name == "application_name" for name, _ in theirs),
    )


def _joined(parts: tuple[str, str, str, str, str], options: list[tuple[str, str]]) -> str:
    scheme, netloc, path, _, fragment = parts
    # urlunsplit drops the // of an empty host, which the driver insists on.
    rest = urlunsplit(("", "", path, urlencode(options, safe="/", quote_via=quote), fragment))
    return f"{scheme}://{netloc}{rest}"
