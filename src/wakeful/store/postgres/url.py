"""Layer 2. Which database does a URL mean, and what of it may be shown?

Options of ours, beside those of the driver:
`schema=NAME`                 where the tables are, `wakeful` unless said
`timeout=30s`                 how long a statement may take, asked again or not, before the store counts as away
`listen=off`                  no LISTEN/NOTIFY: for a pooler that shares sessions, and CockroachDB; nodes scan instead
`session_lock=off`            no advisory lock per node, for the same: a crash is then noticed by the lease
`statement_cache_size=0`      no prepared statements, for a pooler that shares sessions and can't keep them
A server or pooler without the first two is noticed when the store is opened; to say so spares the attempt.
"""

import asyncio
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit, urlunsplit

import asyncpg
from msgspec import Struct

from wakeful.values.errors import BadUrl

SCHEMA = "wakeful"
# A disk or a server that stalls for seconds is slow, not gone; a network that swallows packets is noticed by the kernel.
TIMEOUT_MS = 30_000
TIMEOUT_MIN_MS = 100

WRITES = "read-write"  # the server that nodes need, of several
_SESSIONS = ("any", "primary", "standby", WRITES, "read-only", "prefer-standby")

OURS = ("schema", "statement_cache_size", "listen", "session_lock", "timeout")

# Unquoted identifiers that PostgreSQL keeps as they are; 63 bytes is its own limit.
_SCHEMA = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_TIMEOUT = re.compile(r"(\d{1,7})(ms|s)?")
_PORT = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]*)(?::(\d{1,5}))?")
_SEMICOLON = re.compile(r";\s*\w+=")

# Options whose values may be shown. Any other may be a password, under whatever name.
_SHOWN = (
    *OURS,
    *("host", "port", "user", "database", "dbname", "application_name", "target_session_attrs", "connect_timeout"),
    *("sslmode", "sslnegotiation", "sslrootcert", "sslcert", "sslkey", "sslcrl", "service"),
)

_WRITE = "write postgresql://user@host:5432/database"
_ENCODE = "a password with / # ? @ in it must be percent-encoded, as %2F %23 %3F %40"


class ServerHost(Struct, frozen=True):
    """One of the URL's servers: what the driver gets to connect to it alone, and how it is called."""

    dsn: str
    shown: str


class Target(Struct, frozen=True):
    """A parsed store URL. `dsn` is what the driver gets, `shown` what people and logs get."""

    dsn: str
    shown: str
    schema: str
    statement_cache_size: int | None  # 0 behind a pooler that hands every transaction another connection
    names_itself: bool  # the URL has an application_name of its own
    listen: bool = True  # False: the server has no LISTEN, or a pooler is between
    session_lock: bool = True  # False: no advisory lock that lasts as long as the session
    timeout_ms: int = TIMEOUT_MS  # how long a statement may take, asked again or not
    hosts: tuple[ServerHost, ...] = ()  # more than one: the next connection may find another server

    @property
    def servers(self) -> tuple[ServerHost, ...]:
        """The hosts, of which there is one at least."""
        return self.hosts or (ServerHost(self.dsn, self.shown),)


def parse_url(url: str) -> Target:
    """The parts of a postgresql:// URL, with our own options taken out; `BadUrl` says what is wrong with it.

    And quotes nothing of where a password may be, by mistake or not.
    """
    if not url.lower().startswith(("postgresql://", "postgres://")):
        raise BadUrl(f"not a PostgreSQL URL, which begins with postgresql://; {_WRITE}")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise BadUrl(f"not a PostgreSQL URL: its host can't be read; {_WRITE}; {_ENCODE}") from None
    login, at, hosts = parts.netloc.rpartition("@")
    # An @ behind the host: what was read as the host is the user, and its port the beginning of the password.
    if "#" in url or "@" in parts.path or ("@" in parts.query and not (at or parts.path)):
        raise BadUrl(f"the PostgreSQL URL has a # or an @ where none can be; {_ENCODE}")
    try:
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise BadUrl(f"what follows the ? of the PostgreSQL URL is not name=value&name=value; {_ENCODE}") from None
    if _SEMICOLON.search(parts.query):
        raise BadUrl("the options of the PostgreSQL URL are separated by &, not by ;")
    for host in hosts.split(","):
        port = _PORT.fullmatch(host)
        if port is None or (port[1] and not 0 < int(port[1]) < 65_536):
            raise BadUrl(f"a host of the PostgreSQL URL is not host:port, with a port up to 65535; {_ENCODE}")
    ours = {name: value for name, value in options if name in OURS}
    theirs = [(name, value) for name, value in options if name not in ours]
    schema = ours.get("schema", SCHEMA)
    if not _SCHEMA.fullmatch(schema):
        raise BadUrl(f"schema={schema!r}: use lower-case letters, digits and '_', at most 63, not beginning with pg_")
    cache = ours.get("statement_cache_size")
    if cache is not None and not cache.isdecimal():
        raise BadUrl(f"statement_cache_size={cache!r} is not a number")
    wanted = dict(theirs).get("target_session_attrs", WRITES)
    if wanted not in _SESSIONS:
        raise BadUrl(f"target_session_attrs={wanted!r}: there are {', '.join(_SESSIONS)}")
    is_on = {name: _switch(name, ours.get(name, "on")) for name in ("listen", "session_lock")}
    shown_login = login.partition(":")[0]
    shown = [(name, value) for name, value in options if name in _SHOWN]
    hosts_of = _hosts(parts, login + at, hosts, theirs)
    return Target(
        dsn=_join(parts._replace(netloc=login + at + hosts), theirs),
        shown=_join(parts._replace(netloc=shown_login + ("@" if shown_login else "") + hosts), shown),
        schema=schema,
        statement_cache_size=None if cache is None else int(cache),
        names_itself=any(name == "application_name" for name, _ in theirs),
        listen=is_on["listen"],
        session_lock=is_on["session_lock"],
        timeout_ms=_timeout_ms(ours.get("timeout")),
        hosts=hosts_of,
    )


