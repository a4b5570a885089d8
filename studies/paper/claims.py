"""Claims: what the paper concludes from its tables, held against our rows as orders between their entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from studies.paper.comparing import Found
from studies.paper.records import Records

Entries = Sequence[Sequence[Found]]
Pairs = list[tuple[Found, Found | float]]  # the first is to be better than the second
BASES = 4  # of figure 5


@dataclass(frozen=True)
class Claim:
    """A sentence, the table it is about, and the pairs of entries that it puts in order."""

    text: str
    label: str
    pairs: Callable[[Entries], Pairs]


@dataclass(frozen=True)
class Count:
    """Comparisons behind a claim: those in which it holds, those measured, all, and how many are of another size."""

    held: int
    known: int
    there: int
    small: int = 0

    @property
    def whole(self) -> bool:
        return self.known == self.there and not self.small


def line_beats(best: str, *others: str) -> Callable[[Entries], Pairs]:
    """One line of a table is better than others, in every quantity."""

    def pair(entries: Entries) -> Pairs:
        lines = {line[0].line.label: line for line in entries}
        return [pair for other in others for pair in zip(lines[best], lines[other], strict=True)]

    return pair


def column_beats(best: int, *others: int) -> Callable[[Entries], Pairs]:
    """One quantity of a table is better than others, in every line."""
    return lambda entries: [(line[best], line[other]) for line in entries for other in others]


def column_below(column: int, bound: float) -> Callable[[Entries], Pairs]:
    """One quantity of a table is below a bound, in every line."""
    return lambda entries: [(line[column], bound) for line in entries]


START = column_below(3, 7.371e-5)  # the largest error of the paper before training
CLAIMS = (
    Claim(
        "Kernel SIREN is the best of the five in every measure",
        "table:brdf",
        line_beats("Kernel SIREN", "NBRDF", "FFN", "SIREN", "Kernel FFN"),
    ),
    Claim("a kernel around SIREN is better than SIREN alone", "table:brdf", line_beats("Kernel SIREN", "SIREN")),
    Claim("a kernel around FFN is better than FFN alone", "table:brdf", line_beats("Kernel FFN", "FFN")),
    Claim(
        "the Gaussian kernel is better than every other basis",
        "table:brdf_abla",
        line_beats("Gaussian kernel", "Hypernet basis", "Dot-product kernel", "Constraint layer"),
    ),
    Claim(
        "the dot-product kernel is better than hypernet and constraint layer",
        "table:brdf_abla",
        line_beats("Dot-product kernel", "Hypernet basis", "Constraint layer"),
    ),
    Claim(
        "the skewed RBF is better than the simple one at every perturbation, by RMSE",
        "table:advection-results",
        column_beats(2, 0),
    ),
    Claim("the same by the paper's objective", "objective", column_beats(2, 0)),
    Claim("exact normals are closer than pseudo-normals, trained", "tab:normal_error", column_beats(4, 2)),
    Claim("exact normals are closer than SIREN's, trained", "tab:normal_error", column_beats(4, 0)),
    Claim("exact normals hold before training, as closely as the paper's worst", "tab:normal_error", START),
    Claim(
        "the pre-trained basis is better than a random one at every shift, by RMSE",
        "table:advection-transfer-learning",
        column_beats(2, 0),
    ),
)


def count_claim(claim: Claim, entries: Entries) -> Count:
    """In how many pairs the order holds, how many were measured, and how many there are.

    A pair whose entries are means over different numbers of rows is not of the paper's size, whatever these are.
    """
    pairs = claim.pairs(entries)
    known = [(a, a.value, b, b if isinstance(b, float) else b.value) for a, b in pairs]
    both = [(a, ours, b, theirs) for a, ours, b, theirs in known if ours is not None and theirs is not None]
    held = sum(a.quantity.better * (ours - theirs) > 0 for a, ours, _, theirs in both)
    small = sum(not (a.full and (isinstance(b, float) or (b.full and a.rows == b.rows))) for a, _, b, _ in both)
    return Count(held, len(both), len(pairs), small)


def conditioning_claim(records: Records | None) -> Count:
    """Figure 5: at how many steps the Gaussian kernel has the lowest condition number of the bases measured."""
    curves: Mapping[str, dict[int, float]] = {
        row["basis"]: dict(zip(row["curve"]["step"], row["curve"]["condition"], strict=True))
        for row in (records.rows if records else [])
        if row.get("curve")
    }
    if "Gaussian kernel" not in curves or len(curves) < 2:
        return Count(0, 0, BASES - 1)
    own = curves["Gaussian kernel"]
    others = [curve for name, curve in curves.items() if name != "Gaussian kernel"]
    pairs = [(own[step], curve[step]) for curve in others for step in own if step in curve]
    return Count(sum(a < b for a, b in pairs), len(pairs), (BASES - 1) * len(own))
