"""Problem: coordinates, domain, equations and points, from Python or from a file, made into constraints."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import sympy as sp
import torch
from torch import Tensor

from cnf.constraints import Constraint
from cnf.errors import LatexError, ProblemError
from cnf.execution import Executor, use
from cnf.files import as_path, read_text
from cnf.operators.latex import read_expression, used_coefficients
from cnf.pde.domains import Domain, Timed
from cnf.pde.domains.corners import place_poles
from cnf.pde.domains.description import to_text
from cnf.pde.problems import options
from cnf.pde.problems.beginning import read_continuation, read_start, solve_by_continuation
from cnf.pde.problems.entries import any_table, check_count, check_text
from cnf.pde.problems.exact import Function, read_exact
from cnf.pde.problems.first_look import look_at, named, naming_lines
from cnf.pde.problems.learning import at_present, is_learnable, with_learnable
from cnf.pde.problems.parameters import Parameter, in_file, read_number
from cnf.pde.problems.placing import Placing
from cnf.pde.problems.regional import RegionalParameters, read_equations_in, read_regions, refuse_varying
from cnf.pde.problems.source import LARGEST, parse_source
from cnf.pde.problems.spaces import read_domain, read_shape, read_space
from cnf.pde.problems.unknowns import known_values, read_unknowns, split_fitted

if TYPE_CHECKING:
    from pathlib import Path

    from distributed import Client

    from cnf.pde.problems.answer import Answer
    from cnf.pde.problems.check import Check
    from cnf.pde.tuning.trial import Report


class Problem:
    """Equations on a domain, with the same fields as a problem file, as plain values or objects.

    `coordinates`, `channels`: names; `domain`: a `cnf.domains` object or a table; `equations`: tables with `on` and
    `equation`, or {part: equation}; `regions`: {name: shape} inside the domain; `parameters`: numbers, vectors and
    LaTeX, or {region: value}, and, in Python, learnable torch numbers and callables, points (P, D) -> values (P,);
    `unknowns`: numbers that are looked for, {name: where to begin}, from the equations that are fitted;
    `points`, `basis`, `tuning`, `solve`: options; `exact`: the solution, if it is known, for the error. Everything is
    read and checked here, once.

    >>> problem = cnf.Problem(
    ...     "x",
    ...     domain={"type": "interval", "from": 0, "to": 1},
    ...     equations={"interior": "u'' = -2", "boundary": "u = 0"},
    ...     points=12,
    ... )
    >>> problem.check().conditions
    14
    """

    _file: tuple[Path, str] | None = None  # where it was read from, and its text

    def __init__(
        self,
        coordinates: object,
        channels: object = "u",
        *,
        domain: Domain | Mapping[str, object],
        equations: object,
        regions: object = None,
        parameters: Mapping[str, object] | None = None,
        unknowns: Mapping[str, object] | None = None,
        vectors: Mapping[str, object] | None = None,
        points: object = None,
        basis: object = None,
        tuning: object = None,
        solve: object = None,
        exact: object = None,
        title: str = "",
        description: str = "",
        seed: int = 0,
        folder: object = ".",
    ):
        numbers, looked_for = any_table(parameters, "parameters"), any_table(unknowns, "unknowns")
        tables = {"points": points, "basis": basis, "tuning": tuning, "solve": solve, "exact": exact}
        texts = {"title": title, "description": description, "seed": seed, "folder": folder}
        asked = {"domain": domain, "equations": equations, "regions": regions, "vectors": vectors}
        asked |= {"unknowns": unknowns}
        self.unknowns = read_unknowns(looked_for, numbers)
        given = {**numbers, **self.unknowns}
        self._entries: dict[str, object] = {"coordinates": coordinates, "channels": channels, "parameters": numbers}
        self._entries |= asked | tables | texts
        self.present: Problem | None = None  # the problem with the values that learnable parameters have
        self.to_be_learnt = False  # its field is solved again and again, with parameters that change
        self.original = self  # as it was asked, where a search or a continuation solves it with other numbers
        if is_learnable(given):
            now = {"parameters": at_present(numbers), "unknowns": at_present(self.unknowns)}
            self.present = Problem(**self._entries | now)  # type: ignore[arg-type]
            self.present.to_be_learnt = True
        self.title = check_text(title, ("title",)) if title != "" else "untitled problem"
        self.description = check_text(description, ("description",)) if description != "" else ""
        self.seed = check_count(seed, ("seed",), 2**31 - 1, least=0)
        self.folder = as_path(folder)
        self.space = read_space(coordinates, channels, vectors)
        named = tuple(map(str, regions)) if isinstance(regions, Mapping) else ()
        self.regional = RegionalParameters.read(given, self.space, named)
        self._used = self._used_by_parameters(given)
        self.domain = read_domain(self, domain)
        self.regions = read_regions(regions, self.domain, partial(read_shape, self))
        if self.regions is not None:
            self.regional = RegionalParameters.read(given, self.space, self.regions.names)
        written, self.jumps = read_equations_in(self, equations)
        self.equations, self.fitted = split_fitted(written, self.unknowns, self.jumps)
        self.points = options.read_points(points)
        self.basis = options.read_basis(basis, self.domain.dimension)
        self.tuning = options.read_tuning(tuning)
        self.solving = options.read_solve(solve)
        ways = solve if isinstance(solve, Mapping) else {}
        self.start = read_start(self, ways.get("start"))
        self.continuation = read_continuation(self, ways.get("continuation"))
        self.about_waves = any(entry is not None for entry in (points, basis, tuning))  # patches have their own
        self._refuse_idle(points, basis, tuning)
        self.exact: dict[str, Function] | None = None
        self.exact_unknowns, exact = known_values(self, exact)
        self.exact = read_exact(self, exact) if self.present is None else self.present.exact
        self._placing, self._sensors = Placing(self, self.equations), Placing(self, self.fitted)
        if self.present is None:  # which refused them already, and knows of those in `exact`
            self._refuse_unused()
        self._constraints: tuple[Constraint, ...] | None = None

    @classmethod
    def read(cls, path: object, **changes: object) -> Problem:
        """The problem in a TOML file, with some entries changed; every complaint names the line.

        A table among the changes, such as `points={"count": 900}`, changes only the entries it has.
        """
        source = as_path(path)
        return cls.from_text(read_text(source, LARGEST), source, changes)

    @classmethod
    def from_text(cls, text: str, source: Path, changes: Mapping[str, object]) -> Problem:
        """The same from the text of the file, if it was read before and may have changed since."""
        entries = look_at(source, text, parse_source(source, text), changes)
        with naming_lines(source, text):
            problem = cls(**entries, folder=source.parent)
            problem.constraints, problem.sensors  # noqa: B018  # most mistakes show here at the latest
        problem._file = (source, text)
        return problem

    # -- what it asks ----------------------------------------------------------------------------------------------

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The equations at their points."""
        if self._constraints is None:
            self._constraints = self._placing.constraints()
        return self._constraints

    @cached_property
    def sensors(self) -> tuple[Constraint, ...]:
        """The equations that are fitted, at their points."""
        return self._sensors.constraints()

    @property
    def conditions(self) -> int:
        """How many rows the constraints have together."""
        return sum(c.rows for c in self.constraints)

    @property
    def domain_text(self) -> str:
        """The domain in words."""
        parts = [f"{name!r} {to_text(shape)}" for name, shape in self.regions.shapes.items()] if self.regions else []
        return to_text(self.domain) + (f" with the regions {', '.join(parts)}" if parts else "")

    @property
    def has_poles(self) -> bool:
        """Whether functions with poles in corners and holes may join the basis; their integrals are too costly."""
        integrals = any("\\int" in equation.latex for equation in self.equations)
        return self.basis.poles and self.domain.dimension == 2 and not isinstance(self.domain, Timed) and not integrals

    @cached_property
    def poles(self) -> Tensor:
        """Where they have their poles, (N, D), outside the domain; none for domains without corners or holes."""
        if not self.has_poles:
            return torch.zeros(0, self.domain.dimension, dtype=torch.float64)
        return place_poles(self.domain, self._placing.spacing())

    def rehearsal(self, share: float) -> tuple[Constraint, ...]:
        """The same equations at fewer points."""
        return self._placing.constraints(share)

    def checks(self) -> tuple[Constraint, ...]:
        """The equations at other points of the same parts, where they are not imposed."""
        return self._placing.checks()

    def elsewhere(self, seed: int, share: float = 1.0) -> tuple[Constraint, ...]:
        """The same equations at as many other points, or at a share of them."""
        return self._placing.constraints(share, seed)

    def drawn(self) -> tuple[Constraint, ...]:
        """The equations at points drawn uniformly, for figures that are reported."""
        return self._placing.drawn()

    def check(self) -> Check:
        """What was read, how much of it there is, and hints about what is missing; nothing is solved."""
        from cnf.pde.problems.check import check_problem
        from cnf.pde.problems.iterating import notes_on

        return replace(check_problem(self), notes=notes_on(self))

    def asked_of(self, values: Tensor) -> Tensor:
        """Of the channels of a field (P, C or more) those that were asked for; rates may come after them."""
        return values[:, : len(self.space.channels)]

    def solve(self, report: Report | None = None, workers: int | str | Executor | Client = 1) -> Answer:
        """Tune or refine, solve, certify; `report` is called with every trial. Ctrl-C keeps the best so far.

        `workers` do what patches leave to others: a number of processes, the address of a Dask scheduler, its client,
        or an executor of `cnf.execution`; the answer does not depend on it. 1: those of `cnf.execution.use`, if any.
        """
        with nullcontext() if isinstance(workers, int) and workers == 1 else use(workers):
            return self._answered(report)

    def _answered(self, report: Report | None) -> Answer:
        started = time.perf_counter()
        try:
            if self.present is not None:
                answer = with_learnable(self, self.present.solve(report))
            elif self.unknowns:
                from cnf.pde.problems.recovering import recover

                answer = recover(self, report)
            else:
                answer = self._solved(report)
            return replace(answer, seconds=time.perf_counter() - started)  # of all that was tried on the way to it
        except ProblemError as error:  # data that are no numbers at points that come with refinement, for instance
            if self._file is None or not error.where:
                raise
            raise named(error, *self._file) from None

    def _solved(self, report: Report | None) -> Answer:
        from cnf.pde.problems.continuity import refuse_jumping_coefficients
        from cnf.pde.problems.one_end import refuse_open_end

        refuse_jumping_coefficients(self)
        refuse_open_end(self)
        if self.continuation:
            return solve_by_continuation(self, report)
        if self.solving.method == "patches":
            from cnf.pde.problems.on_patches import solve_on_patches

            return solve_on_patches(self, report)
        if self.solving.method == "auto":
            from cnf.pde.problems.choosing import solve_by_choice

            return solve_by_choice(self, report)
        from cnf.pde.problems.solving import solve_problem

        return solve_problem(self, report)

    def with_parameters(
        self, values: Mapping[str, object], start: object, target: float | None, continued: bool = False
    ) -> Problem:
        """The same problem with other numbers and another start, solved roughly if there is a target.

        A number that is looked for is looked for from its new value on. `continued`: by continuation, if it has one.
        """
        given: dict = self._entries["solve"] or {}  # type: ignore[assignment]
        dropped = {"start"} if continued else {"start", "continuation"}
        solve = {name: value for name, value in given.items() if name not in dropped}
        solve |= {"start": start} | ({} if target is None else {"target": max(target, solve.get("target") or 0.0)})
        parameters: dict = {**self._entries["parameters"], **values}  # type: ignore[dict-item]
        unknowns = {name: parameters.pop(name, value) for name, value in self.unknowns.items()}
        changed = self._entries | {"parameters": parameters, "unknowns": unknowns or None, "solve": solve}
        made = Problem(**(changed if target is None else changed | {"exact": None}))  # type: ignore[arg-type]
        made.original = (made.present or made).original = self.original
        return made

    @property
    def given_parameters(self) -> Mapping[str, object]:
        """As they were written: numbers, LaTeX, lists of them for vectors, {region: value}, or objects of Python."""
        return self._entries["parameters"]  # type: ignore[return-value]

    @property
    def given_start(self) -> object:
        """As it was written, LaTeX or {channel: LaTeX}, or an object of Python; None if there is none."""
        return (self._entries["solve"] or {}).get("start")  # type: ignore[attr-defined]

    # -- reading ---------------------------------------------------------------------------------------------------

    def number(self, value: object, where: tuple[str | int, ...]) -> float:
        """A number or LaTeX that stands for one."""
        if isinstance(value, str):
            self.use(value, where)
            refuse_varying(self, value, where)
        return read_number(value, self.space.frame, self.parameters, where)

    @property
    def parameters(self) -> dict[str, Parameter]:
        """Those that are the same everywhere."""
        return self.regional.common

    def parameters_in(self, region: str | None) -> dict[str, Parameter]:
        """All of a region; None: those that are the same everywhere."""
        return self.regional.of(region)

    def expression(self, latex: str, where: tuple[str | int, ...], region: str | None = None) -> sp.Expr:
        """LaTeX in the coordinates and parameters."""
        self.use(latex, where)
        try:
            return read_expression(latex, self.space.frame, dict(self.parameters_in(region)))
        except LatexError as error:
            raise ProblemError(in_file(error), where) from None

    def used_in(self, latex: str, extra: Mapping[str, object], where: tuple[str | int, ...]) -> set[str]:
        """The names of parameters and extra coefficients that an equation uses."""
        known = {**self.regional.any, **extra}
        try:
            return used_coefficients(latex, self.space.frame, known, self.space.vectors)
        except LatexError as error:
            raise ProblemError(in_file(error), where) from None

    def use(self, latex: str, where: tuple[str | int, ...]) -> None:
        """Note which parameters an equation uses; one that none uses is a mistake."""
        self._used |= self.used_in(latex, {}, where)

    def _used_by_parameters(self, given: Mapping[str, object]) -> set[str]:
        used: set[str] = set()
        for name, value in given.items():
            for entry in value.values() if isinstance(value, Mapping) else [value]:
                for part in entry if isinstance(entry, list | tuple) else [entry]:
                    used |= self.used_in(part, {}, ("parameters", name)) if isinstance(part, str) else set()
        return used

    def _refuse_unused(self) -> None:
        used = (
            self._used | self._placing.used | self._sensors.used | {name for jump in self.jumps for name in jump.names}
        )
        for name in self.regional.any:
            if name not in used:
                kind, table = ("unknown", "unknowns") if name in self.unknowns else ("parameter", "parameters")
                raise ProblemError(
                    f"the {kind} {name!r} is given but nothing uses it; remove it, or correct the equation that should",
                    (table, name),
                )

    def _refuse_idle(self, points: object, basis: object, tuning: object) -> None:
        """Options that would do nothing here are mistakes in writing."""
        plane = self.domain.dimension == 2 and not isinstance(self.domain, Timed)
        idle = {
            ("points", "boundary"): self.domain.dimension == 1,
            ("basis", "poles"): not plane and self.basis.poles,
            ("tuning", "steps"): self.basis.type != "skewed-rbf",
        }
        why = {
            "boundary": "the boundary of an interval is two points",
            "poles": "poles are for plane domains without time",
            "steps": "only skewed-rbf is trained",
        }
        if self.regions is not None and self.solving.method == "waves":
            raise ProblemError(
                "waves over the whole domain are smooth where regions meet; leave this out, or use 'patches'",
                ("solve", "method"),
            )
        if self.solving.method == "patches" or self.regions is not None:
            for table, entry in {"points": points, "basis": basis, "tuning": tuning}.items():
                if entry is not None:
                    raise ProblemError("patches have points and functions of their own; leave this out", (table,))
        for (table, key), useless in idle.items():
            given = {"points": points, "basis": basis, "tuning": tuning}[table]
            if useless and isinstance(given, Mapping) and key in given:
                raise ProblemError(f"this would do nothing: {why[key]}; leave it out", (table, key))

    def __repr__(self) -> str:
        return f"Problem({self.title!r}: {len(self.equations)} equations for {', '.join(self.space.channels)})"
