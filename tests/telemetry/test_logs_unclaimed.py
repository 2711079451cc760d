"""The log of a web application, of which a server has set up no more than its own lines."""

import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from wakeful import App


@contextmanager
def bare_log() -> Iterator[io.StringIO]:
    """A process in which nobody has set up a log, as under uvicorn; what comes to stderr."""
    root, ours = logging.getLogger(), logging.getLogger("wakeful")
    kept = list(root.handlers), list(ours.handlers), ours.level, sys.stderr
    objects = logging.getLogger("wakeful.object")
    level = objects.level  # which `wakeful run` in this process has set
    objects.setLevel(logging.NOTSET)
    sys.stderr = heard = io.StringIO()
    root.handlers[:], ours.handlers[:] = [], []
    ours.setLevel(logging.NOTSET)
    try:
        yield heard
    finally:
        root.handlers[:], ours.handlers[:] = kept[0], kept[1]
        ours.setLevel(kept[2])
        objects.setLevel(level)
        sys.stderr = kept[3]


def test_in_a_web_application_without_a_log_objects_are_heard_with_time_and_object() -> None:
    with bare_log() as heard:
        App().asgi()
        logging.LoggerAdapter(logging.getLogger("wakeful.object"), {"object": "Room/r"}).info("hello")
        assert re.fullmatch(r"\d{4}-\S+T\S+ INFO    wakeful\.object: hello  object=Room/r\n", heard.getvalue())


def test_json_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEFUL_LOG", "json")
    with bare_log() as heard:
        App().asgi()
        logging.getLogger("wakeful.node").warning("look", extra={"code": "x.y"})
        assert json.loads(heard.getvalue())["code"] == "x.y"


def test_a_log_that_the_program_has_set_up_before_or_after_is_left_to_itself() -> None:
    for first in (True, False):
        with bare_log() as heard:
            own = io.StringIO()
            handler = logging.StreamHandler(own)
            if first:
                logging.getLogger().addHandler(handler)
            App().asgi()
            logging.getLogger().addHandler(handler)
            for _ in range(2):
                logging.getLogger("wakeful.object").warning("once")
                logging.getLogger("wakeful.object").info("as its own log says: not at all")
            assert heard.getvalue() == ""
            assert own.getvalue() == "once\nonce\n"
            assert logging.getLogger("wakeful").level == logging.NOTSET
