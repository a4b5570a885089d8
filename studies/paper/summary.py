"""Summary: how much of the paper is measured, in how much ours is better, what is missing and what is worse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from studies.paper.claims import CLAIMS, Count, conditioning_claim, count_claim
from studies.paper.comparing import BETTER, EQUAL, WORSE, Found
from studies.paper.figures import FIGURES, find_absent, is_drawn
from studies.paper.jobs import EVERY_COUNT, EVERY_METHODS, find_job
from studies.paper.records import Records
from studies.paper.remarks import Remarks, find_remark
from studies.paper.showing import show_factor, show_ours, show_paper, show_setting
from studies.paper.tables import BASELINE, OWN, PaperTable
from studies.tables import Table

Entries = Mapping[str, Sequence[Sequence[Found]]]  # by the label of the table


def count_table(entries: Entries) -> Table:
    """Numbers of the paper: measured, at its size, better, same, worse; by what they are."""
    every = [found for lines in entries.values() for line in lines for found in line if _counts(found)]
    kinds = {
        "errors of what the paper proposes": [f for f in every if f.role == OWN and not f.table.seconds],
        "errors of what it compares with": [f for f in every if f.role == BASELINE and not f.table.seconds],
        "seconds (on other machines)": [f for f in every if f.table.seconds],
    }
    header = ["numbers of the paper", "there are", "measured", "at its size", "of these better", "same", "worse"]
    lines: list[list[object]] = []
    for name, group in [*kinds.items(), ("all", every)]:
        verdicts = [f.verdict for f in group if f.full]
        counts = [len(group), len([f for f in group if f.value is not None]), len(verdicts)]
        lines.append([name, *counts, *(verdicts.count(v) for v in (BETTER, EQUAL, WORSE))])
    return Table(header, lines)


def _counts(found: Found) -> bool:
    """A number of the paper, and no other entry has it."""
    return found.paper is not None and not found.table.again and not found.table.beside


def list_gaps(entries: Entries, records: Mapping[str, Records | None], images: Path) -> list[str]:
    """What is not measured, not at the paper's size, or not drawn; a sentence each."""
    gaps = []
    for lines in entries.values():
        table, flat = lines[0][0].table, [found for line in lines for found in line]
        missing = [f for f in flat if f.paper is not None and f.value is None]
        small = [f for f in flat if f.paper is not None and f.value is not None and not f.full and not table.beside]
        if missing:
            gaps.append(f"{_name(table)}: not measured yet: {_say_which(missing, flat)}")
        if small:
            gaps.append(
                f"{_name(table)}: not at the paper's size: {_say_which(small, flat)} ({_say_size(small, records)})"
            )
    for figure in FIGURES:
        named, found = f"Figure {figure.number} (`{figure.label}`), {figure.title}", records.get(figure.job)
        if not is_drawn(figure, records, images):
            gaps.append(f"{named}: not drawn yet")
        elif found is not None and (words := _say_settings(figure.job, found)):
            gaps.append(f"{named}: not at the paper's size ({', '.join(words)})")
        if found is not None and (absent := find_absent(figure, found)):
            gaps.append(f"{named}: without {', '.join(absent)}")
    return gaps


def list_lacking(found: Records | None) -> list[str]:
    """How many of all materials every method was run on, where that is not all of them."""
    counts = Counter(row["method"] for row in (found.rows if found else []))
    few = [f"{name} {counts[name]}" for name in EVERY_METHODS if counts[name] < EVERY_COUNT]
    return [f"Beside table 2: of {EVERY_COUNT} materials were run: {', '.join(few)}"] if few else []


