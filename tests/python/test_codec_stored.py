# SPDX-License-Identifier: Apache-2.0
"""Rows as Mooncake's wheel 0.3.13.post1 has stored them, in tests/data.

They are read, and what is written of the same rows is the same.
"""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from mooncake._structured.codecs import EncodedField, decode_field, encode_field
from mooncake._structured.release import row_array
from mooncake._structured.schema import FieldSchema
from test_codecs import PATH, chosen, read

STORED = json.loads((Path(__file__).resolve().parents[1]
                     / "data/mooncake-rows.json").read_text(encoding="utf-8"))
NO = None


def rows() -> dict[str, list]:
    """What was stored, of Python and numpy."""
    return {
        "arrays": [np.arange(3), NO, np.zeros((2, 2), np.int64), np.array(5)],
        "arrays of one shape": [np.arange(3.0)] * 4,
        "arrays of several types": [np.arange(3.0), np.arange(2.0), NO,
                                    np.zeros(0)],
        "lists": [[1, 2], NO, [3], [4, 5, 6]],
        "lists of which some are empty": [[1], [], [2, 3], NO],
        "nested lists": [[[1, 2], [3, 4]], [[5, 6]], NO, [[7, 8]]],
        "tuples": [(1, 2), [3], NO, (4,)],
        "lists of floats": [[1.5], [2, 3], [0.5], NO],
        "integers": [1, NO, 3, 4], "floats": [1.5, 2, NO, True],
        "bools": [True, False, NO, True], "bytes": [b"ab", NO, b"c", b""],
        "text": ["a", NO, "ä", ""],
        "dictionaries": [{"a": 1, "b": [1, "x", b"y"]}, NO, {},
                         {"c": {"d": 1.5}}],
        "structures": [
            {"img": b"abc", "box": [{"at": np.arange(4)}, NO], "n": 1}, NO,
            {"img": NO, "t": "x", "e": {}, "box": []},
            {"a.b[0]": np.zeros(2), "n": NO}],
        "lists of structures": [[{"a": np.zeros(2)}], NO, [],
                                [NO, {"a": np.ones(3)}]],
        "JSON": [{"ä": [1, NO]}, NO, "x", 2.5],
        "MessagePack": [{"a": 1}, NO, [1], "t"],
        "numbers of a type": [1, NO, 2, 3],
        "lists and arrays": [[1, 2], np.arange(2, dtype=np.float32), NO, [3]],
        "media of bytes": [b"a", NO, b"b", b""],
        "numbers of no type": [1, NO, 2, 3]}


def tensors() -> dict[str, list]:
    torch = pytest.importorskip("torch")
    return {
        "tensors": [torch.arange(3), NO, torch.zeros(2, 2, dtype=torch.int64),
                    torch.tensor(5)],
        "structures of tensors": [{"x": torch.ones(2), "t": "q"}, NO,
                                  {"x": torch.zeros(1)}, {}],
        "dictionaries of tensors": [
            {"a": torch.ones(2)}, NO, {"b": torch.zeros(1, 2, dtype=torch.int64)},
            {}],
        "no tensors": [NO] * 4}


def images() -> dict[str, list]:
    module = pytest.importorskip("PIL.Image")
    one = module.frombytes("RGB", (2, 2), bytes(range(12)))
    return {"images": [one, NO, one, one],
            "lists of images": [[one, b"x"], NO, [], [one]]}


SCHEMAS = {
    "JSON": FieldSchema("json_ragged"), "MessagePack": FieldSchema("msgpack_ragged"),
    "numbers of a type": FieldSchema("ndarray", metadata={"dtype": "float32"}),
    "lists and arrays": FieldSchema("typed_ragged", metadata={"dtype": "float32"}),
    "dictionaries of tensors": FieldSchema("ragged_tensor_dict"),
    "no tensors": FieldSchema("ragged_tensor"),
    "media of bytes": FieldSchema("media_bytes"),
    "numbers of no type": FieldSchema("ndarray")}


def cases() -> list[tuple]:
    return [(make, name) for make, names in (
        (rows, rows()), (tensors, ["tensors", "structures of tensors",
                                   "dictionaries of tensors", "no tensors"]),
        (images, ["images", "lists of images"])) for name in names]


def as_told(value: object) -> object:
    """A row as a value that can be compared: what it is, and what is in it."""
    if isinstance(value, dict):
        return {key: as_told(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(as_told, value))
    if hasattr(value, "dtype"):
        return type(value).__name__, str(value.dtype), value.tolist()
    if hasattr(value, "mode"):
        return value.mode, value.size, value.tobytes()
    return value


def array_of(dtype: str | None, shape: list, data: str) -> object:
    content = bytearray.fromhex(data)
    return (bytes(content) if dtype is None
            else np.frombuffer(content, dtype).reshape(shape))


@pytest.mark.parametrize("make, name", cases())
def test_rows_that_mooncake_stored_are_read(make, name):
    wanted, field = make()[name], STORED[name]
    payload = {part: array_of(*stored) for part, stored in field["payload"].items()}
    got = decode_field(field["codec"], payload, 4, field["metadata"])
    assert as_told(got) == as_told(wanted)
    for indices in ([3, 0, 0, 2], [1, 2]):
        assert as_told(chosen(EncodedField(
            field["codec"], 4, payload, field["metadata"]), indices)) == as_told(
            [wanted[i] for i in indices])


# What differs from Mooncake: whether a row is missing within one that is None, and
# how many dimensions a row has that is None.
FREE = (".missing", "ndims", ".shapes")


def plain(metadata: object) -> object:
    """A metadata without the reasons, which are text for people."""
    if isinstance(metadata, dict):
        return {key: plain(one) for key, one in metadata.items()
                if key != "decision_reason"}
    return list(map(plain, metadata)) if isinstance(metadata, list) else metadata


@pytest.mark.parametrize("make, name", [
    case for case in cases() if case[1] not in (
        "lists of which some are empty",  # stay integers here
        "arrays of several types",  # were of other types when they were stored
        "media of bytes", "numbers of no type")])  # say more here
def test_rows_are_stored_as_mooncake_stores_them(make, name):
    field, stored = encode_field(PATH, row_array(make()[name]),
                                 SCHEMAS.get(name)), STORED[name]
    payload, metadata = read(field)
    assert (field.codec, field.rows) == (stored["codec"], stored["rows"])
    assert plain(metadata) == plain(stored["metadata"])
    assert list(payload) == list(stored["payload"])
    for part, got in payload.items():
        wanted = array_of(*stored["payload"][part])
        assert type(got) is type(wanted)
        if isinstance(got, np.ndarray):
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), part
        if not part.endswith(FREE):
            assert bytes(got) == bytes(wanted), part
