# SPDX-License-Identifier: Apache-2.0
"""The master of a pool, as a console script."""
from __future__ import annotations

from typing import NoReturn

from mooncake._programs import become


def main() -> NoReturn:
    become("mooncake_master")


if __name__ == "__main__":
    main()
