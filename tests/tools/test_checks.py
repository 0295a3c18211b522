#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The checks of tools/ find what they are there to find.

Each test builds a small tree with copies of the tools, breaks one rule in it,
and reads what the check says.
"""
from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"


class Checks(unittest.TestCase):
    def setUp(self) -> None:
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)
        (self.top / "tools").mkdir()
        for tool in TOOLS.glob("*"):
            if tool.is_file():
                shutil.copy(tool, self.top / "tools")
        for header in ("te/engine.h", "te/backend.h", "base/list.h",
                       "base/clock.h", "store/client/client.h"):
            self.write(header, SPDX)

    def write(self, path: str, text: str) -> None:
        file = self.top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run_check(self, name: str) -> tuple[int, str]:
        run = subprocess.run(
            [sys.executable, str(self.top / "tools" / name)],
            capture_output=True, text=True, check=False,
        )
        self.assertEqual(run.stderr, "")
        return run.returncode, run.stdout

    def refused(self, check: str, path: str, text: str, why: str) -> None:
        self.write(path, text)
        code, said = self.run_check(check)
        self.assertEqual(code, 1)
        self.assertIn(path, said)
        self.assertIn(why, said)

    def includes(self, path: str, name: str, why: str = "not allowed") -> None:
        text = SPDX + f"#include {name}\n"
        self.refused("check-includes", path, text, why)

    def test_a_tree_by_the_rules_passes(self) -> None:
        self.write("backends/tcp/tcp.c", SPDX + '#include "te/backend.h"\n')
        self.assertEqual(self.run_check("check-includes"), (0, ""))
        self.assertEqual(self.run_check("check-tree"), (0, ""))

    def test_a_backend_sees_no_inside_of_the_engine(self) -> None:
        self.includes("backends/tcp/tcp.c", '"te/engine.h"')

    def test_a_backend_sees_no_other_backend(self) -> None:
        self.write("backends/loop/loop.h", SPDX)
        self.includes("backends/tcp/tcp.c", '"backends/loop/loop.h"')

    def test_the_store_sees_no_inside_of_the_engine(self) -> None:
        self.includes("store/client/get.c", '"te/engine.h"')

    def test_base_sees_nothing_above_it(self) -> None:
        self.includes("base/list.c", '"te/engine.h"')

    def test_the_core_has_no_clock(self) -> None:
        self.includes("store/core/put.c", '"base/clock.h"', "no clock")
        self.includes("store/core/put.c", "<time.h>", "no clock")

    def test_the_master_has_no_client(self) -> None:
        self.includes("store/server/rpc.c", '"store/client/client.h"')

    def test_headers_are_named_from_the_top(self) -> None:
        self.includes("base/list.c", '"list.h"', "from the top")

    def test_a_new_folder_needs_a_row(self) -> None:
        self.includes("misc/x.c", '"base/list.h"', "no row")

    def test_tests_do_not_sleep(self) -> None:
        call = "usleep" + "(1000);\n"
        self.refused("check-tree", "tests/unit/x.c", SPDX + call, "do not sleep")

    def test_files_say_their_licence(self) -> None:
        self.refused("check-tree", "base/x.c", "int x;\n", "SPDX")

    def test_lines_end_where_their_text_ends(self) -> None:
        self.refused("check-tree", "base/x.c", SPDX + "int x; \n", "whitespace")

    def test_files_stay_small(self) -> None:
        self.refused("check-tree", "a.bin", "x" * (1 << 20) + "\n", "larger")

    def test_links_lead_somewhere(self) -> None:
        self.refused("check-tree", "a.md", "[x](docs/gone.md)\n", "not there")


if __name__ == "__main__":
    unittest.main()
