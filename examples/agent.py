"""An agent with tools as a workflow: each call of the model and of a tool is paid once, and a person allows what costs.

Run it: `python examples/agent.py`. The model is a stand-in; put a call of yours into `think`.
"""

import asyncio
from typing import Any

from wakeful import App, RetryPolicy, Step, Workflow

app = App()
STOCK = {"tea": 4, "cup": 9}
Message = dict[str, str]


async def think(messages: list[Message]) -> Message:
    """Stands for a language model: it looks, then buys, then answers."""
    heard = [one["content"] for one in messages if one["role"] == "tool"]
    print(f"  the model is asked, with {len(messages)} messages")
    if not heard:
        return {"tool": "look up", "input": "cup"}
    return {"tool": "buy", "input": "cup"} if len(heard) == 1 else {"answer": f"done: {heard[-1]}"}


async def look_up(name: str) -> str:
    return f"{name} costs {STOCK[name]}"


async def buy(name: str) -> str:
    print(f"  {name} is bought")
    return f"one {name} for {STOCK[name]}"


TOOLS = {"look up": look_up, "buy": buy}
ASKS_FIRST = {"buy"}


@app.object
class Agent(Workflow):
    async def run(self, step: Step, question: str) -> str:  # type: ignore[override]
        messages: list[Message] = [{"role": "user", "content": question}]
        for _ in range(20):
            said: Any = await step("think", think, messages, timeout="2m", retry=RetryPolicy(8))
            if "answer" in said:
                return str(said["answer"])
            tool = said["tool"]
            if tool in ASKS_FIRST:
                try:
                    await step.wait_for(f"allow {tool}", timeout="2d")
                except TimeoutError:
                    return f"nobody allowed me to {tool}"
            found = await step(tool, TOOLS[tool], said["input"])
            messages.append({"role": "tool", "content": found})
        return "I don't know"


async def main() -> None:
    async with app.world(start="2026-03-27T12:00Z") as world:
        agent, other = world.get(Agent, "1"), world.get(Agent, "2")
        await agent.start("get me a cup")
        await other.start("get me a cup")
        await world.settle()
        status = await agent.status()
        print(f"{status.state} for {status.steps[0]!r} until {status.wake_at:%d %B}")
        await world.crash()
        print("the process dies, and comes back a day later")
        await world.restart(after="1d")
        await agent.send("allow buy")
        await world.advance(days=2)
        print(await agent.result())
        print(await other.result())
        print([step.name for step in await agent.steps()])


if __name__ == "__main__":
    asyncio.run(main())
