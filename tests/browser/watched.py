"""What test_watch_page.py watches: a list that grows, whose names are hard to patch."""

from typing import Any

from wakeful import App, Machine, assign

app = App()


@app.object
class Basket(Machine):
    chart = {"context": {"lines": [], "a/b~c": 0}, "on": {"ADD": {"actions": "add"}, "DROP": {"actions": "drop"}}}

    @assign
    def add(self, context: Any, event: Any) -> Any:
        lines = [*context["lines"], {"text": event["text"], "filler": "so that a patch is shorter than all of it"}]
        return {"lines": lines, "a/b~c": len(lines)}

    @assign
    def drop(self, context: Any, event: Any) -> Any:
        return {"lines": context["lines"][1:], "a/b~c": len(context["lines"]) - 1}
