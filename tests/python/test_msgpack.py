# SPDX-License-Identifier: Apache-2.0
"""mooncake._structured.msgpack: its own coder, and the package of that name."""
from __future__ import annotations

import numpy as np
import pytest
from mooncake._structured import msgpack

PACKED = [
    (None, "c0"), (True, "c3"), (False, "c2"), (0, "00"), (127, "7f"),
    (128, "cc80"), (255, "ccff"), (256, "cd0100"), (65536, "ce00010000"),
    (1 << 32, "cf0000000100000000"), ((1 << 64) - 1, "cf" + "ff" * 8),
    (-1, "ff"), (-32, "e0"), (-33, "d0df"), (-129, "d1ff7f"),
    (-32769, "d2ffff7fff"), (-(1 << 31) - 1, "d3ffffffff7fffffff"),
    (-(1 << 63), "d3" + "80" + "00" * 7), (1.5, "cb3ff8" + "00" * 6),
    ("", "a0"), ("ä", "a2c3a4"), ("a" * 31, "bf" + "61" * 31),
    ("a" * 32, "d920" + "61" * 32), ("a" * 256, "da0100" + "61" * 256),
    ("a" * 65536, "db00010000" + "61" * 65536),
    (b"", "c400"), (b"a" * 256, "c50100" + "61" * 256),
    (b"a" * 65536, "c600010000" + "61" * 65536), ([], "90"),
    ([1, [2]], "92019102"), ([0] * 16, "dc0010" + "00" * 16),
    ([0] * 65536, "dd00010000" + "00" * 65536), ({"b": 1, "a": [None]},
                                                 "82a16201a16191c0"),
    ({str(i): i for i in range(10, 26)}, "de0010" + "".join(
        f"a2{ord(str(i)[0]):02x}{ord(str(i)[1]):02x}{i:02x}"
        for i in range(10, 26)))]


@pytest.fixture(params=["own", "library"])
def coder(request, monkeypatch):
    """Both coders, as the package msgpack is installed or not."""
    if request.param == "library":
        pytest.importorskip("msgpack")
    else:
        monkeypatch.setattr(msgpack, "_library", None)


@pytest.mark.parametrize("value, packed", PACKED)
def test_values_are_packed_in_their_smallest_form(coder, value, packed):
    assert msgpack.packer()(value).hex() == packed
    assert msgpack.unpacker()(memoryview(bytes.fromhex(packed))) == value


def test_other_bytes_are_packed_and_other_types_refused(coder):
    pack = msgpack.packer()
    assert pack(bytearray(b"a")) == pack(memoryview(b"a")) == b"\xc4\1a"

    class Text(str):
        pass

    for value in ((1,), {"a": (1,)}, Text("a"), np.int64(1), object(), {1}):
        with pytest.raises(TypeError):
            pack(value)
    for value in (1 << 64, -(1 << 63) - 1):
        with pytest.raises(OverflowError):
            pack(value)
    deep: list = []
    deep.append(deep)
    with pytest.raises(ValueError):
        pack(deep)


def test_what_is_no_packed_value_is_refused(coder):
    assert msgpack.unpacker()(memoryview(b"\xca\x3f\xc0\0\0")) == 1.5
    assert msgpack.unpacker()(memoryview(b"\x81\1\2")) == {1: 2}
    for data in (b"", b"\xc1", b"\xa2a", b"\x91", b"\1\1", b"\xd4\5a", b"\xa1\xff",
                 b"\x81\x90\1", b"\x91" * 5000, b"\xdd\xff\xff\xff\xff",
                 b"\xdb\xff\xff\xff\xffa"):
        with pytest.raises((ValueError, TypeError)):
            msgpack.unpacker()(memoryview(data))


def test_rows_end_where_they_are_told_to(coder):
    pack = msgpack.packer()
    packed = [pack(value) for value in (1, "ab", {"c": [None]})]
    data = memoryview(b"?" + b"".join(packed) + b"?")
    found: list = []
    msgpack.unpack_rows(data, [1, 2, 5, 10], found)
    assert found == [1, "ab", {"c": [None]}]
    msgpack.unpack_rows(data, [3], found)
    msgpack.unpack_rows(data, [], found)
    assert len(found) == 3
    for bounds, n_found in (([1, 2, 4, 9], 1), ([1, 1, 5], 0), ([1, 2, 2, 5], 1),
                            ([1, 2, 5, 9], 2), ([1, 2, 5, 10, 10], 3), ([1, 9], 0),
                            ([1, 1], 0), ([0, 1, 0], 1)):
        found = []
        with pytest.raises((ValueError, TypeError)):
            msgpack.unpack_rows(data, bounds, found)
        assert len(found) == n_found


def test_every_cut_of_a_packed_value_is_refused(coder):
    data = msgpack.packer()({"a": [1.5, None, b"xy"], "b": {"c": 1 << 40}})
    for n in range(len(data)):
        with pytest.raises(ValueError):
            msgpack.unpacker()(memoryview(data[:n]))
