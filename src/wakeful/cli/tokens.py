"""Layer 5. `wakeful tokens`: who may talk to the server, and until when?"""

import asyncio
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from wakeful.cli import options
from wakeful.cli.exit_codes import FAILED, OK, USAGE, CommandError, one_line

if TYPE_CHECKING:
    from wakeful.security.tokens import Token


@click.group("tokens")
def tokens() -> None:
    """Make, list and revoke the tokens that the HTTP server and the dashboard ask for.

    Without any the server is open to this machine, and to nobody else. All take --store and --json.
    """


@options.command("create")
@click.argument("name", metavar="NAME")
@click.option(
    "--scope",
    "scope",
    metavar="SCOPES",
    default="call,read",
    show_default=True,
    help="call, read, operate, admin; several joined by commas. operate includes read, admin includes all.",
)
@click.option("--tenant", metavar="PREFIX", help="Only objects whose keys begin so, like eu/.")
@click.option("--expires", metavar="LENGTH", help="When it ends by itself, like 90d; without it, never.")
@click.option("--rate", type=click.FloatRange(0.01, 1_000_000), metavar="N", help="At most N requests a second.")
@options.store_option
def create(
    name: str, scope: str, tenant: str | None, expires: str | None, rate: float | None, url: str, as_json: bool
) -> None:
    """Make a token and print it, once: only its hash is kept."""
    asyncio.run(_create(name, scope, tenant, expires, rate, url, as_json))


async def _create(
    name: str, scope: str, tenant: str | None, expires: str | None, rate: float | None, url: str, as_json: bool
) -> None:
    from msgspec import to_builtins

    from wakeful.cli.output import iso, now_ms, put_json, put_line
    from wakeful.cli.session import acting_on_reserved
    from wakeful.security.scopes import check_tenant, parse_scopes
    from wakeful.security.tokens import ALL, PREFIX, VEIL, Token, check_name, new_secret
    from wakeful.values.times import duration_ms

    text, id, hashed = new_secret(PREFIX, secrets.token_bytes)
    async with acting_on_reserved(url, makes=True) as acts:
        now = now_ms()
        token = Token(
            id=id,
            name=check_name(name),
            hash=hashed,
            scopes=parse_scopes(scope),
            tenant=check_tenant(tenant),
            rate=rate,
            created_at=now,
            created_by=acts.actor,
            expires_at=None if expires is None else now + duration_ms(expires, what="--expires"),
        )
        detail = {"id": id, "scopes": list(token.scopes), "tenant": token.tenant, "expires_at": iso(token.expires_at)}
        async with acts.row("token.create", name, detail):
            await acts.send(ALL, "create", (to_builtins(token) | {VEIL: secrets.token_bytes(32)},), {})
    if as_json:
        put_json({"token": text, **_plain(token, now)})
        return
    put_line(text)
    until = "for ever" if token.expires_at is None else f"until {iso(token.expires_at)}"
    where = "" if token.tenant is None else f", objects whose keys begin with {token.tenant}"
    click.echo(
        f"{name}: {', '.join(token.scopes)}{where}, {until}. It is shown this once; keep it where secrets are kept.",
        err=True,
    )


@options.command("list")
@click.option("--all", "everything", is_flag=True, help="Also those that are revoked or expired.")
@options.store_option
def listing(everything: bool, url: str, as_json: bool) -> None:
    """The tokens there are, by name; never what they are."""
    asyncio.run(_list(everything, url, as_json))


