"""Layer 5. With what does a command enter a cluster: which secret, which certificates?

From the environment for every command that talks to nodes; `wakeful run` has options for it as well. A secret is
never an argument: every user of the machine can read those.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from wakeful.cli.exit_codes import USAGE, CommandError
from wakeful.cli.settings import setting

if TYPE_CHECKING:
    from wakeful.transport.tls import Tls

F = TypeVar("F", bound=Callable[..., Any])

SECRET, SECRET_FILE = "WAKEFUL_SECRET", "WAKEFUL_SECRET_FILE"
TLS = ("WAKEFUL_TLS_CERT", "WAKEFUL_TLS_KEY", "WAKEFUL_TLS_CA")


class Pass(NamedTuple):
    """What a node or a command shows to be let in."""

    secret: str | None
    tls: "Tls | None"


def pass_of(
    secret_file: str | None = None, cert: str | None = None, key: str | None = None, ca: str | None = None
) -> Pass:
    """From these options, and from the environment what they leave open."""
    from wakeful.transport.tls import Tls

    given = [option or os.environ.get(name) for option, name in zip((cert, key, ca), TLS, strict=True)]
    if any(given) and not all(given):
        names = ("--tls-cert", "--tls-key", "--tls-ca")
        missing = [name for name, value in zip(names, given, strict=True) if not value]
        raise CommandError(
            f"TLS needs three files, and {' and '.join(missing)} is missing; give all of {', '.join(names)}",
            code="tls.files",
            exit_code=USAGE,
        )
    tls = Tls(*map(str, given)) if all(given) else None
    return Pass(_secret(secret_file), tls)


def _secret(option: str | None) -> str | None:
    """Of the option, else of the environment; who sets it there in both ways, and differently, has to choose."""
    text, file = os.environ.get(SECRET) or None, os.environ.get(SECRET_FILE)
    if option and option != file:
        return _read(option)
    from_file = _read(file) if file else None
    if text is not None and from_file not in (None, text):
        raise CommandError(
            f"${SECRET} and ${SECRET_FILE} are both set and not the same; unset one of them",
            code="secret.both",
            exit_code=USAGE,
        )
    return from_file or text


def _read(file: str) -> str:
    try:
        secret = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        because = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CommandError(
            f"the secret file {file} can't be read: {because}; make one: openssl rand -hex 32 > {file}",
            code="secret.file",
            exit_code=USAGE,
        ) from None
    if not secret:
        raise CommandError(
            f"the secret file {file} is empty; fill it: openssl rand -hex 32 > {file}",
            code="secret.file",
            exit_code=USAGE,
        )
    return secret


def join_options(
    url: str,
    listen: str | None,
    advertise: str | None,
    cluster: str | None,
    let_in: Pass,
    *,
    lease: str | None = None,
) -> dict[str, Any]:
    """The options of `App.run` that make the node one of a cluster; none where they were not given."""
    from wakeful.store import open_url

    listen = listen or os.environ.get("WAKEFUL_LISTEN")
    advertise = advertise or os.environ.get("WAKEFUL_ADVERTISE")
    cluster = cluster or os.environ.get("WAKEFUL_CLUSTER")
    if advertise is not None and listen is None:
        raise CommandError(
            "--advertise says what others dial, so give --listen HOST:PORT too", code="address.listen", exit_code=USAGE
        )
    given: dict[str, Any] = {"listen": listen, "advertise": advertise, "cluster": cluster}
    given["lease"] = lease or os.environ.get("WAKEFUL_LEASE") or None
    if open_url(url).shared:
        given |= {"secret": let_in.secret, "tls": let_in.tls}
    return {name: value for name, value in given.items() if value is not None}


def _refuse(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise CommandError(
            "a secret on the command line can be read by every user of this machine; put it in a file and give "
            f"--secret-file FILE, or set ${SECRET}",
            code="secret.argument",
            exit_code=USAGE,
        )


def options(function: F) -> F:
    """--secret-file, --tls-cert, --tls-key, --tls-ca, and --secret, which is refused with the reason."""
    for name, env, text in (
        ("--tls-ca", TLS[2], f"The authority that signed the nodes' certificates.  [${TLS[2]}]"),
        ("--tls-key", TLS[1], f"The key of the certificate.  [${TLS[1]}]"),
        ("--tls-cert", TLS[0], f"This node's certificate: nodes talk over TLS.  [${TLS[0]}]"),
        (
            "--secret-file",
            SECRET_FILE,
            f"The cluster's secret, the same on all nodes.  [${SECRET_FILE}, or the text in ${SECRET}]",
        ),
    ):
        rival = SECRET if env == SECRET_FILE else ""
        function = setting(name, env=env, rival=rival, metavar="FILE", help=text)(function)
    refused = setting(
        "--secret", env=SECRET, rival=SECRET_FILE, is_secret=True, hidden=True, expose_value=False, callback=_refuse
    )
    return refused(function)
