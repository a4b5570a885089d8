"""Every error and warning the library raises, each saying what was given, what was expected and what to do.

All errors derive from `CnfError` and all warnings from `CnfWarning`, so callers can catch the library as a whole;
the kinds below let them react to one cause.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CnfError(Exception):
    """Base of every error raised on purpose by cnf."""


class OperatorError(CnfError):
    """An operator that makes no sense: mismatched rows, unknown coordinates, a coefficient that cannot be used so."""


class LatexError(OperatorError):
    """A LaTeX string that cannot be read; shows the string with a caret under the place."""

    def __init__(self, message: str, source: str = "", position: int | None = None):
        self.message, self.source, self.position = message, source, position
        super().__init__(message if position is None else f"{message}\n{caret(source, position)}")


class ConstraintError(CnfError):
    """A constraint whose points or values cannot be used: wrong shape, not finite, empty, contradictory."""


class ProblemError(CnfError):
    """A problem that cannot be posed as written; `where` names the entry, such as ("equations", 1, "on")."""

    def __init__(self, message: str, where: tuple[str | int, ...] = ()):
        self.message, self.where = message, where
        super().__init__(f"{entry(where)}: {message}" if where else message)


class UnfollowedError(ProblemError):
    """A nonlinear problem that cannot be followed from its start to its end; `grows`: because its field seems to."""

    def __init__(self, message: str, where: tuple[str | int, ...] = (), grows: bool = False):
        self.grows = grows
        super().__init__(message, where)


class UnderdeterminedError(ProblemError):
    """Several fields meet all conditions, and none was asked for in particular."""


class DomainError(ConstraintError):
    """A domain that makes no sense or has no points: no inside, a hole beside it, an unknown part, a bad argument."""


class BasisError(CnfError):
    """A basis that cannot be built or cannot serve the conditions asked of it."""


class SmoothnessError(BasisError):
    """An operator of higher order than the basis has derivatives."""


class RepeatedAnchorError(BasisError):
    """Several conditions at one point under one shared kernel: their columns would be equal."""


class OverdeterminedError(CnfError):
    """More conditions than basis functions, and no least-squares solution was asked for."""


class SingularSystemError(CnfError):
    """The chosen solver cannot solve this system."""


class NotFiniteError(CnfError):
    """A matrix with entries that are NaN or infinite was given to a solver."""


class ViolationError(CnfError):
    """The solved field misses its tolerance; `certificate` says where and by how much."""

    def __init__(self, message: str, certificate=None):
        super().__init__(message)
        self.certificate = certificate


class TrainingError(CnfError):
    """Training cannot go on: a loss that is not finite, nothing to train, a bad argument."""


class ExecutionError(CnfError):
    """Work that cannot go on where it was done: a scheduler that does not answer any more."""


class FileError(CnfError):
    """A file that cannot be read or written: missing, damaged, too large, from a newer version."""


class MissingExtraError(CnfError):
    """An optional package is needed for this feature."""

    @staticmethod
    def of(need: str, packages: str, extra: str) -> MissingExtraError:
        """Say what needs what, with commands that work: cnf itself is on no index, so an extra needs its source."""
        return MissingExtraError(f'{need}: pip install {packages}, or pip install ".[{extra}]" in a clone of cnf')


class NotANumberError(CnfError):
    """Nonlinear conditions are no numbers where the iteration for them begins."""


class CnfWarning(UserWarning):
    """Base of every warning given by cnf."""


class ViolationWarning(CnfWarning):
    """The solved field misses its tolerance (the same news as `ViolationError`, when asked only to warn)."""


class NumericalWarning(CnfWarning):
    """The library did something to the numbers that was not asked for: a fallback, a truncation."""


class TrainingWarning(CnfWarning):
    """Training goes on but cannot achieve what was probably meant."""


class StorageWarning(CnfWarning):
    """Something could not be put into a file."""


class SmoothnessWarning(CnfWarning):
    """A derivative that exists only almost everywhere (ReLU) is being used."""


def entry(where: tuple[str | int, ...]) -> str:
    """('equations', 1, 'on') -> 'equations[2].on', counted from one as a reader of the file does."""
    text = ""
    for key in where:
        text += f"[{key + 1}]" if isinstance(key, int) else f".{key}" if text else key
    return text


def caret(source: str, position: int, width: int = 100) -> str:
    """The part of `source` around `position` on one line, and a caret under the place."""
    flat = source.replace("\n", " ").replace("\t", " ")
    start = max(0, min(position - width // 2, len(flat) - width))
    lead = "..." if start > 0 else ""
    tail = "..." if start + width < len(flat) else ""
    return f"  {lead}{flat[start : start + width]}{tail}\n  {' ' * (len(lead) + position - start)}^"


def nearest(name: str, valid: Iterable[str]) -> str:
    """' Did you mean ...?' for the closest of `valid`, or an empty string."""
    match = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.5)
    return f" Did you mean {match[0]!r}?" if match else ""
