# SPDX-License-Identifier: Apache-2.0
"""mooncake.structured_object_store in parts: bundles, batches and codecs."""
from __future__ import annotations

# All of them need it: said here, once, where it is missing.
from mooncake._needs import numpy as _numpy