async def _list(everything: bool, url: str, as_json: bool) -> None:
    from wakeful.cli.output import clock_time, now_ms, put_json, put_line, put_table, relative
    from wakeful.cli.session import reading
    from wakeful.security.tokens import tokens_of

    async with reading(url) as store:
        known = await tokens_of(store)
    now = now_ms()
    shown = [token for token in known if everything or token.state(now) == "active"]
    if as_json:
        put_json([_plain(token, now) for token in shown])
        return
    if not shown:
        hint = "; --all shows those that are over" if known else ", so the server is open to this machine alone"
        put_line(f"no tokens{hint}", "dim")
        return
    rows: list[tuple[Any, ...]] = [
        (
            token.name,
            token.id,
            ",".join(token.scopes),
            token.tenant or "all",
            token.state(now),
            "never" if token.expires_at is None else relative(token.expires_at, now),
            "never" if token.used_at is None else relative(token.used_at, now),
            f"{clock_time(token.created_at)} by {token.created_by}",
        )
        for token in shown
    ]
    put_table(["name", "id", "scopes", "keys", "state", "expires", "used", "…created"], rows)


@options.command("revoke")
@click.argument("names", metavar="NAME|ID...", nargs=-1, required=True)
@options.store_option
def revoke(names: tuple[str, ...], url: str, as_json: bool) -> int:
    """End tokens, and the dashboard's sessions with them; servers refuse them within a second or two.

    Exit code 1 if there is no active token of one of the names.
    """
    return asyncio.run(_revoke(names, url, as_json))


class UnknownToken(CommandError):
    """There is no active token of that name."""


async def _revoke(names: tuple[str, ...], url: str, as_json: bool) -> int:
    from wakeful.cli.output import put_json, put_line
    from wakeful.cli.session import acting_on_reserved
    from wakeful.security.tokens import ALL

    ended: dict[str, list[str]] = {}
    async with acting_on_reserved(url) as acts:
        for name in names:
            with suppress(UnknownToken):  # so that the audit row says that nothing was done
                async with acts.row("token.revoke", name):
                    ended[name] = await acts.send(ALL, "revoke", (name,), {})
                    if not ended[name]:
                        raise UnknownToken(f"there is no active token {name}", code="token.unknown")
    if as_json:
        put_json([{"name": name, "revoked": found} for name, found in ended.items()])
    else:
        for name, found in ended.items():
            for one in found:
                put_line(one_line(f"{one} is revoked"), "green")
            if not found:
                put_line(
                    one_line(f"there is no active token {name}; wakeful tokens list shows those there are"), "yellow"
                )
    return OK if all(ended.values()) else FAILED


@options.command("clear")
@click.option("--yes", is_flag=True, help="Do it.")
@options.store_option
def clear(yes: bool, url: str, as_json: bool) -> None:
    """Forget all tokens, also those that are over: the server is open to this machine again, without a token."""
    if not yes:
        raise CommandError(
            "this ends every token and lets everybody on this machine in without one; say --yes if that is meant",
            code="tokens.clear",
            exit_code=USAGE,
        )
    asyncio.run(_clear(url, as_json))


async def _clear(url: str, as_json: bool) -> None:
    from wakeful.cli.output import many, put_json, put_line
    from wakeful.cli.session import acting_on_reserved
    from wakeful.security.tokens import ALL

    async with acting_on_reserved(url) as acts, acts.row("token.clear", "all tokens"):
        count = await acts.send(ALL, "clear", (), {})
    if as_json:
        put_json({"cleared": count})
    else:
        put_line(f"{many(count, 'token')} forgotten; the server is open to this machine alone", "green")


def _plain(token: "Token", now: int) -> dict[str, Any]:
    """For programs: all but the hash."""
    from wakeful.cli.output import iso

    return {
        "id": token.id,
        "name": token.name,
        "scopes": list(token.scopes),
        "tenant": token.tenant,
        "rate": token.rate,
        "state": token.state(now),
        "created_at": iso(token.created_at),
        "created_by": token.created_by,
        "expires_at": iso(token.expires_at),
        "revoked_at": iso(token.revoked_at),
        "used_at": iso(token.used_at),
    }


