#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The checks of tools/ find what they are there to find.

Each test builds a small tree with copies of the tools, breaks one rule in it,
and reads what the check says.
"""
from __future__ import annotations

import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"


class Tree(unittest.TestCase):
    def setUp(self) -> None:
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)
        (self.top / "tools").mkdir()
        for tool in TOOLS.glob("*"):
            if tool.is_file():
                shutil.copy(tool, self.top / "tools")

    def write(self, path: str, text: str) -> None:
        file = self.top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run_check(self, name: str, *args: str) -> tuple[int, str]:
        run = subprocess.run(
            [sys.executable, str(self.top / "tools" / name), *args],
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



class Rooms(Tree):
    """check-rooms, over object files that a compiler makes of small sources."""

    def build(self, **sources: str) -> tuple[int, str]:
        for name, text in sources.items():
            source = name.replace("__", "/") + ".c"
            self.write(source, SPDX + text)
            folder, _, file = source.rpartition("/")
            out = self.top / f"build/{folder}/CMakeFiles/x.dir/{file}.o"
            out.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cc", "-c", "-o", out, self.top / source],
                           check=True)
        return self.run_check("check-rooms", str(self.top / "build"))

    def test_arrows_that_go_one_way_pass(self) -> None:
        self.assertEqual(self.build(
            te__worker__a="void tei_a(void) {}",
            te__transfer__b="void tei_a(void);\nvoid tei_b(void) { tei_a(); }",
        ), (0, ""))

    def test_a_circle_of_rooms_is_found(self) -> None:
        code, said = self.build(
            te__worker__a="void tei_b(void);\nvoid tei_a(void) { tei_b(); }",
            te__transfer__b="void tei_a(void);\nvoid tei_b(void) { tei_a(); }",
        )
        self.assertEqual(code, 1)
        self.assertIn("rooms in a circle: te/transfer, te/worker", said)
        self.assertIn("te/worker/a.c -> te/transfer/b.c", said)

    def test_seven_files_in_a_circle_are_too_many(self) -> None:
        code, said = self.build(**{
            f"te__worker__f{i}": f"void tei_f{(i + 1) % 7}(void);\n"
            f"void tei_f{i}(void) {{ tei_f{(i + 1) % 7}(); }}"
            for i in range(7)
        })
        self.assertEqual(code, 1)
        self.assertIn("te/worker: 7 files in a circle", said)

    def test_a_tag_is_defined_once(self) -> None:
        code, said = self.build(
            te__a="struct tei_x {\n\tint a;\n};\n",
            store__core__b="struct tei_x {\n\tint b;\n};\n",
        )
        self.assertEqual(code, 1)
        self.assertIn("struct tei_x is defined in store/core/b.c and in te/a.c",
                      said)

    def test_a_comment_of_a_header_has_a_subject(self) -> None:
        self.refused("check-rooms", "te/a.h", SPDX + "/* Of each slice. */\n",
                     "without a subject")
        self.refused("check-rooms", "te/a.h", SPDX + "/* Whether idle. */\n",
                     "te/a.h:2: begin the comment with a noun or a verb")

    def test_a_line_has_80_columns(self) -> None:
        self.refused("check-rooms", "te/a.c", SPDX + "/*" + "x" * 80 + "*/\n",
                     "more than 80 columns")

    def refused(self, check: str, path: str, text: str, why: str) -> None:
        self.write(path, text)
        code, said = self.build(te__worker__a="void tei_a(void) {}")
        self.assertEqual(code, 1)
        self.assertIn(path, said)
        self.assertIn(why, said)


class Binaries(Tree):
    """check-binaries, over programs and libraries of one line each."""

    HARD = ("-O2", "-fPIE", "-pie", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3",
            "-fstack-clash-protection", "-Wl,-z,relro,-z,now,-z,noexecstack")

    def make(self, *flags: str, text: str = "int main(void) { return 0; }",
             out: str = "out/bin/x") -> tuple[int, str]:
        self.write("x.c", text)
        (self.top / out).parent.mkdir(parents=True, exist_ok=True)
        hard = list(self.HARD)
        if platform.machine() == "x86_64":
            hard.append("-fcf-protection=full")
        subprocess.run(["cc", *hard, *flags, "-o", self.top / out,
                        self.top / "x.c"], check=True)
        return self.run_check("check-binaries", str(self.top / "out"))

    def found(self, why: str, *flags: str, **more: str) -> None:
        code, said = self.make(*flags, **more)
        self.assertEqual(code, 1)
        self.assertIn(why, said)

    def test_what_is_hard_passes(self) -> None:
        self.assertEqual(self.make("-Wl,-rpath,$ORIGIN/../lib"), (0, "1 files\n"))

    def test_nothing_at_all_is_a_fault(self) -> None:
        self.found("nothing that was built", out="elsewhere")

    def test_what_was_padded_loads_from_the_current_directory(self) -> None:
        self.found("looks for libraries in ''", "-Wl,-rpath,$ORIGIN:")
        self.found("x: does not start where others' libraries lie",
                   "-Wl,-rpath,$ORIGIN:")

    def test_a_path_of_this_machine_is_found(self) -> None:
        self.found("in '/elsewhere/lib'", "-Wl,-rpath,$ORIGIN:/elsewhere/lib")
        self.found("in 'lib'", "-Wl,-rpath,lib", "-shared", out="out/x.so")

    def test_what_stays_writable_is_found(self) -> None:
        self.found("no RELRO", "-Wl,-z,norelro")
        self.found("bound when it runs", "-Wl,-z,lazy")

    def test_a_stack_that_runs_is_found(self) -> None:
        self.found("a stack that can be executed", "-Wl,-z,execstack")

    def test_a_fixed_address_is_found(self) -> None:
        self.found("a fixed address", "-no-pie", "-fno-pie")

    def test_calls_that_nobody_checks_are_found(self) -> None:
        text = "#include <stdio.h>\nint main(int n, char **v)\n" \
               "{ return printf(v[0], n); }\n"
        self.assertEqual(self.make(text=text, out="out/x"), (0, "1 files\n"))
        self.found("calls printf unchecked", "-U_FORTIFY_SOURCE", text=text,
                   out="out/x")

    @unittest.skipUnless(platform.machine() == "x86_64", "x86 alone")
    def test_a_stack_that_jumps_over_its_guard_is_found(self) -> None:
        text = "int main(int n, char **v)\n" \
               "{ volatile char a[65536]; a[n] = **v; return a[n]; }\n"
        self.assertEqual(self.make(text=text, out="out/x"), (0, "1 files\n"))
        self.found("bytes of stack at once", "-fno-stack-clash-protection",
                   text=text, out="out/x")

    @unittest.skipUnless(platform.machine() == "x86_64", "x86 alone")
    def test_functions_without_a_landing_pad_are_found(self) -> None:
        self.found("f and 0 others begin without endbr64", "-fcf-protection=none",
                   "-fPIC", "-shared", text="int f(void) { return 0; }",
                   out="out/x.so")
        self.found("a function without a name", "-fcf-protection=none",
                   text="static int g(void) { return 1; }\n"
                   "int (*volatile f)(void) = g;\n"
                   "int main(void) { return f(); }")


class Checks(Tree):
    def setUp(self) -> None:
        super().setUp()
        for header in ("te/core/engine.h", "te/backend.h", "base/list.h",
                       "base/clock.h", "store/client/client.h"):
            self.write(header, SPDX)

    def includes(self, path: str, name: str, why: str = "not allowed") -> None:
        text = SPDX + f"#include {name}\n"
        self.refused("check-includes", path, text, why)

    def test_a_tree_by_the_rules_passes(self) -> None:
        self.write("backends/tcp/tcp.c", SPDX + '#include "te/backend.h"\n')
        self.assertEqual(self.run_check("check-includes"), (0, ""))
        self.assertEqual(self.run_check("check-tree"), (0, ""))

    def test_a_backend_sees_no_inside_of_the_engine(self) -> None:
        self.includes("backends/tcp/tcp.c", '"te/core/engine.h"')

    def test_a_backend_sees_no_other_backend(self) -> None:
        self.write("backends/loop/loop.h", SPDX)
        self.includes("backends/tcp/tcp.c", '"backends/loop/loop.h"')

    def test_the_store_sees_no_inside_of_the_engine(self) -> None:
        self.includes("store/client/get.c", '"te/core/engine.h"')

    def test_base_sees_nothing_above_it(self) -> None:
        self.includes("base/list.c", '"te/core/engine.h"')

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
        self.refused("check-tree", "base/x.c", SPDX + "\n" * 1000, "lines")
        self.refused("check-tree", "base/x.c", SPDX + "/* see gone.c */\n",
                     "names gone.c")

    def test_links_lead_somewhere(self) -> None:
        self.refused("check-tree", "a.md", "[x](docs/gone.md)\n", "not there")


# What docs/compatibility is held against, and tables that agree with it.
THERE = {
    "store/store.symbols": "te_store_put\n",
    "store/proto/store.proto": "  STORE_PUT = 1;\n",
    "store/proto/agent.proto": "",
    "docs/settings.md": """
