# SPDX-License-Identifier: Apache-2.0
"""As vLLM-Ascend and vLLM look at what is installed, before they use it.

In the environment that the test of the wheel has made, where there is nothing else.
"""
from __future__ import annotations

import os
import pathlib
import subprocess
import zipfile

import pytest

SCRIPTS = ["mooncake_master", "mooncake_client", "mooncake_http_metadata_server",
           "mc_store_rest_server", "transfer_engine_bench",
           "transfer_engine_topology_dump"]

# vLLM-Ascend: one distribution of these names has the file that is imported.
ONE_DISTRIBUTION = """
import importlib.metadata, pathlib, re, mooncake.engine, mooncake.store
names = {"mooncake-transfer-engine", "mooncake-transfer-engine-npu",
         "mooncake-transfer-engine-ascend"}
found = [one for one in importlib.metadata.distributions()
         if re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower() in names]
assert len(found) == 1, found
for module in mooncake.engine, mooncake.store:
    name = module.__name__.rpartition(".")[2]
    files = [file for file in found[0].files
             if re.fullmatch(rf"mooncake/{name}[^/]*\\.so", str(file))]
    assert [pathlib.Path(found[0].locate_file(file)).resolve() for file in files
            ] == [pathlib.Path(module.__file__).resolve()], files
    assert files[0].hash, files
"""

# vLLM: a version that can be compared; what follows the + is what programs say.
VERSION = """
import importlib.metadata, re, sys, mooncake
version = importlib.metadata.version("mooncake-transfer-engine")
assert re.fullmatch(r"\\d+\\.\\d+\\.\\d+.*", version), version
assert version == mooncake.__version__, mooncake.__version__
assert version.partition("+te.")[2] == sys.argv[1], version
"""

# vLLM-Ascend: which parameters setup takes, by signature or by docstring.
SIGNATURES = """
import inspect
from mooncake.engine import TransferEngine
from mooncake.store import MooncakeDistributedStore
parameters = inspect.signature(MooncakeDistributedStore().setup).parameters
for name in ("local_hostname", "metadata_server", "global_segment_size",
             "local_buffer_size", "protocol", "rdma_devices",
             "master_server_addr", "engine", "enable_ssd_offload",
             "ssd_offload_path", "tenant_id"):
    assert name in parameters, name
    assert name in MooncakeDistributedStore.setup.__doc__, name
for owner in TransferEngine, MooncakeDistributedStore:
    for name, method in inspect.getmembers(owner, inspect.isroutine):
        if not name.startswith("_"):
            assert method.__doc__, name
            inspect.signature(method)
"""

# SGLang: modules for GPUs, each in a try.
ABSENT = """
import importlib
for name in ("ep", "pg", "mooncake_ep_buffer"):
    try:
        importlib.import_module(f"mooncake.{name}")
    except ImportError as error:
        assert name in str(error)
    else:
        raise AssertionError(f"mooncake.{name} is there")
"""

# What needs nothing but the standard library is there at once.
MODULES = """
import mooncake.allocator
import mooncake.async_store, mooncake.buffer_pool, mooncake.mooncake_config
import mooncake.cli, mooncake.cli_bench, mooncake.cli_client
import mooncake.http_metadata_server, mooncake.transfer_engine_topology_dump
"""

# What needs more says what, in one line: modules, and methods that are imported late.
LACKING = """
import importlib, pkgutil, re, mooncake
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
calls = {one.name: lambda name=one.name: importlib.import_module(name)
         for one in pkgutil.iter_modules(mooncake.__path__, "mooncake.")
         if "._" not in one.name}
# Tensors of a GPU need no torch: test_gpu.py.
tensors = [name for name in dir(store)
           if "tensor" in name and not name.endswith("into_cuda")]
calls |= {name: getattr(store, name) for name in tensors}
lacking = {}
for name, call in calls.items():
    try:
        call()
    except ImportError as error:
        said = re.fullmatch(r".* needs (\\w+) .*: pip install (\\w+)", str(error))
        assert said and said[1] == said[2], (name, error)
        lacking[name] = said[1]
assert {lacking[name] for name in tensors} == {"torch"}, lacking
assert set(lacking.values()) == {"aiohttp", "numpy", "torch"}, lacking
assert lacking["mooncake.structured_object_store"] == "numpy"
assert not {"mooncake.engine", "mooncake.store"} & set(lacking)
"""


