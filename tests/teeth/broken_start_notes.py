"""Start notes and marks, broken on purpose: each of these is a mistake that somebody could make."""

from typing import Any

from tests.teeth.broken import swapped
from wakeful.runtime.start_notes import StartNotes
from wakeful.store.protocol import RunMark


def marks_that_nobody_reads() -> Any:
    """The next process claims, and never looks at what the one before it was running."""

    def make(take_over: Any) -> Any:
        async def broken(self: StartNotes) -> None:
            store = self._env.store
            if store.run_marks is not None:
                store.run_marks.clear()
            await take_over(self)

        return broken

    return swapped(StartNotes, "take_over", make)


def a_mark_goes_when_its_handler_ends() -> Any:
    """Its place is free before what came of it is on disk."""

    def make(end: Any) -> Any:
        def broken(self: StartNotes, timer: Any) -> None:
            end(self, timer)
            self.take_back(timer)

        return broken

    return swapped(StartNotes, "end", make)


def a_mark_is_of_whatever_has_the_name() -> Any:
    """A timer that was set anew since, or is tried again later, is blamed for the one before it."""
    return swapped(RunMark, "is_of", lambda is_of: lambda self, timer: True)


def what_has_no_place_begins_without_a_note() -> Any:
    """More run than there are places, and nothing is noted of the rest."""

    def make(begin: Any) -> Any:
        def broken(self: StartNotes, *args: Any) -> bool:
            begin(self, *args)
            return True

        return broken

    return swapped(StartNotes, "begin", make)


def who_lingers_is_never_noted() -> Any:
    """A handler that goes on for an hour looks as if it had not begun, and keeps its place."""
    return swapped(StartNotes, "_note", lambda note: lambda self, run: None)


def marks_outlive_a_clean_end() -> Any:
    """A stop is taken for a death by the next process."""
    return swapped(StartNotes, "drop", lambda drop: lambda self: None)


def marks_name_what_was_forgotten() -> Any:
    """The key of an object that is gone can be read beside the database."""
    return swapped(StartNotes, "forget", lambda forget: lambda self, gone: None)


def who_waits_for_another_program_has_begun() -> Any:
    """A timer of an object that is newer than this program is blamed when the process dies later."""
    return swapped(StartNotes, "take_back", lambda take_back: lambda self, timer: None)
