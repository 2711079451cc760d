"""What is asked of workflows, on miniflare and on Wakeful: each scenario a workflow of its own, whose body does what it is told."""

from typing import Any

Steps = list[list[Any]]
ONCE = {"retries": {"limit": 0, "delay": 0}}


def _plan(*acts: list[Any], ms: int = 1_500, **more: Any) -> Steps:
    """One instance that does this, and how it stands after a while."""
    return [["create", "a", {"params": {"plan": list(acts), **more}}], ["wait", ms], ["status", "a"]]


def _odd(*configs: Any) -> list[list[Any]]:
    return [["try", "do", f"step {n}", 1, config] for n, config in enumerate(configs)]


WORKFLOWS: dict[str, Steps] = {
    "steps": _plan(["do", "a", 1], ["do", "b", {"c": [None, "x"]}], ["do", "c", None]),
    "no steps": _plan(),
    "names twice": _plan(["context", "a"], ["context", "b"], ["context", "a"]),
    "the event": _plan(["event"], note="x"),
    "retries": _plan(["attempts", "a", 3, {"retries": {"limit": 2, "delay": 50, "backoff": "constant"}}], ms=6_000),
    "retries that are too few": _plan(["attempts", "a", 3, {"retries": {"limit": 1, "delay": 50}}]),
    "delays": _plan(
        ["attempts", "a", 3, {"retries": {"limit": 5, "delay": 50, "backoff": "linear"}}],
        ["attempts", "b", 3, {"retries": {"limit": 5, "delay": "50", "backoff": "exponential"}}],
        ["attempts", "c", 2, {"retries": {"limit": 1, "delay": "0 seconds"}}],
        ms=9_000,
    ),
    "a retry that waits": [*_plan(["attempts", "a", 2, {"retries": {"limit": 1, "delay": "4 seconds"}}]), ["wait", 4_500], ["status", "a"]],
    "errors that are caught": _plan(
        ["try", "fail", "a", "TypeError", "no"], ["try", "fail", "b", "NonRetryableError", "no"], ["do", "c", 1]
    ),
    "what is not tried again": _plan(
        ["try", "fail", "a", "NonRetryableError", "no", {"retries": {"limit": 9, "delay": "1 hour"}}], ["do", "b", 1]
    ),
    "an error that ends it": _plan(["do", "a", 1], ["fail", "b", "TypeError", "no"], ["do", "c", 1]),
    "one that is not tried again and ends it": _plan(["fail", "a", "NonRetryableError", "no"]),
    "a body that raises": _plan(["do", "a", 1], ["raise", "TypeError", "no"]),
    "timeouts": _plan(
        ["slow", "a", 10, {"timeout": "1 second"}], ["try", "slow", "b", 6_000, {"timeout": "1 second", **ONCE}], ms=9_000
    ),
    "configs that can't be": _plan(
        *_odd(
            {"retries": {"limit": 1}}, {"retries": {"delay": 1}}, {"retries": {"limit": -1, "delay": 1}}, {"timeout": 0},
            {"retries": {"limit": 1, "delay": "soon"}}, {"retries": {"limit": 1, "delay": 1, "backoff": "no"}}, {"tries": 1},
            {"timeout": -1}, {"retries": {"limit": 1.5, "delay": 0.5}}, {"timeout": "1 hour"},
        )
    ),
    "names of steps": _plan(["do", "x" * 256, 1], ["try", "do", "x" * 257, 1], ["try", "do", "a\nb", 1], ["do", "é, ", 1]),
    "sleeps": _plan(["do", "a", 1], ["sleep", "b", 100], ["sleep", "c", "0 seconds"], ["until", "d", 5_000], ["do", "e", 1], ms=9_000),
    "a sleep until the past": _plan(["try", "until", "a", -1_000], ["do", "b", 1]),
    "while it sleeps": [*_plan(["sleep", "a", 4_000], ["do", "b", 1]), ["wait", 4_500], ["status", "a"]],
    "an event that comes early": [
        ["create", "a", {"params": {"plan": [["sleep", "a", 600], ["wait", "b", "x"], ["wait", "c", "x"]]}}], ["wait", 100],
        ["sendEvent", "a", {"type": "x", "payload": {"n": 1}}], ["sendEvent", "a", {"type": "x", "payload": 2}],
        ["wait", 2_500], ["status", "a"],
    ],
    "an event that comes late": [
        ["create", "a", {"params": {"plan": [["wait", "b", "x", "1 minute"], ["do", "c", 1]]}}], ["wait", 1_000],
        ["sendEvent", "a", {"type": "y", "payload": 0}], ["sendEvent", "a", {"type": "x", "payload": [1]}], ["wait", 1_000], ["status", "a"],
    ],
    "an event that does not come": _plan(["try", "wait", "a", "x", 200], ["do", "b", 1], ms=2_500),
    "an event that ends it by not coming": _plan(["wait", "a", "x", 200], ms=2_500),
    "ids": [
        ["create", "a_B-9"], ["create", "a b"], ["create", ""], ["create", "-a"], ["create", "x" * 100], ["create", "x" * 101],
        ["create", "é"], ["wait", 1_000], ["get", "a_B-9"], ["get", "b"], ["status", "x" * 100],
    ],
    "an id twice": [["create", "a", {"params": {"plan": [["do", "a", 1]]}}], ["wait", 1_000], ["create", "a"], ["wait", 200], ["status", "a"]],
    "batches": [
        ["createBatch", [{"id": "a"}, {"id": "b", "params": {"plan": [["do", "x", "b"]]}}]], ["wait", 1_500], ["status", "a"],
        ["status", "b"], ["createBatch", []], ["createBatch", [{"id": "c d"}]],
    ],
    "terminate": [*_plan(["sleep", "a", "1 hour"]), ["terminate", "a"], ["wait", 1_000], ["status", "a"], ["terminate", "a"], ["status", "a"]],
    "terminate what is over": [*_plan(["do", "a", 1]), ["terminate", "a"], ["status", "a"]],
    "pause and resume": [
        *_plan(["do", "a", 1], ["sleep", "b", 1_800], ["do", "c", 1], ms=900)[:2], ["pause", "a"], ["wait", 1_000], ["status", "a"],
        ["resume", "a"], ["wait", 4_000], ["status", "a"],
    ],
    "pause what is over": [*_plan(["do", "a", 1]), ["pause", "a"], ["resume", "a"], ["status", "a"]],
    "restart": [*_plan(["context", "a"]), ["restart", "a"], ["wait", 1_500], ["status", "a"]],
    "restart what failed": [*_plan(["fail", "a", "TypeError", "no"]), ["restart", "a"], ["wait", 1_500], ["status", "a"]],
}  # fmt: skip
