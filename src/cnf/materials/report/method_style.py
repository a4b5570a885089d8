"""How the methods of the study of materials are called and coloured, the same in every table and picture."""

from __future__ import annotations

from cnf.materials.fitting.methods import METHODS
from cnf.reports.plots import BLUE, GREEN, GREY, ORANGE, RED, SKY

TITLES = {name: method.title for name, method in METHODS.items()}
COLOURS = {
    "kernel-grid": "#7B1E3B",
    "kernel-grid-free": "#B86A85",
    **{"nbrdf": GREY, "ffn": SKY, "siren": GREEN, "kernel-ffn": ORANGE, "kernel-siren": RED, "dot-siren": BLUE},
    **{"hypernet": "#CC79A7", "layer": "#8C6D31", "hypernet-kernel": "#5E3C99"},
    **{"nbrdf-paper": "#C4C4C4", "ffn-paper": "#C3E3F5", "siren-paper": "#A9DBC6"},  # paler than at our rates
}
SPARE = ("#4B3F72", "#1B7F79", "#A23B72", "#6B8E23")  # for methods without a colour of their own


def title_of(method: str) -> str:
    """What tables and pictures call a method; a name that is not known stands for itself."""
    return TITLES.get(method, method)


def colour_of(method: str, place: int = 0) -> str:
    """The method's colour, whatever other methods are shown; `place` tells unknown ones apart."""
    return COLOURS.get(method, SPARE[place % len(SPARE)])
