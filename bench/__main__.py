"""`python -m bench`: measure everything, say what it means, and keep it."""

import argparse
from pathlib import Path

from rich.console import Console

from bench import report, results
from bench.one import WORKS
from bench.options import names
from bench.places import ROOT
from bench.runner import Plan, run

FOLDER = ROOT / "bench" / "results"


def main() -> None:
    options = _options()
    console = Console()
    if not console.is_terminal:
        console.width = 160  # a log has no edge to wrap at
    if options.compare:
        before, after = (results.read(path) for path in options.compare)
        console.print(report.compare(before, after))
        return
    plan = Plan(
        works=options.only or WORKS,
        stores=options.stores,
        form="full" if options.full else "short",
        peers=not options.no_peers,
        repeat=options.repeat or (3 if options.full else None),
    )
    found = run(plan, say=lambda line: console.print(f"[dim]{line}[/]"))
    path = options.out or FOLDER / f"{found.at[:10]}-{found.sha}.json"
    results.write(found, path)
    (path.parent / "latest.md").write_text(report.markdown(found))
    report.show(found, console)
    console.print(f"kept in {path} and {path.parent / 'latest.md'}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--full", action="store_true", help="all of it: a million pending, every work repeated")
    parser.add_argument("--only", type=names(WORKS), metavar="WORK,…", help=", ".join(WORKS))
    parser.add_argument("--stores", type=names(("sqlite", "postgres", "memory")), default=("sqlite", "postgres"))
    parser.add_argument("--no-peers", action="store_true", help="leave the other libraries out")
    parser.add_argument(
        "--repeat", type=int, help="do every work so many times (else 3, in the short form the long ones once)"
    )
    parser.add_argument("--out", type=Path, help="where to keep the numbers instead of bench/results/DATE-SHA.json")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("A.json", "B.json"), help="print before and after")
    return parser.parse_args()


if __name__ == "__main__":
    main()
