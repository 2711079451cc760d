"""Layer 5. Durable Objects and Workers written in Python for Cloudflare, run as they are.

    worker = wakeful.compat.workers.load("my-worker")     # the folder with wrangler.toml, .json or .jsonc
    async with worker.app.run("sqlite:worker.db"):
        response = await worker.fetch(Request("http://localhost/"))

`wakeful dev --workers my-worker` serves it. docs/cloudflare.md says what differs from Cloudflare, and why.
"""

from wakeful.compat.workers.config import Config
from wakeful.compat.workers.entrypoints import DurableObject, WorkerEntrypoint
from wakeful.compat.workers.web import Headers, Request, Response
from wakeful.compat.workers.worker import Worker, WorkersApp, load

__all__ = [
    "Config",
    "DurableObject",
    "Headers",
    "Request",
    "Response",
    "Worker",
    "WorkerEntrypoint",
    "WorkersApp",
    "load",
]