@options.command("object")
@click.argument("cls", metavar="CLASS")
@click.argument("key", metavar="KEY")
@click.option(
    "--method", "methods", multiple=True, metavar="NAME", help="A method that it may call; on_connect: a WebSocket."
)
@click.option("--event", "events", multiple=True, metavar="TYPE", help="An event that it may send to a machine.")
@click.option("--ttl", default="1h", show_default=True, metavar="LENGTH", help="When it ends by itself; 7d at most.")
@click.option("--name", default="client", show_default=True, metavar="NAME", help="Whom it is for: object:NAME.")
@options.store_option
def for_object(
    cls: str, key: str, methods: tuple[str, ...], events: tuple[str, ...], ttl: str, name: str, url: str, as_json: bool
) -> None:
    """Make a token for one object and print it; without --method it is for watching a machine.

    It is signed and not kept: it ends by itself, or with all others by `wakeful tokens rotate`.
    """
    asyncio.run(_for_object(cls, key, methods or ("snapshot",), events or None, ttl, name, url, as_json))


async def _for_object(
    cls: str,
    key: str,
    methods: tuple[str, ...],
    events: tuple[str, ...] | None,
    ttl: str,
    name: str,
    url: str,
    as_json: bool,
) -> None:
    from wakeful.cli.output import iso, now_ms, put_json, put_line
    from wakeful.cli.session import acting_on_reserved
    from wakeful.security.object_tokens import check_grant
    from wakeful.security.scopes import check_object
    from wakeful.security.tokens import issue
    from wakeful.values.times import duration_ms

    ttl_ms = duration_ms(ttl, what="--ttl")
    fields = check_grant(check_object(cls, key), None, methods, events, name, ttl_ms)
    await _check_class(url, cls)
    expires_at = now_ms() + ttl_ms
    detail = {"methods": list(fields["methods"]), "events": events, "name": name, "expires_at": iso(expires_at)}
    async with acting_on_reserved(url, makes=True) as acts, acts.row("token.object", f"{cls}/{key}", detail):
        text = await issue(acts.send, secrets.token_bytes, fields, expires_at)
    if as_json:
        put_json({"token": text, "class": cls, "key": key, **detail})
    else:
        put_line(text)
        which = f" (events {', '.join(events)})" if events else ""
        click.echo(f"for {', '.join(fields['methods'])}{which} of {cls}/{key}, until {iso(expires_at)}", err=True)


async def _check_class(url: str, cls: str) -> None:
    """`UnknownClass` when processes run the store and none of them has it; where none can be asked, nobody knows."""
    from wakeful.cli.known_names import meant
    from wakeful.cli.node_access import statuses
    from wakeful.cli.session import reading
    from wakeful.values.errors import StoreError, UnknownClass

    try:
        async with reading(url) as store:
            said = await statuses(store, await store.nodes())
    except StoreError:  # it is made with the first token
        return
    known = sorted({name for status in said.values() for name in status["classes"]})
    if said and cls not in known:
        hint = meant(cls, known) or f"; they have {', '.join(known[:10])}"
        raise UnknownClass(f"no process that runs the store has a class {cls!r}{hint}", code="class.unknown")


@options.command("rotate")
@click.option("--yes", is_flag=True, help="Do it.")
@options.store_option
def rotate(yes: bool, url: str, as_json: bool) -> None:
    """End all tokens for single objects: those of `wakeful tokens object` and `app.token`. Others stay."""
    if not yes:
        words = "this ends every token for a single object, and what is open with one; say --yes if that is meant"
        raise CommandError(words, code="tokens.rotate", exit_code=USAGE)
    asyncio.run(_rotate(url, as_json))


async def _rotate(url: str, as_json: bool) -> None:
    from wakeful.cli.output import put_json, put_line
    from wakeful.cli.session import acting_on_reserved
    from wakeful.security.tokens import ALL, new_signing_key

    async with acting_on_reserved(url, makes=True) as acts, acts.row("token.rotate", "tokens for single objects"):
        made = await acts.send(ALL, "signing", (new_signing_key(secrets.token_bytes),), {"is_new": True})
    if as_json:
        put_json({"signed_by": made["id"]})
    else:
        put_line("tokens for single objects are over; the next are signed under another key", "green")


for _command in (create, listing, revoke, clear, for_object, rotate):
    tokens.add_command(_command)
