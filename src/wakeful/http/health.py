"""Layer 5. Is the process up, and may it be sent requests?"""

from wakeful.http.asks import Answer, Ask, answered


async def alive(ask: Ask) -> Answer:
    """The process answers."""
    return answered({"status": "up"})


async def ready(ask: Ask) -> Answer:
    """200 when this process takes calls; 503 with the reason when it should be sent none."""
    why = why_not(ask)
    return answered(
        {"status": "ready"} if why is None else {"status": "not ready", "reason": why}, 200 if why is None else 503
    )


def why_not(ask: Ask) -> str | None:
    """The first thing that is in the way. No names of hosts, files or stores: everybody may ask this."""
    node = ask.app.node
    if node is None:
        return "the app is not running"
    for home in node.all_homes:
        if home.state == "down":
            return "the store can't be reached"
        if home.state != "up":
            return f"the node is {home.state}"
        if home.membership.is_draining:
            return "the node is draining"
        if home.is_clustered and not home.is_client and home.name not in home.membership.nodes:
            return "the node is no member yet"
    return None
