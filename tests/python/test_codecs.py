# SPDX-License-Identifier: Apache-2.0
"""mooncake._structured.codecs: rows of Python values as payloads, without torch."""
from __future__ import annotations

import json
import random
import sys

import numpy as np
import pytest
from mooncake._structured import payloads, selection
from mooncake._structured.codecs import (
    EncodedField, _encode_with_schema, decode_field, decode_rows, encode_field)
from mooncake._structured.payloads import _DirectCopyPayload, _MultiBufferPayload
from mooncake._structured.pieces import (
    _decode_msgpack_ragged_values, _encode_msgpack_ragged_values)
from mooncake._structured.ragged import (
    _decode_typed_ragged_values, _encode_typed_ragged_regular_ndarray_rows,
    _encode_typed_ragged_values)
from mooncake._structured.release import row_array
from mooncake._structured.schema import FieldSchema

PATH = "non_tensor_batch.field"


def stored(value: object) -> object:
    """A payload as it is read from a store."""
    if isinstance(value, np.ndarray):
        return value
    data = b"".join(value.buffers if isinstance(value, _MultiBufferPayload)
                    else map(payloads.bytes_of, value.arrays)
                    if isinstance(value, _DirectCopyPayload) else [value])
    if getattr(value, "dtype", None) is None:
        return data
    array = np.frombuffer(bytearray(data), value.dtype)
    assert array.shape == value.shape
    return array


def read(field: EncodedField) -> tuple:
    """What a reader gets of it: payloads, and metadata through JSON."""
    return ({name: stored(part) for name, part in field.payload.items()},
            json.loads(json.dumps(field.metadata)))


def decoded(field: EncodedField) -> list:
    payload, metadata = read(field)
    return decode_field(field.codec, payload, field.rows, metadata)


def chosen(field: EncodedField, indices: list[int],
           fragments: list[int] | None = None) -> list:
    """Some rows, read by spans of their payloads, and how many of each."""
    payload, metadata = read(field)
    reads: list = []

    def read_spans(wanted: dict) -> dict:
        reads.append(wanted)
        got = {}
        for name, spans in wanted.items():
            whole = payload[name]
            assert spans and all(0 <= a < b <= len(whole) for a, b in spans)
            parts = [whole[a:b] for a, b in spans]
            if fragments is not None:
                fragments.append(len(parts))
            got[name] = (b"".join(parts) if isinstance(whole, bytes)
                         else np.concatenate(parts))
        return got

    rows = decode_rows(field.codec, metadata, field.rows, indices, read_spans)
    assert len(reads) <= 3
    return rows