def list_worse(
    entries: Entries, remarks: Remarks, role: str = "", seconds: bool = False, again: bool = False
) -> Table | None:
    """Every entry of ours that is worse than the paper's, and why."""
    flat = [found for lines in entries.values() for line in lines for found in line]
    asked = [f for f in flat if f.table.seconds == seconds and f.table.again == again]
    worse = [f for f in asked if f.verdict == WORSE and (not role or f.role == role)]
    rows = [
        [f"{f.table.number}: {f.line.label}, {f.quantity.heading}", show_paper(f), show_ours(f), show_factor(f), *why]
        for f in worse
        for why in [[_say_why(f, remarks)]]
    ]
    return Table(["table, entry", "paper", "ours", "by", "why"], rows, left=("table, entry", "why")) if rows else None


def _say_why(found: Found, remarks: Remarks) -> str:
    """The remark on an entry; a smaller size is a reason of its own."""
    said = find_remark(remarks, found)
    if found.full:
        return said or "no explanation yet"
    return f"Not at the paper's size. {said}".rstrip()


def claim_table(entries: Entries, records: Mapping[str, Records | None]) -> Table:
    """The paper's conclusions, and in how many of the comparisons behind them the order holds here."""
    lines = [
        [f"{_number(claim.label, entries)}: {claim.text}", *_say_claim(count_claim(claim, entries[claim.label]))]
        for claim in CLAIMS
    ]
    held = conditioning_claim(records.get("conditioning"))
    text = "figure 5: the Gaussian kernel has the lowest condition number of all bases, step by step"
    return Table(["the paper concludes", "holds here", "in"], [*lines, [text, *_say_claim(held)]], left=3)


def _say_claim(count: Count) -> list[str]:
    if not count.known:
        return ["not measured yet", "-"]
    answer = "no" if not count.held else "in part" if count.held < count.known else "yes" if count.whole else "so far"
    lacks = {"not measured yet": count.there - count.known, "not at the paper's size": count.small}
    words = ", ".join(f"{many} {what}" for what, many in lacks.items() if many)
    return [answer, f"{count.held} of {count.known} comparisons" + (f" ({words})" if words else "")]


def _number(label: str, entries: Entries) -> str:
    return f"table {entries[label][0][0].table.number}"


def _name(table: PaperTable) -> str:
    if table.again:
        return f"Table {table.number} by the paper's objective"
    return f"Table {table.number} (`{table.label}`)" if table.number.isdigit() else f"Text (`{table.label}`)"


def _say_which(some: Sequence[Found], every: Sequence[Found]) -> str:
    """Which entries, as shortly as can be: all, whole lines, or whole columns."""
    if len(some) == len([f for f in every if f.paper is not None]):
        return "all of it"
    missing = {(f.line.label, f.quantity.heading) for f in some}
    lines = [n for n in dict.fromkeys(f.line.label for f in every) if _covers(missing, every, line=n)]
    columns = [n for n in dict.fromkeys(f.quantity.heading for f in every) if _covers(missing, every, column=n)]
    rest = [f"{line}, {column}" for line, column in sorted(missing) if line not in lines and column not in columns]
    return "; ".join([*lines, *columns, *rest])


def _covers(missing: set[tuple[str, str]], every: Sequence[Found], line: str = "", column: str = "") -> bool:
    own = [f for f in every if f.paper is not None and (f.line.label == line or f.quantity.heading == column)]
    return bool(own) and all((f.line.label, f.quantity.heading) in missing for f in own)


def _say_size(small: Sequence[Found], records: Mapping[str, Records | None]) -> str:
    """Why rows are not of the paper's size."""
    table = small[0].table
    found, fewest = records[table.job], min(f.rows for f in small)
    assert found is not None
    words = _say_settings(table.job, found)
    if fewest < table.count:
        words.append(f"{fewest} instead of {table.count} rows behind an entry")
    return ", ".join(words)


def _say_settings(name: str, found: Records) -> list[str]:
    """Which settings of rows are not those of the paper's experiment."""
    wanted = find_job(name).size
    return [
        f"{n} {show_setting(found.settings.get(n))} instead of {show_setting(v)}"
        for n, v in wanted.items()
        if found.settings.get(n) != v
    ]
