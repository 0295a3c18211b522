# SPDX-License-Identifier: Apache-2.0
"""Transfer engine and key/value pool, with Mooncake's names and results."""
from __future__ import annotations

from pkgutil import extend_path
from typing import TYPE_CHECKING

from mooncake._version import VERSION as __version__

if TYPE_CHECKING:
    from mooncake.buffer_pool import BufferPool, RegisteredBufferPool

# Other distributions may have modules of the package.
__path__ = extend_path(__path__, __name__)
__all__ = ["BufferPool", "RegisteredBufferPool"]


def __getattr__(name: str) -> object:
    """The package needs mooncake.store when one of these is asked for, only."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mooncake import buffer_pool

    return getattr(buffer_pool, name)