def same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
                and a.dtype == b.dtype and a.shape == b.shape
                and bool((a == b).all()))
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(
            map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(
            same(a[key], b[key]) for key in a)
    return type(a) is type(b) and a == b


def check(values: list, codec: str, schema: FieldSchema | None = None,
          wanted: list | None = None) -> EncodedField:
    """Rows come back, all and some of them, and so from what is decoded."""
    field = encode_field(PATH, row_array(values), schema)
    assert field.codec == codec and field.rows == len(values)
    wanted = values if wanted is None else wanted
    assert same(decoded(field), wanted)
    n = len(values)
    choice = random.Random(7)
    for indices in ([], list(range(n)), [0], [n - 1, 0, 0],
                    choice.choices(range(n), k=n)):
        if all(0 <= i < n for i in indices):
            assert same(chosen(field, indices), [wanted[i] for i in indices])
    return field


# ---- arrays and lists of numbers ----


def test_arrays_of_any_shape_come_back():
    field = check([np.arange(6, dtype=np.int16).reshape(2, 3), None,
                   np.arange(4, dtype=np.int16)[::2], np.array(7, np.int16),
                   np.empty((0, 3), np.int16)], "typed_ragged")
    payload, metadata = read(field)
    assert payload["data"].tolist() == [0, 1, 2, 3, 4, 5, 0, 2, 7]
    assert payload["data"].dtype == np.int16
    assert payload["offsets"].tolist() == [0, 6, 6, 8, 9, 9]
    assert payload["shapes"].tolist() == [[2, 3], [0, 0], [2, 0], [0, 0], [0, 3]]
    assert payload["ndims"].tolist() == [2, 0, 1, 0, 2]
    assert payload["nulls"].tolist() == [False, True, False, False, False]
    assert [payload[name].dtype for name in ("offsets", "shapes", "ndims", "nulls")
            ] == [np.int64, np.int64, np.int16, np.bool_]
    assert metadata == {
        "dtype": "int16", "max_ndim": 2, "shape_policy": "ragged",
        "row_format": "ndarray", "ndarray_rows": None,
        "physical_layout": "contiguous_flat", "recursive_source": "ndarray",
        "schema_source": "inferred_from_runtime_values",
        "decision_reason": metadata["decision_reason"],
        "normalized_type": metadata["normalized_type"]}
    check([np.array(3.5)] * 3, "typed_ragged")
    check([np.zeros((2, 0)), np.zeros((2, 0))], "typed_ragged")
    check([np.ones(3, np.complex64), np.ones(1, np.complex64)], "typed_ragged")


def test_lists_of_numbers_come_back_as_lists():
    field = check([[1, 2], None, [], [3]], "typed_ragged")
    assert field.metadata["row_format"] == "list"
    assert field.metadata["dtype"] == "int64"
    assert "physical_layout" not in field.metadata
    check([[[1, 2], [3, 4]], [[5, 6]]], "typed_ragged")
    check([[1.5], [2.5], [3.5]], "typed_ragged")
    check([(1, 2), [3]], "typed_ragged", wanted=[[1, 2], [3]])


def test_lists_and_arrays_may_be_mixed():
    field = check([np.arange(3), [1, 2], None], "typed_ragged",
                  FieldSchema("typed_ragged"))
    assert field.metadata["row_format"] == "mixed"
    assert field.metadata["ndarray_rows"] == [True, False, False]
    check([np.arange(2), [1, 2]], "typed_ragged", FieldSchema("typed_ragged"))


def test_types_of_arrays_are_promoted_or_cast():
    rows = [np.arange(2, dtype=np.int32), np.array([0.5])]
    assert decoded(encode_field(PATH, row_array(rows)))[0].dtype == np.float64
    hint = FieldSchema("typed_ragged", metadata={"dtype": "float32"})
    check([np.arange(2), [1]], "typed_ragged", hint,
          [np.arange(2, dtype=np.float32), [1.0]])
    payload, metadata = _encode_typed_ragged_values([])
    assert metadata["dtype"] == "int64" and stored(payload["data"]).size == 0
    assert payload["shapes"].shape == (0, 1) and len(payload["offsets"]) == 1
    assert _decode_typed_ragged_values(payload, 0, metadata) == []
    with pytest.raises(ValueError, match="object"):
        _encode_typed_ragged_values([np.array([{}])])
    text = _encode_typed_ragged_values([["a"], ["bc"]])
    assert text[1]["dtype"] == "<U2"
    assert _decode_typed_ragged_values({
        name: stored(part) for name, part in text[0].items()}, 2, text[1]) == [
        ["a"], ["bc"]]


def test_rows_of_one_shape_have_a_layout_of_their_own():
    rows = [np.arange(4, dtype=np.int32).reshape(2, 2) + i for i in range(3)]
    payload, metadata = _encode_typed_ragged_regular_ndarray_rows(rows, np.int32)
    general, other = _encode_typed_ragged_values(rows)
    assert metadata == other
    for name in ("offsets", "shapes", "ndims", "nulls"):
        assert payload[name].dtype == general[name].dtype
        assert (payload[name] == general[name]).all()
    for others in ([rows[0]], [rows[0], None], [rows[0], rows[1].T],
                   [rows[0], rows[1][:1]], [rows[0], [1, 2]],
                   [rows[0], rows[1].astype(np.int64)], []):
        assert _encode_typed_ragged_regular_ndarray_rows(others, np.int32) is None


def test_arrays_are_not_copied(monkeypatch):
    rows = [np.arange(3), np.arange(5)]
    monkeypatch.setattr(payloads, "_package_concat", lambda *args: 0)
    monkeypatch.delitem(sys.modules, "mooncake.structured_object_store", False)
    data = _encode_typed_ragged_values(rows)[0]["data"]
    assert isinstance(data, _DirectCopyPayload) and data.total_bytes == 64
    assert all(map(np.shares_memory, data.arrays, rows))
    one = _encode_typed_ragged_values(rows[:1])[0]["data"]
    assert isinstance(one, _MultiBufferPayload) and one.shape == (3,)
    none = _encode_typed_ragged_values([np.empty(0), np.empty(0)])[0]["data"]
    assert isinstance(none, np.ndarray) and none.shape == (0,)
    monkeypatch.setattr(payloads, "_package_concat", None)
    data = _encode_typed_ragged_values(rows)[0]["data"]
    assert isinstance(data, _MultiBufferPayload) and data.dtype == "<i8"
    assert [np.shares_memory(np.asarray(buffer), row)
            for buffer, row in zip(data.buffers, rows)] == [True, True]


@pytest.mark.parametrize("rows", [
    [np.arange(3), np.arange(3)], [np.arange(3), None, np.arange(4)]])
def test_rows_are_views_of_what_was_read(rows):
    payload, metadata = _encode_typed_ragged_values(rows)
    payload = {name: stored(part) for name, part in payload.items()}
    for row in _decode_typed_ragged_values(payload, len(rows), metadata):
        assert row is None or np.shares_memory(row, payload["data"])
    as_bytes = {**payload, "data": payload["data"].tobytes()}
    assert same(_decode_typed_ragged_values(as_bytes, len(rows), metadata), rows)


# ---- numbers, bytes, text, JSON ----


def test_numbers_come_back_as_pythons():
    field = check([1, None, 3], "ndarray")
    assert stored(field.payload["data"]).tolist() == [1, 0, 3]
    assert field.payload["nulls"].tolist() == [False, True, False]
    assert field.metadata["shape"] == [3] and field.metadata["dtype"] == "int64"
    check([True, None], "ndarray")
    check([(1 << 64) - 1, 1 << 63], "ndarray", FieldSchema(
        "ndarray", metadata={"dtype": "uint64"}))
    check([(1 << 64) - 1, 0, None, -1], "msgpack_ragged")
    schema = FieldSchema("ndarray", metadata={"dtype": "float32"})
    check([1, None, 2], "ndarray", schema, [1.0, None, 2.0])
    whole = encode_field(PATH, np.arange(6).reshape(3, 2), FieldSchema(
        "ndarray", metadata={"dtype": "int64"}))
    assert decoded(whole) == [[0, 1], [2, 3], [4, 5]]


def test_bytes_come_back_as_bytes():
    long = bytes(9000)
    field = check([b"ab", None, bytearray(b"c"), memoryview(b"defg")[::2], b""],
                  "bytes_ragged", wanted=[b"ab", None, b"c", b"df", b""])
    assert stored(field.payload["data"]) == b"abcdf"
    assert field.payload["offsets"].tolist() == [0, 2, 2, 3, 5, 5]
    assert field.payload["nulls"].tolist() == [False, True, False, False, False]
    field = check([long, long[:5000]], "bytes_ragged")
    data = field.payload["data"]
    assert isinstance(data, _MultiBufferPayload) and data.dtype is None
    assert data.buffers[0].obj is long  # is not copied


def test_text_and_json_come_back():
    field = check(["a", None, "", "äöü"], "utf8_ragged")
    assert stored(field.payload["data"]) == "aäöü".encode()
    field = check([{"ä": [1, None]}, None, "x", 2.5], "json_ragged",
                  FieldSchema("json_ragged"))
    assert stored(field.payload["data"]) == '{"ä":[1,null]}"x"2.5'.encode()
    field = check([b"\0\xff", None], "media_bytes", FieldSchema("media_bytes"))
    payload, _ = read(field)
    assert decode_field("media_bytes", payload, 2, {}) == [b"\0\xff", None]
    assert decode_rows("media_bytes", {}, 2, [1, 0], lambda wanted: {
        name: b"".join(payload[name][a:b] for a, b in spans) if name == "data"
        else np.concatenate([payload[name][a:b] for a, b in spans])
        for name, spans in wanted.items()}) == [None, b"\0\xff"]


@pytest.mark.parametrize("codec, row, error", [
    ("utf8_ragged", 5, AttributeError), ("bytes_ragged", "a", TypeError),
    ("bytes_ragged", np.zeros(3), TypeError), ("json_ragged", b"a", TypeError),
    ("msgpack_ragged", (1,), ValueError), ("media_bytes", 1, TypeError),
    ("media_list_ragged", b"a", TypeError), ("ragged_tensor", 1, AttributeError),
    ("ragged_tensor_dict", [1], TypeError), ("utf8_ragged", "\ud800", ValueError)])
def test_rows_of_another_codec_are_refused(codec, row, error):
    with pytest.raises(error, match="failed to encode non_tensor_batch field "
                                    f"'field' with FieldSchema codec '{codec}': "
                       ) as caught:
        encode_field(PATH, row_array([row]), FieldSchema(codec))
    assert type(caught.value) is error


# ---- media ----


def test_lists_of_media_come_back():
    field = check([[b"a", b"", b"bcd"], None, [], [b"e"]], "media_list_ragged")
    assert field.payload["row_offsets"].tolist() == [0, 3, 3, 3, 4]
    assert field.payload["byte_offsets"].tolist() == [0, 1, 1, 4, 5]
    assert field.metadata["media_encodings"] == [{"kind": "bytes"}] * 4
    assert field.metadata["media_types"] == ["image/raw"]
    assert field.metadata["encode_source"] == "raw_pixels_from_object"
    check([[], []], "media_list_ragged")


def test_images_come_back(monkeypatch):
    image = pytest.importorskip("PIL.Image")
    one = image.frombytes("RGB", (2, 1), b"abcdef")
    two = image.frombytes("L", (1, 1), b"g")
    field = encode_field(PATH, row_array([one, None, two]))
    assert field.codec == "media_bytes"
    assert field.metadata["media_encodings"] == [
        {"kind": "pil_raw", "mode": "RGB", "size": [2, 1], "format": None},
        {"kind": "null"},
        {"kind": "pil_raw", "mode": "L", "size": [1, 1], "format": None}]
    for rows in (decoded(field), chosen(field, [0, 1, 2])):
        assert rows[0].mode == "RGB" and rows[0].size == (2, 1)
        assert rows[0].tobytes() == b"abcdef" and rows[1] is None
    payload, metadata = read(field)
    for wrong in ({"mode": "no"}, {"mode": 5}, {"size": [2]},
                  {"size": [1 << 20, 1 << 20]}, {"size": [-1, -2]},
                  {"size": [2, 2]}, {"size": [1.0, 2]}):
        encodings = list(metadata["media_encodings"])
        encodings[0] = {**encodings[0], **wrong}
        with pytest.raises(ValueError):
            decode_field("media_bytes", payload, 3,
                         {**metadata, "media_encodings": encodings})
    lists = encode_field(PATH, row_array([[one, b"x"], [two]]))
    assert lists.codec == "media_list_ragged"
    assert chosen(lists, [1])[0][0].tobytes() == b"g"
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert decoded(field) == [b"abcdef", None, b"g"]


# ---- MessagePack ----


def test_plain_values_come_back():
    field = check([{"a": [1, "x", b"y"]}, None, [], {"b": None}],
                  "msgpack_ragged", FieldSchema("msgpack_ragged"))
    assert stored(field.payload["data"]).hex() == "81a1619301a178c401799081a162c0"
    payload, metadata = _encode_msgpack_ragged_values("p", [1, None, "a"])
    assert metadata == {} and set(payload) == {"data", "offsets", "nulls"}
    assert _decode_msgpack_ragged_values(payload, 3) == [1, None, "a"]
    with pytest.raises(ValueError, match="p: row 1 .*tuple"):
        _encode_msgpack_ragged_values("p", [1, (2,)])
    for rows, change, words in (
            (2, {}, "offsets length"), (3, {"nulls": np.zeros(2, bool)},
                                        "nulls length"),
            (3, {"data": b"\1\xa1a", "offsets": np.array([0, 0, 0, 3])},
             "decoded 0 of 3 rows"),
            (3, {"offsets": np.array([0, 1, 1, 4])}, "offsets"),
            (3, {"offsets": np.array([0, 2, 2, 3])}, "decoded 0 of 3 rows")):
        with pytest.raises(ValueError, match=words):
            _decode_msgpack_ragged_values({**payload, **change}, rows)
    assert _decode_msgpack_ragged_values({
        **payload, "data": b"?\1\2\xa1a?", "offsets": np.array([1, 2, 3, 5])},
        3) == [1, None, "a"]


# ---- structures ----


def test_structures_with_arrays_are_taken_apart():
    rows = [{"image": b"abc", "boxes": [{"at": np.arange(4)}, None], "n": 1},
            None,
            {"image": None, "boxes": [], "text": "x", "empty": {}},
            {"image": b"", "a.b[0]": np.zeros((2, 2)), "n": None},
            {}]
    field = check(rows, "structured_recursive")
    metadata = field.metadata
    assert metadata["root_path"] == PATH and metadata["structure_version"] == 1
    assert metadata["schema_source"] == "inferred_from_runtime_values"
    root = metadata["nodes"][0]
    assert root["path"] == PATH and root["node_type"] == "dict"
    assert root["children"] == ["a.b[0]", "boxes", "empty", "image", "n", "text"]
    assert root["missing_payload"] == "node.0.missing"
    assert root["row_mask_payload"] == "node.0.row_mask"
    assert [node["lengths_payload"] for node in metadata["nodes"]
            if node["node_type"] == "list"] == ["node.1.lengths"]
    leaves = {leaf["path"]: leaf for leaf in metadata["leaves"]}
    assert leaves[f"{PATH}.image"]["codec"] == "bytes_ragged"
    assert leaves[f"{PATH}.boxes[1]"]["codec"] == "json_ragged"  # all are None
    assert leaves[f"{PATH}.image"]["rows"] == 5
    members = leaves[f"{PATH}.image"]["payload_members"]
    assert set(members) == {"data", "offsets", "nulls", "missing"}
    assert set(members.values()) <= set(field.payload)
    assert leaves[f"{PATH}.image"]["metadata"]["schema_source"]


def test_structures_of_plain_values_are_not():
    check([{"a": [1, 2]}, {"b": "c"}, None], "msgpack_ragged")


@pytest.mark.parametrize("values, reason", [
    ([None, None], "all rows are null"), ([], "all rows are null"),
    ([np.array(["a"])], "rows are arrays, but not of numbers"), ([1, "a"], "no codec matched")])
def test_rows_that_no_codec_stores_are_refused(values, reason):
    with pytest.raises(ValueError, match="unsupported structured non-tensor "
                                         f"field: {reason}.*: {PATH}"):
        encode_field(PATH, row_array(values))


def test_structures_with_what_no_codec_stores_are_refused():
    with pytest.raises(ValueError, match=f"field: no codec matched .*: {PATH}.b"):
        encode_field(PATH, row_array([{"a": b"x", "b": object()}]))


def test_lists_of_structures_are_taken_apart():
    check([[{"a": np.zeros(2)}], [], None, [None, {"a": np.ones(3)}]],
          "structured_recursive")


# ---- some rows of many ----


@pytest.mark.parametrize("make", [
    lambda i: np.arange(i % 7), lambda i: bytes([i % 256]) * (i % 5),
    lambda i: None if i % 3 else i, lambda i: [b"ab"] * (i % 3),
    lambda i: {"a": b"x" * (i % 4), "b": [{"c": i}]}])
def test_many_rows_are_read_in_few_fragments(make, monkeypatch):
    monkeypatch.setattr(selection, "NEAR", 100)
    values = [make(i) for i in range(3000)]
    field = encode_field(PATH, row_array(values))
    choice = random.Random(7)
    for indices in (range(0, 3000, 2), range(0, 3000, 150),
                    range(2999, 0, -3), choice.choices(range(3000), k=500),
                    [*range(0, 100, 2), 2000, *range(1000, 1100, 2)]):
        fragments: list = []
        assert same(chosen(field, list(indices), fragments),
                    [values[i] for i in indices])
        if indices == range(0, 3000, 2):
            assert max(fragments) < 20
        if indices == range(0, 3000, 150):  # what is far is not read
            assert max(fragments) == 20


# ---- schemas ----


def test_without_a_codec_the_fallback_is_safe():
    safe = FieldSchema("ndarray")
    check([None, None], "msgpack_ragged", safe)
    check([1, "a"], "msgpack_ragged", safe)
    check([{"a": np.int64(1), "b": ("x",)}], "msgpack_ragged", safe,
          [{"a": 1, "b": ["x"]}])
    check([1 << 70, 1], "json_ragged", safe)
    check([np.zeros(2), None], "typed_ragged", safe)
    check([{"a": b"x"}], "structured_recursive", safe)
    check(["a"], "utf8_ragged", safe)
    with pytest.raises(ValueError, match="unable to infer a safe codec"):
        encode_field(PATH, row_array([object()]), safe)
    for codec in ("auto", "ndarray"):
        got = _encode_with_schema(PATH, np.array([1, None], object),
                                  FieldSchema(codec))
        assert (got.codec, got.rows) == ("ndarray", 2) and "data" in got.payload


def test_a_schema_without_a_codec_infers_as_without_a_schema():
    auto = FieldSchema("auto")
    check([np.zeros(2), None], "typed_ragged", auto)
    check([{"a": b"x"}, {"a": None}], "structured_recursive", auto)
    for values, words in (([None, None], "all rows are null"),
                          ([1, "a"], "no codec matched")):
        with pytest.raises(ValueError, match=f"^unsupported .*{words}"):
            encode_field(PATH, row_array(values))
        with pytest.raises(ValueError, match="^failed to encode .* codec 'auto': "
                           f"unsupported .*{words}"):
            encode_field(PATH, row_array(values), auto)
    with pytest.raises(TypeError, match="^failed to encode .* codec 'auto': .*tuple"):
        encode_field(PATH, row_array([{}, ("a",)]), auto)


def test_plain_rows_that_cannot_be_packed_are_refused():
    for row in (("a",), {"a": ("b",)}):
        with pytest.raises(TypeError, match=f"{PATH}: row 1 .*tuple"):
            encode_field(PATH, row_array([{}, row]))
    for schema in (None, FieldSchema("msgpack_ragged")):
        with pytest.raises(OverflowError):
            encode_field(PATH, row_array([{"a": 1 << 70}]), schema)
    with pytest.raises(ValueError, match="row 0"):
        encode_field(PATH, row_array([{"a": "\ud800"}]))


@pytest.mark.parametrize("schema, values, error, words", [
    (FieldSchema("auto", nullable=False), [1, None], ValueError, "not nullable"),
    (FieldSchema("zip"), [1], ValueError, "unsupported schema codec"),
    (FieldSchema("ndarray", metadata={"dtype": "U4"}), [1], ValueError, "dtype"),
    (FieldSchema("typed_ragged", metadata={"dtype": "no"}), [1], ValueError,
     "dtype"),
    (FieldSchema("auto"), "text", TypeError, "sequence"),
    (FieldSchema("auto"), 5, TypeError, "sequence"),
    (FieldSchema("auto"), {"a": 1}, TypeError, "sequence"),
    (FieldSchema("ragged_tensor_dict", metadata={"keys": "a"}), [None], TypeError,
     "keys")])
def test_schemas_that_do_not_fit_are_refused(schema, values, error, words):
    with pytest.raises(error, match=words):
        encode_field(PATH, values, schema)


def test_object_arrays_of_several_dimensions_are_rows_of_lists():
    values = np.array([["a", "b"], ["c", "d"]], object)
    assert decoded(encode_field(PATH, values)) == [["a", "b"], ["c", "d"]]


# ---- without torch ----


def test_rows_of_tensors_say_what_they_need(monkeypatch):
    payload, metadata = _encode_typed_ragged_values([np.zeros(1)])
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="pip install torch"):
        decode_field("ragged_tensor", payload, 1,
                     {**metadata, "dtype": "torch.float64"})


