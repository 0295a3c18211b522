# SPDX-License-Identifier: Apache-2.0
"""Where the programs of the package are, and how to become one."""
from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Sequence
from typing import NoReturn


def find(program: str) -> pathlib.Path:
    """In the wheel, or in a build tree; FileNotFoundError: in neither."""
    package = pathlib.Path(__file__).absolute().parent
    inside = package / "bin" / program
    for path in (inside, package.parents[1] / "bin" / program):
        if path.exists():
            return path
    raise FileNotFoundError(f"{program}: should be at {inside}; this package "
                            "was installed without its programs")


def become(program: str, args: Sequence[str] | None = None) -> NoReturn:
    """Its process is this one: signals and the exit code need no forwarding."""
    path = find(program)
    sys.stdout.flush()
    os.execv(path, [program, *(sys.argv[1:] if args is None else args)])
