"""Tables of the study of materials, as the paper's: per method the mean and standard deviation over materials.

In: the study's results. Out: the same tables as plain text, Markdown and LaTeX, one block for all materials and one per
group. A result that is not finite counts as failed: it is left out of the means, the table says over how many materials
each method's numbers are, and a method that lacks some is never marked as the best.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cnf.errors import ConstraintError
from cnf.materials.report.method_style import title_of
from cnf.reports.tables import text_table

if TYPE_CHECKING:
    from cnf.materials.report.results import Result


@dataclass(frozen=True)
class Column:
    """One column of the table: `better` is -1 if low values are good, 1 if high ones are, 0 if neither is marked."""

    heading: str
    name: str
    better: int
    write: Callable[[float], str]
    spread: bool = False  # with the standard deviation


COLUMNS = (
    Column("RMSE e-2", "rmse", -1, lambda v: f"{100 * v:.2f}", spread=True),
    Column("PSNR dB", "psnr", 1, lambda v: f"{v:.2f}", spread=True),
    Column("SSIM", "ssim", 1, lambda v: f"{v:.3f}", spread=True),
    Column("log error e-2", "log_error", -1, lambda v: f"{100 * v:.2f}"),
    Column("training s", "seconds", -1, lambda v: f"{v:.1f}"),
    Column("inference s", "inference_seconds", -1, lambda v: f"{v:.3f}"),
    Column("parameters", "parameters", 0, lambda v: f"{v:.0f}"),
    Column("worst residual", "residual", 0, lambda v: f"{v:.0e}" if math.isfinite(v) else "not finite"),
)
NOTES = (
    "Mean ± sample standard deviation over materials; the best mean of each column is marked, and shares the mark with "
    "those that read the same. RMSE, PSNR and SSIM are of tone-mapped pictures, over the object's pixels; log error is "
    "that of the reflectance. Training and inference: mean seconds. Worst residual: largest relative residual of the "
    "conditions over the materials; - for methods that have none."
)


@dataclass(frozen=True)
class Cell:
    """One entry of the table, as text."""

    mean: str  # "-" if there is nothing
    deviation: str = ""
    best: bool = False


@dataclass(frozen=True)
class Block:
    """One table: a title and, per method, its title, how many materials it finished, and its cells."""

    title: str
    materials: int
    rows: tuple[tuple[str, int, tuple[Cell, ...]], ...]

    @property
    def complete(self) -> bool:
        """Whether all methods finished all materials."""
        return all(finished == self.materials for _, finished, _ in self.rows)


def check_results(results: Sequence[Result]) -> None:
    """Refuse an empty study, and two results for the same material and method."""
    if not results:
        raise ConstraintError("a study needs at least one result, got none")
    seen = set()
    for result in results:
        place = (*result.key, result.method)
        if place in seen:
            raise ConstraintError(
                f"two results of {result.method} on {result.material} in group {result.group!r}; expected one of each"
            )
        seen.add(place)


def study_blocks(results: Sequence[Result]) -> list[Block]:
    """One block for all materials and, if there are several groups, one for each."""
    check_results(results)
    groups = list(dict.fromkeys(r.group for r in results))
    if len(groups) == 1:
        return [_block(groups[0], results)]
    blocks = [_block(group, [r for r in results if r.group == group]) for group in groups]
    return [_block("All groups", results), *blocks]


def _block(title: str, results: Sequence[Result]) -> Block:
    materials = len({r.key for r in results})
    methods = list(dict.fromkeys(r.method for r in results))
    done = {method: [r for r in results if r.method == method and r.finished] for method in methods}
    columns = [_cells(column, done, materials) for column in COLUMNS]
    rows = tuple(
        (title_of(method), len(done[method]), tuple(column[method] for column in columns)) for method in methods
    )
    return Block(title or "Materials", materials, rows)


def _cells(column: Column, done: dict[str, list[Result]], materials: int) -> dict[str, Cell]:
    means: dict[str, float] = {}
    deviations: dict[str, str] = {}
    for method, own in done.items():
        values = [float(v) for r in own if (v := getattr(r, column.name)) is not None]
        if column.name == "residual":
            values = [math.inf if math.isnan(v) else v for v in values]  # the worst there is, and not to be hidden
        else:
            values = [v for v in values if math.isfinite(v)]
        if not values:
            continue
        means[method] = max(values) if column.name == "residual" else math.fsum(values) / len(values)
        if column.spread and len(values) > 1:
            deviations[method] = column.write(statistics.stdev(values))
    rivals = [means[m] for m, own in done.items() if m in means and len(own) == materials]
    best = column.write(max(rivals, key=lambda v: column.better * v)) if rivals and len(done) > 1 else None
    cells = {}
    for method, own in done.items():
        if method not in means:
            cells[method] = Cell("-")
            continue
        text = column.write(means[method])
        marked = column.better != 0 and len(own) == materials and text == best
        cells[method] = Cell(text, deviations.get(method, ""), marked)
    return cells


def study_text(results: Sequence[Result]) -> str:
    """The tables as plain text, the best of each column with a star."""
    parts = []
    for block in study_blocks(results):
        header = ["method", *([] if block.complete else ["finished"]), *(c.heading for c in COLUMNS)]
        shown = [[*_lead(block, row), *map(_plain, row[2])] for row in block.rows]
        parts.append(f"{_heading(block)}\n{text_table(header, _align(shown, header))}")
    return "\n\n".join([*parts, "* best of its column. " + NOTES, *_failures(results)])


def study_markdown(results: Sequence[Result]) -> str:
    """The tables in Markdown, the best of each column in bold."""
    parts = []
    for block in study_blocks(results):
        header = ["method", *([] if block.complete else ["finished"]), *(c.heading for c in COLUMNS)]
        lines = [header, ["---", *["---:"] * (len(header) - 1)]]
        for row in block.rows:
            cells = [f"**{_spread(c)}**" if c.best else _spread(c) for c in row[2]]
            lines.append([*(text.replace("|", "\\|") for text in _lead(block, row)), *cells])
        parts.append("\n".join([f"### {_heading(block)}", "", *(f"| {' | '.join(line)} |" for line in lines)]))
    return "\n\n".join([*parts, "Bold: best of its column. " + NOTES, *_failures(results)])


def study_latex(results: Sequence[Result]) -> str:
    """The tables in LaTeX (package booktabs), the best of each column in bold; one tabular per block."""
    arrows = {-1: r"$\downarrow$", 0: "", 1: r"$\uparrow$"}
    parts = []
    for block in study_blocks(results):
        headings = [_tex(c.heading).replace(" e-2", r"{\tiny$\times10^{-2}$}") + arrows[c.better] for c in COLUMNS]
        header = ["", *([] if block.complete else ["finished"]), *headings]
        lines = [
            rf"% {_heading(block)}",
            rf"\begin{{tabular}}{{l{'c' * (len(header) - 1)}}}",
            r"\toprule",
            " & ".join(header) + r" \\",
            r"\midrule",
        ]
        for row in block.rows:
            cells = [*map(_tex, _lead(block, row)), *map(_bold, row[2])]
            lines.append(" & ".join(cells) + r" \\")
        parts.append("\n".join([*lines, r"\bottomrule", r"\end{tabular}"]))
    return "\n\n".join(parts)


def _heading(block: Block) -> str:
    return f"{block.title} ({block.materials} {'material' if block.materials == 1 else 'materials'})"


def _lead(block: Block, row: tuple[str, int, tuple[Cell, ...]]) -> list[str]:
    return [row[0]] if block.complete else [row[0], f"{row[1]} of {block.materials}"]


def _failures(results: Sequence[Result]) -> list[str]:
    failed = [f"{title_of(r.method)} on {r.label}" for r in results if not r.finished]
    return [f"Failed, and not in the means: {', '.join(failed)}."] if failed else []


def _spread(cell: Cell) -> str:
    return f"{cell.mean} ± {cell.deviation}" if cell.deviation else cell.mean


def _plain(cell: Cell) -> str:
    """Every cell ends with the place of the star, so that the digits stay below each other."""
    return f"{_spread(cell)}{'*' if cell.best else ' '}"


def _align(rows: list[list[str]], header: list[str]) -> list[list[str]]:
    """Standard deviations padded to one width per column, so that the ± stand below each other."""
    rows = [list(row) for row in rows]
    for k in range(len(header)):
        tails = [row[k].split("± ")[1] for row in rows if "± " in row[k]]
        for row in rows:
            if tails and "± " in row[k]:
                mean, tail = row[k].split("± ")
                row[k] = f"{mean}± {tail.rjust(max(map(len, tails)))}"
    return rows


def _bold(cell: Cell) -> str:
    wrap = r"\textbf{%s}" if cell.best else "%s"
    parts = [wrap % part for part in (cell.mean, cell.deviation) if part]
    return r" $\pm$ ".join(parts) if parts != ["-"] else "--"


def _tex(text: str) -> str:
    return "".join(f"\\{c}" if c in "&%$#_{}" else c for c in text)