# ---- what is malformed ----


EXAMPLES = [
    [np.arange(3), None, np.zeros((2, 2), np.int64)], [[1, 2], None, [3]],
    [1, None, 2], [b"abc", None, b"d"], ["abc", None, "d"],
    [{"a": 1}, None, [2]], [[b"a"], None, [b"b", b"c"]],
    [{"a": b"x", "b": [None, {"c": np.zeros(2)}]}, None, {}]]


@pytest.mark.parametrize("values", EXAMPLES)
def test_malformed_payloads_are_refused(values):
    field = encode_field(PATH, row_array(values))
    payload, metadata = read(field)
    with pytest.raises(ValueError):
        decode_field(field.codec, payload, field.rows + 1, metadata)
    for name, part in payload.items():
        for wrong in (part[:-1], np.zeros(3, np.float32), None):
            if len(part) == 0 and wrong is not None and not len(wrong):
                continue
            changed = {**payload, name: wrong}
            if wrong is None:
                del changed[name]
            with pytest.raises(ValueError):
                decode_field(field.codec, changed, field.rows, metadata)
        if name.endswith("offsets"):
            for at, value in ((0, -1), (1, 1 << 62), (-1, 1 << 62)):
                changed = {**payload, name: part.copy()}
                changed[name][at] = value
                with pytest.raises(ValueError):
                    decode_field(field.codec, changed, field.rows, metadata)


