# SPDX-License-Identifier: Apache-2.0
"""mooncake._structured.codecs: rows of tensors; skipped where there is no torch."""
from __future__ import annotations

import numpy as np
import pytest
from mooncake._structured.codecs import decode_field, encode_field
from mooncake._structured.infer import _choose_leaf_codec
from mooncake._structured.ragged import _decode_typed_ragged_values
from mooncake._structured.release import pool_array, release_result, row_array
from mooncake._structured.schema import FieldSchema
from test_codecs import PATH, chosen, decoded, read

torch = pytest.importorskip("torch")


def same(got: object, wanted: object) -> bool:
    if isinstance(wanted, torch.Tensor):
        return (isinstance(got, torch.Tensor) and got.dtype == wanted.dtype
                and torch.equal(got, wanted))
    if isinstance(wanted, dict):
        return isinstance(got, dict) and got.keys() == wanted.keys() and all(
            same(got[key], wanted[key]) for key in wanted)
    return type(got) is type(wanted) and got == wanted


def check(values: list, codec: str, schema: FieldSchema | None = None):
    """Rows come back, all of them and in another order."""
    field = encode_field(PATH, row_array(values), schema)
    assert field.codec == codec
    assert all(map(same, decoded(field), values))
    order = [len(values) - 1, 0, *range(len(values))]
    assert all(map(same, chosen(field, order), [values[i] for i in order]))
    return field


ROWS = [torch.arange(6, dtype=torch.int16).reshape(2, 3), None,
        torch.arange(8, dtype=torch.int16)[::2],
        torch.tensor(7, dtype=torch.int16), torch.empty(0, 3, dtype=torch.int16)]


def test_tensors_of_any_shape_come_back():
    field = check(ROWS, "ragged_tensor")
    payload, metadata = read(field)
    assert payload["data"].dtype == np.int16
    assert payload["offsets"].tolist() == [0, 6, 6, 10, 11, 11]
    assert payload["ndims"].tolist() == [2, 0, 1, 0, 2]
    assert (metadata["dtype"], metadata["max_ndim"]) == ("torch.int16", 2)
    assert metadata["shape_policy"] == "ragged"
    check([torch.ones(2, 3)] * 3, "ragged_tensor")
    check([torch.tensor([True]), torch.tensor([False, True])], "ragged_tensor")
    check([torch.ones(2, requires_grad=True).detach(), None], "ragged_tensor")
    rows = decoded(encode_field(PATH, row_array([torch.ones(2, 3)] * 2)))
    rows[0] += 1  # memory that can be written


def test_rows_without_tensors_are_of_float32():
    schema = FieldSchema("ragged_tensor")
    for rows in ([None, None], []):
        field = encode_field(PATH, row_array(rows), schema)
        assert field.metadata["dtype"] == "torch.float32"
        assert decoded(field) == rows


def test_tensors_that_no_row_can_be_are_refused():
    mixed = [torch.ones(1), torch.ones(1).double()]
    decision = _choose_leaf_codec(mixed)
    assert (decision.accepted, decision.codec) == (False, "ragged_tensor")
    assert "mixed tensor dtype" in decision.reason
    for schema in (None, FieldSchema("ragged_tensor")):
        with pytest.raises(ValueError, match="mixed tensor dtype"):
            encode_field(PATH, row_array(mixed), schema)
        with pytest.raises(ValueError, match="bfloat16"):
            encode_field(PATH, row_array([torch.ones(1).bfloat16()]), schema)
    with pytest.raises(ValueError, match="float8"):
        encode_field(PATH, row_array([torch.ones(1).to(torch.float8_e5m2)]))


