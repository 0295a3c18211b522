# SPDX-License-Identifier: Apache-2.0
"""mooncake._structured.infer: which codec and structure rows of values have."""
from __future__ import annotations

import numpy as np
import pytest
from mooncake._structured.infer import (
    MISSING, _choose_leaf_codec, _escape_key, infer_structure)


class PilImage:
    """As PIL's: what counts is its module, and that it can be saved."""

    def save(self) -> None:
        pass


PilImage.__module__ = "PIL.Image"


@pytest.mark.parametrize("values, codec, metadata", [
    ([np.zeros(2, np.float32), np.zeros((1, 3))], "typed_ragged",
     {"recursive_source": "ndarray"}),
    ([[1, 2], (3,), [], None], "typed_ragged", {"dtype": "int64"}),
    ([[1, 2], [0.5]], "typed_ragged", {"dtype": "float64"}),
    ([[[1, 2], [3, 4]], [True]], "typed_ragged", {"dtype": "int64"}),
    ([1, None, 2.5], "ndarray", {"dtype": "float64"}),
    ([True, False], "ndarray", {"dtype": "bool"}),
    ([np.float32(1), np.float32(2)], "ndarray", {"dtype": "float32"}),
    ([b"a", bytearray(b"b"), memoryview(b"c")], "bytes_ragged", {}),
    ([PilImage(), None], "media_bytes", {}),
    ([[b"a"], [], [PilImage()]], "media_list_ragged", {}),
    ([[], ()], "media_list_ragged", {}),
    (["a", None], "utf8_ragged", {}),
    ([{"a": 1}, [1, "b"], ("c",)], "msgpack_ragged", {}),
    ([["a"], ["b", "c"]], "msgpack_ragged", {}),
    ([[1, 2], [[3], 4]], "msgpack_ragged", {}),
    ([(1 << 60) + 1, 0.5], "msgpack_ragged", {}),
    ([(1 << 64) - 1, 0], "msgpack_ragged", {}),
    ([[1 << 63], [-1]], "msgpack_ragged", {}),  # no type has both
    ([[(1 << 53) + 1, 0.5]], "msgpack_ragged", {})])
def test_the_codec_is_chosen_by_the_rows(values, codec, metadata):
    decision = _choose_leaf_codec([None, MISSING, *values])
    assert (decision.accepted, decision.codec) == (True, codec), decision
    assert decision.metadata == metadata
    assert decision.reason and decision.normalized_type


@pytest.mark.parametrize("values, codec, reason", [
    ([], "msgpack_ragged", "all rows are null"),
    ([None, MISSING], "msgpack_ragged", "all rows are null"),
    ([np.array(["a"])], "typed_ragged", "numbers"),
    ([object()], "msgpack_ragged", "no codec matched"),
    ([1, "a"], "msgpack_ragged", "no codec matched"),
    ([1 << 70], "msgpack_ragged", "no codec matched")])
def test_rows_that_no_codec_stores_are_refused(values, codec, reason):
    decision = _choose_leaf_codec(values)
    assert (decision.accepted, decision.codec) == (False, codec)
    assert reason in decision.reason


def structure(values: list) -> tuple[list, list]:
    leaves: list = []
    nodes: list = []
    infer_structure("p", values, leaves, nodes)
    return leaves, nodes


def test_dictionaries_and_short_lists_are_nodes():
    leaves, nodes = structure(
        [{"b": 1, "a.x": [{"c": 2}, None]}, None, {"b": None}])
    assert [(node.path, node.node_type, node.children) for node in nodes] == [
        ("p", "dict", ["a.x", "b"]), (r"p.a\.x", "list", [0, 1]),
        (r"p.a\.x[0]", "dict", ["c"])]
    assert nodes[0].row_mask == [True, False, True]
    assert nodes[1].lengths == [2, 0, 0]
    assert nodes[1].row_mask == [True, False, False]
    assert nodes[1].missing == [False, False, True]
    assert nodes[2].missing == [False] * 3 and nodes[2].row_mask == [
        True, False, False]
    assert [(leaf.path, leaf.values) for leaf in leaves] == [
        (r"p.a\.x[0].c", [2, None, None]), (r"p.a\.x[1]", [None, None, None]),
        ("p.b", [1, None, None])]
    assert not leaves[1].decision.accepted and leaves[2].decision.codec == "ndarray"


@pytest.mark.parametrize("values", [
    [{str(i): i for i in range(65)}], [[None] * 9], [{1: 2}], [{"a": 1}, [1]],
    [[1]], [None], []])
def test_other_rows_are_a_leaf(values):
    leaves, nodes = structure(values)
    assert not nodes and [leaf.path for leaf in leaves] == ["p"]


def test_structures_have_a_bound():
    value: dict = {}
    for _ in range(32):
        value = {"a": value}
    structure([value])
    with pytest.raises(ValueError, match="deep"):
        structure([{"a": value}])
    value["a"] = value
    with pytest.raises(ValueError, match="deep"):
        structure([value])


def test_keys_are_escaped_and_missing_has_a_name():
    assert _escape_key(r"a\b.c[0]") == r"a\\b\.c\[0]"
    assert repr(MISSING) == "<MISSING>"
