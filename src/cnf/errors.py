"""Every error and warning the library raises, each saying what was given, what was expected and what to do.

All errors derive from `CnfError` and all warnings from `CnfWarning`, so callers can catch the library as a whole;
the kinds below let them react to one cause.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CnfError(Exception):
    """Base of every error raised on purpose by cnf.

    >>> try:
    ...     cnf.Space("x x", "u")
    ... except cnf.errors.CnfError as error:
    ...     print(error)
    the names ['x'] are used twice; every coordinate and channel needs its own
    """


class OperatorError(CnfError):
    """An operator that makes no sense: mismatched rows, unknown coordinates, a coefficient that cannot be used so.

    >>> space = cnf.Space("x", "u")
    >>> space.operator(cnf.operators.partial("z"))
    Traceback (most recent call last):
        ...
    cnf.errors.OperatorError: there is no coordinate 'z'; the space has x...
    """


class LatexError(OperatorError):
    """A LaTeX string that cannot be read; shows the string with a caret under the place.

    >>> space = cnf.Space("x", "u")
    >>> space.operator(r"u_x + v")
    Traceback (most recent call last):
        ...
    cnf.errors.LatexError: ...
    """

    def __init__(self, message: str, source: str = "", position: int | None = None):
        self.message, self.source, self.position = message, source, position
        super().__init__(message if position is None else f"{message}\n{caret(source, position)}")


class ConstraintError(CnfError):
    """A constraint whose points or values cannot be used: wrong shape, not finite, empty, contradictory.

    >>> space = cnf.Space("x", "u")
    >>> space.constraint("u = 1", at=[[np.nan]], name="wall")
    Traceback (most recent call last):
        ...
    cnf.errors.ConstraintError: ...
    """


class ProblemError(CnfError):
    """A problem that cannot be posed as written; `where` names the entry, such as ("equations", 1, "on").

    >>> cnf.Problem("x", domain=cnf.domains.Interval(0, 1), equations={"inside": "u'' = 1"})
    Traceback (most recent call last):
        ...
    cnf.errors.ProblemError: ...
    """

    def __init__(self, message: str, where: tuple[str | int, ...] = ()):
        self.message, self.where = message, where
        super().__init__(f"{entry(where)}: {message}" if where else message)


class UnfollowedError(ProblemError):
    """A nonlinear problem that cannot be followed from its start to its end; `grows`: because its field seems to.

    >>> issubclass(cnf.errors.UnfollowedError, cnf.errors.ProblemError)
    True
    """

    def __init__(self, message: str, where: tuple[str | int, ...] = (), grows: bool = False):
        self.grows = grows
        super().__init__(message, where)


class UnderdeterminedError(ProblemError):
    """Several fields meet all conditions, and none was asked for in particular.

    >>> domain = cnf.domains.Interval(0, 1)
    >>> cnf.Problem("x", domain=domain, equations={"interior": "u'' = -2"}, points=8).solve()
    Traceback (most recent call last):
        ...
    cnf.errors.UnderdeterminedError: ...
    """


class DomainError(ConstraintError):
    """A domain that makes no sense or has no points: no inside, a hole beside it, an unknown part, a bad argument.

    >>> cnf.domains.Disk([0, 0], -1)
    Traceback (most recent call last):
        ...
    cnf.errors.DomainError: ...
    """


class BasisError(CnfError):
    """A basis that cannot be built or cannot serve the conditions asked of it.

    >>> space = cnf.Space("x", "u")
    >>> cnf.bases.RandomFourier(space, 10, bandwidth=-0.1)
    Traceback (most recent call last):
        ...
    cnf.errors.BasisError: ...
    """


class SmoothnessError(BasisError):
    """An operator of higher order than the basis has derivatives.

    >>> space = cnf.Space("x", "u")
    >>> curved = space.constraint("u'' = 1", at=[[0.5]])
    >>> rough = cnf.bases.Kernel(space, [[0.0]], cnf.kernels.Matern(0.5, 0.3))
    >>> cnf.ConstrainedField(rough, [curved])
    Traceback (most recent call last):
        ...
    cnf.errors.SmoothnessError: ...
    """


class RepeatedAnchorError(BasisError):
    """Several conditions at one point under one shared kernel: their columns would be equal.

    >>> space = cnf.Space("x", "u")
    >>> conditions = [space.constraint(text, at=[[0.5]]) for text in ("u = 1", "u_x = 0")]
    >>> cnf.bases.Kernel(space, conditions)
    Traceback (most recent call last):
        ...
    cnf.errors.RepeatedAnchorError: ...
    """


class OverdeterminedError(CnfError):
    """More conditions than basis functions, and no least-squares solution was asked for.

    >>> space = cnf.Space("x", "u")
    >>> three = space.constraint("u = 1", at=[[0.0], [0.5], [1.0]])
    >>> cnf.ConstrainedField(cnf.bases.Polynomial(space, 1), [three]).solve()
    Traceback (most recent call last):
        ...
    cnf.errors.OverdeterminedError: ...
    """


class SingularSystemError(CnfError):
    """The chosen solver cannot solve this system.

    >>> cnf.solvers.Cholesky().factor(-torch.eye(2, dtype=torch.float64), True)
    Traceback (most recent call last):
        ...
    cnf.errors.SingularSystemError: ...
    """


class NotFiniteError(CnfError):
    """A matrix with entries that are NaN or infinite was given to a solver.

    >>> cnf.solvers.LU().factor(torch.full((2, 2), torch.nan, dtype=torch.float64))
    Traceback (most recent call last):
        ...
    cnf.errors.NotFiniteError: ...
    """


class ViolationError(CnfError):
    """The solved field misses its tolerance; `certificate` says where and by how much.

    >>> space = cnf.Space("x", "u")
    >>> both = [space.constraint(text, at=[[0.5]], name=text) for text in ("u = 1", "u = 2")]
    >>> cnf.ConstrainedField(cnf.bases.RandomFourier(space, 8), both, on_violation="raise").solve()
    Traceback (most recent call last):
        ...
    cnf.errors.ViolationError: ...
    """

    def __init__(self, message: str, certificate=None):
        super().__init__(message)
        self.certificate = certificate


class TrainingError(CnfError):
    """Training cannot go on: a loss that is not finite, nothing to train, a bad argument.

    >>> cnf.fit(torch.nn.Linear(1, 1), cnf.losses.Regression([[0.0]], 1.0), steps=-1)
    Traceback (most recent call last):
        ...
    cnf.errors.TrainingError: ...
    """


class ExecutionError(CnfError):
    """Work that cannot go on where it was done: a scheduler that does not answer any more, a worker lost with a piece.

    What was finished before is kept where a folder was given for it, and the same call goes on from there.

    >>> raise cnf.errors.ExecutionError("the Dask scheduler at tcp://host:8786 does not answer any more")
    Traceback (most recent call last):
        ...
    cnf.errors.ExecutionError: the Dask scheduler at tcp://host:8786 does not answer any more
    """


class FileError(CnfError):
    """A file that cannot be read or written: missing, damaged, too large, from a newer version.

    >>> cnf.load("missing.pt")
    Traceback (most recent call last):
        ...
    cnf.errors.FileError: ...
    """


class MissingExtraError(CnfError):
    """An optional package is needed for this feature.

    >>> raise cnf.errors.MissingExtraError.of("Pictures need matplotlib", "matplotlib", "viz")
    Traceback (most recent call last):
        ...
    cnf.errors.MissingExtraError: ...
    """

    @staticmethod
    def of(need: str, packages: str, extra: str) -> MissingExtraError:
        """Say what needs what, with commands that work: cnf itself is on no index, so an extra needs its source."""
        return MissingExtraError(f'{need}: pip install {packages}, or pip install ".[{extra}]" in a clone of cnf')


class NotANumberError(CnfError):
    r"""Nonlinear conditions are no numbers where the iteration for them begins.

    >>> space = cnf.Space("x", "u")
    >>> logarithm = space.constraint(r"\ln(u) = 0", at=[[0.5]])
    >>> cnf.ConstrainedField(cnf.bases.Polynomial(space, 0), [logarithm], start=lambda x: -1 + 0 * x).solve()
    Traceback (most recent call last):
        ...
    cnf.errors.NotANumberError: ...
    """


class CnfWarning(UserWarning):
    """Base of every warning given by cnf.

    >>> all(issubclass(w, cnf.errors.CnfWarning) for w in (cnf.errors.ViolationWarning, cnf.errors.NumericalWarning))
    True
    """


class ViolationWarning(CnfWarning):
    """The solved field misses its tolerance (the same news as `ViolationError`, when asked only to warn).

    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     space = cnf.Space("x", "u")
    ...     both = [space.constraint(text, at=[[0.5]], name=text) for text in ("u = 1", "u = 2")]
    ...     solution = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 8), both).solve()
    >>> cnf.errors.ViolationWarning in [warning.category for warning in told]
    True
    """


class NumericalWarning(CnfWarning):
    """The library did something to the numbers that was not asked for: a fallback, a truncation.

    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     space = cnf.Space("x", "u")
    ...     points = cnf.Box(0, 1).grid(40)
    ...     equal = cnf.bases.Kernel(space, points, cnf.kernels.Gaussian(0.5))
    ...     solution = cnf.ConstrainedField(equal, [space.constraint("u = x", at=points)]).solve()
    >>> cnf.errors.NumericalWarning in [warning.category for warning in told]
    True
    """


class TrainingWarning(CnfWarning):
    """Training goes on but cannot achieve what was probably meant.

    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     space = cnf.Space("x", "u")
    ...     zero = space.constraint("u = 0", at=[[0.0], [1.0]])
    ...     field = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 8), [zero])
    ...     history = cnf.fit(field, lambda solution: solution(zero.points).sum() ** 2, steps=1, progress=False)
    >>> cnf.errors.TrainingWarning in [warning.category for warning in told]
    True
    """


class StorageWarning(CnfWarning):
    """Something could not be put into a file.

    >>> issubclass(cnf.errors.StorageWarning, cnf.errors.CnfWarning)
    True
    """


class SmoothnessWarning(CnfWarning):
    """A derivative that exists only almost everywhere (ReLU) is being used.

    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     space = cnf.Space("x", "u")
    ...     network = cnf.encoders.MLP(1, 8, activation="relu", seed=0)
    ...     slope = space.constraint("u_x = 1", at=[[0.3]])
    ...     field = cnf.ConstrainedField(cnf.bases.ConstraintLayer(space, network), [slope])
    >>> cnf.errors.SmoothnessWarning in [warning.category for warning in told]
    True
    """


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
