# SPDX-License-Identifier: Apache-2.0
"""An owner of the pool, which serves dummies, as a console script."""
from __future__ import annotations

from typing import NoReturn

from mooncake._programs import become


def main() -> NoReturn:
    become("mooncake_client")


if __name__ == "__main__":
    main()
