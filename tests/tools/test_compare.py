#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What perf/compare makes of figures: ratios, goals, the lines of its table."""
from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import select
import signal
import subprocess
import sys
import unittest

PERF = pathlib.Path(__file__).resolve().parents[2] / "perf"
WAIT_S = 60
sys.path.insert(0, str(PERF))

from compare.cells import Cell, ratio  # noqa: E402
from compare.process import busy  # noqa: E402
from compare.wheels.__main__ import loop_counts  # noqa: E402
from compare.wheels.groups import GROUPS, systems_of  # noqa: E402
from compare.wheels.rows import (BATCH_GROUPS, DEFAULT, MIB,  # noqa: E402
                                 PEER, RAW, ROWS, TASKS, TCP, Goal, Row,
                                 rows_named, tasks_of, times)
from compare.wheels.table import (is_met, ratio_of, report,  # noqa: E402
                                  table_rows)
from compare.work import Result  # noqa: E402


def cell(*values: float | None) -> Cell:
    """One value a round; None: that round gave none."""
    made = Cell()
    made.results = {r: Result(value) for r, value in enumerate(values)
                    if value is not None}
    return made


class Ratios(unittest.TestCase):
    def test_the_median_of_the_rounds_not_of_the_figures(self) -> None:
        self.assertEqual(ratio("GB/s", cell(1, 4, 9), cell(1, 2, 3)), 2)

    def test_only_rounds_that_both_have_count(self) -> None:
        self.assertEqual(ratio("GB/s", cell(8, 6), cell(None, 2)), 3)
        self.assertIsNone(ratio("GB/s", cell(8), cell(None, 2)))

    def test_less_time_is_better(self) -> None:
        self.assertEqual(ratio("us", cell(2), cell(8)), 4)


class Goals(unittest.TestCase):
    def met(self, row: Row, **figures: float) -> bool | None:
        names = {"tcp": TCP, "peer": PEER, "raw": RAW}
        cells = {(row.than if who == "raw" else row.name, names[who]):
                 cell(value) for who, value in figures.items()}
        return is_met(cells, row, TCP)

    def test_so_many_times_the_peer(self) -> None:
        row = Row("a", "GB/s", "a", "f", {TCP: times(2)})
        self.assertTrue(self.met(row, tcp=4, peer=2))
        self.assertFalse(self.met(row, tcp=3, peer=2))

    def test_a_share_of_the_cpu_time_is_a_multiple_turned_round(self) -> None:
        row = Row("a", "CPU s/GB", "a", "f", {TCP: times(4)})
        self.assertTrue(self.met(row, tcp=0.1, peer=0.4))
        self.assertFalse(self.met(row, tcp=0.2, peer=0.4))

    def test_a_share_of_the_raw_latency(self) -> None:
        row = Row("a", "us", "a", "f", {TCP: Goal(RAW, 1.1)}, than="ping")
        self.assertTrue(self.met(row, tcp=21, raw=20, peer=1))
        self.assertFalse(self.met(row, tcp=23, raw=20, peer=99))

    def test_bounds_need_no_peer(self) -> None:
        row = Row("a", "ms", "a", "f", {TCP: Goal("at most", 50)})
        self.assertTrue(self.met(row, tcp=50))
        self.assertFalse(self.met(row, tcp=51))

    def test_two_threads_are_set_against_one_of_their_own(self) -> None:
        row = Row("two", "GB/s", "a", "f", {TCP: Goal("one thread", 1)},
                  than="one")
        cells = {("two", TCP): cell(3), ("one", TCP): cell(2),
                 ("two", PEER): cell(99), ("one", PEER): cell(9)}
        self.assertEqual(ratio_of(cells, row, TCP), 1.5)
        self.assertTrue(is_met(cells, row, TCP))

    def test_without_a_figure_nothing_is_met_or_missed(self) -> None:
        row = Row("a", "GB/s", "a", "f", {TCP: times(2)})
        self.assertIsNone(self.met(row, peer=2))
        self.assertIsNone(self.met(row, tcp=2))


class Table(unittest.TestCase):
    def test_a_line_names_what_missed_its_goal(self) -> None:
        row = Row("a", "GB/s", "a", "f", {TCP: times(2), DEFAULT: times(4)})
        cells = {("a", PEER): cell(2, 2, 2), ("a", TCP): cell(4, 5, 6),
                 ("a", DEFAULT): cell(4, 4, 4)}
        self.assertEqual(table_rows([row], cells), [[
            "a", "GB/s", "", "2 (2..2)", "5 (4..6)", "2.50 x [>= 2]",
            "4 (4..4)", "2.00 x [>= 4] NO"]])
        one = report({}, [row], {0: cells})["rows"][0]["systems"]
        self.assertEqual((one[TCP]["met"], one[DEFAULT]["met"]),
                         (True, False))

    def test_who_has_no_figure_says_why_in_the_report(self) -> None:
        row = Row("a", "GB/s", "a", "f")
        away = Cell()
        away.why = "not today"
        one = report({}, [row], {0: {("a", PEER): away}})["rows"][0]["systems"]
        self.assertEqual(one[PEER]["skipped"], "not today")


    def test_the_report_has_each_row_with_each_number_of_busy_loops(
            self) -> None:
        row = Row("a", "GB/s", "a", "f")
        lines = report({}, [row], {0: {("a", PEER): cell(8)},
                                   2: {("a", PEER): cell(4)}})["rows"]
        self.assertEqual(
            [(line["busy_loops_per_core"], line["systems"][PEER]["median"])
             for line in lines], [(0, 8), (2, 4)])


