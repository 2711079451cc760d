"""Layer 4. Which statements are in a text of SQL, and what may each of them do?"""

import re
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from wakeful.values.errors import BadSql, LimitExceeded

TEXT_CHARS_MAX = 100_000  # one text; what is longer has values in it that belong into arguments
RESERVED = ("_cf_", "_wakeful_")  # names of tables and the like that begin so
_CACHED_CHARS_MAX = 2_000

_TOKEN = re.compile(
    r"""
      (?P<blank>\s+ | --[^\n]* | /\*.*?(?:\*/|\Z))
    | (?P<quoted>'[^']*(?:''[^']*)*(?:'|\Z) | "[^"]*(?:""[^"]*)*(?:"|\Z) | `[^`]*(?:``[^`]*)*(?:`|\Z) | \[[^\]]*(?:\]|\Z))
    | (?P<end>;)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_READING = frozenset({"SELECT", "VALUES", "EXPLAIN"})
_CHANGING = frozenset({"INSERT", "UPDATE", "DELETE"})  # reserved words: without quotes they are nothing else
# Pragmas that are about the transaction, or that write: the turn's transaction must be open for them.
_PRAGMAS_INSIDE = frozenset({"DEFER_FOREIGN_KEYS", "OPTIMIZE"})
_TURN = "a turn is the transaction: it commits as a whole, and a raise undoes it. Inside one, use ctx.transaction()"
_REFUSED = {
    **dict.fromkeys(("BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"), _TURN),
    **dict.fromkeys(("ATTACH", "DETACH"), "an object has one database, its own"),
}


class SqlStatement(NamedTuple):
    """One statement: its text, its first word, whether it only reads, and why it is refused, if it is."""

    sql: str
    verb: str
    only_reads: bool
    refusal: str | None


def split(text: object) -> tuple[SqlStatement, ...]:
    """The statements of a text in their order, at least one; `BadSql` when there is none."""
    if type(text) is not str:
        raise BadSql(f"a query is text, not {type(text).__name__}", code="sql.text")
    if len(text) > TEXT_CHARS_MAX:
        raise LimitExceeded(
            f"a text of SQL has {len(text)} characters, {len(text) - TEXT_CHARS_MAX} more than the limit of "
            f"{TEXT_CHARS_MAX}; give values as arguments",
            code="limit.sql_text",
        )
    found = _split_cached(text) if len(text) <= _CACHED_CHARS_MAX else _split(text)
    if not found:
        raise BadSql("there is no statement in this text", code="sql.text")
    return found


def _split(text: str) -> tuple[SqlStatement, ...]:
    if "\0" in text:
        raise BadSql("a text of SQL with a NUL in it ends there; give values as arguments", code="sql.text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadSql("a text of SQL that is not valid Unicode can't be one", code="sql.text") from None
    statements: list[SqlStatement] = []
    start = 0
    tokens: list[str] = []  # of the statement so far, in capitals; what was quoted has a quote before it
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "blank":
            continue
        if kind != "end":
            tokens.append(f"'{match[0][1:-1].upper()}" if kind == "quoted" else match[0].upper())
        elif _is_inside_trigger(tokens):
            tokens.append(";")
        else:
            if tokens:
                statements.append(_statement(text[start : match.start()].strip(), tokens))
            start, tokens = match.end(), []
    if tokens:
        statements.append(_statement(text[start:].strip(), tokens))
    return tuple(statements)


_split_cached = lru_cache(maxsize=512)(_split)


def _bare(tokens: list[str]) -> list[str]:
    """Without an EXPLAIN in front."""
    if tokens[:3] == ["EXPLAIN", "QUERY", "PLAN"]:
        return tokens[3:]
    return tokens[1:] if tokens[:1] == ["EXPLAIN"] else tokens


def _is_inside_trigger(tokens: list[str]) -> bool:
    """A semicolon here does not end the statement: a trigger ends with END after one."""
    head = _bare(tokens)[:3]
    if head[:1] != ["CREATE"] or "TRIGGER" not in head:
        return False
    return tokens[-2:] != [";", "END"]


def _statement(sql: str, tokens: list[str]) -> SqlStatement:
    verb = tokens[0]
    return SqlStatement(sql, verb, _only_reads(tokens), _refusal(tokens))


def _only_reads(tokens: list[str]) -> bool:
    verb = tokens[0]
    if verb == "PRAGMA":
        return not _PRAGMAS_INSIDE.intersection(tokens[1:4])
    if verb == "WITH":
        is_replacing = any(pair == ("REPLACE", "INTO") for pair in pairwise(tokens))
        return not is_replacing and _CHANGING.isdisjoint(tokens)
    return verb in _READING


def _refusal(tokens: list[str]) -> str | None:
    if tokens[0] == "VACUUM" and "INTO" in tokens:
        return "an object writes no files; export it instead"
    if tokens[0] == "ALTER" and "RENAME" in tokens:  # of the new name SQLite asks nobody
        return judge_name(tokens[-1].removeprefix("'"))
    return _REFUSED.get(tokens[0])


def judge_name(name: str | None) -> str | None:
    """Why nothing may be called that, if so."""
    if name is not None and name.lower().startswith(RESERVED):
        return f"{name.lower()!r}: names that begin with {' or '.join(RESERVED)} are reserved"
    return None


def short(sql: str) -> str:
    """A statement on one line, in words of an error."""
    text = " ".join(sql.split())
    return text if len(text) <= 80 else f"{text[:79]}…"
