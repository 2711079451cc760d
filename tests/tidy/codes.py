"""Every code that an error, a problem or a line of the log may have, found in the source, with what it says.

`python -m tests.tidy.codes > docs/reference/codes.md` writes the page anew, after a code was added.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import wakeful
from wakeful.values import errors

ROOT = Path(wakeful.__file__).parent
CODE = re.compile(r"[a-z][a-z_0-9]*(?:\.[a-z_0-9]+)+")
# What looks like one and is another thing: files, modules, names of ASGI, XState, metrics, operations and audited acts.
NO_CODES = re.compile(
    r".*\.(html|json|jsonc|toml|py|sql)|(wakeful|websocket|lifespan|builtins|datetime|xstate|process|collections|pytz|uvicorn)\..*"
    r"|wsgi\..*|http\.(disconnect|request|response\..*)|(calls|jobs|objects|schedules|sockets|timers)\..*|(done|error)\.actor|initial\.actions"
    r"|machine\.(chart|event|gone|import|keep|news|seen)|workflow\.(adopt|commit|fork|outcome|park|reload)|node\.(drain|undrain)|keys\.rotate|token\.(clear|create|revoke)"
    r"|schedule\.(add|cancel|pause|reschedule|resume|trigger)|_codecs\.encode|celery\.backend_cleanup|service\.name"
    r"|hypercorn\.asyncio\.run|sql\.write|pyodide\..*|queues\.consumers|assets\.directory|tool\.wakeful|workers\.(apart|asgi|entrypoints|env|rpc|streams|workflows|wsgi)"
)
LEVELS = ("debug", "info", "warning", "error", "exception", "log")
CARRIERS = {"Problem": "HTTP", "RefusedRequest": "HTTP", "RefusedHead": "", "CommandError": "command line"}
WORDS_MAX = 160
# What the tree of errors says of each.
DRAWN = dict(re.findall(r"[├└]── (\w+) +(.+)", errors.__doc__ or ""))


class Use(NamedTuple):
    """One place where a code stands: what carries it, and its words as far as they are in the source."""

    code: str
    carrier: str
    words: str


def uses() -> list[Use]:
    """All of them."""
    return [use for path in sorted(ROOT.rglob("*.py")) for use in uses_in(path.read_text(encoding="utf-8"))]


def uses_in(source: str) -> list[Use]:
    """Of one module. Whatever looks like a code is one, unless it is known to be something else."""
    tree = ast.parse(source)
    known = list(_said(tree))
    said = {use.code for use in known}
    texts = (one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str))
    return known + [Use(text, "", "") for text in texts if is_code(text) and text not in said]


def is_code(text: str) -> bool:
    return CODE.fullmatch(text) is not None and NO_CODES.fullmatch(text) is None


def _said(tree: ast.Module) -> Iterator[Use]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                if isinstance(line, ast.Assign) and getattr(line.targets[0], "id", "") == "default_code":
                    yield from (Use(code, node.name, DRAWN.get(node.name, "")) for code in _named(line.value))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _of_lines([node])
    yield from _of_lines([line for line in tree.body if not isinstance(line, _BLOCKS)])


_BLOCKS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _of_lines(lines: Sequence[ast.AST]) -> Iterator[Use]:
    inner = [one for line in lines for one in ast.walk(line)]
    texts = {
        target.id: line.value
        for line in inner
        if isinstance(line, ast.Assign)
        for target in line.targets
        if isinstance(target, ast.Name)
    }
    for call in inner:
        if isinstance(call, ast.Call):
            yield from _of_call(call, texts)


def _of_call(call: ast.Call, texts: dict[str, ast.expr]) -> Iterator[Use]:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    args = [
        inner
        for one in call.args
        for inner in (getattr(one.value, "elts", ()) if isinstance(one, ast.Starred) else [one])
    ]
    named = {one.arg: one.value for one in call.keywords}
    words = max((_words(texts.get(getattr(one, "id", ""), one)) for one in args), key=len, default="")
    extra = named.get("extra")
    if name in LEVELS and isinstance(extra, ast.Dict):
        values = [
            value for key, value in zip(extra.keys, extra.values, strict=True) if getattr(key, "value", "") == "code"
        ]
        yield from (Use(code, "log", words) for value in values for code in _named(value))
    carrier = CARRIERS.get(name, name if name[:1].isupper() else "")
    find = _named if "code" in named or name in CARRIERS else _codes
    for value in [named["code"]] if "code" in named else args:
        yield from (Use(code, carrier, words) for code in find(value))


def _codes(value: ast.expr) -> list[str]:
    return [code for code in _named(value) if is_code(code)]


def _named(value: ast.expr) -> list[str]:
    """Of what stands where a code does: it is one whatever else is called so."""
    found = [one.value for one in ast.walk(value) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return [code for code in found if CODE.fullmatch(code) is not None]


def _words(value: ast.expr) -> str:
    if isinstance(value, ast.Constant) and isinstance(value.value, str) and " " in value.value:
        return value.value
    if isinstance(value, ast.JoinedStr):
        return "".join(str(one.value) if isinstance(one, ast.Constant) else "…" for one in value.values)
    return ""


def rows() -> list[str]:
    """One for each code: by whom it is carried, and the first words that it has."""
    by_code: dict[str, list[Use]] = {}
    for use in uses():
        by_code.setdefault(use.code, []).append(use)
    return [_row(code, by_code[code]) for code in sorted(by_code)]


def _row(code: str, found: list[Use]) -> str:
    names = dict.fromkeys(use.carrier for use in found if use.carrier)
    carriers = ", ".join(f"`{name}`" if name[0].isupper() and name != "HTTP" else name for name in names)
    words = next((use.words for use in found if use.words), "")
    words = re.sub(r"%[-.0-9]*[sdr]|%\.\df", "…", " ".join(words.split())).replace("|", "\\|").replace("`", "'")
    words = words if len(words) <= WORDS_MAX else words[:WORDS_MAX] + "…"
    return f"| `{code}` | {carriers or '–'} | {words} |"


HEAD = """# Codes

Every error ends with its code (`[spec.zone]`), every problem over HTTP has it as `code`, and lines of the log that somebody
may look for have one too. A code does not change; the words may. Where the words are put together elsewhere there are none
here. Which status an error has over HTTP is on [its page](../http.md#errors); what to do about those of the log that should
wake somebody up is in the [runbooks](../runbooks.md). Some codes are made with the name of what they are about:
`limit.` and the name of a [limit](../limits.md), `option.` and that of an option.

| code | error, or log | what it says |
| --- | --- | --- |"""

if __name__ == "__main__":
    print("\n".join([HEAD, *rows()]))
