# SPDX-License-Identifier: Apache-2.0
"""What cannot be shown under a sanitizer."""
import os

import pytest

# Another thread may be in the allocator, whose locks the child then never gets.
needs_fork = pytest.mark.skipif(
    "asan" in os.environ.get("LD_PRELOAD", ""),
    reason="a fork of a process with threads, under AddressSanitizer")
