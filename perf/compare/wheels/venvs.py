# SPDX-License-Identifier: Apache-2.0
"""Environments that have the wheels: made where they are not there yet."""
from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from ..process import run
from ..work import Skip

PUBLISHED = "mooncake-transfer-engine-non-cuda==0.3.13.post1"
# What it is linked to and does not bring.
PACKAGES = "apt-get install libibverbs1 librdmacm1 libnuma1"
OURS = "mooncake-transfer-engine"
# Of the frameworks that store batches; torch is the build for CPUs.
FOR_BATCHES = ("numpy", "msgpack", "torch==2.13.0+cpu")
LIMIT_S = 300.0  # of a download


def newest_wheel(folder: Path) -> Path | None:
    wheels = sorted(folder.glob("*.whl"), key=lambda one: one.stat().st_mtime)
    return wheels[-1] if wheels else None


def _pip(python: Path, *args: str) -> str:
    return run([str(python), "-m", "pip", "--disable-pip-version-check",
                *args], LIMIT_S)


def environment(folder: Path, what: str) -> Path:
    """The Python of one with @what installed; one that is there is kept."""
    python = folder / "bin/python"
    if not python.exists():
        print(f"compare: installing {what} into {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True, symlinks=True)
        _pip(python, "install", "-q", what)
    return python


def refresh(python: Path, wheel: Path) -> None:
    """Our wheel as it is now."""
    _pip(python, "install", "-q", "--no-deps", "--force-reinstall", str(wheel))


def add(python: Path, packages: Sequence[str]) -> None:
    """What cannot be installed is missed by the rows that need it."""
    for package in packages:
        if _has(python, package.partition("=")[0]):
            continue
        try:
            _pip(python, "install", "-q", package)
        except Skip as why:
            print(f"compare: {package} is not to be had: {why}",
                  file=sys.stderr)


def _has(python: Path, module: str) -> bool:
    code = ("import importlib.util as u, sys; "
            f"sys.exit(u.find_spec({module!r}) is None)")
    return not subprocess.run([str(python), "-c", code], check=False,
                              timeout=LIMIT_S).returncode


def version(python: Path, package: str) -> str:
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    try:
        return run([str(python), "-c", code], LIMIT_S).strip()
    except Skip:
        return "of a build"


def usable(python: Path) -> str | None:
    """Why the modules cannot be imported, or None."""
    done = subprocess.run(
        [str(python), "-c", "import mooncake.engine, mooncake.store"],
        capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if not done.returncode:
        return None
    return (done.stderr.strip().splitlines() or ["it does not start"])[-1]


def wheel_mb(folder: Path, python: Path, package: str) -> float | None:
    """The size of the file that pip gets for @package."""
    try:
        _pip(python, "download", "-q", "--no-deps", "-d", str(folder), package)
    except Skip as why:
        print(f"compare: size of {package} not known: {why}", file=sys.stderr)
        return None
    wheel = newest_wheel(folder)
    return wheel.stat().st_size / 1e6 if wheel else None