# Prints the ids of its busy loops, and waits for its own end.
HOLDER = """
import sys
from compare.process import busy
with busy(1) as loops:
    print(*(loop.pid for loop in loops), flush=True)
    sys.stdin.read()
"""


class BusyLoops(unittest.TestCase):
    def setUp(self) -> None:
        allowed = os.sched_getaffinity(0)
        self.cores = sorted(allowed)[-2:]  # there may be hundreds
        os.sched_setaffinity(0, self.cores)
        self.addCleanup(os.sched_setaffinity, 0, allowed)

    def await_end(self, process: int) -> None:
        """@process: a descriptor of it."""
        poll = select.poll()
        poll.register(process, select.POLLIN)
        self.assertTrue(poll.poll(WAIT_S * 1000), "a loop goes on")

    def test_each_core_that_is_allowed_has_as_many_bound_to_it(self) -> None:
        with busy(2) as loops:
            bound = [os.sched_getaffinity(loop.pid) for loop in loops]
        self.assertEqual(bound, 2 * [{core} for core in self.cores])
        self.assertNotIn(None, [loop.returncode for loop in loops])

    def test_none_are_started_for_zero(self) -> None:
        with busy(0) as loops:
            self.assertEqual(loops, [])

    def test_they_end_when_who_started_them_is_killed(self) -> None:
        for end in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.ExitStack() as stack:
                holder = stack.enter_context(subprocess.Popen(
                    [sys.executable, "-c", HOLDER], cwd=PERF, text=True,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE))
                stack.callback(holder.kill)
                loops = [os.pidfd_open(int(pid))
                         for pid in holder.stdout.readline().split()]
                for loop in loops:
                    stack.callback(os.close, loop)
                self.assertEqual(len(loops), len(self.cores))
                holder.send_signal(end)
                for loop in loops:
                    self.await_end(loop)

    def test_numbers_are_separated_by_commas(self) -> None:
        self.assertEqual(loop_counts("2"), [2])
        self.assertEqual(loop_counts("0,1,2"), [0, 1, 2])

    def test_bad_numbers_are_refused_in_words(self) -> None:
        for text in ("-1", "x", "", "1,,2", "1,", "1.5", " 1", "0,-1"):
            with self.assertRaisesRegex(argparse.ArgumentTypeError,
                                        "no number of busy loops"):
                loop_counts(text)
        with self.assertRaisesRegex(argparse.ArgumentTypeError, "twice"):
            loop_counts("1,2,1")

    def test_a_refusal_is_a_wrong_usage(self) -> None:
        done = subprocess.run(
            [sys.executable, PERF / "compare" / "wheels", "--busy", "-1"],
            text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--busy: '-1' is no number of busy loops", done.stderr)


class Rows(unittest.TestCase):
    def test_every_row_has_its_task_and_every_task_its_group(self) -> None:
        names = {task.name for task in TASKS}
        self.assertEqual({row.task for row in ROWS}, names)
        self.assertLessEqual({task.group for task in TASKS}, set(GROUPS))
        self.assertLessEqual({row.than for row in ROWS} - {""},
                             {row.name for row in ROWS})

    def test_a_choice_brings_what_it_is_compared_with(self) -> None:
        rows = rows_named("write 8 b, p50|KiB x1, 2")
        self.assertEqual([row.name for row in rows], [
            "engine write 64 KiB x1", "engine write 64 KiB x1, 2 threads",
            "raw ping-pong of 8 B, p50", "engine write 8 B, p50"])
        self.assertEqual(len(tasks_of(rows)), 4)

    def test_batches_are_put_and_got_with_median_slowest_and_cpu_time(
            self) -> None:
        rows = rows_named("DataProto (put|get) 64 tensors")
        self.assertEqual([row.figure for row in rows], 2 * [
            f"{op}_{what}" for op in ("put", "get")
            for what in ("p50_ms", "p99_ms", "cpu_ms")])
        self.assertEqual({task.group for task in tasks_of(rows)},
                         set(BATCH_GROUPS))

    def test_all_store_a_batch_of_the_size_that_is_wanted(self) -> None:
        python = pathlib.Path("python")
        self.assertEqual({one.fields for one in systems_of(
            python, python, {}, 5 * MIB)}, {5 * MIB})


if __name__ == "__main__":
    unittest.main()
