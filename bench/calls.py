"""How many calls of awake objects are answered in a second: writes, durable when answered, and reads?"""

from bench.measures import Measure, rate
from bench.program import Bench, make_app
from bench.sizes import Sizes, short_number
from wakeful import App


async def run(url: str, sizes: Sizes) -> list[Measure]:
    """`calls.write.CALLERSonOBJECTS` and `calls.read.…`, the objects awake; then the same write as a plain `def`.

    Such a call reads once and writes once, each of which is a message between its thread (or process) and the loop.
    """
    app, cls = make_app()
    measures = []
    async with app.run(url):
        await _calls(app, cls, "warm", "add", sizes.call_objects, 256, sizes.call_objects)
        for callers, objects in ((1, 1), (64, 1), (64, sizes.call_objects)):
            for method, verb in (("add", "write"), ("look", "read")):
                name = f"calls.{verb}.{callers}on{short_number(objects)}"
                count = sizes.call_count if callers > 1 else max(1, sizes.call_count // 5)
                measures.append(await _calls(app, cls, name, method, count, callers, objects))
    plain = App(idle="10m")
    plain.object(Bench)
    async with plain.run(url):
        for where in ("thread", "process"):
            method, count = f"add_in_{where}", max(1, sizes.call_count // 20)
            await _calls(plain, Bench, "warm", method, 64, 64, 64)
            for callers in (1, 64):
                measures.append(await _calls(plain, Bench, f"calls.{where}.{callers}on64", method, count, callers, 64))
    return measures


async def _calls(app: App, cls: type[Bench], name: str, method: str, count: int, callers: int, objects: int) -> Measure:
    async def one(number: int) -> None:
        await getattr(app.get(cls, f"c{number % objects}"), method)()

    return await rate(name, count, callers, one)
