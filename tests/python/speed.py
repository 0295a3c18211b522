# SPDX-License-Identifier: Apache-2.0
"""How long to wait on a machine that has other work."""
from __future__ import annotations

import os

STRETCH_MAX = 10


def stretched(seconds: float) -> float:
    """Seconds of a quiet machine; more where others want its processors."""
    share = os.getloadavg()[0] / (os.cpu_count() or 1)
    return seconds * min(max(share, 1), STRETCH_MAX)
