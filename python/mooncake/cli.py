# SPDX-License-Identifier: Apache-2.0
"""The programs that are inside the package, as console scripts."""
from __future__ import annotations

import os
import pathlib
import sys


def run(program: str) -> None:
    """Become the program, with the arguments of this process."""
    path = pathlib.Path(__file__).parent / "bin" / program
    os.execv(path, [program, *sys.argv[1:]])


def mooncake_master() -> None:
    run("mooncake_master")


def mooncake_client() -> None:
    run("mooncake_client")
