"""Static assets of a Worker: which file answers, which address a page has, and what goes to the code."""

import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.compat.workers_stage import played
from wakeful.compat.workers import Request, load
from wakeful.compat.workers.site import WorkerSite

CODE = """
from workers import Response, WorkerEntrypoint

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        if "/through" in request.url:
            return await self.env.ASSETS.fetch("http://assets/style.css")
        return Response("code")
"""
WRANGLER = """
name = "site"
main = "entry.py"
compatibility_date = "2026-03-01"

[assets]
directory = "public"
binding = "ASSETS"
"""
FILES = {
    "index.html": "home",
    "about.html": "about",
    "404.html": "nothing",
    "style.css": "a {}",
    "app.js": "1",
    "a b.txt": "spaced",
    "docs/index.html": "docs",
    "docs/404.html": "no doc",
    "docs/one.html": "one",
    "both.html": "page",
    "both/index.html": "folder",
    ".env": "secret",
    ".well-known/security.txt": "mail",
    "_headers": "x",
}


def site(folder: Path, more: str = "", *, code: bool = True) -> Path:
    for name, text in FILES.items():
        (folder / "public" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "public" / name).write_text(text)
    wrangler = WRANGLER if code else WRANGLER.replace('main = "entry.py"\n', "")
    (folder / "wrangler.toml").write_text(wrangler + more)
    (folder / "entry.py").write_text(CODE)
    return folder


async def answers(folder: Path, *paths: str, **options: Any) -> list[str]:
    """Status, and the body or where it leads to."""
    told = []
    async with played(folder) as (worker, _):
        for path in paths:
            answer = await worker.fetch(Request(f"http://x{path}", **options))
            told.append(f"{answer.status} {answer.headers.get('location') or await answer.text()}")
    return told


HANDLED = {
    "auto-trailing-slash": {
        "/": "200 home",
        "/index.html": "307 /",
        "/index": "307 /",
        "/about": "200 about",
        "/about.html": "307 /about",
        "/about/": "307 /about",
        "/about/index": "307 /about",
        "/about/index.html": "307 /about",
        "/docs": "307 /docs/",
        "/docs/": "200 docs",
        "/docs/index": "307 /docs/",
        "/docs/index.html": "307 /docs/",
        "/docs.html": "307 /docs/",
        "/both": "200 page",
        "/both/": "200 folder",
        "/both.html": "307 /both",
        "/style.css": "200 a {}",
        "/style.css/": "404 ",
        "/about.html?x=1": "307 /about?x=1",
    },
    "force-trailing-slash": {
        "/": "200 home",
        "/about": "307 /about/",
        "/about/": "200 about",
        "/about.html": "307 /about/",
        "/docs": "307 /docs/",
        "/docs/": "200 docs",
        "/docs/index.html": "307 /docs/",
    },
    "drop-trailing-slash": {
        "/": "200 home",
        "/about": "200 about",
        "/about/": "307 /about",
        "/about.html": "307 /about",
        "/docs": "200 docs",
        "/docs/": "307 /docs",
        "/docs/index.html": "307 /docs",
    },
    "none": {
        "/": "404 ",
        "/about": "404 ",
        "/about.html": "200 about",
        "/docs/": "404 ",
        "/docs/index.html": "200 docs",
    },
}


@pytest.mark.parametrize("handling", HANDLED)
async def test_a_page_has_one_address(tmp_path: Path, handling: str) -> None:
    folder = site(tmp_path, f'html_handling = "{handling}"\n', code=False)
    assert dict(zip(HANDLED[handling], await answers(folder, *HANDLED[handling]), strict=True)) == HANDLED[handling]


async def test_nothing_outside_the_folder_is_served(tmp_path: Path) -> None:
    folder = site(tmp_path, code=False)
    (tmp_path / "secret.txt").write_text("secret")
    os.symlink(tmp_path / "secret.txt", tmp_path / "public" / "link.txt")
    os.symlink(tmp_path, tmp_path / "public" / "up")
    os.symlink(tmp_path / "public" / "style.css", tmp_path / "public" / "inside.css")
    (tmp_path / "public" / ".assetsignore").write_text("# not these\n*.txt\n")
    wrong = [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/docs/..%2f..%2fsecret.txt",
        "/..%5csecret.txt",
        "/%2fetc/passwd",
        "//etc/passwd",
        "/link.txt",
        "/up/secret.txt",
        "/up/wrangler.toml",
        "/.env",
        "/.assetsignore",
        "/_headers",
        "/a%20b.txt",
        "/%00",
        "/" + "a" * 5_000,
        "/%ff%fe",
        "/" + "a/" * 50_000,
    ]
    assert await answers(folder, *wrong) == ["404 "] * len(wrong)
    assert await answers(folder, "/inside.css") == ["200 a {}"]


