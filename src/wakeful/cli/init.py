"""Layer 5. `wakeful init`: a folder with a small program that works, and its test."""

import re
import shlex
from importlib.resources import files
from pathlib import Path

import click

from wakeful.cli import options
from wakeful.cli.exit_codes import FAILED, USAGE, CommandError, one_line

FOLDER = "template"
WORKERS = "workers"  # within it: the project that runs on Cloudflare too
SUFFIX = ".in"  # else tools would take them for parts of this program: obey the .gitignore, collect the test
NAMES = {
    "gitignore": ".gitignore",
    "app_test.py": "test_app.py",
    "entry.py": "src/entry.py",
    "entry_test.py": "tests/test_entry.py",
}


@options.command("init")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--workers", "is_worker", is_flag=True, help="A Worker that runs here and on Cloudflare instead.")
def init(folder: Path, is_worker: bool, as_json: bool) -> None:
    """Write a small project into DIR: app.py, a test in virtual time, README, pyproject.toml, .gitignore.

    With --workers it is a Python Worker with a Durable Object: wrangler.jsonc, src/entry.py and its test.

    Nothing is overwritten: if one of these files is there, none is written.
    """
    from wakeful.cli.output import put_json, put_line

    texts = project(folder.resolve().name, is_worker=is_worker)
    _write(folder, texts)
    if as_json:
        put_json({"folder": str(folder), "files": sorted(texts)})
        return
    for name in sorted(texts):
        put_line(one_line(f"  {folder / name}"))
    where = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
    put_line()
    put_line(one_line(f"{where}wakeful dev {'--workers .' if is_worker else 'app.py'}"), "bold")
    put_line(one_line(f"{where}python -m pytest    # the test; pip install pytest if need be"), "dim")


def project(name: str, *, is_worker: bool = False) -> dict[str, str]:
    """The files of a new project of that name, by their own names."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "wakeful-project"
    texts = {}
    template = files("wakeful.cli").joinpath(FOLDER)
    for file in (template.joinpath(WORKERS) if is_worker else template).iterdir():
        if file.name.endswith(SUFFIX):
            own = file.name.removesuffix(SUFFIX)
            texts[NAMES.get(own, own)] = file.read_text(encoding="utf-8").replace("PROJECT", slug)
    return texts


def _write(folder: Path, texts: dict[str, str]) -> None:
    there = sorted(name for name in texts if (folder / name).exists())
    if there:
        raise CommandError(
            f"{folder} has {', '.join(there)} already, and nothing is overwritten; name a new folder",
            code="init.exists",
            exit_code=USAGE,
        )
    try:
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise CommandError(
            f"{error.filename or folder} can't be written: {error.strerror}", code="init.write", exit_code=FAILED
        ) from None
