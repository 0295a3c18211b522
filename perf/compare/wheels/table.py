# SPDX-License-Identifier: Apache-2.0
"""The rows of the table from what was measured."""
from __future__ import annotations

from ..cells import Cell, Cells, less_is_better, ratio
from .rows import DEFAULT, PEER, RAW, TCP, Goal, Row

OURS = (TCP, DEFAULT)
HEAD = ["work", "unit", "raw", "published", "ours, tcp", "is [goal]",
        "ours", "is [goal]"]


def cell_of(cells: Cells, row: Row, system: str) -> Cell | None:
    return cells.get((row.name, system))


def reference(cells: Cells, row: Row, system: str,
              goal: Goal | None) -> Cell | None:
    """What @system's figure is set against."""
    if goal and goal.kind == RAW:
        return cells.get((row.than, RAW))
    if row.than:
        return cells.get((row.than, system))
    return cells.get((row.name, PEER))


def is_of_raw(goal: Goal | None) -> bool:
    return goal is not None and goal.kind == RAW


def ratio_of(cells: Cells, row: Row, system: str) -> float | None:
    """How many times better than its reference; of raw: its share of that."""
    goal = row.goals.get(system)
    times = ratio(row.unit, cell_of(cells, row, system),
                  reference(cells, row, system, goal))
    if times and is_of_raw(goal) and less_is_better(row.unit):
        return 1 / times
    return times


def is_met(cells: Cells, row: Row, system: str) -> bool | None:
    """None: there is no goal, or no figure."""
    goal = row.goals.get(system)
    cell = cell_of(cells, row, system)
    if not goal or not cell or not cell.results:
        return None
    if goal.kind == "at least":
        return cell.median() >= goal.number
    if goal.kind == "at most":
        return cell.median() <= goal.number
    value = ratio_of(cells, row, system)
    if value is None:
        return None
    return (value <= goal.number if is_of_raw(goal)
            else value >= goal.number)


def goal_text(goal: Goal) -> str:
    sign = {"at least": ">=", "at most": "<=", RAW: "<="}.get(goal.kind, ">=")
    return f"[{sign} {goal.number:.3g}]"


def compared(cells: Cells, row: Row, system: str) -> str:
    """Such as "2.1 x [>= 2]"; what misses its goal says so."""
    goal = row.goals.get(system)
    value = ratio_of(cells, row, system)
    against = {RAW: " of raw", "one thread": " one thread"}.get(
        goal.kind if goal else "", "")
    parts = [f"{value:.2f} x{against}"] if value is not None else []
    if goal:
        parts.append(goal_text(goal))
    if is_met(cells, row, system) is False:
        parts.append("NO")
    return " ".join(parts)


def table_rows(rows: list[Row], cells: Cells) -> list[list[str]]:
    lines = []
    for row in rows:
        line = [row.name, row.unit]
        for system in (RAW, PEER):
            cell = cell_of(cells, row, system)
            line.append(cell.text() if cell and cell.results else "")
        for system in OURS:
            cell = cell_of(cells, row, system)
            has = cell is not None and cell.results
            line.append(cell.text() if has else "")
            line.append(compared(cells, row, system) if has else "")
        lines.append(line)
    return lines


def rows_as_json(rows: list[Row], cells: Cells,
                 busy: int) -> list[dict[str, object]]:
    """@busy: loops on each core beside the work."""
    return [
        {"name": row.name, "unit": row.unit, "busy_loops_per_core": busy,
         "systems": {
             system: {**cell.as_json(),
                      "ratio": ratio_of(cells, row, system),
                      "goal": (goal_text(row.goals[system])
                               if system in row.goals else None),
                      "met": is_met(cells, row, system)}
             for system in (RAW, PEER, *OURS)
             if (cell := cell_of(cells, row, system)) and (
                 cell.results or cell.why)}} for row in rows]


def report(about: dict[str, object], rows: list[Row],
           measured: dict[int, Cells]) -> dict[str, object]:
    """Everything, for machines; @measured: by busy loops on each core."""
    return {"about": about,
            "rows": [line for busy, cells in measured.items()
                     for line in rows_as_json(rows, cells, busy)]}
