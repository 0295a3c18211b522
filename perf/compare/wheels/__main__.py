# SPDX-License-Identifier: Apache-2.0
"""This project's wheel and the published one, through Python.

Each task is done by all in turn, round by round, in processes that stay: two
for the engine, a master, an owner and a client for the store. Ours is measured
twice, forced to tcp and as it comes. The table shows medians with (min..max)
and how many times better than the published wheel ours is, the median of the
rounds; raw is a plain Python stream and ping-pong of the same rounds.

    ./dev wheel && python3 perf/compare/wheels --rounds 5
    python3 perf/compare/wheels --busy 0,1,2 --only 'p50|p99|rate'

--busy N has N busy loops beside all of it on each core that this process may
use, bound to that core, as on a host that serves a model. Several numbers are
measured in turn, a table each.

Installs both wheels into environments of their own, once for each folder.
Exit codes: 0 measured, 1 nothing could be measured, 2 wrong usage.
"""
from __future__ import annotations

import argparse
import contextlib
import re
import sys
import tempfile
from pathlib import Path

if not __package__:  # run as `python3 perf/compare/wheels`
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    __package__ = "compare.wheels"

from ..cells import Cell, Cells, machine, print_table  # noqa: E402
from ..process import busy  # noqa: E402
from ..program import (add_save, give_report, options, parse,  # noqa: E402
                       show_progress)
from ..work import Result, Skip  # noqa: E402
from . import venvs  # noqa: E402
from .groups import GROUPS, Group, System, systems_of  # noqa: E402
from .rows import (BATCH_GROUPS, DEFAULT, FIELDS, MIB, PEER, RAW,  # noqa: E402
                   Row, Task, WORKING_SET, rows_named, tasks_of)
from .table import HEAD, report, table_rows  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]


def loop_counts(text: str) -> list[int]:
    """The numbers of --busy, such as "0,1,2"."""
    if not re.fullmatch("[0-9]+(,[0-9]+)*", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of busy loops, nor several with commas "
            "between them")
    counts = [int(count) for count in text.split(",")]
    if len(set(counts)) < len(counts):
        raise argparse.ArgumentTypeError(f"{text!r} has a number twice")
    return counts


def arguments() -> argparse.Namespace:
    parser = options("compare/wheels", __doc__, "The published wheel needs: "
                     f"{venvs.PACKAGES}.", 5, 0.4, "measurement")
    parser.add_argument("--only", default="", metavar="PATTERN",
                        help="rows whose name it finds, a regular expression")
    parser.add_argument("--fields-mib", type=int, default=FIELDS // MIB,
                        metavar="N", help="of a DataProto of 64 tensors "
                        "(default %(default)s; thrice as much memory is used "
                        "by each of the three)")
    parser.add_argument("--venvs", type=Path, metavar="DIR",
                        help="of the environments, kept (default: for this "
                        "run only)")
    parser.add_argument("--wheel", type=Path, metavar="FILE",
                        help="ours (default: of build/wheel/dist)")
    parser.add_argument("--ours", type=Path, metavar="PYTHON",
                        help="one that has ours, instead of an environment")
    parser.add_argument("--peer", type=Path, metavar="PYTHON",
                        help="one that has the published wheel")
    parser.add_argument("--busy", type=loop_counts, default=[0],
                        metavar="N[,N...]", help="busy loops on each core, "
                        "beside the work; several numbers: in turn")
    add_save(parser)
    args = parse(parser)
    try:
        re.compile(args.only)
    except re.error as error:
        parser.error(f"--only: {error}")
    if args.fields_mib < 1:
        parser.error("--fields-mib must be positive")
    args.wheel = args.wheel or venvs.newest_wheel(ROOT / "build/wheel/dist")
    if not args.ours and not args.wheel:
        parser.error("no wheel of ours: ./dev wheel builds it")
    return args


def systems(args: argparse.Namespace, folder: Path,
            rows: list[Row]) -> list[System]:
    """Raises Skip: no environment can be made, or it is of no use."""
    ours, theirs, sizes = args.ours, args.peer, {}
    if not ours:
        ours = venvs.environment(folder / "ours", str(args.wheel))
        venvs.refresh(ours, args.wheel)
    if args.wheel:
        sizes[DEFAULT] = args.wheel.stat().st_size / 1e6
    if not theirs:
        theirs = venvs.environment(folder / "published", venvs.PUBLISHED)
        size = venvs.wheel_mb(folder / "file", theirs, venvs.PUBLISHED)
        if size:
            sizes[PEER] = size
    for name, python in (("ours", ours), ("the published wheel", theirs)):
        why = venvs.usable(python)
        if why:
            raise Skip(f"{name} is not usable: {why} ({venvs.PACKAGES})")
        if any(task.group in BATCH_GROUPS for task in tasks_of(rows)):
            venvs.add(python, venvs.FOR_BATCHES)
    return systems_of(ours, theirs, sizes, args.fields_mib * MIB)


