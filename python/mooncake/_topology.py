# SPDX-License-Identifier: Apache-2.0
"""What TransferEngine.get_local_topology() leaves out."""
from __future__ import annotations

import json


def only(matrix: str, device_name: str | bytes) -> str:
    """The matrix with the devices alone that device_name lists."""
    if isinstance(device_name, bytes):
        device_name = device_name.decode()
    wanted = {name.strip() for name in device_name.split(",")}
    return json.dumps({
        memory: [[name for name in names if name in wanted] for names in ranks]
        for memory, ranks in json.loads(matrix).items()
    })
