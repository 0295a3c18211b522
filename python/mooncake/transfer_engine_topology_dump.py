# SPDX-License-Identifier: Apache-2.0
"""Print which NICs are near which memory, as an engine of this host sees it."""
from __future__ import annotations

import argparse
import os
import subprocess
import sys

from mooncake import _topology
from mooncake._programs import find


def parse(args: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="transfer_engine_topology_dump", description=__doc__)
    parser.add_argument("--device-name", default="",
                        help="only these NICs, separated by commas")
    parser.add_argument("--backend", choices=("auto", "te", "tent"),
                        default="auto", help="there is one engine: te")
    parser.add_argument("--use-custom-topo", action="store_true",
                        help="what the file of MC_CUSTOM_TOPO_JSON says")
    parser.add_argument("--custom-topo-json", metavar="FILE",
                        help="what this file says")
    parsed = parser.parse_args(args)
    if parsed.backend == "tent":
        parser.error("--backend tent: there is one engine, te")
    if parsed.use_custom_topo and not parsed.custom_topo_json:
        parsed.custom_topo_json = os.environ.get("MC_CUSTOM_TOPO_JSON")
        if not parsed.custom_topo_json:
            parser.error("--use-custom-topo: MC_CUSTOM_TOPO_JSON is not set")
    return parsed


def main(args: list[str] | None = None) -> int:
    parsed = parse(args)
    file = parsed.custom_topo_json
    shown = subprocess.run(
        [find("te-topo"), "--matrix", *(["--from", file] if file else [])],
        stdout=subprocess.PIPE, text=True, check=False)
    if shown.returncode:
        return shown.returncode  # it has said why
    matrix = shown.stdout.strip()
    if parsed.device_name:
        matrix = _topology.only(matrix, parsed.device_name)
    print(f"Local topology [te/{'custom' if file else 'discover'}]: {matrix}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
