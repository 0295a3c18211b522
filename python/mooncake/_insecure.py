# SPDX-License-Identifier: Apache-2.0
"""Whether MOONCAKE_INSECURE opens this process to other hosts."""
from __future__ import annotations

import os


def insecure() -> bool:
    return os.environ.get("MOONCAKE_INSECURE", "").lower() not in (
        "", "0", "false", "off", "no")
