"""Pages rewritten on their way, as Cloudflare's HTMLRewriter does it; what is expected here was seen on workerd."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.compat.workers_stage import played, write_worker
from tests.garbage import without_collections
from wakeful.compat.workers import Request, Response
from wakeful.compat.workers.html_rewriter import DEPTH_MAX, HTMLRewriter
from wakeful.compat.workers.html_tokens import ATTRIBUTES_MAX, TOKEN_MAX

HTML = {"html": True}
TRICKY = (
    "<!DOCTYPE html PUBLIC 'a' \"b\">\n<P\n  a = 'x>y'   b c=d/ \"e\">1 &lt; 2 < 3 </> é日</P ><br/><!-- a -- b --!><!-->x<!--->"
    "<script><!-- <script> </script> <b> --></script><style><b></style ><textarea></title></textarea><?php ?>"
    "</ no><svg><title><b>t</b></title><path d=m /><![CDATA[ <b> ]]><style><b/></style></svg><b><i>open</b></nowhere>\r\n<img src=x/>"
    "<!x><P =a b==c>é</p><noscript><b></noscript><ul><li>1<li>2</ul><a b='"
).encode() + b"\xff\xfe\xc3"


async def trickle(data: bytes, *cuts: int) -> AsyncIterator[bytes]:
    for begin, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
        yield data[begin:end]


async def rewritten(page: str | bytes, *on: tuple[str, Any], document: Any = None, headers: Any = None) -> Any:
    rewriter = HTMLRewriter.new()
    for selector, handlers in on:
        rewriter.on(selector, handlers)
    if document is not None:
        rewriter.onDocument(document)
    made = await rewriter.transform(Response(page, headers=headers or {"content-type": "text/html"})).bytes()
    return made.decode() if isinstance(page, str) else made


def element(*steps: tuple[Any, ...]) -> dict[str, Any]:
    """A handler that does that: the name of a method, and what it is given."""

    def handle(one: Any) -> None:
        for name, *given in steps:
            getattr(one, name)(*given)

    return {"element": handle}


def chatty(rewriter: HTMLRewriter) -> HTMLRewriter:
    """With handlers that leave their mark on everything, however the texts are cut."""
    names: list[str] = []

    class Bold:
        async def element(self, one: Any) -> None:
            await asyncio.sleep(0)
            one.before("(", HTML).append(")").setAttribute("n", len(names))
            names.append(one.tagName)
            one.onEndTag(lambda tag: tag.after(f"/{tag.name}"))

        def comments(self, one: Any) -> None:
            one.remove()

    class End:
        def text(self, one: Any) -> None:
            if one.lastInTextNode:
                one.after("|")

        def doctype(self, one: Any) -> None:
            names.append(f"{one.name} {one.publicId} {one.systemId}")

        def comments(self, one: Any) -> None:
            one.text = one.text.replace("-", "_") + "!"

        def end(self, one: Any) -> None:
            one.append(" ".join(names))

    return rewriter.on("b, li:not(:first-child)", Bold()).on("p[b]:first-of-type", Bold()).onDocument(End())


async def test_wherever_a_page_is_cut_the_same_comes_out() -> None:
    silent = {"element": lambda one: None, "text": lambda one: None, "comments": lambda one: None}
    whole = await chatty(HTMLRewriter()).transform(Response(TRICKY)).bytes()
    assert b"1 &lt; 2 < 3 |</> " in whole
    assert whole.endswith(b"html a b p b b b"), whole
    for cut in range(len(TRICKY) + 1):
        untouched = HTMLRewriter().on("*", silent).onDocument(silent).transform(Response(trickle(TRICKY, cut)))
        assert await untouched.bytes() == TRICKY, cut
        assert await chatty(HTMLRewriter()).transform(Response(trickle(TRICKY, cut))).bytes() == whole, cut
    single = trickle(TRICKY, *range(1, len(TRICKY)))
    assert await chatty(HTMLRewriter()).transform(Response(single)).bytes() == whole


@pytest.mark.parametrize(
    ("steps", "page", "expected"),
    [
        (["before 1", "before 2", "after 3", "after 4", "prepend 5", "prepend 6", "append 7", "append 8"], "<a>x</a>", "12<a>65x78</a>43"),
        (["append 8", "setInnerContent <i>", "prepend 5", "append 7"], "<a>x<b>y</b></a>", "<a>5&lt;i&gt;7</a>"),
        (["replace R", "replace S", "before 1", "after 2"], "<a>x</a>z", "1S2z"),
        (["remove", "before 1", "after 2"], "<a>x<a>y</a></a>z", "12z"),
        (["removeAndKeepContent", "prepend P", "append A", "before B", "after C"], "<a>x<i>y</i></a>", "BPx<i>y</i>AC"),
        (["setAttribute C d", "setAttribute a \"&<", "removeAttribute z"], "<A\n a = 'x'  b  z=1 z=2/ >x</A>", '<A a="&quot;&<" b c="d">x</A>'),
        (["setAttribute b c"], "<svg><a/><a x/></svg>", '<svg><a b="c" /><a x b="c" /></svg>'),
        (["append !", "after ?"], "<div><a>x</div>", "<div><a>x!</div>?"),
        (["remove"], "<div><a>x</div>z", "<div></div>z"),
        (["append !", "after ?"], "<a>never ended", "<a>never ended"),
    ],
)  # fmt: skip
async def test_what_a_handler_does_to_an_element(steps: list[str], page: str, expected: str) -> None:
    on = ("a", element(*(step.split(" ", 2) for step in steps)))
    assert await rewritten(page, on) == expected


async def test_void_elements_have_nothing_inside() -> None:
    seen: list[str] = []

    def handle(one: Any) -> None:
        one.prepend("1").append("2").setInnerContent("3").after("4").setAttribute("a", "b")
        with pytest.raises(TypeError, match="<br> has no end tag"):
            one.onEndTag(seen.append)

    assert await rewritten("<br><br x/>z", ("br", {"element": handle})) == '<br a="b">4<br x a="b" />4z'


async def test_what_an_element_says_of_itself() -> None:
    seen: list[Any] = []

    def handle(one: Any) -> None:
        seen.append((one.tagName, [tuple(pair) for pair in one.attributes], one.removed, one.namespaceURI[-5:]))
        seen.append((one.getAttribute("HREF"), one.hasAttribute("Z"), one.getAttribute("no"), one.hasAttribute("no")))
        one.tagName = "B"

        async def end(tag: Any) -> None:
            seen.append(tag.name)
            tag.before("<").after(">", html=True)

        one.onEndTag(end)
        kept.append(one)

    kept: list[Any] = []
    assert await rewritten("<A Href='&amp;' z>x</A >", ("a", {"element": handle})) == "<B Href='&amp;' z>x&lt;</B>>"
    assert seen == [("a", [("href", "&amp;"), ("z", "")], False, "xhtml"), ("&amp;", True, None, False), "b"]
    with pytest.raises(TypeError, match="Element is there while its handler runs"):
        kept[0].before("too late")


async def test_names_that_are_none_are_refused() -> None:
    def handle(one: Any) -> None:
        for do in (
            lambda: setattr(one, "tagName", "1 x"),
            lambda: one.setAttribute("a b", ""),
            lambda: one.setAttribute("", ""),
            lambda: one.before(b"bytes"),
            lambda: one.onEndTag("text"),
        ):
            with pytest.raises(TypeError):
                do()

    assert await rewritten("<p>", ("p", {"element": handle})) == "<p>"


async def test_texts_come_as_they_arrive_and_the_last_is_empty() -> None:
    seen: list[Any] = []

    class Texts:
        def text(self, one: Any) -> None:
            seen.append((one.text, one.lastInTextNode))
            if one.lastInTextNode:
                one.replace("<").before("1").after("2").before("3").after("4")
            else:
                one.remove()
                assert one.removed

    page = "<p>a<b>c</b></p>d<script><i></script>"
    assert await rewritten(page, ("p", Texts()), ("*", {})) == "<p>13&lt;42<b>13&lt;42</b></p>d<script><i></script>"
    assert seen == [("a", False), ("", True), ("c", False), ("", True)]


async def test_each_hears_of_a_text_once_those_of_the_document_first() -> None:
    seen: list[str] = []

    def hearer(name: str) -> dict[str, Any]:
        return {"text": lambda one: seen.append(name) if one.text else None}

    await rewritten("<p><b><b>x</b></b></p>", ("b", hearer("b")), ("p", hearer("p")), document=hearer("document"))
    assert seen == ["document", "b", "p"]


async def test_comments_doctypes_and_the_end() -> None:
    seen: list[Any] = []

    class Document:
        def doctype(self, one: Any) -> None:
            seen.append((one.name, one.publicId, one.systemId))

        def comments(self, one: Any) -> None:
            seen.append(one.text)
            with pytest.raises(TypeError, match="what ends a comment"):
                one.text = "a-->b"
            one.text = "z"
            one.before("<").after(">", {"html": True})

        def end(self, one: Any) -> None:
            one.append("<e>").append("<e>", HTML)

    assert await rewritten("<!doctype HTML SYSTEM 'x'>a<!-- b -->", document=Document()) == (
        "<!doctype HTML SYSTEM 'x'>a&lt;<!--z-->>&lt;e&gt;<e>"
    )
    assert seen == [("html", None, "x"), " b "]


PAGE = (
    "<div x=v><p class='a b'>1<b x='v w'>2</b></p><i></i><p class=A id=i>3</p><p x=V-q>4"
    "<p class=\"\tb\na\">5<b x='v-1'></b></div><p x>6<input type=TEXT>"
)


@pytest.mark.parametrize(
    ("selector", "count"),
    [
        ("div", 1), ("*", 10), ("div p", 4), ("div>p", 3), ("div > p > b", 1), ("div p b", 2), ("P.a.b", 2), ("#i", 1),
        ("p:nth-child(2)", 1), ("p:nth-child(odd)", 3), ("p:nth-child( 2n + 1 )", 3), ("p:nth-child(-n+2)", 3), ("p:first-child", 2),
        ("p:nth-of-type(2)", 1), ("p:first-of-type", 3), ("p:not(:first-child)", 3), (":not(p)", 5), ("p:not(.a, #i)", 2),
        ("[x]", 5), ("[X=v]", 1), ("[x='V-Q' i]", 1), ('[x="V" s]', 0), ("[x~=v]", 2), ("[x^=v]", 3), ("[x$=q]", 1),
        ("[x*='-']", 2), ("[x|=v]", 2), ("[x^='']", 0), ("[type=text]", 1), ("i, b , p > b", 3), ("p\\61", 0), ("\\69", 1),
    ],
)  # fmt: skip
async def test_which_elements_a_selector_means(selector: str, count: int) -> None:
    seen: list[Any] = []
    await rewritten(PAGE, (selector, {"element": seen.append}))
    assert len(seen) == count, [one.tagName for one in seen]


@pytest.mark.parametrize(
    "selector",
    ["", " ", "a:hover", "p::before", "p ~ p", "p + p", "p,", "> p", "div >", "p..a", "[x", "[x=1]", ".1", "p:not(b p)", "p:not()",
     "p:nth-child(x)", "p:has(b)", "*.a p*", "ns|p", 5, "a" * 100_000 + "+b", "\\" * 99_999],
)  # fmt: skip
def test_a_selector_that_is_not_understood_is_named(selector: Any) -> None:
    begin = time.thread_time()
    with without_collections(), pytest.raises(TypeError, match="selector"):
        HTMLRewriter.new().on(selector, {})
    assert time.thread_time() - begin < 1


async def test_a_charset_with_one_byte_a_letter_stays_one() -> None:
    head = {"content-type": "text/html; charset=ISO-8859-1"}
    made = await rewritten("<p>é".encode("latin-1"), ("p", element(("before", "日é"))), headers=head)
    assert made == "&#26085;é<p>é".encode("latin-1")
    for charset in ("utf-16", "gibberish", "shift_jis"):
        with pytest.raises(TypeError, match="are not rewritten; UTF-8 is"):
            HTMLRewriter().transform(Response("x", headers={"content-type": f"text/html; charset={charset}"}))


async def test_the_response_is_another_with_the_same_head() -> None:
    given = Response("<p>", status=404, status_text="gone", headers={"content-length": "3", "x-a": "b"})
    made = HTMLRewriter().on("p", element(("before", "!"))).transform(given)
    assert (made.status, made.status_text, made.headers.items()) == (404, "gone", given.headers.items()[1:])
    assert (given.headers.get("content-length"), given.body_used, await made.text()) == ("3", True, "!<p>")
    with pytest.raises(OSError, match="read already"):
        HTMLRewriter().transform(given)
    empty = Response(None, status=204)
    assert HTMLRewriter().transform(empty) is empty
    with pytest.raises(TypeError, match="takes a Response"):
        HTMLRewriter().transform("<p>")  # type: ignore[arg-type]


async def test_what_is_there_is_sent_on_and_who_stops_reading_stops_it() -> None:
    is_closed = asyncio.Event()

    async def page() -> AsyncIterator[bytes]:
        try:
            yield b"<p>1"
            await asyncio.Event().wait()
        finally:
            is_closed.set()

    reader = HTMLRewriter().on("p", element(("after", "!"))).transform(Response(page())).body.getReader()  # type: ignore[union-attr]
    assert (await reader.read()).value == b"<p>1"
    await reader.cancel()
    await asyncio.wait_for(is_closed.wait(), 5)


async def test_a_handler_that_fails_breaks_the_body() -> None:
    def fail(_: Any) -> None:
        raise LookupError("not today")

    with pytest.raises(LookupError, match="not today"):
        await rewritten("<p>", ("p", {"element": fail}))


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("<a " + "b" * TOKEN_MAX + ">", "3145728 characters"),
        ("<!--" + "b" * TOKEN_MAX, "3145728 characters"),
        ("<a " + "b " * (ATTRIBUTES_MAX + 1) + ">", "<a> has more than 4096 attributes"),
        ("<p>" * (DEPTH_MAX + 1), "more than 20000 elements are open at <p>"),
        ("".join(f"<a{number}></a{number}>" for number in range(10_001)), "children of more than 10000 names"),
    ],
)
async def test_a_page_past_the_bounds_is_refused(page: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        await rewritten(page)


@pytest.mark.parametrize(
    "page",
    ["<" * 200_000, "</" * 100_000, "<p>" * 15_000 + "</i>" * 20_000, "<!--" + "-" * 200_000, "<script>" + "<!--" * 50_000,
     "<!doctype " + " " * 200_000 + ">", "<p a='" + "<b>" * 50_000, "<br>" * 50_000, "<svg>" * 10_000 + "<p>" * 5_000],
)  # fmt: skip
async def test_no_page_holds_up_the_others(page: str) -> None:
    longest, is_over = 0.0, False

    async def watch() -> None:
        nonlocal longest
        while not is_over:
            begin = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - begin)

    with without_collections():
        watching = asyncio.create_task(watch())
        begin = time.thread_time()
        heard = {"doctype": lambda one: None, "comments": lambda one: None}
        assert await rewritten(page, ("div > p i", {"text": lambda one: None}), document=heard) == page
        is_over = True
        await watching
    assert time.thread_time() - begin < 8
    assert longest < 0.5


async def test_a_worker_asks_for_it_by_name_and_the_head_of_a_page_is_written(tmp_path: Path) -> None:
    code = """
        from html import escape
        from js import HTMLRewriter
        from pyodide.ffi import create_proxy
        from workers import Response, WorkerEntrypoint

        PAGE = '<html><HEAD><meta property="og:title" content="old"><meta name="twitter:x"><meta name=x></head><p>é</html>'

        class Remover:
            def element(self, element):
                element.remove()

        class Injector:
            def __init__(self, title):
                self.title = title

            def element(self, head):
                head.prepend(f'<meta property="og:title" content="{escape(self.title)}" />', html=True)

        class Default(WorkerEntrypoint):
            async def fetch(self, request):
                remover = create_proxy(Remover())
                rewriter = HTMLRewriter.new()
                rewriter.on('meta[property^="og:"]', remover)
                rewriter.on('meta[name^="twitter:"]', remover)
                rewriter.on("head", create_proxy(Injector("<new>")))
                return rewriter.transform(Response(PAGE, headers={"content-type": "text/html"}).js_object)
    """
    wrangler = json.dumps({"name": "sample", "main": "entry.py", "compatibility_date": "2026-03-01"})
    folder = write_worker(tmp_path, code, "")
    (folder / "wrangler.toml").unlink()
    (folder / "wrangler.jsonc").write_text(wrangler, encoding="utf-8")
    async with played(folder) as (worker, _):
        made = await worker.fetch(Request("http://localhost/"))
        assert await made.text() == (
            '<html><HEAD><meta property="og:title" content="&lt;new&gt;" /><meta name=x></head><p>é</html>'
        )
