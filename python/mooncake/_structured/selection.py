# SPDX-License-Identifier: Apache-2.0
"""Which parts of its payloads some rows of a column need, codec by codec.

A plan is a generator. It yields a dictionary that has, for each payload it needs,
spans (begin, end) of its elements, which may repeat; is sent the elements of those
spans, one after the other, by payload; and returns the payloads and the metadata of
a column of these rows only. So offsets are read first, then what lies between them.
"""
from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

import numpy as np

from mooncake._structured.ragged import (
    Metadata, Payload, dict_columns, offsets_of, payload_array)
from mooncake._structured.recursive import (
    RECURSIVE, leaf_members, node_members)

Spans = list[tuple[int, int]]
Ranges = dict[str, Spans]
Plan = Generator[Ranges, Payload, tuple[Payload, Metadata]]


def spans_of(indices: Iterable[int]) -> Spans:
    """Runs of rows that follow each other, in the order of the rows."""
    spans: Spans = []
    for index in indices:
        if spans and spans[-1][1] == index:
            spans[-1] = (spans[-1][0], index + 1)
        else:
            spans.append((index, index + 1))
    return spans


# A fragment costs as much as some KiB: of many short ones near ones are read as one.
MANY, NEAR, SHORT = 16, 512, 4096  # fragments; elements between, and in one


def _coalesced(spans: Spans) -> Spans:
    """Spans that have these in them, in the same order: fewer, if that helps."""
    if len(spans) <= MANY or _count(spans) > SHORT * len(spans):
        return spans
    fewer = spans[:1]
    for begin, end in spans[1:]:
        first, last = fewer[-1]
        if first <= begin <= last + NEAR:
            fewer[-1] = (first, max(last, end))
        else:
            fewer.append((begin, end))
    return fewer if 2 * len(fewer) <= len(spans) else spans


def _picked(got: Any, fewer: Spans, spans: Spans) -> np.ndarray:
    """The elements of spans, of those of fewer ones that have them in them."""
    array = np.frombuffer(got, np.uint8) if isinstance(got, (
        bytes, bytearray, memoryview)) else np.asarray(got)
    if len(array) != _count(fewer):
        raise ValueError(f"{len(array)} elements were read of {_count(fewer)}")
    parts, i, base = [], 0, 0
    for begin, end in spans:
        while not fewer[i][0] <= begin <= end <= fewer[i][1]:
            base += fewer[i][1] - fewer[i][0]
            i += 1
        at = base + begin - fewer[i][0]
        parts.append(array[at:at + end - begin])
    return np.concatenate(parts)


def read_spans(wanted: Ranges, read: Callable[[Ranges], Payload]) -> Payload:
    """The elements of spans, read in fewer fragments where there are many."""
    fewer = {name: _coalesced(spans) for name, spans in wanted.items()}
    got = read(fewer)
    return {name: got[name] if fewer[name] is spans
            else _picked(got[name], fewer[name], spans)
            for name, spans in wanted.items()}


def _count(spans: Spans) -> int:
    return sum(end - begin for begin, end in spans)


def _with_ends(spans: Spans) -> Spans:
    """The offsets of rows: those of their begins and the one behind the last."""
    return [(begin, end + 1) for begin, end in spans]


def _within(offsets: np.ndarray, spans: Spans) -> tuple[Spans, np.ndarray]:
    """What lies between the offsets of spans of rows, and each row's length.

    ValueError: they are not offsets of so many rows.
    """
    if len(offsets) != _count(spans) + len(spans):
        raise ValueError(f"{len(offsets)} offsets are not those of "
                         f"{_count(spans)} rows")
    if not spans:
        return [], np.empty(0, np.int64)
    ends = np.cumsum([end - begin + 1 for begin, end in spans])
    begins = np.concatenate([[0], ends[:-1]])
    lengths = np.delete(np.diff(offsets), ends[:-1] - 1)
    if (offsets[begins] < 0).any() or (lengths < 0).any():
        raise ValueError("offsets: rows do not lie one behind the other")
    return list(zip(offsets[begins].tolist(), offsets[ends - 1].tolist())), lengths


def _read_data(spans: Spans) -> Generator[Ranges, Payload, Any]:
    """The data of these spans; nothing is asked for where they are empty."""
    wanted = [(begin, end) for begin, end in spans if end > begin]
    if not wanted:
        return b""
    return (yield {"data": wanted})["data"]


def _of_offsets(metadata: Metadata, spans: Spans, *each: str) -> Plan:
    """Of a codec with data, offsets, and payloads with an element of each row."""
    got = yield {"offsets": _with_ends(spans), **dict.fromkeys(each, spans)}
    within, lengths = _within(payload_array(got, "offsets", np.int64), spans)
    data = yield from _read_data(within)
    return {**got, "data": data, "offsets": offsets_of(lengths)}, metadata


def _cut(rows: Any, spans: Spans) -> Any:
    """The part of a list of all rows that belongs to some of them."""
    if not isinstance(rows, list):
        return rows
    return [row for begin, end in spans for row in rows[begin:end]]


def _cut_encodings(metadata: Metadata, spans: Spans) -> Metadata:
    """A metadata that says of some items only how they were made."""
    if "media_encodings" not in metadata:
        return metadata
    return {**metadata,
            "media_encodings": _cut(metadata["media_encodings"], spans)}


def _bytes(metadata: Metadata, spans: Spans) -> Plan:
    return (yield from _of_offsets(metadata, spans, "nulls"))