def test_dictionaries_of_tensors_come_back():
    rows = [{"a": torch.ones(2), "b": torch.zeros(1, 2, dtype=torch.int64)}, None,
            {}, {"a": torch.ones(3)}]
    field = check(rows, "ragged_tensor_dict", FieldSchema("ragged_tensor_dict"))
    assert field.metadata["keys"] == ["a", "b"]
    assert field.metadata["key_codecs"]["b"]["dtype"] == "torch.int64"
    assert field.payload["null_mask"].tolist() == [False, True, False, False]
    assert set(field.payload) == {"null_mask", *(
        f"{key}.{name}" for key in "ab"
        for name in ("data", "offsets", "shapes", "ndims", "nulls"))}
    for keys in (["b", "a", "c"], {"b": 1, "a": 2, "c": 3}):
        declared = FieldSchema("ragged_tensor_dict", metadata={"keys": keys})
        assert check(rows, "ragged_tensor_dict", declared).metadata["keys"] == [
            "b", "a", "c"]
        assert check([None], "ragged_tensor_dict", declared).metadata["keys"] == [
            "b", "a", "c"]


@pytest.mark.parametrize("row, error, words", [
    ([1], TypeError, "list"), ({"a": None}, TypeError, "explicit None"),
    ({1: torch.ones(1)}, TypeError, "not a str"),
    ({"": torch.ones(1)}, ValueError, "must not be empty"),
    ({"a.b": torch.ones(1)}, ValueError, "must not contain"),
    ({"a/b": torch.ones(1)}, ValueError, "must not contain"),
    ({"a\\b": torch.ones(1)}, ValueError, "must not contain"),
    ({"z": torch.ones(1)}, ValueError, "keys not declared: z"),
    ({"a": 1}, AttributeError, "no tensor")])
def test_dictionaries_of_others_are_refused(row, error, words):
    schema = FieldSchema("ragged_tensor_dict", metadata={"keys": ["a"]})
    with pytest.raises(error, match=words):
        encode_field(PATH, row_array([None, row]), schema)


def test_structures_with_tensors_are_taken_apart():
    rows = [{"x": torch.ones(2), "n": "text"}, None, {"x": None},
            {"list": [{"y": torch.zeros(1, 1)}]}]
    field = check(rows[:3], "structured_recursive")
    assert [leaf["codec"] for leaf in field.metadata["leaves"]] == [
        "utf8_ragged", "ragged_tensor"]
    field = encode_field(PATH, row_array(rows))
    assert same(decoded(field)[3]["list"][0], {"y": torch.zeros(1, 1)})
    assert same(chosen(field, [3, 1])[0]["list"][0], {"y": torch.zeros(1, 1)})


def test_a_tensor_is_data_too():
    payload, metadata = read(encode_field(PATH, row_array(
        [np.arange(3), np.arange(2)])))
    payload["data"] = torch.from_numpy(payload["data"])
    rows = _decode_typed_ragged_values(payload, 2, metadata)
    assert [row.tolist() for row in rows] == [[0, 1, 2], [0, 1]]
    assert np.shares_memory(rows[0], payload["data"].numpy())


class Lease:
    def __init__(self, data: bytes) -> None:
        self.buffer, self.released = memoryview(bytearray(data)), 0

    def release(self) -> None:
        self.released += 1


@pytest.mark.parametrize("values, schema", [
    ([np.arange(3), None, np.arange(2)], None), ([np.arange(3)] * 2, None),
    ([torch.arange(3), torch.arange(2)], None),
    ([{"a": torch.arange(3)}], FieldSchema("ragged_tensor_dict")),
    ([{"a": torch.arange(3), "b": np.arange(2)}, None], None)])
def test_rows_in_memory_of_a_pool_give_it_back(values, schema):
    field = encode_field(PATH, row_array(values), schema)
    payload, metadata = read(field)
    leases = []
    for name in payload:
        if name.endswith("data"):
            whole = payload[name]
            leases.append(Lease(whole.tobytes()))
            payload[name] = pool_array(leases[-1], whole.dtype, whole.shape)
    rows = decode_field(field.codec, payload, field.rows, metadata)
    del payload
    assert [lease.released for lease in leases] == [0] * len(leases)
    release_result({"field": row_array(rows)})
    assert [lease.released for lease in leases] == [1] * len(leases)
