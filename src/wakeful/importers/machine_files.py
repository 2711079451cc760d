"""Layer 5. Which machines are in a file?"""

from pathlib import Path
from typing import Any

from wakeful.importers import actorkit, xstate
from wakeful.importers.findings import FoundMachine, bad, parse_json
from wakeful.importers.sqlite import MAGIC, Tables
from wakeful.values.errors import BadOption

FORMS = ("xstate", "actor-kit")
BYTES_MAX = 256 * 1024 * 1024


def read(path: Path, form: str) -> list[FoundMachine]:
    """The machines in a file of that form, in the order of the file; errors name the place."""
    if form not in FORMS:
        raise BadOption(f"there is no form {form!r}; there are {', '.join(FORMS)}", code="import.form")
    name = str(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
        if head == MAGIC:
            if form == "xstate":
                raise bad(name, "this is an SQLite file, not a snapshot of XState; is it --as actor-kit?")
            return actorkit.read_tables(Tables(path), name)
        if size > BYTES_MAX:
            raise bad(name, f"it has {size:,} bytes; {BYTES_MAX:,} is the most")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise bad(name, f"it can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise bad(name, "it is neither SQLite nor text in UTF-8") from None
    return _read_json(parse_json(text, name), name, form)


def _read_json(data: Any, name: str, form: str) -> list[FoundMachine]:
    several = data if isinstance(data, list) else [data]
    if not several:
        raise bad(name, "there is nothing in it")
    one = xstate.read if form == "xstate" else actorkit.read_keys
    return [one(each, f"{name}[{place}]" if isinstance(data, list) else name) for place, each in enumerate(several)]
