"""Layer 5. Which program is a folder with a wrangler file, and how does its Worker answer while it runs?"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wakeful.cli.app_loader import Program, unloadable
from wakeful.cli.exit_codes import USAGE, CommandError
from wakeful.values.errors import BadInput

if TYPE_CHECKING:
    from wakeful.cli.terminal_log import Say

HTTP = "WAKEFUL_WORKERS_HTTP"


def wrangler_file(folder: str) -> str:
    """The wrangler file of the folder; the command's own error when there is none."""
    from wakeful.compat.workers import config

    try:
        return str(config.read(folder).path)
    except BadInput as error:
        raise CommandError(error.message, code=error.code, exit_code=USAGE) from None


def load_worker(folder: str) -> Program:
    """The program of a Worker's folder; a `LoadError` when its code can't be imported."""
    from wakeful.compat.workers import load

    try:
        worker = load(folder)
    except BadInput as error:
        raise CommandError(error.message, code=error.code, exit_code=USAGE) from None
    except Exception as error:
        raise unloadable(Path(wrangler_file(folder)).parent.name, error) from error
    return Program(worker.module, worker.app, _beside(worker))


def _beside(worker: Any) -> Any:
    from wakeful.compat.workers.site import ADDRESS, serving

    @asynccontextmanager
    async def beside(say: "Say") -> AsyncIterator[None]:
        address = os.environ.get(HTTP)
        async with serving(worker, address or ADDRESS, next_port=address is None) as url:
            say.event("worker", f"{worker.config.name} at {url}", url=url)
            for name in worker.config.deleted:
                say.event("worker", f"the objects of {name} stay in the store; deleted_classes deletes nothing here")
            yield

    return beside
