"""Layer 0. What can a handler return that is more than a result, and is it what this kind of run understands?"""

from typing import Literal

from wakeful.values.errors import BadHandler

Kind = Literal["alarm", "job", "schedule"]

# What each kind of run does not understand, and how the same is said there.
_INSTEAD: dict[Kind, dict[str, str]] = {
    "alarm": {
        "Again": "set it again with storage.set_alarm(…)",
        "Next": "set it again with storage.set_alarm(…)",
        "Stop": "return nothing, and it stays over",
    },
    "job": {"Next": "return Again(after=…) to run once more"},
    "schedule": {
        "Again": "return Next(after=…) for another time",
        "Stop": "end the schedule with schedules.cancel(name)",
    },
}


class HandlerAnswer:
    """The base of what one kind of run takes as a wish, and every other would take for a result and lose."""

    __slots__ = ()


def check_answer(answer: object, kind: Kind, who: str) -> None:
    """`BadHandler` when it is the answer of another kind of run: a failed attempt is seen, a lost wish is not."""
    if not isinstance(answer, HandlerAnswer):
        return
    name = type(answer).__name__
    instead = _INSTEAD[kind].get(name)
    if instead is not None:
        article = "an" if kind == "alarm" else "a"
        raise BadHandler(
            f"{who} returned {name}, which {article} {kind} does not know; {instead}", code="handler.answer"
        )
