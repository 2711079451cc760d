"""Where bindings on Wakeful answer otherwise than miniflare's, on purpose: the words of docs/cloudflare.md that tell of it."""

DIFFERENCES: dict[str, str] = {
    "d1: parameters": "Whole numbers and truth values are bound as integers",
    "queue: acked and raised": "all comes again but what was acknowledged",
    "workflow: a retry that waits": "miniflare calls that `running`",
    "workflow: while it sleeps": "miniflare calls that `running`",
    "workflow: terminate": "miniflare calls that `running`",
    "workflow: an id twice": "miniflare takes it for the one that is there",
}
