# SPDX-License-Identifier: Apache-2.0
"""mooncake._structured: groups of keys, and payloads in pieces."""
from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
from mooncake._structured.config import (
    _config_for_grouped_keys, config_for_group, group_for_append, group_for_put)
from mooncake._structured.payloads import (
    _DirectCopyPayload, _MultiBufferPayload, bytes_of)
from mooncake.store import ObjectDataType, ReplicateConfig, SoftPinAction


def config(*groups: str) -> ReplicateConfig:
    """Every attribute has another value than a new one's."""
    made = ReplicateConfig()
    made.replica_num, made.with_hard_pin = 2, True
    made.nof_replica_num, made.dfs_replica_num = 3, 4
    made.soft_pin_action, made.soft_pin_ttl_ms = SoftPinAction.ENABLE, 5000
    made.preferred_segments = ["a", "b"]
    made.preferred_segment = "c"
    made.preferred_nof_segments = ["d"]
    made.prefer_alloc_in_same_node = True
    made.data_type = ObjectDataType.TENSOR
    made.group_ids = list(groups) or None
    return made


def attributes(of: object) -> dict:
    return {name: getattr(of, name) for name in dir(of)
            if not name.startswith("_") and not callable(getattr(of, name))}


# ---- one group for the keys of a write ----


@pytest.mark.parametrize("make", [
    lambda groups: SimpleNamespace(group_ids=groups, replica_num=2),
    lambda groups: config(*(groups or []))])
def test_keys_of_one_write_get_one_group_each(make):
    one = make(["g"])
    before = attributes(one)
    assert _config_for_grouped_keys(one, 1) is one
    many = _config_for_grouped_keys(one, 3)
    assert type(many) is type(one) and many is not one
    assert list(many.group_ids) == ["g"] * 3
    assert attributes(one) == before
    many.group_ids = ["g"]
    assert attributes(many) == before
    with pytest.raises(ValueError, match=r"config\.group_ids.*exactly one"):
        _config_for_grouped_keys(make(["g", "h"]), 2)
    none = make(None)
    assert _config_for_grouped_keys(none, 3) is none


def test_what_names_no_group_stays_as_it_is():
    assert _config_for_grouped_keys(None, 3) is None
    for opaque in (object(), SimpleNamespace(group_ids=None)):
        assert _config_for_grouped_keys(opaque, 3) is opaque
    one = SimpleNamespace(group_ids=["g"])
    assert _config_for_grouped_keys(one, 0) is one
    empty = SimpleNamespace(group_ids=[])
    assert _config_for_grouped_keys(empty, 1).group_ids is None
    assert empty.group_ids == []
    text = SimpleNamespace(group_ids="g")
    assert _config_for_grouped_keys(text, 1).group_ids == ["g"]
    assert _config_for_grouped_keys(text, 2).group_ids == ["g", "g"]
    assert text.group_ids == "g"


class Uncopied:
    """As configurations of other versions: it cannot be copied."""

    def __init__(self) -> None:
        self.replica_num, self.group_ids = 1, None
        self.with_soft_pin = False

    def __copy__(self):
        raise TypeError("no")


def test_what_cannot_be_copied_is_made_anew():
    one = Uncopied()
    one.group_ids, one.replica_num, one.with_soft_pin = ["g"], 3, True
    made = _config_for_grouped_keys(one, 2)
    assert (made.group_ids, made.replica_num, made.with_soft_pin) == (
        ["g", "g"], 3, True)

    class Needy(Uncopied):
        def __init__(self, something: int) -> None:
            super().__init__()

    needy = Needy(1)
    needy.group_ids = ["g"]
    with pytest.raises(TypeError, match="Needy cannot be copied"):
        _config_for_grouped_keys(needy, 2)


# ---- one group for a batch ----


def test_a_new_batch_has_a_group_unless_it_wants_none():
    made = {group_for_put(one) for one in (
        None, SimpleNamespace(), SimpleNamespace(group_ids=None),
        SimpleNamespace(group_ids=[]), SimpleNamespace(group_ids=()))}
    assert len(made) == 5
    assert all(re.fullmatch("structured-[0-9a-f]{32}", one) for one in made)
    for groups in ("g", ["g"], ("g",)):
        assert group_for_put(SimpleNamespace(group_ids=groups)) == "g"
    for groups in ("", [""]):
        assert group_for_put(SimpleNamespace(group_ids=groups)) is None


@pytest.mark.parametrize("groups, words", [
    (["a", "b"], r"config\.group_ids"), ([1], "must contain strings"),
    ([None], "must contain strings"), (5, "must contain strings")])
def test_groups_that_are_none_are_refused(groups, words):
    one = SimpleNamespace(group_ids=groups)
    with pytest.raises(ValueError, match=words):
        group_for_put(one)
    with pytest.raises(ValueError, match=words):
        group_for_append(one, "g")


def test_an_append_keeps_the_group_of_its_batch():
    for groups in (None, [], "", "g", ["g"]):
        assert group_for_append(SimpleNamespace(group_ids=groups), "g") == "g"
    with pytest.raises(ValueError, match="'h' conflicts .* 'g'"):
        group_for_append(SimpleNamespace(group_ids=["h"]), "g")
    assert group_for_append(SimpleNamespace(group_ids=["h"]), None) is None


def test_every_write_of_a_batch_has_its_group():
    one = config("h")
    before = attributes(one)
    made = config_for_group(one, "g")
    assert list(made.group_ids) == ["g"] and attributes(one) == before
    fresh = config_for_group(None, "g")
    assert isinstance(fresh, ReplicateConfig) and list(fresh.group_ids) == ["g"]
    assert config_for_group(None, None) is None
    assert config_for_group(one, None) is one


# ---- payloads in pieces ----


def test_payloads_know_their_bytes():
    array = np.arange(6, dtype=np.int32)
    several = _MultiBufferPayload((memoryview(b"ab"), bytes_of(array)))
    assert several.nbytes == 26 and several.owners == ()
    assert several.dtype is None and several.shape is None
    assert bytes_of(array).obj is not None and bytes_of(array) == array.tobytes()
    assert bytes_of(np.empty(0)) == b""
    direct = _DirectCopyPayload.from_flat_arrays([array, array], "int32", 12)
    assert (direct.nbytes, direct.dtype, direct.shape) == (48, "<i4", (12,))
    assert direct.arrays[0] is array
    assert direct.joined() == 2 * array.tobytes()
    assert _DirectCopyPayload([array, np.ones((2, 1), np.int8)], 26).joined() == (
        array.tobytes() + b"\1\1")
    for frozen in (several, direct):
        with pytest.raises(AttributeError):
            frozen.dtype = "<i8"