async def test_answers_carry_types_and_tags(tmp_path: Path) -> None:
    async with played(site(tmp_path)) as (worker, _):
        transport = httpx.ASGITransport(WorkerSite(worker))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            answer = await client.get("/style.css")
            assert answer.headers["content-type"] == "text/css; charset=utf-8"
            assert answer.headers["cache-control"] == "public, max-age=0, must-revalidate"
            etag = answer.headers["etag"]
            for given in (etag, f"W/{etag}", f'"x", {etag}', "*"):
                again = await client.get("/style.css", headers={"if-none-match": given})
                assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
            assert (await client.get("/style.css", headers={"if-none-match": '"x"'})).status_code == 200
            head = await client.head("/style.css")
            assert (head.status_code, head.headers["content-length"], head.content) == (200, "4", b"")
            assert (await client.post("/style.css")).status_code == 405
            assert (await client.get("/app.js")).headers["content-type"] == "text/javascript; charset=utf-8"
            assert (await client.get("/a%20b.txt")).text == "spaced"
            assert (await client.get("/.well-known/security.txt")).text == "mail"
            (tmp_path / "public" / "style.css").write_text("b {}")
            os.utime(tmp_path / "public" / "style.css", (1, 1))
            assert (await client.get("/style.css", headers={"if-none-match": etag})).text == "b {}"


async def test_what_is_no_file_goes_to_the_code(tmp_path: Path) -> None:
    folder = site(tmp_path)
    paths = ("/", "/nowhere", "/through")
    assert await answers(folder, *paths) == ["200 home", "200 code", "200 a {}"]
    assert await answers(folder, "/nowhere", method="POST") == ["200 code"]
    site(tmp_path, "run_worker_first = true\n")
    assert await answers(folder, *paths) == ["200 code", "200 code", "200 a {}"]
    site(tmp_path, 'run_worker_first = ["/docs/*", "!/docs/one"]\n')
    assert await answers(folder, "/", "/docs/", "/docs/one") == ["200 home", "200 code", "200 one"]


async def test_what_is_shown_when_there_is_nothing(tmp_path: Path) -> None:
    folder = site(tmp_path, 'not_found_handling = "404-page"\n', code=False)
    assert await answers(folder, "/nowhere", "/docs/nowhere", "/a/b/c") == ["404 nothing", "404 no doc", "404 nothing"]
    site(tmp_path, 'not_found_handling = "single-page-application"\n', code=False)
    assert await answers(folder, "/nowhere", "/a/b", "/about") == ["200 home", "200 home", "200 about"]
    site(tmp_path, 'not_found_handling = "single-page-application"\n')
    assert await answers(folder, "/nowhere") == ["200 code"]
    assert await answers(folder, "/nowhere", headers={"sec-fetch-mode": "navigate"}) == ["200 home"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('html_handling = "some"', "assets.html_handling is one of auto-trailing-slash"),
        ('not_found_handling = "some"', "assets.not_found_handling is one of none"),
        ('run_worker_first = ["api"]', "assets.run_worker_first is true, false or a list"),
    ],
)
def test_what_is_wrong_is_said_at_the_start(tmp_path: Path, more: str, words: str) -> None:
    with pytest.raises(Exception, match=words):
        load(site(tmp_path, more))


def test_a_folder_that_is_not_there_is_named_and_so_is_what_is_not_applied(tmp_path: Path) -> None:
    worker = load(site(tmp_path))
    worker.unload()
    assert worker.config.idle == (
        "static assets: _headers of public is not applied; set headers and redirect in the Worker",
    )
    (tmp_path / "wrangler.toml").write_text(WRANGLER.replace("public", "elsewhere"))
    with pytest.raises(Exception, match=r"assets\.directory is 'elsewhere', which is no folder"):
        load(tmp_path)
