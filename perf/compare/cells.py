# SPDX-License-Identifier: Apache-2.0
"""What has been measured, round by round, and how a table shows it."""
from __future__ import annotations

import os
import platform
import statistics
import time

from .work import Result


def digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


class Cell:
    """What one peer gave for one work, by round."""

    def __init__(self) -> None:
        self.results: dict[int, Result] = {}
        self.why = ""
        self.unfit = False

    def values(self) -> list[float]:
        return [r.value for r in self.results.values()]

    def median(self) -> float:
        return statistics.median(self.values())

    def cpu(self) -> float | None:
        values = [r.cpu_s_per_gb for r in self.results.values()
                  if r.cpu_s_per_gb is not None]
        return statistics.median(values) if values else None

    def text(self) -> str:
        values = self.values()
        if not values:
            return "-"
        return (f"{digits(statistics.median(values))} "
                f"({digits(min(values))}..{digits(max(values))})")

    def as_json(self) -> dict[str, object]:
        values = self.values()
        if not values:
            return {"skipped": self.why}
        return {"median": statistics.median(values), "min": min(values),
                "max": max(values), "rounds": values,
                "cpu_s_per_gb": self.cpu()}


Cells = dict[tuple[str, str], Cell]


def less_is_better(unit: str) -> bool:
    return unit in ("us", "ms", "MB", "CPU s/GB", "% of a core")


def ratio(unit: str, ours: Cell | None, theirs: Cell | None) -> float | None:
    """How much better ours is: the median of the rounds that both have."""
    if not ours or not theirs:
        return None
    ratios = [ours.results[r].value / theirs.results[r].value
              for r in ours.results
              if r in theirs.results and theirs.results[r].value > 0]
    if not ratios or not min(ratios):
        return None
    median = statistics.median(ratios)
    return 1 / median if less_is_better(unit) else median


def machine() -> dict[str, object]:
    cpu = "unknown"
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
        for line in lines:
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    return {"cpu": cpu, "cores": os.cpu_count(), "kernel": platform.release(),
            "load": round(os.getloadavg()[0], 1),
            "date": time.strftime("%Y-%m-%d")}


def print_table(head: list[str], rows: list[list[str]]) -> None:
    widths = [max(len(row[i]) for row in [head, *rows])
              for i in range(len(head))]
    for k, row in enumerate([head, *rows]):
        print("| " + " | ".join(text.ljust(width) for text, width
                                in zip(row, widths)) + " |")
        if not k:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