def _ragged(metadata: Metadata, spans: Spans) -> Plan:
    cut = {**metadata, "ndarray_rows": _cut(metadata.get("ndarray_rows"), spans)}
    return (yield from _of_offsets(cut, spans, "shapes", "ndims", "nulls"))


def _numbers(metadata: Metadata, spans: Spans) -> Plan:
    got = yield {"data": spans, "nulls": spans}
    return got, metadata


def _media(metadata: Metadata, spans: Spans) -> Plan:
    return (yield from _of_offsets(_cut_encodings(metadata, spans), spans,
                                   "nulls"))


def _media_list(metadata: Metadata, spans: Spans) -> Plan:
    got = yield {"row_offsets": _with_ends(spans), "nulls": spans}
    items, counts = _within(payload_array(got, "row_offsets", np.int64), spans)
    there = [(begin, end) for begin, end in items if end > begin]
    bounds: Payload = {"byte_offsets": np.empty(0, np.int64)}
    if there:
        bounds = yield {"byte_offsets": _with_ends(there)}
    within, lengths = _within(payload_array(bounds, "byte_offsets", np.int64),
                              there)
    data = yield from _read_data(within)
    return {"data": data, "row_offsets": offsets_of(counts),
            "byte_offsets": offsets_of(lengths), "nulls": got["nulls"]}, _cut_encodings(metadata, items)


# ---- columns made of columns ----


def _renamed(plan: Plan, names: Callable[[str], str]) -> Plan:
    """A plan of payloads that have other names in the whole."""
    try:
        wanted = next(plan)
        while True:
            got = yield {names(name): spans for name, spans in wanted.items()}
            wanted = plan.send({name: got[names(name)] for name in wanted})
    except StopIteration as stop:
        payload, metadata = stop.value
        return {names(name): part for name, part in payload.items()}, metadata


def _together(plans: Sequence[Plan]) -> Generator[
        Ranges, Payload, list[tuple[Payload, Metadata]]]:
    """Several plans of different payloads, whose reads are made at once."""
    results: dict[int, tuple[Payload, Metadata]] = {}
    wanted: dict[int, Ranges] = {}

    def advance(n: int, got: Payload | None) -> None:
        try:
            wanted[n] = next(plans[n]) if got is None else plans[n].send(got)
        except StopIteration as stop:
            wanted.pop(n, None)
            results[n] = stop.value

    for n in range(len(plans)):
        advance(n, None)
    while wanted:
        got = yield {name: spans for ranges in wanted.values()
                     for name, spans in ranges.items()}
        for n, ranges in list(wanted.items()):
            advance(n, {name: got[name] for name in ranges})
    return [results[n] for n in range(len(plans))]


def _flags(names: Sequence[str], spans: Spans) -> Plan:
    """A plan of payloads with an element of each row."""
    got: Payload = yield dict.fromkeys(names, spans)
    return got, {}


def _dict(metadata: Metadata, spans: Spans) -> Plan:
    columns = dict_columns(metadata)
    plans = [_flags(["null_mask"], spans)]
    plans += [_renamed(_ragged(one, spans), f"{key}.{{}}".format)
              for key, one in columns.items()]
    results = yield from _together(plans)
    return {name: part for payload, _ in results
            for name, part in payload.items()}, {
        **metadata, "key_codecs": dict(zip(
            columns, (cut for _, cut in results[1:])))}


def _leaf(leaf: Metadata, spans: Spans) -> Plan:
    members, codec = leaf_members(leaf), str(leaf.get("codec"))
    if codec == RECURSIVE:
        raise ValueError(f"{codec}: no leaf is stored so")

    def member(name: str) -> str:
        if name not in members:
            raise ValueError(f"{leaf['path']}: the payload {name!r} is missing")
        return members[name]

    results = yield from _together([
        _renamed(payload_ranges(codec, leaf["metadata"], spans), member),
        _flags([members["missing"]], spans)])
    return {**results[0][0], **results[1][0]}, {
        **leaf, "metadata": results[0][1], "rows": _count(spans)}


def _recursive(metadata: Metadata, spans: Spans) -> Plan:
    nodes, leaves = metadata.get("nodes"), metadata.get("leaves")
    if not isinstance(nodes, list) or not isinstance(leaves, list) or not all(
            isinstance(one, dict) for one in [*nodes, *leaves]):
        raise ValueError(f"{RECURSIVE}: nodes or leaves are malformed")
    members = [name for node in nodes for name in node_members(node)]
    results = yield from _together([
        _flags(members, spans), *(_leaf(leaf, spans) for leaf in leaves)])
    return {name: part for payload, _ in results
            for name, part in payload.items()}, {
        **metadata, "leaves": [cut for _, cut in results[1:]]}


_PLANS: dict[str, Callable[[Metadata, Spans], Plan]] = {
    "typed_ragged": _ragged, "ragged_tensor": _ragged, "ndarray": _numbers,
    "bytes_ragged": _bytes, "utf8_ragged": _bytes, "json_ragged": _bytes,
    "msgpack_ragged": _bytes, "media_bytes": _media,
    "media_list_ragged": _media_list, "ragged_tensor_dict": _dict,
    RECURSIVE: _recursive}


def payload_ranges(codec: str, metadata: Metadata, spans: Spans) -> Plan:
    """What is needed of a column to read its rows in spans.

    ValueError, there or from the plan: there is no such codec, or the metadata or
    the offsets are malformed.
    """
    if codec not in _PLANS:
        raise ValueError(f"no codec is {codec!r}")
    return _PLANS[codec](metadata, spans)
