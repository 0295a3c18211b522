# SPDX-License-Identifier: Apache-2.0
"""What every consumer meets: a master of its own."""
from __future__ import annotations

from collections.abc import Iterator

import pytest
from pool import Master


@pytest.fixture
def master() -> Iterator[Master]:
    one = Master()
    yield one
    one.kill()
