# SPDX-License-Identifier: Apache-2.0
"""Rails over real sockets: striping, links that go down, silence, loss.

Makes two hosts of its own in network namespaces, with networks of unequal
speed between them, runs te-perf on both and, where there is one, the raw
reference in the same run. Needs root, or a system that lets users have
namespaces; nothing is left of it. Rounds are interleaved; the table shows
medians with (min..max), and whether the goal is met.

    python3 perf/rails --rounds 3

Exit codes: 0 measured, all bytes right, 1 something was not, 2 wrong usage.
"""
from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

if not __package__:  # run as `python3 perf/rails`
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    __package__ = "rails"

from compare.cells import print_table  # noqa: E402
from compare.program import options, parse, show_progress  # noqa: E402
from compare.work import Skip  # noqa: E402

from .network import enter, needed, network  # noqa: E402
from .trials import GOALS, Tool, Trial, all_trials  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
HEAD = ["trial", "figure", "median (min..max)", "goal", "met"]
UNITS = {"GB/s": "", "raw streams GB/s": "", "raw exchange GB/s": "",
         "gap": "ms", "gap, link down": "ms", "gap, silent": "ms",
         "back in use": "ms", "of the sum": "x", "of raw streams": "x",
         "p99 of ideal": "x"}

Values = dict[str, dict[str, list[float]]]  # trial, figure, rounds


def run_all(tool: Tool, trials: list[Trial], rounds: int,
            values: Values) -> dict[str, str]:
    """Fills @values; returns which trials failed, and why."""
    failed: dict[str, str] = {}
    for r in range(rounds):
        for n, trial in enumerate(trials):
            show_progress(f"{r * len(trials) + n + 1}/"
                          f"{rounds * len(trials)} {trial.name}")
            try:
                figures = trial.measure(tool)
            except Skip as why:
                failed[trial.name] = str(why)
                continue
            for name, value in figures.items():
                values.setdefault(trial.name, {}).setdefault(
                    name, []).append(value)
    show_progress()
    return failed


def middle(name: str, rounds: list[float]) -> float:
    """The median; of what must not happen at all, the sum."""
    if name in ("wrong bytes", "failed"):
        return sum(rounds)
    return statistics.median(rounds)


def goal_text(name: str, value: float) -> tuple[str, str]:
    goal = GOALS.get(name)
    if not goal:
        return "", ""
    sign = ">=" if goal.least else "<="
    return (f"{sign} {goal.value:g} {UNITS.get(name, '')}".rstrip(),
            "yes" if goal.met(value) else "NO")


def table_rows(values: Values) -> list[list[str]]:
    rows = []
    for trial, figures in values.items():
        for name, rounds in figures.items():
            value = middle(name, rounds)
            text = f"{value:.3g} {UNITS.get(name, '')}".rstrip()
            if min(rounds) != max(rounds):
                text += f" ({min(rounds):.3g}..{max(rounds):.3g})"
            rows.append([trial, name, text, *goal_text(name, value)])
            trial = ""
    return rows


def as_json(values: Values) -> list[dict[str, object]]:
    found = []
    for trial, figures in values.items():
        for name, rounds in figures.items():
            goal, value = GOALS.get(name), middle(name, rounds)
            found.append({
                "trial": trial, "figure": name, "median": value,
                "unit": UNITS.get(name, ""), "rounds": rounds,
                "goal": goal.value if goal else None,
                "met": goal.met(value) if goal else None})
    return found


def arguments() -> argparse.Namespace:
    parser = options("rails", __doc__, "What each trial does stands in "
                     "perf/rails/trials.py.", 3, 2.0, "transfer")
    parser.add_argument("--rails", default="4000,2000", metavar="MBIT,MBIT",
                        help="speeds of the two (default 4000,2000)")
    parser.add_argument("--bin", type=Path, metavar="DIR",
                        default=ROOT / "build/release/bin",
                        help="our programs (default build/release/bin)")
    parser.add_argument("--only", default="", metavar="TEXT",
                        help="trials whose name contains TEXT")
    args = parse(parser)
    try:
        args.mbits = tuple(int(word) for word in args.rails.split(","))
    except ValueError:
        args.mbits = ()
    if len(args.mbits) != 2 or min(args.mbits) < 1:
        parser.error("--rails takes two speeds in Mbit/s")
    return args


def main() -> int:
    args = arguments()
    values: Values = {}
    trials = [t for t in all_trials() if args.only in t.name]
    program = args.bin / "te-perf"
    try:
        missing = needed() or (None if program.exists()
                               else f"{program} is not built")
        if missing:
            raise Skip(missing)
        enter()
        with network(args.mbits) as net:
            failed = run_all(Tool(net, program, args.seconds), trials,
                             args.rounds, values)
    except Skip as why:
        print(f"rails: {why}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps({"rails_mbit": args.mbits, "failed": failed,
                          "figures": as_json(values)}, indent=1))
    else:
        print_table(HEAD, table_rows(values))
    for name, why in failed.items():
        print(f"failed: {name}: {why}", file=sys.stderr)
    wrong = any(middle("wrong bytes", figures.get("wrong bytes", []))
                for figures in values.values())
    return 1 if failed or wrong or not values else 0


sys.exit(main())
