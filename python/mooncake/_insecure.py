# SPDX-License-Identifier: Apache-2.0
"""Whom the servers written in Python serve.

Without MOONCAKE_INSECURE: processes of this host that run as this user or root, or as
one of those in MOONCAKE_ALLOW_UIDS. As the servers in C, by the same function.
"""
from __future__ import annotations

import os
import socket

from mooncake.engine import _peer_refusal

ALLOW_UIDS = "MOONCAKE_ALLOW_UIDS"


def insecure() -> bool:
    """Tells whether MOONCAKE_INSECURE opens this process to everybody."""
    return os.environ.get("MOONCAKE_INSECURE", "").lower() not in (
        "", "0", "false", "off", "no")


class Members:
    """Users that are served beside this one; None: those in MOONCAKE_ALLOW_UIDS.

    ValueError: it is no list of user ids.
    """

    def __init__(self, allow_uids: str | None = None) -> None:
        self.uids = (os.environ.get(ALLOW_UIDS) if allow_uids is None
                     else allow_uids) or None
        this, other = socket.socketpair()
        with this, other:
            _peer_refusal(this.fileno(), self.uids)

    def refusal(self, connected: socket.socket) -> str | None:
        """None: its other end is served; else the words to refuse it with."""
        if insecure():
            return None
        return _peer_refusal(connected.fileno(), self.uids)
