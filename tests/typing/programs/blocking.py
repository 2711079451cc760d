"""The same where nothing is awaited: by what `wakeful stubs` writes, which the test puts beside it."""

from typing import assert_type

from shop import Item
from shop_stubs import Shop

from wakeful import Client


def use() -> None:
    with Client.sync("http://127.0.0.1:7420") as client:
        shop: Shop = client.get("Shop", "corner")
        assert_type(shop.add("tea", 2), int)
        assert_type(shop.price("tea"), Item | None)
        assert_type(shop.four(1, "b", 2, b"d"), list[Item])
        shop.add(2)  # refused
        shop.sell("tea")  # refused
        assert_type(client.jobs.wait(client.jobs.schedule(shop.add, "tea", after="5m")), int)
        client.jobs.schedule(shop.add, 2)  # refused
        client.schedules("Shop", "corner").add("@daily", shop.add, "tea", name="daily")
        client.schedules("Shop", "corner").add("@daily", shop.add, 2)  # refused