@pytest.fixture(scope="module")
def bin_dir() -> pathlib.Path:
    venv = pathlib.Path(os.environ["TE_WHEEL_DIR"]) / "venv"
    assert (venv / "bin/python").exists(), "the test of the wheel makes it"
    return venv / "bin"


def make_wheel(where: pathlib.Path, name: str, version: str, *requires: str) -> None:
    """One that has nothing but its name and what it asks for."""
    stem = f"{name}-{version}"
    metadata = [f"Name: {name}", f"Version: {version}",
                *(f"Requires-Dist: {one}" for one in requires)]
    files = {"METADATA": ["Metadata-Version: 2.1", *metadata],
             "WHEEL": ["Wheel-Version: 1.0", "Root-Is-Purelib: true",
                       "Tag: py3-none-any"],
             "RECORD": []}
    with zipfile.ZipFile(where / f"{stem}-py3-none-any.whl", "w") as wheel:
        for file, lines in files.items():
            wheel.writestr(f"{stem}.dist-info/{file}",
                           "".join(f"{line}\n" for line in lines))


def run(*command: object) -> subprocess.CompletedProcess[str]:
    """Without what would let it find this tree."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    return subprocess.run([str(word) for word in command], env=environment,
                          text=True, capture_output=True, check=False, cwd="/")


@pytest.mark.parametrize("program", [ONE_DISTRIBUTION, VERSION, SIGNATURES, ABSENT,
                                     MODULES, LACKING])
def test_what_is_looked_at_is_there(bin_dir, program):
    version = run(bin_dir / "mooncake_master", "--version").stdout.split()[-1]
    done = run(bin_dir / "python", "-c", program, version)
    assert done.returncode == 0, done.stderr


# vLLM and SGLang ask for the first; who pins a release asks for the others.
@pytest.mark.parametrize("wanted", [">=0.3.12", "~=0.3.12", "==0.3.13.post1"])
def test_what_asks_for_a_release_of_mooncake_keeps_ours(bin_dir, tmp_path, wanted):
    pip = (bin_dir / "python", "-m", "pip")
    for version in ("0.3.12", "0.3.13.post1", "0.3.14"):
        make_wheel(tmp_path, "mooncake_transfer_engine", version)
    make_wheel(tmp_path, "asks", "1.0", f"mooncake-transfer-engine{wanted}")
    before = run(*pip, "freeze").stdout
    done = run(*pip, "install", "--no-index", "--find-links", tmp_path, "asks")
    after, consistent = run(*pip, "freeze").stdout, run(*pip, "check")
    run(*pip, "uninstall", "-y", "asks")
    assert done.returncode == 0, done.stderr
    assert consistent.returncode == 0, consistent.stdout
    assert "2Bte." in before and after == "asks==1.0\n" + before


def test_pip_finds_nothing_missing(bin_dir):
    done = run(bin_dir / "python", "-m", "pip", "check")
    assert done.returncode == 0, done.stdout


def test_the_scripts_are_those_of_mooncake(bin_dir):
    done = run(bin_dir / "python", "-c",
               "import importlib.metadata as m\n"
               "for e in m.distribution('mooncake-transfer-engine').entry_points:\n"
               "    print(e.name)")
    assert sorted(done.stdout.split()) == sorted(SCRIPTS)


@pytest.mark.parametrize("script", [s for s in SCRIPTS
                                    if s != "mc_store_rest_server"])
def test_each_script_says_what_it_is(bin_dir, script):
    done = run(bin_dir / script, "--help")
    assert done.returncode == 0, done.stderr
    assert "--" in done.stdout


def test_the_topology_is_that_of_this_machine(bin_dir):
    done = run(bin_dir / "transfer_engine_topology_dump")
    assert done.stdout.startswith("Local topology [te/discover]: "), done.stderr


@pytest.mark.parametrize("command", [
    ["mc_store_rest_server"], ["python", "-m", "mooncake.mooncake_store_service"]])
def test_what_needs_more_says_what(bin_dir, command):
    done = run(bin_dir / command[0], *command[1:], "--help")
    assert done.returncode == 1
    line, = done.stderr.splitlines()
    assert line.endswith("pip install aiohttp")
