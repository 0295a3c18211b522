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


def store_service() -> None:
    """mc_store_rest_server: what it lacks is one line of its own, no traceback."""
    try:
        from mooncake.mooncake_store_service import sync_main
    except ImportError as error:
        sys.exit(f"mc_store_rest_server: {error}")
    sync_main()


def become(program: str, args: Sequence[str] | None = None) -> NoReturn:
    """Its process is this one: signals and the exit code need no forwarding."""
    path = find(program)
    sys.stdout.flush()
    os.execv(path, [program, *(sys.argv[1:] if args is None else args)])
