# SPDX-License-Identifier: Apache-2.0
"""Type stubs of the extension modules say what these have."""
from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "python/mooncake"
MODULES = ["store", "engine"]
OBJECTS = [PACKAGE / "structured_object_store.py"] + [PACKAGE / f"_structured/{name}.py" for name in (
    "bundles", "codecs", "config", "dataproto", "facade", "handles", "infer",
    "manifest", "media", "members", "msgpack", "payloads", "pieces", "ragged",
    "reading", "recursive", "release", "schema", "selection", "transport",
    "values")]


def stub(module: str) -> ast.Module:
    return ast.parse((PACKAGE / f"{module}.pyi").read_text(encoding="utf-8"))


def names_in(body: list[ast.stmt]) -> set[str]:
    names = set()
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname for alias in node.names if alias.asname}
        elif isinstance(node, ast.AnnAssign):
            names.add(ast.unparse(node.target))
        elif isinstance(node, ast.Assign):
            names |= {ast.unparse(target) for target in node.targets}
    return names


def public(owner: object) -> set[str]:
    return {name for name in vars(owner) if not name.startswith("_")}


def arguments_of(function: ast.FunctionDef) -> list[tuple[str, object]]:
    """Names and defaults, without self; a default that is missing is a type."""
    given = function.args
    assert not given.kwarg and not given.posonlyargs
    names = [one.arg for one in given.args]
    defaults = [inspect.Parameter.empty] * (len(names) - len(given.defaults))
    defaults += map(ast.literal_eval, given.defaults)
    pairs = list(zip(names, defaults))
    if given.vararg:
        pairs.append((given.vararg.arg, inspect.Parameter.empty))
    for one, default in zip(given.kwonlyargs, given.kw_defaults):
        pairs.append((one.arg, inspect.Parameter.empty if default is None
                      else ast.literal_eval(default)))
    return [pair for pair in pairs if pair[0] != "self"]


@pytest.mark.parametrize("module", MODULES)
def test_names_are_those_of_the_module(module):
    there = importlib.import_module(f"mooncake.{module}")
    told = names_in(stub(module).body)
    assert public(there) <= told
    pytest.importorskip("torch")  # some are brought by modules that need it
    for name in told - {"Key", "Bytes", "Ranges", "_Opcode"}:
        assert hasattr(there, name), name


@pytest.mark.parametrize("module", MODULES)
def test_classes_have_the_same_members(module):
    there = importlib.import_module(f"mooncake.{module}")
    for node in stub(module).body:
        if not isinstance(node, ast.ClassDef):
            continue
        members = getattr(getattr(there, node.name), "__members__", None)
        if members is None:
            told = {name for name in names_in(node.body)
                    if not name.startswith("_")}
            got = public(getattr(there, node.name)) - {
                "n_fields", "n_sequence_fields", "n_unnamed_fields"}
            assert told == got, node.name
        else:
            assert members == {ast.unparse(one.targets[0]): ast.literal_eval(
                one.value) for one in node.body}


@pytest.mark.parametrize("module", MODULES)
def test_methods_have_the_same_arguments(module):
    there, checked = importlib.import_module(f"mooncake.{module}"), 0
    for node in stub(module).body:
        for one in node.body if isinstance(node, ast.ClassDef) else ():
            if (not isinstance(one, ast.FunctionDef) or one.decorator_list
                    or one.name.startswith("_")):
                continue
            method = getattr(getattr(there, node.name), one.name)
            try:
                signature = inspect.signature(method)
            except ValueError:
                continue  # it has no signature that Python can read
            wanted = [(name, parameter.default) for name, parameter
                      in signature.parameters.items() if name != "self"]
            assert arguments_of(one) == wanted, one.name
            checked += 1
    assert checked > 20


# What mypy is to accept, and a line of it that it is not to.
GOOD = """
from mooncake import BufferPool
from mooncake.engine import TransferEngine, TransferNotify
from mooncake.store import (MooncakeDistributedStore, ReadTarget, ReplicateConfig,
                            SoftPinAction)

store = MooncakeDistributedStore()
code: int = store.setup("h", "P2PHANDSHAKE", 1, 1, "tcp", "", "h:1")
code = store.setup({"local_hostname": "h", "global_segment_size": "4 GB"})
config = ReplicateConfig()
config.soft_pin_action, config.soft_pin_ttl_ms = SoftPinAction.ENABLE, None
code = store.put("k", b"v", config) + sum(store.batch_is_exist(["k", b"l"]))
value: bytes = store.get(b"k")
engine = TransferEngine()
code = engine.initialize("h", "P2PHANDSHAKE", "tcp", "")
notify = TransferNotify("n", b"m")
target = ReadTarget("full")
"""
BAD = "store.put('k', 5)"


def test_types_are_checked(tmp_path):
    pytest.importorskip("mypy")

    def check(*files: object) -> str:
        return subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--no-site-packages",
             "--ignore-missing-imports", "--follow-imports=silent",
             "--allow-subclassing-any",  # of numpy, which is not looked at
             f"--cache-dir={tmp_path / 'cache'}", *map(str, files)],
            cwd=tmp_path, env={"MYPYPATH": str(PACKAGE.parent)}, check=False,
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout

    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(GOOD)
    bad.write_text(GOOD + BAD)
    stubs = [PACKAGE / name for name in (
        "store.pyi", "engine.pyi", "__init__.py", "buffer_pool.py",
        "_buffer_pool.py", "_parallelism.py", "_catalog_transfer.py",
        "_fast_copy.py", "_insecure.py", "_layout.py", "_needs.py", "_programs.py",
        "_rest_answers.py", "_rest_objects.py", "_rest_segments.py",
        "async_store.py", "dataproto_catalog.py", "http_metadata_server.py",
        "mooncake_config.py", "mooncake_store_service.py")]
    stubs += OBJECTS
    assert "Success" in check(good, *stubs)
    said = check(bad)
    assert 'to "put"' in said and "Found 1 error" in said, said
