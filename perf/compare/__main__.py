# SPDX-License-Identifier: Apache-2.0
"""The same work on this engine and on the peers that are installed.

Rounds are interleaved: in each round every peer does a work once, one after
the other, so that a change of the machine's mood meets them all. The table
shows medians with (min..max) and how many times the peer's figure ours is,
the median of the rounds; beyond 1 we are better, also for latencies. What is
not installed is named.

    python3 perf/compare --peers-python VENV/bin/python --rounds 5

Exit codes: 0 measured, 1 nothing could be measured, 2 wrong usage.
"""
from __future__ import annotations

import argparse
import sys
from pathlib import Path

if not __package__:  # run as `python3 perf/compare`
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    __package__ = "compare"

from .cells import Cell, Cells, machine, print_table, ratio  # noqa: E402
from .congestion import for_all  # noqa: E402
from .peers import Peer, all_peers  # noqa: E402
from .program import (add_save, give_report, options, parse,  # noqa: E402
                      show_progress)
from .work import WORKING_SET, WORKS, Skip, Unfit, Work  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
HEAD = ["work", "unit", "by", "median (min..max)", "ours is [goal]", "CPU s/GB"]


def times_peer(work: Work, peer: Peer, cells: Cells) -> float | None:
    """Ours by @peer's; for ourselves by the work that we shall not lose to."""
    ours = cells[work.name, "ours"]
    if peer.name != "ours":
        return ratio(work.unit, ours, cells[work.name, peer.name])
    return ratio(work.unit, ours, cells.get((work.than, "ours")))


def measure(peer: Peer, work: Work, cell: Cell, r: int) -> None:
    if cell.why and not cell.results:
        return  # it has said that it cannot
    try:
        if work.threads > 1 and not peer.has_threads:
            raise Unfit("by one thread only")
        cell.results[r] = peer.measure(work)
    except Skip as why:
        cell.why = str(why)
        cell.unfit = isinstance(why, Unfit)
    except (ValueError, KeyError, IndexError) as error:
        cell.why = f"its output is not understood: {error}"


def run_all(works: list[Work], peers: list[Peer], rounds: int,
            cells: Cells) -> None:
    total, n = rounds * len(works) * len(peers), 0
    for r in range(rounds):
        for work in works:
            # Another one begins each round, so that nobody is always first.
            for peer in peers[r % len(peers):] + peers[:r % len(peers)]:
                n += 1
                show_progress(f"{n}/{total} {work.name}: {peer.name}")
                measure(peer, work, cells[work.name, peer.name], r)
    show_progress()


def times_text(work: Work, peer: Peer, cells: Cells) -> str:
    times = times_peer(work, peer, cells)
    if times is None:
        return ""
    name = work.than if peer.name == "ours" else peer.name
    goal = dict(work.goals).get(name)
    return (f"{times:.2f} x" + (" one thread" if peer.name == "ours" else "")
            + (f" [{goal:g}]" if goal else ""))


def table_rows(works: list[Work], peers: list[Peer],
               cells: Cells) -> list[list[str]]:
    """A line for each peer that has done a work, the work named once."""
    rows = []
    for work in works:
        name, unit = work.name, work.unit
        for peer in peers:
            cell = cells[work.name, peer.name]
            if not cell.results and peer is not peers[0]:
                continue
            cpu = cell.cpu()
            rows.append([name, unit, peer.name, cell.text(),
                         times_text(work, peer, cells),
                         f"{cpu:.2f}" if cpu else ""])
            name = unit = ""
    return rows


def print_notes(works: list[Work], peers: list[Peer], away: dict[str, str],
                cells: Cells) -> None:
    """Who was not there, and what went wrong, as a list."""
    for name, why in away.items():
        print(f"- not run: {name}: {why}")
    for peer in peers:
        whys: dict[str, list[str]] = {}
        for work in works:
            cell = cells[work.name, peer.name]
            if cell.why and not cell.unfit:
                whys.setdefault(cell.why, []).append(work.name)
        for why, names in whys.items():
            print(f"- {peer.name}: {', '.join(names)}: {why}")


def report(about: dict[str, object], works: list[Work], peers: list[Peer],
           away: dict[str, str], cells: Cells) -> dict[str, object]:
    """Everything, for machines."""
    return {"about": about, "not_run": away, "works": [
        {"name": work.name, "unit": work.unit, "goals": dict(work.goals),
         "peers": {peer.name: {
             **cells[work.name, peer.name].as_json(),
             "ours_is": times_peer(work, peer, cells)} for peer in peers}}
        for work in works]}


def arguments() -> argparse.Namespace:
    parser = options("compare", __doc__, "What a peer is run with stands in "
                     "perf/compare/peers.py.", 5, 2.0, "measurement")
    parser.add_argument("--congestion", default="cubic",
                        help="for all; the system's is changed meanwhile, by "
                        "root, for peers that choose none (default cubic)")
    parser.add_argument("--peers-python", default=sys.executable,
                        help="the Python that has the peers' wheels")
    parser.add_argument("--bin", type=Path, metavar="DIR",
                        default=ROOT / "build/release/bin",
                        help="our programs (default build/release/bin)")
    parser.add_argument("--only", default="", metavar="TEXT",
                        help="works whose name contains TEXT")
    parser.add_argument("--peers", default="", metavar="NAME,...",
                        help="only these, besides ours")
    add_save(parser)
    return parse(parser)


def compare(args: argparse.Namespace, congestion: str) -> int:
    """Measure and print. The exit status."""
    works = [work for work in WORKS if args.only in work.name]
    away: dict[str, str] = {}
    peers: list[Peer] = []
    chosen = {name.strip().lower() for name in args.peers.split(",")} - {""}
    for peer in all_peers(args.seconds, congestion, args.peers_python,
                          args.bin):
        if chosen and peer.name.lower() not in chosen | {"ours"}:
            continue
        why = peer.missing()
        if why:
            away[peer.name] = why
        else:
            peers.append(peer)
    if not works or not peers or peers[0].name != "ours":
        print(f"compare: nothing to measure: {away or args.only}",
              file=sys.stderr)
        return 1
    cells: Cells = {(work.name, peer.name): Cell()
                    for work in works for peer in peers}
    about = {**machine(), "rounds": args.rounds, "seconds": args.seconds,
             "congestion": congestion, "working_set": WORKING_SET,
             "versions": {peer.name: peer.version() for peer in peers}}
    run_all(works, peers, args.rounds, cells)
    if give_report(args, report(about, works, peers, away, cells)):
        return 0
    print(", ".join(f"{key} {value}" for key, value in about.items()
                    if key != "versions"))
    print(", ".join(f"{name} {version}" for name, version
                    in about["versions"].items()) + "\n")
    print_table(HEAD, table_rows(works, peers, cells))
    print()
    print_notes(works, peers, away, cells)
    return 0


def main() -> int:
    args = arguments()
    with for_all(args.congestion) as congestion:
        return compare(args, congestion)


sys.exit(main())
