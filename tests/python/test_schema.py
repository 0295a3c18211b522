# SPDX-License-Identifier: Apache-2.0
"""mooncake._structured.schema: sections of fields, and flat dictionaries."""
from __future__ import annotations

import numpy as np
import pytest
from mooncake._structured.schema import (
    FieldSchema, check_sections, row_schemas, split_flat_dict)


def of(section: str | None, codec: str = "auto", **metadata: object
       ) -> FieldSchema:
    if section is not None:
        metadata["section"] = section
    return FieldSchema(codec, metadata=metadata)


BATCH, ROWS, META = map(of, ("batch", "non_tensor_batch", "meta_info"))


def placed(data: dict, schemas: dict | None = None) -> dict:
    """The sections of fields."""
    parts = split_flat_dict(data, schemas or {})
    return {name: section for section, fields in zip(
        ("batch", "rows", "meta"), parts) for name in fields}


def test_schemas_have_defaults_and_do_not_change():
    schema = FieldSchema("auto")
    assert schema.nullable and schema.metadata == {}
    with pytest.raises(AttributeError):
        schema.codec = "ndarray"


# ---- sections of what has sections ----


PARTS = ({"a": 1}, {"b": 2, "both": 3}, {"c": 4, "both": 5})


def test_schemas_may_say_where_a_field_is():
    check_sections({"a": BATCH, "b": ROWS, "c": META, "both": META,
                    "none": BATCH, "any": of(None)}, PARTS)
    check_sections({"both": ROWS}, PARTS)
    for name, schema in (("a", ROWS), ("b", BATCH), ("c", ROWS), ("both", BATCH)):
        with pytest.raises(ValueError, match=f"{name}: .*declares section"):
            check_sections({name: schema}, PARTS)
    with pytest.raises(ValueError, match="section 'rows'"):
        check_sections({"a": of("rows")}, PARTS)


def test_only_schemas_of_rows_touch_rows():
    schemas = {"a": BATCH, "b": ROWS, "c": META, "d": of(None)}
    assert set(row_schemas(schemas)) == {"b", "d"}


# ---- flat dictionaries ----


def test_fields_are_placed_by_their_rows():
    rows = np.array([{}, 1], object)
    assert placed({
        "ids": np.zeros((2, 3)), "flat": np.zeros(2), "other": np.zeros(2),
        "names": ["a", "b"], "pair": ("a", "b"), "three": [1, 2, 3],
        "scalar": 5, "zero": np.array(5), "text": "ab", "objects": rows}) == {
        "ids": "batch", "flat": "batch", "other": "batch", "names": "rows",
        "pair": "rows", "three": "meta", "scalar": "meta", "zero": "meta",
        "text": "meta", "objects": "meta"}
    _, others, _ = split_flat_dict({"a": np.zeros(2), "b": [[1], [2]]}, {})
    assert others["b"].dtype == object and others["b"].tolist() == [[1], [2]]
    assert placed({"a": [1, 2], "b": "text", "c": 5}) == {
        "a": "rows", "b": "meta", "c": "meta"}
    assert placed({}) == {} and placed({"a": 1}) == {"a": "meta"}
    assert placed({"a": np.zeros((0, 2))}) == {"a": "meta"}


def test_schemas_place_fields():
    assert placed({"a": np.zeros(2), "b": [1, 2], "c": [3, 4], "d": np.zeros(3)}, {
        "b": ROWS, "a": BATCH}) == {
        "a": "batch", "b": "rows", "c": "meta", "d": "meta"}
    assert placed({"a": np.zeros(2), "b": np.zeros(2), "c": [1, 2, 3]}, {
        "c": META}) == {"a": "batch", "b": "batch", "c": "meta"}
    assert placed({"a": np.zeros(3), "b": np.zeros(2)}, {"b": META}) == {
        "a": "batch", "b": "meta"}


def test_numbers_of_a_schema_are_cast():
    half = of("batch", "ndarray", dtype="float16")
    batch, _, _ = split_flat_dict({"a": [1, 2], "b": np.arange(2),
                                   "c": np.array([3, 4], object)},
                                  dict.fromkeys("abc", half))
    assert all(one.dtype == np.float16 for one in batch.values())
    _, others, _ = split_flat_dict(
        {"a": [1, None], "b": [1, 2]},
        dict.fromkeys("ab", of("non_tensor_batch", "ndarray", dtype="int8")))
    assert others["a"] == [1, None] and others["b"].dtype == np.int8
    with pytest.raises(ValueError, match="dtype"):
        split_flat_dict({"a": [1]}, {"a": of("batch", "ndarray", dtype="U3")})


@pytest.mark.parametrize("data, schemas, error, words", [
    ([1], {}, TypeError, "mapping"),
    ({"a": [1, 2], "b": [1]}, {"a": ROWS, "b": ROWS}, ValueError,
     "inconsistent batch sizes"),
    ({"a": np.zeros(2), "b": [1]}, {"a": BATCH, "b": ROWS}, ValueError,
     "inconsistent batch sizes"),
    ({"a": 5}, {"a": BATCH}, ValueError, "a: a int has no number of rows"),
    ({"a": np.zeros(2), "b": np.zeros(3)}, {}, ValueError, "ambiguous"),
    ({"a": [1, 2], "b": [1]}, {}, ValueError, "ambiguous batch sizes"),
    ({"a": "ab", "b": [1, 2]}, {"a": ROWS}, TypeError, "a: a str"),
    ({"a": {"x": 1}}, {"a": ROWS}, TypeError, "a: a dict"),
    ({"a": 1}, {"a": of("other")}, ValueError, "section")])
def test_dictionaries_that_cannot_be_placed_are_refused(data, schemas, error,
                                                        words):
    with pytest.raises(error, match=words):
        split_flat_dict(data, schemas)


def test_tensors_are_placed_as_arrays():
    torch = pytest.importorskip("torch")
    assert placed({"a": torch.zeros(2, 3), "b": torch.tensor(5), "c": ["x", "y"]}
                  ) == {"a": "batch", "b": "meta", "c": "rows"}
    with pytest.raises(ValueError, match="no number of rows"):
        split_flat_dict({"a": torch.tensor(5)}, {"a": BATCH})