def _mutations(value: object):
    """Copies of a value of JSON, each with one part replaced or left out."""
    if isinstance(value, dict):
        for key in value:
            yield {one: item for one, item in value.items() if one != key}
            for other in _mutations(value[key]):
                yield {**value, key: other}
    elif isinstance(value, list):
        for i in range(len(value)):
            yield value[:i] + value[i + 1:]
            for other in _mutations(value[i]):
                yield [*value[:i], other, *value[i + 1:]]
    yield from (None, -1, 1 << 62, "O", [], {}, True)


@pytest.mark.parametrize("values", EXAMPLES)
def test_malformed_metadata_is_a_value_error_or_harmless(values):
    field = encode_field(PATH, row_array(values))
    payload, metadata = read(field)
    for changed in _mutations(metadata):
        def read_spans(wanted: dict) -> dict:
            if not all(isinstance(payload.get(name), (np.ndarray, bytes))
                       and all(0 <= a < b <= len(payload[name]) for a, b in spans)
                       for name, spans in wanted.items()):
                raise ValueError("not there")
            return {name: payload[name][spans[0][0]:spans[0][1]]
                    for name, spans in wanted.items()}
        for attempt in (
                lambda: decode_field(field.codec, payload, 3, changed),
                lambda: decode_rows(field.codec, changed, 3, [1, 2], read_spans)):
            try:
                attempt()
            except ValueError:
                pass


def test_other_codecs_and_counts_are_refused():
    for codec, rows, metadata in (("pickle", 1, {}), ("utf8_ragged", -1, {}),
                                  ("utf8_ragged", "1", {}),
                                  ("utf8_ragged", 1, None)):
        with pytest.raises(ValueError):
            decode_field(codec, {}, rows, metadata)
    with pytest.raises(ValueError, match="pickle"):
        decode_rows("pickle", {}, 1, [0], lambda wanted: {})
