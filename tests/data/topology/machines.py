#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""machines.py - write the trees of machines that nobody has at hand

A tree is a copy of the files of /sys that matter, as text, one a line:

    sys/class/net/eth0/speed: 25000
    sys/class/net/eth0/device -> ../../../0000:00:03.0
    sys/devices/pci0000:00/0000:00:00.0/config = 8680...   (hexadecimal)

tools/record-machine writes the same of a real machine. Here a machine is
described by its sockets, host bridges and slots; what the kernel derives from
those is derived. `lstopo -i DIRECTORY` reads an unpacked tree like a real one.
"""
from __future__ import annotations

import dataclasses
import os
import pathlib
import sys

SPDX = "# SPDX-License-Identifier: Apache-2.0\n"
BRIDGE, NETWORK, INFINIBAND, DISPLAY = 0x060400, 0x020000, 0x020700, 0x030200


def mask(cpus: list[int], width: int) -> str:
    bits = sum(1 << cpu for cpu in cpus)
    words = [
        f"{bits >> (32 * i) & 0xFFFFFFFF:08x}" for i in range((width + 31) // 32)
    ]
    return ",".join(reversed(words))


def ranges(cpus: list[int]) -> str:
    out: list[str] = []
    for cpu in cpus:
        if out and int(out[-1].split("-")[-1]) == cpu - 1:
            out[-1] = f"{out[-1].split('-')[0]}-{cpu}"
        else:
            out.append(str(cpu))
    return ",".join(out)


@dataclasses.dataclass
class Tree:
    lines: dict[str, str] = dataclasses.field(default_factory=dict)

    def file(self, path: str, text: object) -> None:
        self.lines[path] = f": {text}"

    def link(self, path: str, target: str) -> None:
        relative = os.path.relpath(target, os.path.dirname(path))
        self.lines[path] = f" -> {relative}"

    def write(self, out: pathlib.Path, about: str) -> None:
        body = "".join(p + rest + "\n" for p, rest in sorted(self.lines.items()))
        out.write_text(f"{SPDX}# {about}\n{body}")


@dataclasses.dataclass
class Machine:
    """Nodes with cores each; CPU n + cores is the second thread of core n."""

    cores_a_node: int
    packages: list[int]  # of each node
    threads: int = 2
    gib_a_node: int = 512
    tree: Tree = dataclasses.field(default_factory=Tree)
    functions: int = 0

    def cpus(self, node: int) -> list[int]:
        n = self.cores_a_node
        all_cores = n * len(self.packages)
        first = range(node * n, (node + 1) * n)
        return [c + t * all_cores for t in range(self.threads) for c in first]

    def width(self) -> int:
        return self.cores_a_node * len(self.packages) * self.threads

    def node_files(self, node: int) -> None:
        base = f"sys/devices/system/node/node{node}"
        package = self.packages[node]
        distance = [
            10 if i == node else 12 if p == package else 21
            for i, p in enumerate(self.packages)
        ]
        self.tree.file(f"{base}/cpulist", ranges(self.cpus(node)))
        self.tree.file(f"{base}/cpumap", mask(self.cpus(node), self.width()))
        self.tree.file(f"{base}/distance", " ".join(map(str, distance)))
        kib = self.gib_a_node << 20
        self.tree.file(f"{base}/meminfo", f"Node {node} MemTotal:     {kib} kB")

    def cpu_files(self, node: int) -> None:
        cores = self.cores_a_node * len(self.packages)
        package = self.packages[node]
        siblings = sorted(
            c for i, p in enumerate(self.packages) if p == package
            for c in self.cpus(i)
        )
        for cpu in self.cpus(node):
            base = f"sys/devices/system/cpu/cpu{cpu}/topology"
            core = cpu % cores
            threads = [core + t * cores for t in range(self.threads)]
            self.tree.file(f"{base}/physical_package_id", package)
            self.tree.file(f"{base}/core_id", core)
            self.tree.file(f"{base}/thread_siblings_list", ranges(threads))
            self.tree.file(f"{base}/thread_siblings", mask(threads, self.width()))
            self.tree.file(f"{base}/core_siblings", mask(siblings, self.width()))

    def finish(self) -> Tree:
        nodes = list(range(len(self.packages)))
        self.tree.file("sys/devices/system/node/online", ranges(nodes))
        self.tree.file("sys/devices/system/node/possible", ranges(nodes))
        every = ranges(list(range(self.width())))
        for which in ("online", "present", "possible"):
            self.tree.file(f"sys/devices/system/cpu/{which}", every)
        for node in nodes:
            self.node_files(node)
            self.cpu_files(node)
        self.tree.file("proc/version", "none: lstopo wants a folder")
        self.tree.file("sys/class/net/lo/type", 772)
        self.tree.file("sys/class/net/lo/operstate", "unknown")
        return self.tree

    # -- PCI --

    def device(self, path: str, kind: int, ids: tuple[int, int], node: int,
               gen: float = 32.0, width: int = 16, lanes: int | None = None,
               bus: int = 0, last: int = 0) -> None:
        """One function; @path is below sys/devices, @lanes those that run."""
        base = f"sys/devices/{path}"
        bus_id = path.rsplit("/", 1)[1]
        config = bytearray(64)
        config[0:4] = ids[0].to_bytes(2, "little") + ids[1].to_bytes(2, "little")
        config[8:12] = b"\x01" + kind.to_bytes(3, "little")
        if kind == BRIDGE:
            config[0x0E] = 1
            config[0x18:0x1B] = bytes([int(bus_id[5:7], 16), bus, last])
        for name, value in [
            ("class", f"0x{kind:06x}"), ("vendor", f"0x{ids[0]:04x}"),
            ("device", f"0x{ids[1]:04x}"), ("numa_node", node),
            ("local_cpus", mask(self.cpus(node) if 0 <= node < len(self.packages)
                                else list(range(self.width())), self.width())),
            ("current_link_speed", f"{gen} GT/s PCIe"),
            ("max_link_speed", f"{gen} GT/s PCIe"),
            ("current_link_width", width if lanes is None else lanes),
            ("max_link_width", width),
        ]:
            self.tree.file(f"{base}/{name}", value)
        self.tree.lines[f"{base}/config"] = f" = {config.hex()}"
        self.tree.link(f"sys/bus/pci/devices/{bus_id}", base)

    def root(self, domain_bus: str, node: int, below: int, **link: object) -> str:
        """A host bridge with one root port; the path behind it."""
        path = f"pci{domain_bus}/{domain_bus}:01.0"
        self.device(path, BRIDGE, (0x8086, 0x352A), node, bus=below,
                    last=below + 15, **link)
        return path

    def switch(self, path: str, bus: int, slots: int, node: int,
               **link: object) -> list[str]:
        """A PCIe switch behind a root port; the paths of its slots."""
        up = f"{path}/0000:{bus:02x}:00.0"
        self.device(up, BRIDGE, (0x1000, 0xC030), node, bus=bus + 1,
                    last=bus + 1 + slots, **link)
        down = []
        for i in range(slots):
            slot = f"{up}/0000:{bus + 1:02x}:{i:02x}.0"
            self.device(slot, BRIDGE, (0x1000, 0xC030), node, bus=bus + 2 + i,
                        last=bus + 2 + i, **link)
            down.append(slot)
        return down

    def interface(self, name: str, path: str, mbps: int, state: str = "up",
                  kind: int = 1, port: int = 0) -> None:
        base = f"sys/devices/{path}/net/{name}"
        address = "02:00:00:00:00:01" if kind == 1 else ":".join(["00"] * 20)
        for key, value in [
            ("type", kind), ("operstate", state), ("dev_port", port),
            ("speed", mbps if state == "up" else -1), ("address", address),
        ]:
            self.tree.file(f"{base}/{key}", value)
        self.tree.link(f"{base}/device", f"sys/devices/{path}")
        self.tree.link(f"sys/class/net/{name}", base)

    def rdma(self, name: str, path: str, layer: str, gbps: str,
             state: str = "4: ACTIVE") -> None:
        base = f"sys/devices/{path}/infiniband/{name}"
        port = f"{base}/ports/1"
        self.tree.file(f"{port}/link_layer", layer)
        self.tree.file(f"{port}/state", state)
        self.tree.file(f"{port}/rate", gbps)
        self.tree.link(f"{base}/device", f"sys/devices/{path}")
        self.tree.link(f"sys/class/infiniband/{name}", base)

    def driver(self, name: str, path: str) -> None:
        bus_id = path.rsplit("/", 1)[1]
        self.tree.link(f"sys/bus/pci/drivers/{name}/{bus_id}", f"sys/devices/{path}")


def two_nics() -> Tree:
    """One socket: 100 Gbit/s with RDMA in a slot of gen 3, and 25 beside it."""
    m = Machine(cores_a_node=8, packages=[0], gib_a_node=128)
    slot = m.root("0000:16", 0, 0x17, gen=8.0)
    fast = f"{slot}/0000:17:00.0"
    m.device(fast, NETWORK, (0x15B3, 0x101D), 0, gen=8.0)
    m.rdma("mlx5_0", fast, "Ethernet", "100 Gb/sec (4X EDR)")
    m.interface("ens1np0", fast, 100000)
    slot = m.root("0000:64", 0, 0x65, gen=8.0, width=8)
    plain = f"{slot}/0000:65:00.0"
    m.device(plain, NETWORK, (0x8086, 0x1593), 0, gen=8.0, width=8)
    m.interface("ens2", plain, 25000)
    return m.finish()


def eight_nics() -> Tree:
    """Two sockets; four switches with two GPUs and two NICs of 400 Gbit/s each.

    Beside them an Ethernet card with two ports, one of them without a cable.
    """
    m = Machine(cores_a_node=16, packages=[0, 1], gib_a_node=1024)
    number = 0
    for i, bus in enumerate((0x15, 0x37, 0x97, 0xB7)):
        node = i // 2
        port = m.root(f"0000:{bus:02x}", node, bus + 1)
        slots = m.switch(port, bus + 1, 4, node)
        for k in range(2):
            gpu = f"{slots[k]}/0000:{bus + 3 + k:02x}:00.0"
            m.device(gpu, DISPLAY, (0x10DE, 0x2330), node)
            m.driver("nvidia", gpu)
            nic = f"{slots[2 + k]}/0000:{bus + 5 + k:02x}:00.0"
            m.device(nic, INFINIBAND, (0x15B3, 0x1021), node)
            m.rdma(f"mlx5_{number}", nic, "InfiniBand", "400 Gb/sec (4X NDR)")
            m.interface(f"ib{number}", nic, 400000, kind=32)
            number += 1
    slot = m.root("0000:72", 0, 0x73, gen=16.0, width=8)
    for k in range(2):
        card = f"{slot}/0000:73:00.{k}"
        m.device(card, NETWORK, (0x8086, 0x159B), 0, gen=16.0, width=8)
        m.interface(f"eno{k + 1}", card, 25000, "up" if k == 0 else "down")
    return m.finish()


def crooked() -> Tree:
    """What goes wrong: half the lanes, no node, a node that is not there.

    Four nodes in two sockets, a virtual function, and a GPU far from any NIC.
    """
    m = Machine(cores_a_node=4, packages=[0, 0, 1, 1], threads=1, gib_a_node=64)
    paths = {}
    for name, domain_bus, node in [
        ("narrow", "0000:10", 0), ("lost", "0000:20", -1),
        ("wrong", "0000:30", 7), ("dual", "0000:40", 1),
        ("gpu", "0000:80", 3),
    ]:
        below = int(domain_bus[5:], 16) + 1
        slot = m.root(domain_bus, node, below, gen=16.0)
        paths[name] = f"{slot}/0000:{below:02x}:00.0"
    m.device(paths["narrow"], NETWORK, (0x15B3, 0x101F), 0, gen=16.0, lanes=4)
    m.rdma("mlx5_0", paths["narrow"], "Ethernet", "200 Gb/sec (4X HDR)")
    m.interface("narrow0", paths["narrow"], 200000)
    m.device(paths["lost"], NETWORK, (0x15B3, 0x101F), -1, gen=16.0)
    m.interface("lost0", paths["lost"], 100000)
    m.device(paths["wrong"], NETWORK, (0x15B3, 0x101F), 7, gen=16.0)
    m.interface("wrong0", paths["wrong"], 100000)
    m.device(paths["dual"], NETWORK, (0x15B3, 0x101F), 1, gen=16.0)
    m.interface("dual0", paths["dual"], 100000)
    function = paths["dual"][:-1] + "1"
    m.device(function, NETWORK, (0x15B3, 0x101E), 0, gen=16.0)
    m.interface("dual0v0", function, 100000)
    m.tree.link(f"sys/devices/{function}/physfn", f"sys/devices/{paths['dual']}")
    m.device(paths["gpu"], DISPLAY, (0x10DE, 0x2330), 3, gen=16.0)
    m.driver("nvidia", paths["gpu"])
    # No device of its own, and text that no kernel writes.
    m.tree.file("sys/devices/virtual/net/veth7/type", 1)
    m.tree.file("sys/devices/virtual/net/veth7/operstate", "up")
    m.tree.file("sys/devices/virtual/net/veth7/speed", 10000)
    m.tree.link("sys/class/net/veth7", "sys/devices/virtual/net/veth7")
    return m.finish()


def main() -> int:
    here = pathlib.Path(__file__).resolve().parent
    for make in (two_nics, eight_nics, crooked):
        name = make.__name__.replace("_", "-")
        about = (make.__doc__ or "").strip().split("\n")[0]
        make().write(here / f"{name}.tree", f"{name}: {about} (machines.py)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
