# SPDX-License-Identifier: Apache-2.0
"""The files of this tree, for the check-* scripts."""
from __future__ import annotations

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def sources() -> list[str]:
    """Sorted paths that git knows or would add; without git, what lies there."""
    git = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )
    if git.returncode == 0:
        names = git.stdout.splitlines()
    else:
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*")]
    return sorted(
        name for name in names
        if (ROOT / name).is_file()
        and not name.startswith(("build/", ".git/"))
        and "__pycache__" not in name
    )