def section(task: Task) -> str:
    """What is up together: the raw reference beside the engines."""
    return "engine" if task.group == "raw" else task.group


def does(system: System, task: Task) -> bool:
    """The raw reference has tasks of its own, which nobody else does."""
    return (system.name == RAW) == (task.group == "raw")


def measure(group: Group, task: Task, seconds: float, rows: list[Row],
            cells: Cells, r: int) -> None:
    """Enter the figures of round @r, or why there are none."""
    system = group.system.name
    try:
        figures = group.measure(task, seconds)
    except Skip as why:
        figures = {}
        for row in rows:
            cells[row.name, system].why = str(why)
    for row in rows:
        if row.figure in figures:
            cells[row.name, system].results[r] = Result(figures[row.figure])


class Run:
    """All rounds of all tasks."""

    def __init__(self, rounds: int, seconds: float, rows: list[Row],
                 who: list[System]) -> None:
        self.rounds, self.seconds = rounds, seconds
        self.rows, self.who = rows, who
        self.tasks = tasks_of(rows)
        self.cells: Cells = {(row.name, system.name): Cell()
                             for row in rows for system in who}

    def start(self, stack: contextlib.ExitStack,
              tasks: list[Task]) -> list[Group]:
        """Who is away has said why in each of its cells."""
        up = []
        for system in self.who:
            mine = [task for task in tasks if does(system, task)]
            if not mine:
                continue
            try:
                up.append(stack.enter_context(GROUPS[mine[0].group](system)))
            except Skip as why:
                names = {task.name for task in mine}
                for row in self.rows:
                    if row.task in names:
                        self.cells[row.name, system.name].why = str(why)
        return up

    def round(self, r: int, tasks: list[Task], up: list[Group]) -> None:
        for task in tasks:
            mine = [row for row in self.rows if row.task == task.name]
            # Another one begins each round, so that nobody is always first.
            at = r % len(up)
            for group in up[at:] + up[:at]:
                if not does(group.system, task):
                    continue
                show_progress(f"{r + 1}/{self.rounds} {task.name}: "
                              f"{group.system.name}")
                measure(group, task, self.seconds, mine, self.cells, r)

    def all(self) -> None:
        for kind in dict.fromkeys(section(task) for task in self.tasks):
            tasks = [task for task in self.tasks if section(task) == kind]
            with contextlib.ExitStack() as stack:
                up = self.start(stack, tasks)
                for r in range(self.rounds if up else 0):
                    self.round(r, tasks, up)
        show_progress()

    def notes(self) -> list[str]:
        """What went wrong, each thing once."""
        whys: dict[tuple[str, str], list[str]] = {}
        for (row, system), cell in self.cells.items():
            if cell.why:
                whys.setdefault((system, cell.why), []).append(row)
        return [f"- {system}: {', '.join(rows)}: {why}"
                for (system, why), rows in whys.items()]


def show(loops: int, run: Run) -> None:
    """One table; @loops: on each core beside the work."""
    print(f"\nbusy loops on each core: {loops}\n")
    print_table(HEAD, table_rows(run.rows, run.cells))
    print("".join(f"\n{note}" for note in run.notes()), flush=True)


def compare(args: argparse.Namespace, folder: Path) -> int:
    """Measure and print. The exit status."""
    rows = rows_named(args.only)
    if not rows:
        print(f"compare: no row is found by {args.only}", file=sys.stderr)
        return 2
    who = systems(args, folder, rows)
    about = {**machine(), "rounds": args.rounds, "seconds": args.seconds,
             "working_set": WORKING_SET, "fields_mib": args.fields_mib,
             "busy_loops_per_core": args.busy,
             "versions": {"published": venvs.version(
                 who[1].python, venvs.PUBLISHED.split("==")[0]),
                 "ours": venvs.version(who[2].python, venvs.OURS)}}
    if not args.json:
        print(", ".join(f"{key} {value}" for key, value in about.items()))
    measured: dict[int, Cells] = {}
    for loops in args.busy:
        run = Run(args.rounds, args.seconds, rows, who)
        with busy(loops):
            run.all()
        measured[loops] = run.cells
        if not args.json:
            show(loops, run)
    give_report(args, report(about, rows, measured))
    return 0


def main() -> int:
    args = arguments()
    with contextlib.ExitStack() as stack:
        folder = args.venvs or Path(stack.enter_context(
            tempfile.TemporaryDirectory(prefix="compare-")))
        try:
            return compare(args, folder)
        except Skip as why:
            print(f"compare: {why}", file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
