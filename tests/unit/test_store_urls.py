"""A URL that is a little wrong may hold a password: what is said of it must not."""

import pytest

from wakeful.store import open_url
from wakeful.store.postgres.url import parse_url
from wakeful.values.errors import BadUrl

ENCODE = "must be percent-encoded"
WRITE = "write memory:, sqlite:PATH or postgresql://"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://shop:hunTER/2pw@127.0.0.1:5432/shop", ENCODE),
        ("postgresql://shop:12/2pw@127.0.0.1:5432/shop", ENCODE),
        ("postgresql://shop:hunTER#2pw@127.0.0.1:5432/shop", ENCODE),
        ("postgresql://shop:12#2pw@127.0.0.1:5432/shop", ENCODE),
        ("postgresql://shop:hunTER?2pw@127.0.0.1:5432/shop", ENCODE),
        ("postgresql://shop:12?schema=2pw@127.0.0.1/shop", ENCODE),
        ("postgresql://shop:a@hunTER:2pw/x@127.0.0.1:5432/shop", ENCODE),
        ("postgresql://shop:hunTER[2pw@127.0.0.1:5432/shop", ENCODE),
        ("postgresql://shop:[hunTER2pw]@127.0.0.1:5432/shop", ENCODE),
        ("postgresql://shop:hunTER\u21002pw@127.0.0.1:5432/shop", "can't be read"),
        ("postgresql://shop:hunTER2pw@127.0.0.1:549311/shop", "with a port up to 65535"),
        ("postgresql://127.0.0.1/shop?user=shop;password=hunTER2pw", "separated by &"),
        ("postgresql+asyncpg://shop:hunTER2pw@127.0.0.1/shop", "'postgresql\\+asyncpg' names a driver, leave that out"),
        ("postgresql:shop:hunTER2pw@127.0.0.1/shop", "begins with postgresql://"),
        ("postgresql:/shop:hunTER2pw@127.0.0.1/shop", "begins with postgresql://"),
        ("postgresql:///shop:hunTER2pw@127.0.0.1/shop", ENCODE),
        ("postgres//shop:hunTER2pw@127.0.0.1/shop", WRITE),
        ("shop:hunTER2pw@127.0.0.1/shop", WRITE),
        ("host=127.0.0.1 user=shop password=hunTER2pw", WRITE),
        ("mysql://shop:hunTER2pw@127.0.0.1/shop", f"'mysql:' is not a store; {WRITE}"),
    ],
)
def test_a_wrong_url_is_refused_without_its_password(url: str, says: str) -> None:
    with pytest.raises(BadUrl, match=says) as caught:
        open_url(url)
    for part in ("hunTER", "2pw", "12"):
        assert part not in str(caught.value).replace("127.0.0.1", "")


@pytest.mark.parametrize("name", ["password", "passwd", "PASSWORD", "sslpassword", "pwd", "options"])
def test_only_known_options_are_shown(name: str) -> None:
    target = parse_url(f"postgresql://db/shop?user=me@tenant&{name}=hunTER2pw&sslmode=require&schema=mine")
    assert target.shown == "postgresql://db/shop?user=me%40tenant&sslmode=require&schema=mine"
    assert f"{name}=hunTER2pw" in target.dsn


def test_passwords_that_are_encoded_or_plain_are_taken() -> None:
    for url in (
        "postgresql://shop:hunTER%2F%23%3F%402pw@127.0.0.1/shop",
        "postgresql://shop:hunTER@2pw@127.0.0.1/shop",
        "POSTGRESQL://shop@127.0.0.1/shop",
    ):
        target = parse_url(url)
        assert target.shown == "postgresql://shop@127.0.0.1/shop"
        assert target.dsn.partition("://")[2] == url.partition("://")[2]
