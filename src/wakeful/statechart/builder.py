"""Layer 1, pure. How is a chart written in Python, so that an editor completes it and a type checker reads it?

Each function gives the piece of XState's config that it is named after, so what is built can be printed, kept as JSON,
and mixed with config written by hand.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Config = dict[str, Any]
Actions = str | Config | Sequence[str | Config]
Way = str | Config  # a target, or `to(…)`
Ways = Way | Sequence[Way]
Delay = int | str


def to(
    target: str | Sequence[str] | None = None,
    *,
    guard: str | Config | None = None,
    actions: Actions = (),
    reenter: bool = False,
) -> Config:
    """A transition: where to, if the guard says so, doing what on the way. Without a target it only acts."""
    targets = target if target is None or isinstance(target, str) else list(target)
    return _without_none(target=targets, guard=guard, actions=_list_of(actions), reenter=reenter or None)


def invoke(
    src: str,
    *,
    id: str | None = None,
    input: Any = None,
    done: Ways | None = None,
    error: Ways | None = None,
    snapshot: Ways | None = None,
) -> Config:
    """An actor that runs while its state is active: a method of the class, or another machine."""
    return _without_none(src=src, id=id, input=input, onDone=done, onError=error, onSnapshot=snapshot)


def state(
    *,
    on: Mapping[str, Ways] | None = None,
    after: Mapping[Delay, Ways] | None = None,
    always: Ways | None = None,
    entry: Actions = (),
    exit: Actions = (),
    invoke: Config | Sequence[Config] | None = None,
    initial: str | None = None,
    states: Mapping[str, Config] | None = None,
    done: Ways | None = None,
    tags: Sequence[str] = (),
    meta: Any = None,
    id: str | None = None,
) -> Config:
    """A state; with `states` in it and an `initial` one, a compound state."""
    return _without_none(
        id=id,
        initial=initial,
        states=None if states is None else dict(states),
        on=None if on is None else dict(on),
        after=None if after is None else {str(delay): ways for delay, ways in after.items()},
        always=always,
        entry=_list_of(entry),
        exit=_list_of(exit),
        invoke=invoke if invoke is None or isinstance(invoke, dict) else list(invoke),
        onDone=done,
        tags=list(tags) or None,
        meta=meta,
    )


def parallel(states: Mapping[str, Config], **options: Any) -> Config:
    """A state whose regions are all active at once; `options` as those of `state`."""
    return {"type": "parallel", **state(states=states, **options)}


def final(*, output: Any = None, **options: Any) -> Config:
    """A state in which its parent is done; `output` is what comes of it."""
    return {"type": "final", **state(**options), **_without_none(output=output)}


def history(*, deep: bool = False, target: str | None = None) -> Config:
    """The way back to where the parent was; to `target` when it has never been active."""
    return {"type": "history", **_without_none(history="deep" if deep else None, target=target)}


def build(
    states: Mapping[str, Config],
    *,
    id: str | None = None,
    initial: str | None = None,
    context: Mapping[str, Any] | None = None,
    output: Any = None,
    **options: Any,
) -> Config:
    """A whole chart; without an `initial` state all of them are active at once."""
    root = parallel(states, **options) if initial is None else state(initial=initial, states=states, **options)
    return {**_without_none(id=id, context=None if context is None else dict(context), output=output), **root}


def _without_none(**parts: Any) -> Config:
    """What was given, and nothing else."""
    return {name: part for name, part in parts.items() if part is not None}


def _list_of(actions: Actions) -> list[Any] | None:
    return [actions] if isinstance(actions, str | dict) else list(actions) or None
