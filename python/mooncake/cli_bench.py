# SPDX-License-Identifier: Apache-2.0
"""A benchmark of an engine, as a console script."""
from __future__ import annotations

from typing import NoReturn

from mooncake._programs import become


def main() -> NoReturn:
    become("transfer_engine_bench")


if __name__ == "__main__":
    main()
