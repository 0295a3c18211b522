# SPDX-License-Identifier: Apache-2.0
"""Columns of dictionaries and lists that hold tensors, arrays or media.

Such a column is taken apart into nodes, which are dictionaries and lists, and
leaves, which are columns with a codec of their own. The metadata lists both with
their paths; a child is the one whose path is its parent's and its key or place.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mooncake._structured.infer import (
    DEPTH_MAX, MISSING, Leaf, Node, dict_path, infer_structure, list_path)
from mooncake._structured.ragged import (
    Metadata, Payload, payload_array, row_flags)

RECURSIVE = "structured_recursive"
VERSION = 1
INFERRED = "inferred_from_runtime_values"
# A structure with a leaf of one of these is taken apart; another is one value.
_APART = ("ragged_tensor", "bytes_ragged", "media_bytes", "media_list_ragged")

Encode = Callable[[Leaf], tuple[Payload, Metadata]]
Decode = Callable[[str, Payload, int, Metadata], list[Any]]


def _keeps_arrays(leaf: Leaf) -> bool:
    return leaf.decision.codec == "typed_ragged" and any(
        isinstance(row, np.ndarray) for row in leaf.values)


def structure_of(path: str, values: Sequence[Any]
                 ) -> tuple[list[Leaf], list[Node]]:
    """The leaves and the nodes of a column; without nodes it is one leaf."""
    leaves: list[Leaf] = []
    nodes: list[Node] = []
    infer_structure(path, values, leaves, nodes)
    return leaves, nodes


def is_apart(leaves: list[Leaf], nodes: list[Node]) -> bool:
    """Whether a column is to be stored by its nodes and leaves."""
    return bool(nodes) and any(
        leaf.decision.codec in _APART or _keeps_arrays(leaf) for leaf in leaves)


def inferred(leaf: Leaf) -> Metadata:
    """What the metadata of a codec that was inferred says about that."""
    return {"schema_source": INFERRED, "decision_reason": leaf.decision.reason,
            "normalized_type": leaf.decision.normalized_type}


# ---- writing ----


def _encode_node(n: int, node: Node, payload: Payload) -> Metadata:
    prefix = f"node.{n}"
    entry: Metadata = {
        "id": n, "path": node.path, "node_type": node.node_type,
        "children": node.children, "missing_payload": f"{prefix}.missing",
        "row_mask_payload": f"{prefix}.row_mask"}
    payload[f"{prefix}.missing"] = np.array(node.missing, np.bool_)
    payload[f"{prefix}.row_mask"] = np.array(node.row_mask, np.bool_)
    if node.lengths is not None:
        entry["lengths_payload"] = f"{prefix}.lengths"
        payload[f"{prefix}.lengths"] = np.array(node.lengths, np.int64)
    return entry


def _encode_leaf(n: int, leaf: Leaf, encode: Encode,
                 payload: Payload) -> Metadata:
    """ValueError: no codec stores it."""
    missing = [row is MISSING for row in leaf.values]
    values = [None if row is MISSING else row for row in leaf.values]
    decision = leaf.decision
    if all(row is None for row in values):
        decision = replace(decision, codec="json_ragged",
                           normalized_type="json")
    elif not decision.accepted:
        raise ValueError("unsupported structured non-tensor field: "
                         f"{decision.reason}: {leaf.path}")
    leaf = replace(leaf, values=values, decision=decision)
    column, metadata = encode(leaf)
    column["missing"] = np.array(missing, np.bool_)
    members = {name: f"leaf.{n}.{name}" for name in column}
    payload.update((members[name], part) for name, part in column.items())
    return {"id": n, "path": leaf.path, "codec": decision.codec,
            "rows": len(values), "payload_members": members,
            "metadata": {**inferred(leaf), **decision.metadata, **metadata}}


def encode_recursive(path: str, leaves: list[Leaf], nodes: list[Node],
                     encode: Encode) -> tuple[Payload, Metadata]:
    """A column that was taken apart; encode is of one leaf by its decision."""
    payload: Payload = {}
    return payload, {
        "schema_source": INFERRED, "structure_version": VERSION,
        "root_path": path,
        "nodes": [_encode_node(n, node, payload)
                  for n, node in enumerate(nodes)],
        "leaves": [_encode_leaf(n, leaf, encode, payload)
                   for n, leaf in enumerate(leaves)]}


# ---- metadata that was read ----


def _entries(metadata: Metadata, name: str) -> dict[str, Metadata]:
    entries = metadata.get(name)
    if not isinstance(entries, list) or not all(
            isinstance(entry, dict) and isinstance(entry.get("path"), str)
            for entry in entries):
        raise ValueError(f"{RECURSIVE}: {name} are malformed")
    return {entry["path"]: entry for entry in entries}


def leaf_members(leaf: Metadata) -> dict[str, str]:
    """The payloads of a leaf. ValueError: it is malformed."""
    members = leaf.get("payload_members")
    if not isinstance(members, dict) or not isinstance(
            leaf.get("metadata"), dict) or "missing" not in members or not all(
                isinstance(name, str) for name in members.values()):
        raise ValueError(f"{RECURSIVE}: the leaf {leaf.get('path')!r} is "
                         "malformed")
    return members


def node_members(node: Metadata) -> list[str]:
    """The payloads of a node. ValueError: it is malformed."""
    names = [node.get("missing_payload"), node.get("row_mask_payload")]
    if node.get("node_type") == "list":
        names.append(node.get("lengths_payload"))
    elif node.get("node_type") != "dict":
        names.append(None)
    children = node.get("children")
    if not isinstance(children, list) or not all(
            isinstance(name, str) for name in names):
        raise ValueError(f"{RECURSIVE}: the node {node.get('path')!r} is "
                         "malformed")
    return [str(name) for name in names]


# ---- reading ----


class _Column:
    """Rebuilds columns of a given number of rows from what was read."""

    def __init__(self, payload: Payload, rows: int, metadata: Metadata,
                 decode: Decode) -> None:
        self.payload, self.rows, self.decode = payload, rows, decode
        self.nodes = _entries(metadata, "nodes")
        self.leaves = _entries(metadata, "leaves")

    def at(self, path: str, depth: int = 0) -> list[Any]:
        """The rows at a path. ValueError: there are none."""
        if depth > DEPTH_MAX:
            raise ValueError(f"{RECURSIVE}: nested more than {DEPTH_MAX} "
                             "deep")
        if path in self.leaves:
            return self.leaf(self.leaves[path])
        if path not in self.nodes:
            raise ValueError(f"{RECURSIVE}: nothing is at {path!r}")
        node = self.nodes[path]
        members = node_members(node)
        missing = row_flags(self.payload, members[0], self.rows).tolist()
        mask = row_flags(self.payload, members[1], self.rows).tolist()
        made = (self.dicts(node, mask, depth) if node["node_type"] == "dict"
                else self.lists(node, members[2], mask, depth))
        return [MISSING if absent else row for absent, row in zip(missing, made)]

    def leaf(self, leaf: Metadata) -> list[Any]:
        members = leaf_members(leaf)
        column = {name: self.payload[member] for name, member in members.items()
                  if member in self.payload}
        missing = row_flags(column, "missing", self.rows).tolist()
        values = self.decode(str(leaf.get("codec")), column, self.rows,
                             leaf["metadata"])
        return [MISSING if absent else row
                for absent, row in zip(missing, values)]

    def dicts(self, node: Metadata, mask: list[bool], depth: int) -> list[Any]:
        columns = [(key, self.at(dict_path(node["path"], str(key)), depth + 1))
                   for key in node["children"]]
        return [{key: column[i] for key, column in columns
                 if column[i] is not MISSING} if there else None
                for i, there in enumerate(mask)]

    def lists(self, node: Metadata, lengths_member: str, mask: list[bool],
              depth: int) -> list[Any]:
        columns = [self.at(list_path(node["path"], i), depth + 1)
                   for i in range(len(node["children"]))]
        lengths = payload_array(self.payload, lengths_member, np.int64)
        if len(lengths) != self.rows or (self.rows and not (
                0 <= lengths.min() and lengths.max() <= len(columns))):
            raise ValueError(f"{RECURSIVE}: lengths of {node['path']!r} "
                             "are out of range")
        return [[column[i] for column in columns[:length]] if there else None
                for i, (there, length) in enumerate(zip(mask, lengths.tolist()))]


def decode_recursive(payload: Payload, rows: int, metadata: Metadata,
                     decode: Decode) -> list[Any]:
    """The rows of a column that was taken apart. ValueError: it is malformed."""
    root = metadata.get("root_path")
    if metadata.get("structure_version") != VERSION or not isinstance(root, str):
        raise ValueError(f"{RECURSIVE}: structure_version is "
                         f"{metadata.get('structure_version')!r}, root_path "
                         f"{root!r}")
    return [None if row is MISSING else row
            for row in _Column(payload, rows, metadata, decode).at(root)]