## mooncake_master

network:

  --port=N
        port of clients
        default 50051
  --quick=BOOL
        do not wait
        default false, environment MC_QUICK

accepted without effect, for existing command lines and files:

  --slow=BOOL (true), also --sluggish

## mooncake_client

  --host=TEXT
        name
        no default

accepted without effect, for existing command lines and files:

  --idle=N (3)

## transfer_engine_bench

  --speed=N
        how fast
        default 9

accepted without effect, for existing command lines and files:

  --gpu=N (0)

""",
    "docs/metrics.md": "| `master_put_requests_total` | counter | puts |\n"
                       "\n## `mooncake_client`, port 9300\n"
                       "| `mooncake_read_bytes` | counter | bytes |\n",
    "store/server/admin.c": '{TEI_HTTP_GET, "/role",\n role},\n'
                            '{TEI_HTTP_POST, "/drain", no_drain},\n',
    "store/server/metadata.c": "",
    "store/daemon/agent.c": '{TEI_HTTP_GET, "/health", health},\n'
                          'metric(out, "mooncake_read_bytes")\n',
    "python/src/engine/module.c":
        "static PyObject *ask(PyObject *self, PyObject *none)\n"
        '\t{"ask", ask, METH_NOARGS,\n'
        'add(module, "Engine", type);\n',
    "include/te/store.h": "enum te_store_code {\n\tTE_STORE_OK = 0,\n};\n",
    "compat/client_types.h":
        "enum class ErrorCode : int {\n\tOK = 0,\n\tLATE = -9,\n};\n",
    "python/src/store/store.c":
        'const PyMethodDef ps_write_methods[] = {\n'
        '\tPS_METHOD("set", set, "key)"),\n\t{"end", end, METH_NOARGS},\n'
        '\t{0},\n};\n.name = "mooncake.store.Config",\n',
    "docs/compatibility/methods.md":
        "# Methods\n## Writing\n| method | call | here |\n|---|---|---|\n"
        "| `put` | `te_store_put()` | works in C |\n"
        "| `set`, `end` | `te_store_put()` | works |\n"
        "| `get` |  | absent (later) |\n"
        "\n## Classes\n| class | in C | here |\n|---|---|---|\n"
        "| `Config` | `te_store_put()` | works |\n"
        "\n## Modules\n| name | here |\n|---|---|\n"
        "| `mooncake.store`, `mooncake.engine` | works |\n"
        "| `mooncake.mooncake_config` | works |\n",
    "python/mooncake/mooncake_config.py": 'TENANT = "MOONCAKE_TENANT"\n',
    "python/pyproject.toml":
        '[project.scripts]\nrun_it = "mooncake.cli:main"\n\n[tool.it]\na = 1\n',
    "docs/compatibility/engine.md":
        "# Engine\n## `TransferEngine`\n| method | here |\n|---|---|\n"
        "| `ask` | works |\n| `tell` | absent (later) |\n"
        "\n## The module\n| name | here |\n|---|---|\n"
        "| `Engine` | works |\n",
    "docs/compatibility/rpcs.md":
        "| RPC | message | here |\n|---|---|---|\n"
        "| `Put` | `STORE_PUT` | works |\n",
    "docs/compatibility/flags.md":
        "# Flags\n## `mooncake_master`\n"
        "| flag | default | here |\n|---|---|---|\n"
        "| `port` | `50051` | works |\n| `quick` | `false` | works |\n"
        "| `slow`, `sluggish` | `true` | accepted, no effect |\n"
        "\n## `mooncake_client`\n"
        "| flag | default | here |\n|---|---|---|\n"
        "| `host` |  | works |\n| `idle` | `3` | accepted, no effect |\n"
        "\n## `transfer_engine_bench`\n"
        "| flag | default | here |\n|---|---|---|\n"
        "| `speed` | `9` | works |\n| `gpu` | `0` | accepted, no effect |\n"
        "\n## Environment\n| variable | here |\n|---|---|\n"
        "| `MC_QUICK` | works |\n| `MC_FILES_*` | absent (no files) |\n"
        "| `MOONCAKE_TENANT` | works |\n"
        "\n## Commands\n| command | here |\n|---|---|\n| `run_it` | works |\n",
    "docs/compatibility/http.md":
        "# Paths\n## master, port 9003\n| request | here |\n|---|---|\n"
        "| `GET /role` | works |\n| `POST /drain` | absent (501) |\n"
        "\n## client, port 9300\n| request | here |\n|---|---|\n"
        "| `GET /health` | works |\n"
        "\n## mooncake_store_service\n| request | here |\n|---|---|\n"
        "| `PUT /api/put` | works |\n",
    "python/mooncake/_rest.py": 'web.put("/api/put", put)\n',
    "docs/compatibility/metrics.md":
        "# Metrics\n## Calls: `master_OP_requests_total`\n"
        "| OP | here |\n|---|---|\n| `put` | works |\n"
        "| `get` | absent (none) |\n"
        "\n## `mooncake_client`\n| metric | here |\n|---|---|\n"
        "| `mooncake_read_bytes` | works |\n",
    "docs/compatibility/codes.md":
        "| code | name | here | returned by, and for |\n|---|---|---|---|\n"
        "| 0 | `OK` | works | all |\n| -9 | `LATE` | absent (never) |  |\n",
}


class Metrics(Tree):
    """What the code names has a row on the page."""

    def named(self, text: str, page: str) -> tuple[int, str]:
        self.write("store/daemon/agent.c", text)
        self.write("docs/metrics.md", page)
        return self.run_check("check-metrics", "--names")

    def test_a_metric_with_a_row_passes(self) -> None:
        self.assertEqual(self.named(
            'metric(out, "te_agent_keys_total",\n\t"counter", "keys", n);',
            "| `te_agent_keys_total` | counter | keys |\n"), (0, ""))

    def test_metrics_without_a_row_are_found(self) -> None:
        for text in ('metric(out, "te_agent_keys", "gauge", "keys", n);',
                     'one(out, "gauge", "te_agent_keys", "keys", n);',
                     'static const char name[] = "te_agent_keys";',
                     '"# TYPE te_agent_keys gauge\\n"'):
            code, said = self.named(text, "| `te_agent_dummies` | gauge | |\n")
            self.assertEqual(code, 1)
            self.assertEqual(
                said, "store/daemon/agent.c: te_agent_keys: no row\n")


class Compatibility(Tree):
    def setUp(self) -> None:
        super().setUp()
        for path, text in THERE.items():
            self.write(path, text)

    def says(self, path: str, old: str, new: str, why: str) -> None:
        """With @new in the place of @old in @path the check says @why."""
        self.assertIn(old, THERE[path])
        self.write(path, THERE[path].replace(old, new))
        code, said = self.run_check("check-compatibility")
        self.assertEqual(code, 1)
        self.assertIn(why, said)

    def table(self, page: str, old: str, new: str, why: str) -> None:
        self.says(f"docs/compatibility/{page}.md", old, new, why)

    def test_tables_that_agree_pass(self) -> None:
        self.assertEqual(self.run_check("check-compatibility"), (0, ""))

    def test_a_variable_that_an_interface_asks_for_is_a_row(self) -> None:
        self.write("compat/engine/engine.c", 'getenv("MC_ASKED_FOR");\n')
        code, said = self.run_check("check-compatibility")
        self.assertEqual(code, 1)
        self.assertIn("MC_ASKED_FOR is not in it", said)

    def test_a_row_has_one_of_three_states(self) -> None:
        self.table("rpcs", "| works |", "| works a bit |", "none of works")

    def test_what_is_absent_has_a_reason(self) -> None:
        self.table("methods", "absent (later)", "absent", "why")

    def test_a_call_is_exported(self) -> None:
        self.table("methods", "te_store_put()", "te_store_set()", "not exported")

    def test_what_is_exported_is_named(self) -> None:
        self.says("store/store.symbols", "te_store_put\n",
                  "te_store_put\nte_store_get\n", "te_store_get() is not in it")

    def test_what_works_names_its_call(self) -> None:
        self.table("methods", "|  | absent (later)", "|  | works in C",
                   "by which call")

    def test_a_method_of_python_is_there(self) -> None:
        self.table("engine", "absent (later)", "works", "it is 'absent'")
        self.table("engine", "| `ask` | works |\n", "", "ask is not in it")

    def test_a_name_of_the_module_is_there(self) -> None:
        self.table("engine", "`Engine`", "`Motor`", "Engine is not in it")

    def test_a_method_that_works_is_in_the_module(self) -> None:
        self.table("methods", "| works in C", "| works",
                   "mooncake.store has no put")

    def test_a_method_of_the_module_works(self) -> None:
        self.table("methods", "`set`, `end`", "`set`",
                   "end of mooncake.store is not said to work")

    def test_a_class_of_the_module_works(self) -> None:
        self.table("methods", "`Config`", "`Options`",
                   "Config of mooncake.store is not said to work")

    def test_a_module_of_the_package_works(self) -> None:
        self.table("methods", "| `mooncake.mooncake_config` | works |\n", "",
                   "mooncake.mooncake_config is not in it")

    def test_a_command_of_the_package_works(self) -> None:
        self.table("flags", "`run_it`", "`run_that`", "run_it is not in it")

    def test_a_variable_of_the_configuration_works(self) -> None:
        self.table("flags", "| `MOONCAKE_TENANT` | works |\n", "",
                   "MOONCAKE_TENANT is not in it")

    def test_all_codes_are_in_the_enum_of_cxx(self) -> None:
        self.says("compat/client_types.h", "\tLATE = -9,\n", "",
                  "LATE is None, in codes.md -9")
        self.says("compat/client_types.h", "-9", "-8", "LATE is -8")

    def test_a_message_is_in_a_schema(self) -> None:
        self.table("rpcs", "STORE_PUT", "STORE_SET", "there is no STORE_SET")

    def test_a_flag_without_effect_does_not_work(self) -> None:
        self.table("flags", "| `true` | accepted, no effect", "| `true` | works",
                   "slow: it says 'works'")

    def test_a_flag_has_its_row(self) -> None:
        self.table("flags", "| `quick` | `false` | works |\n", "",
                   "quick is not in it")

    def test_a_flag_has_its_default(self) -> None:
        self.table("flags", "50051", "50050", "default of port is '50051'")

    def test_a_variable_that_is_looked_at_works(self) -> None:
        self.table("flags", "| `MC_QUICK` | works", "| `MC_SLOW` | works",
                   "MC_SLOW: it says 'works', but it is 'absent'")

    def test_a_family_is_absent_as_a_whole(self) -> None:
        self.says("docs/settings.md", "MC_QUICK", "MC_FILES_MAX",
                  "MC_FILES_*: it says 'absent'")

    def test_a_path_is_routed(self) -> None:
        self.table("http", "GET /role", "PUT /role", "PUT /role: it says 'works'")

    def test_a_path_that_says_no_is_absent(self) -> None:
        self.table("http", "absent (501)", "works", "POST /drain: it says")

    def test_a_path_of_the_rest_service_is_routed(self) -> None:
        self.says("python/mooncake/_rest.py", "/api/put", "/api/set",
                  "PUT /api/set is not in it")

    def test_a_metric_is_printed(self) -> None:
        self.table("metrics", "absent (none)", "works",
                   "master_get_requests_total: it says 'works'")

    def test_a_metric_of_the_client_is_printed(self) -> None:
        self.table("metrics", "mooncake_read_bytes", "mooncake_bytes",
                   "mooncake_read_bytes is not in it")

    def test_a_code_has_its_number(self) -> None:
        self.table("codes", "| 0 | `OK`", "| 1 | `OK`", "OK is 0")

    def test_a_code_that_works_is_in_the_header(self) -> None:
        self.table("codes", "absent (never)", "works", "LATE is not in")


if __name__ == "__main__":
    unittest.main()