def _hosts(parts: SplitResult, login: str, hosts: str, options: list[tuple[str, str]]) -> tuple[ServerHost, ...]:
    """The servers of a URL that names several; of several the one that takes writes is meant, unless it says otherwise."""
    given = dict(options)
    named = hosts.split(",") if hosts else given.get("host", "").split(",")
    if len(named) < 2:
        return ()
    ports = given.get("port", "").split(",")
    if not hosts and len(ports) not in (1, len(named)):
        raise BadUrl(
            f"the PostgreSQL URL has {len(named)} hosts and {len(ports)} ports: give one for all, or each its own"
        )
    rest = [(name, value) for name, value in options if name not in ("host", "port", "target_session_attrs")]
    rest.append(("target_session_attrs", given.get("target_session_attrs", WRITES)))
    servers = []
    for number, host in enumerate(named):
        port = ports[number % len(ports)]
        more = [] if hosts else [("host", host), *([("port", port)] if port else [])]
        dsn = _join(parts._replace(netloc=login + (host if hosts else "")), rest + more)
        servers.append(ServerHost(dsn, host if hosts or not port else f"{host}:{port}"))
    return tuple(servers)


def _switch(name: str, value: str) -> bool:
    if value not in ("on", "off"):
        raise BadUrl(
            f"{name}={value!r}: write on or off (off behind a pooler that shares sessions, and for CockroachDB)"
        )
    return value == "on"


def _timeout_ms(text: str | None) -> int:
    if text is None:
        return TIMEOUT_MS
    found = _TIMEOUT.fullmatch(text)
    length_ms = int(found[1]) * (1 if found[2] == "ms" else 1000) if found else 0
    if length_ms < TIMEOUT_MIN_MS:
        raise BadUrl(f"timeout={text!r}: write how long a statement may take, as 10s or 500ms, at least 100ms")
    return length_ms


def _join(parts: tuple[str, str, str, str, str], options: list[tuple[str, str]]) -> str:
    scheme, netloc, path, _, fragment = parts
    # urlunsplit drops the // of an empty host, which the driver insists on.
    rest = urlunsplit(("", "", path, urlencode(options, safe="/", quote_via=quote), fragment))
    return f"{scheme}://{netloc}{rest}"


# Which of the URL's hosts is the one that takes writes now?
#
# The driver asks them one after the other within one time, so that a first host which swallows packets (a primary that lost
# its power) leaves none for the second. Here the next one is asked when the one before was silent for a moment.

NEXT_S = 0.5  # for so long a host is waited for before the next is asked as well

# What a host says that is not the one to use now; any other answer is about us, and the same on all.
AWAY = (OSError, asyncpg.exceptions.TargetServerAttributeNotMatched, asyncpg.CannotConnectNowError)


class NoneServes(Exception):
    """None of the hosts can be used now."""

    def __init__(self, failed: Sequence[tuple[ServerHost, BaseException]]) -> None:
        super().__init__(", ".join(f"{host.shown}: {_why(error)}" for host, error in failed))


async def dial(hosts: Sequence[ServerHost], *, timeout_s: float, **options: Any) -> Any:
    """A connection to the first host that answers as wanted; else what is wrong, with each host named if there are several."""
    if len(hosts) == 1:
        return await asyncpg.connect(hosts[0].dsn, timeout=timeout_s, **options)
    asked: dict[asyncio.Task[Any], ServerHost] = {}
    failed: dict[ServerHost, BaseException] = {}
    rest = list(hosts)
    try:
        while rest or len(failed) < len(asked):
            waiting = [task for task in asked if asked[task] not in failed]
            if rest:
                host = rest.pop(0)
                task = asyncio.ensure_future(asyncpg.connect(host.dsn, timeout=timeout_s, **options))
                asked[task] = host
                waiting.append(task)
            done, _ = await asyncio.wait(waiting, timeout=NEXT_S if rest else None, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if error is None:
                    del asked[task]
                    return task.result()
                if not isinstance(error, AWAY):
                    raise error
                failed[asked[task]] = error
        raise NoneServes([(host, failed[host]) for host in hosts])
    finally:
        for task in asked:
            task.cancel()
        for late in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(late, asyncpg.Connection):
                late.terminate()


def _why(error: BaseException) -> str:
    if isinstance(error, asyncpg.exceptions.TargetServerAttributeNotMatched):
        return "it is not what target_session_attrs asks for (a standby takes no writes)"
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    return " ".join(str(error).split()) or type(error).__name__
