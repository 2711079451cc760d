"""Options of `app.asgi` and of the client that can't be meant are refused with what to write instead."""

from typing import Any

import pytest

from tests.http.http_stage import make_app
from wakeful.client import Client
from wakeful.values.errors import BadOption


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cors": "https://x.example"}, r'\["https://ops.example.com"\]'),
        ({"cors": None}, "must be a list"),
        ({"cors": ["https://x.example/"]}, "without a path or a slash"),
        ({"cors": ["x.example"]}, "write scheme and host"),
        ({"cors": ["*"]}, "every page"),
        ({"cors": ["https://X.example"]}, "lower case"),
        ({"cors": ["https://x.example:443"]}, "leave out :443"),
        ({"cors": ["null"]}, "no origin"),
        ({"cors": [""]}, "no origin"),
        ({"cors": [7]}, "no origin"),
        ({"body_bytes_max": -1}, "whole number from 1, not -1"),
        ({"looks_max": "x"}, "whole number from 1, not 'x'"),
        ({"requests_max": True}, "whole number"),
        ({"streams_max": 0}, "whole number"),
        ({"steams_max": 5}, "there is no option 'steams_max'"),
        ({"dashboard": "no"}, "True or False"),
        ({"metrics": 1}, "True or False"),
    ],
)
def test_an_option_of_the_server_that_can_not_be_meant(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadOption, match=words):
        make_app().asgi(**options)


def test_options_of_the_server_that_can() -> None:
    cors = ["https://x.example", "http://localhost:5173", "http://[::1]:8080", "http://127.0.0.1"]
    assert make_app().asgi(cors=cors, body_bytes_max=1, looks_max=2, metrics=False, dashboard=False)
    assert make_app().asgi(cors=("https://x.example",), dashboard=False)


@pytest.mark.parametrize("tls", [False, True, "c.pem"])
def test_tls_of_the_client_must_be_a_context(tls: Any) -> None:
    for make in (Client, Client.sync):
        with pytest.raises(BadOption, match="create_default_context") as raised:
            make("https://localhost", tls=tls)
        assert raised.value.code == "client.tls"
