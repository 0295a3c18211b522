# SPDX-License-Identifier: Apache-2.0
"""What the programs of measurements share: options, progress, the report."""
from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path


def options(prog: str, about: str, epilog: str, rounds: int, seconds: float,
            of: str) -> argparse.ArgumentParser:
    """With the options of all; @about: the first paragraph describes it."""
    parser = argparse.ArgumentParser(
        prog=prog, description=about.split("\n\n")[0], epilog=epilog)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seconds", type=float, default=seconds,
                        help=f"of one {of} (default {seconds:g})")
    parser.add_argument("--json", action="store_true",
                        help="one JSON object instead of the table")
    return parser


def add_save(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--save", type=Path, metavar="FILE",
                        help="the JSON object, besides the table")


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options; from now on SIGTERM ends the program as an error does."""
    args = parser.parse_args()
    # So that servers are stopped, and settings of the host are put back.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if args.rounds < 1 or args.seconds <= 0:
        parser.error("--rounds and --seconds must be positive")
    return args


def show_progress(text: str = "") -> None:
    """In the place of what stood there; to a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def give_report(args: argparse.Namespace, report: dict[str, object]) -> bool:
    """To where the options say. Whether that is all that is to be printed."""
    text = json.dumps(report, indent=1)
    if args.save:
        args.save.write_text(text + "\n", encoding="utf-8")
    if args.json:
        print(text)
    return args.json
