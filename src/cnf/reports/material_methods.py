"""How the methods of the study of materials are called, coloured and marked, the same in every table and picture."""

from __future__ import annotations

from cnf.reports.plots import BLUE, GREEN, GREY, ORANGE, RED, SKY

TITLES = {
    "nbrdf": "NBRDF",
    "ffn": "FFN",
    "siren": "SIREN",
    "kernel-ffn": "Kernel FFN",
    "kernel-siren": "Kernel SIREN",
    "dot-siren": "Dot-product kernel",
    "hypernet": "Hypernet basis",
    "layer": "Constraint layer",
}
COLOURS = dict(zip(TITLES, (GREY, SKY, GREEN, ORANGE, RED, BLUE, "#CC79A7", "#8C6D31"), strict=True))
MARKS = dict(zip(TITLES, "s^DoovPX", strict=True))  # beside the colours, for print in grey
SPARE = ("#4B3F72", "#1B7F79", "#A23B72", "#6B8E23")  # for methods without a colour of their own


def title_of(method: str) -> str:
    """What tables and pictures call a method; a name that is not known stands for itself."""
    return TITLES.get(method, method)


def colour_of(method: str, place: int = 0) -> str:
    """The method's colour, whatever other methods are shown; `place` tells unknown ones apart."""
    return COLOURS.get(method, SPARE[place % len(SPARE)])


def mark_of(method: str) -> str:
    """The method's marker."""
    return MARKS.get(method, "h")
