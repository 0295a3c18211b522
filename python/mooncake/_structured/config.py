# SPDX-License-Identifier: Apache-2.0
"""Write configurations and the groups of keys that are evicted together.

A configuration is any object of the caller. Only its group_ids is looked at, and
it is never changed: what needs another group gets a copy.
"""
from __future__ import annotations

import copy
import uuid
from types import SimpleNamespace
from typing import Any

STORAGE_GROUP_ID = "storage_group_id"

# Attributes of a ReplicateConfig, which is of C and so has no __dict__.
_ATTRIBUTES = (
    "data_type", "dfs_replica_num", "nof_replica_num",
    "prefer_alloc_in_same_node", "preferred_nof_segments", "preferred_segment",
    "preferred_segments", "replica_num", "soft_pin_action", "soft_pin_ttl_ms",
    "with_hard_pin")
# Configurations of other versions have this instead of soft_pin_action.
_OLD_SOFT_PIN = "with_soft_pin"


def _copied(config: Any) -> Any:
    """TypeError: it can neither be copied nor made anew."""
    try:
        return copy.copy(config)
    except TypeError:
        pass
    try:
        made = type(config)()
    except TypeError as error:
        raise TypeError(f"config: a {type(config).__name__} cannot be copied to "
                        f"set its group_ids: {error}") from None
    names = [*getattr(config, "__dict__", ()), *_ATTRIBUTES]
    if not hasattr(config, "soft_pin_action"):
        names.append(_OLD_SOFT_PIN)
    for name in names:
        if hasattr(config, name):
            setattr(made, name, getattr(config, name))
    return made


def _with_group_ids(config: Any, group_ids: list[str] | None) -> Any:
    made = _copied(config)
    made.group_ids = group_ids
    return made


def _config_for_grouped_keys(config: Any, key_count: int) -> Any:
    """The configuration for a write of key_count keys of one group.

    ValueError: it names several groups.
    """
    given = getattr(config, "group_ids", None)
    if given is None or key_count <= 0:
        return config
    if isinstance(given, str):
        return _with_group_ids(config, [given] * key_count)
    groups = list(given)
    if not groups:
        return _with_group_ids(config, None)
    if len(groups) > 1:
        raise ValueError("config.group_ids must name exactly one group for the "
                         f"keys of an object, not {len(groups)}")
    return config if key_count == 1 else _with_group_ids(
        config, groups * key_count)


# ---- batches: one group for all that is written of them ----


def _named_group(config: Any) -> str | None:
    """The group that a caller names; None: none, "": no group is wanted.

    ValueError: group_ids are several, or no strings.
    """
    given = getattr(config, "group_ids", None)
    if given is None:
        return None
    try:
        groups = [given] if isinstance(given, str) else list(given)
    except TypeError:
        raise ValueError("config.group_ids must contain strings, not a "
                         f"{type(given).__name__}") from None
    for group in groups:
        if not isinstance(group, str):
            raise ValueError("config.group_ids must contain strings, not a "
                             f"{type(group).__name__}")
    if len(groups) > 1:
        raise ValueError("config.group_ids must name exactly one group for a "
                         f"batch, not {len(groups)}")
    return groups[0] if groups else None


def group_for_put(config: Any) -> str | None:
    """The group of a new batch; None: it has none, as the caller wants."""
    named = _named_group(config)
    if named is None:
        return f"structured-{uuid.uuid4().hex}"
    return named or None


def group_for_append(config: Any, group: str | None) -> str | None:
    """The group of fields that are added to a batch of that group: the same.

    ValueError: the configuration names another one.
    """
    if group is None:
        return None
    named = _named_group(config)
    if named and named != group:
        raise ValueError(f"config.group_ids: {named!r} conflicts with the group "
                         f"of the batch, {group!r}")
    return group


def config_for_group(config: Any, group: str | None) -> Any:
    """The configuration of each write of a batch of that group.

    Without a group it is the caller's own, which may be None.
    """
    if group is None:
        return config
    if config is not None:
        return _with_group_ids(config, [group])
    made: Any = SimpleNamespace()
    try:
        from mooncake.store import ReplicateConfig
    except ImportError:
        pass
    else:
        made = ReplicateConfig()
    made.group_ids = [group]
    return made
