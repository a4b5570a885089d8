"""Words that LaTeX strings are written in, Greek letters and names of functions; importing them takes no time."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cnf.errors import nearest

LETTERS = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho varrho sigma tau "
    "upsilon phi varphi chi psi omega Gamma Theta Lambda Xi Upsilon Phi Psi Omega"
)
GREEK = frozenset(LETTERS.split())
NAMES = (
    "sin cos tan cot sec csc sinh cosh tanh arcsin arccos arctan asin acos atan exp ln log erf sign sgn abs max min "
    "atan2 atan_2"
)
FUNCTION_NAMES = frozenset(NAMES.split())  # what they do: `FUNCTIONS` in expressions.py


def unknown_symbol(name: str, coordinates: Sequence[str], channels: Sequence[str], advice: str) -> str:
    """What to say about a symbol that means nothing."""
    shown = f"\\{name}" if name in GREEK else name
    return (
        f"the symbol {shown} is not known; the space has the coordinates {', '.join(coordinates)} and the channels "
        f"{', '.join(channels)}.{advice}"
    )


def similar_symbol(name: str, valid: Collection[str], unused: Collection[str] = ()) -> str:
    """' Did you mean ...?' for a symbol; names that nothing uses come first, no Latin letter for a Greek one."""
    fitting = [other for other in valid if len(other) > 1 or name not in GREEK]
    return nearest(name, [other for other in fitting if other in unused]) or nearest(name, fitting)
