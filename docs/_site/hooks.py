"""What mkdocs does not do by itself: stars in the navigation, files beside docs/ that pages link to, no script from elsewhere."""

import re
from pathlib import Path
from posixpath import normpath, relpath
from typing import Any

from mkdocs.structure.files import File

_LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)]*)?\))")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_SHIM = re.compile(r"<script src=\"?https://unpkg\.com/iframe-worker/shim\"?></script>")
_WORKER = "assets/worker.js"
# Pages that became part of another, and where what they said is now: links to them from elsewhere go on.
MOVED = {
    "howto/deploy.md": "deployment.md",
    "howto/testing.md": "testing.md#a-crash-and-a-mail-that-fails",
    "machines-resume.md": "machines.md#delays-that-outlive-their-process",
    "metrics.md": "telemetry.md#every-metric",
    "operating.md": "cluster.md#how-nodes-reach-each-other",
    "operations.md": "runbooks.md",
}
_MOVED_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Moved</title>
<meta http-equiv="refresh" content="0; url={to}">
<link rel="canonical" href="{to}">
<p>This page is part of <a href="{to}">another one</a> now.</p>
</html>
"""
_COPIES = "source"  # where files of the repository are in the site


def expanded(nav: list[Any], pages: list[str]) -> list[Any]:
    """The navigation with every star replaced by the pages that match it and are named nowhere else."""
    named = set(re.findall(r"[\w./-]+\.md", repr(nav)))

    def grown(entries: list[Any]) -> list[Any]:
        found: list[Any] = []
        for entry in entries:
            if isinstance(entry, dict):
                found += [{title: grown(inner) if isinstance(inner, list) else inner} for title, inner in entry.items()]
            elif entry.endswith("*"):
                found += [page for page in pages if page.startswith(entry[:-1]) and page not in named]
            else:
                found.append(entry)
        return found

    return grown(nav)


def on_config(config: Any) -> Any:
    docs = Path(config.docs_dir)
    pages = sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))
    config.nav = expanded(config.nav, pages)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Take what pages link to outside docs/ along, so that the site is whole without a network."""
    root = Path(config.docs_dir).parent
    worker = Path(__file__).with_name("worker.js").read_text(encoding="utf-8")
    files.append(File.generated(config, _WORKER, content=worker))
    for page in list(files.documentation_pages()):
        for _, link, _ in _LINK.findall(_FENCE.sub("", page.content_string)):
            name = _outside(page.src_uri, link)
            path = root / (name or "")
            if name and path.is_file() and files.get_file_from_path(_copy(name)) is None:
                files.append(File.generated(config, _copy(name), content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    here = page.file.src_uri

    def moved(match: re.Match[str]) -> str:
        name = _outside(here, match[2])
        if name is None:
            return match[0]
        return match[1] + relpath(_copy(name), Path(here).parent.as_posix()) + match[3]

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(moved, part) for part in parts)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """The theme would fetch from elsewhere what lets the search work from a disk; ours is taken along."""
    here = relpath(_WORKER, Path(page.file.dest_uri).parent.as_posix())
    return _SHIM.sub(f'<script src="{here}"></script>', output)


def on_post_template(output: str, template_name: str, config: Any) -> str:
    return _SHIM.sub(f'<script src="{_WORKER}"></script>', output)


def on_post_build(config: Any) -> None:
    """Old names lead to where the page is now."""
    for old, new in MOVED.items():
        page, _, place = new.partition("#")
        to = relpath(page, Path(old).parent.as_posix()).removesuffix(".md") + ".html" + (f"#{place}" if place else "")
        path = Path(config.site_dir, old).with_suffix(".html")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_MOVED_PAGE.format(to=to), encoding="utf-8")


def _outside(page: str, link: str) -> str | None:
    """The repository's file that a link of a page leads to, if it is not one of docs/."""
    name = normpath(f"docs/{Path(page).parent.as_posix()}/{link}")
    return None if name.startswith(("docs/", "..")) else name


def _copy(name: str) -> str:
    # Python and Markdown as text, so that a browser shows them instead of saving or rendering them.
    return f"{_COPIES}/{name}" + (".txt" if name.endswith((".py", ".md", ".yml")) else "")
