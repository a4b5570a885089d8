"""Patches by workers: the same field and certificate wherever branches are done, and what becomes of lost workers."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

import cnf
import cnf.solvers.spread as spread
from cnf.bases import Cells
from cnf.certificate import Certificate
from cnf.errors import CnfError
from cnf.execution import Dask, Executor, Here, Processes, use
from cnf.execution.executor import LATER
from cnf.execution.sharing import SharedFolder
from cnf.field import ConstrainedField
from cnf.pde.patches.building import Mesh, build_field, orders_of
from cnf.pde.problems.on_patches import question_of
from cnf.solvers import Patches
from cnf.solvers.fronts import Outstanding
from cnf.solvers.merging import branches, merging_order
from cnf.solvers.null_space import TiedFactor, Ties
from cnf.solvers.spread import SpreadFactor

SAME = 1e-12  # of the largest weight; conditions of these problems are below 1e3
WAVES = r"\sin(4x)\cos(3y)"
CURVED = {"domain": cnf.domains.Disk((0, 0), 1), "equations": {"interior": r"-\Delta u = 1", "boundary": "u = 0"}}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even small problems are divided."""
    monkeypatch.setattr(spread, "LEAST", 1e-6)


@pytest.fixture(scope="module")
def two() -> Iterator[Processes]:
    with Processes(2) as executor:
        yield executor


def square(cuts: int = 5) -> ConstrainedField:
    """-Laplace u = f on 2^cuts cells of degree 6, whose answer is a product of waves."""
    equations = {"interior": rf"-\Delta u = 25 {WAVES}", "boundary": f"u = {WAVES}"}
    problem = cnf.Problem("x y", domain=cnf.Box((0, 0), (1, 1)), equations=equations)
    cells = Cells([0, 0], [1, 1])
    for k in range(cuts):
        cells = cells.cut(list(range(cells.count)), k % 2)
    question = question_of(problem)
    return build_field(question, orders_of(question), Mesh.of(cells, (6, 6))).eval()


def solved(field: ConstrainedField, executor: Executor) -> tuple[Tensor, Certificate]:
    with use(executor):
        return field.solution.expansion.weights, field.certificate


def check_same(field: ConstrainedField, found: tuple[Tensor, Certificate]) -> None:
    """As in this process."""
    weights, certificate = solved(field, Here())
    assert float((found[0] - weights).abs().max()) <= SAME * float(weights.abs().max())
    for name in ("conditions", "rank", "exact", "solver", "tolerance"):
        assert getattr(found[1], name) == getattr(certificate, name), name
    assert found[1].exact and found[1].notes == ()


class Listed(Executor):
    """This process, as if it were three others: says which pieces it did."""

    workers = 3

    def __init__(self) -> None:
        self.done: list[str] = []

    def run(self, work, pieces):
        def noted(piece):
            self.done.append(type(piece).__name__)
            return work(piece)

        yield from Here().run(noted, pieces)

    def share(self, value):
        return Here().share(value)


def test_smallest_weights_of_random_cells():
    """Seven cells in a row, ties between neighbours and one over three of them: the pseudo-inverse of all rows.

    Of NumPy, for rows that leave room, in many branches that leave ties outstanding, with functions that count
    differently.
    """
    rng = np.random.default_rng(3)
    cells, n, own = 7, 9, 3
    table, starts = rng.normal(size=(cells * own, n)), np.arange(cells + 1) * own
    pairs = [(k, k + 1) for k in range(cells - 1) for _ in range(2)] + [(1, 3, 5)]
    rows = np.concatenate([[k] * len(pair) for k, pair in enumerate(pairs)])
    places = np.concatenate(pairs)
    ties = Ties(len(pairs), rows, places, rng.normal(size=(len(rows), n)))
    column, centres = rng.uniform(0.5, 2, n), np.stack([np.arange(cells), np.zeros(cells)], axis=1).astype(float)
    right, tied = rng.normal(size=cells * own), rng.normal(size=len(pairs))
    active = np.ones((cells, n), dtype=bool)
    executor = Listed()
    factor = SpreadFactor(table, starts, ties, centres, active, column, None, executor, 7)
    found = factor.weights(right, tied)
    whole = np.zeros((cells * own + len(pairs), cells * n))
    for cell in range(cells):
        whole[cell * own : (cell + 1) * own, cell * n : (cell + 1) * n] = table[cell * own : (cell + 1) * own]
    for row, place, vector in zip(rows, places, ties.vectors, strict=True):
        whole[cells * own + row, place * n : (place + 1) * n] += vector
    scaled = whole * np.tile(column, cells)
    wanted = np.tile(column, cells) * (np.linalg.pinv(scaled) @ np.concatenate([right, tied]))
    assert np.allclose(found.ravel(), wanted, atol=1e-11)
    assert factor.rank == np.linalg.matrix_rank(scaled)
    assert executor.done.count("FactorBranch") >= 3 and "Merge" in executor.done
    assert "Ascend" not in executor.done  # right at once: a third correction would have had something to mend
    again = factor.weights(2 * right, tied)  # with the factors that are there
    wanted = np.tile(column, cells) * (np.linalg.pinv(scaled) @ np.concatenate([2 * right, tied]))
    assert np.allclose(again.ravel(), wanted, atol=1e-11) and "Start" in executor.done
    assert executor.done.count("FactorBranch") == len(factor._branches)
    folder = factor.folder
    assert folder.exists()
    del factor
    assert not folder.exists()


def test_branches_and_their_merges_are_the_tree():
    """Cells of a grid: every one in one branch, and merging what is in branches and then these is the whole order."""
    centres = np.stack(np.meshgrid(np.arange(8.0), np.arange(4.0), indexing="ij"), axis=-1).reshape(-1, 2)
    number = np.arange(32).reshape(8, 4)
    sides = [(number[:-1], number[1:]), (number[:, :-1], number[:, 1:])]
    pairs = np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in sides])
    ties = np.ones(len(pairs))
    found, merges = branches(centres, pairs, ties, np.ones(32), 8)
    assert sorted(np.concatenate(found)) == list(range(32)) and max(map(len, found)) <= 8 and len(found) == 4
    assert len(merges) == 3 and sorted(np.ravel(merges)) == list(range(6))

    def parts(order: list[tuple[int, int]], first: list[frozenset]) -> list[frozenset]:
        every = list(first)
        for a, b in order:
            every.append(every[a] | every[b])
        return every

    whole = parts(merging_order(centres, pairs, ties), [frozenset([k]) for k in range(32)])
    assert set(parts(merges, [frozenset(map(int, cells)) for cells in found])) <= set(whole)


def test_outstanding_ties_of_one_cell():
    """A branch of one cell: all its ties are outstanding, over the two coordinates that its one row leaves of three."""
    ties = Ties(2, np.array([0, 1]), np.array([0, 0]), np.eye(3)[:2])
    factor = TiedFactor(np.array([[0.0, 0, 2]]), np.array([0, 1]), ties, np.zeros((1, 2)), total=np.array([2, 2]))
    assert isinstance(factor.outstanding, Outstanding) and factor.outstanding.rows.shape == (2, 2)
    assert np.allclose(factor.outstanding.rows @ factor.outstanding.rows.T, np.eye(2))


def test_new_values_use_the_factors_that_are_there(small: None):
    """On 32 cells: with other values, the field is that of one process, and no branch is factored again."""
    field, other, executor = square(), square(), Listed()
    with use(executor):
        check_same(field, (other.solution.expansion.weights, other.certificate))
        other.update({"boundary": 0.0})
    field.update({"boundary": 0.0})
    x = torch.rand(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(other(x), field(x), rtol=0, atol=1e-11)
    assert executor.done.count("Start") == executor.done.count("FactorBranch") > 3


def test_executors_given_to_the_solver(small: None):
    """Patches(workers=...) is the same as `use`, and what an executor goes through is no reason to solve again."""
    field = square()
    given = ConstrainedField(field.basis, field.constraints, solver=Patches(workers=Listed())).eval()
    check_same(field, (given.solution.expansion.weights, given.certificate))
    assert given.solution is given.solution and isinstance(given._cache[1].factor, SpreadFactor)
    for wrong in (0, 257, True):
        with pytest.raises(CnfError, match="workers are 1 to 256"):
            Patches(workers=wrong)


def test_guides_and_curved_patches(small: None):
    """A disk, whose patches fit guides: the torsion of a shaft, (1 - r^2) / 4, with pieces done one by one."""
    executor = Listed()
    problem = cnf.Problem("x y", **CURVED, solve={"method": "patches", "target": 1e-7})
    answer = problem.solve(workers=executor)
    assert {"FactorBranch", "Merge", "Descend"} <= set(executor.done)
    x = problem.domain.fill(200, "halton", 0)
    exact = (1 - x.square().sum(dim=1)) / 4
    assert float((answer.solution(x)[:, 0] - exact).abs().max()) < 1e-7 and answer.certificate.exact


def test_what_one_process_does_is_said(small: None):
    """Training keeps all factors in one process; with workers at hand, the certificate has a line that says so."""
    field = square(2)
    with use(Listed()) as executor:
        certificate = field.train().solve().certificate
    assert "gradients" in certificate.notes[0] and not executor.done
    assert square(2).train().solve().certificate.notes == ()


@pytest.mark.slow
def test_one_two_and_four_processes_and_dask(small: None, two: Processes):
    """The same field and certificate, on 64 cells."""
    field = square(6)
    check_same(field, solved(square(6), two))
    with Processes(4) as four, Dask(2) as cluster:
        check_same(field, solved(square(6), four))
        check_same(field, solved(square(6), cluster))
        with use(cluster.client) as joined:  # one that somebody else started
            check_same(field, (lambda made: (made.solution.expansion.weights, made.certificate))(square(6)))
        assert isinstance(joined, Dask) and cluster.workers == 2


class Deadly(Executor):
    """Processes, one of which is killed while a piece of this number is about to be given out."""

    def __init__(self, executor: Processes, rng: random.Random):
        self.executor, self.rng, self.workers = executor, rng, executor.workers
        self.killed, self.left = 0, -1

    def run(self, work, pieces):
        yield from self.executor.run(work, self.passed(pieces))

    def passed(self, pieces):
        for piece in pieces:
            self.left -= piece is not LATER
            children = [child.pid for child in multiprocessing.active_children()]
            if self.left == 0 and children:
                time.sleep(self.rng.uniform(0, 0.02))
                os.kill(self.rng.choice(children), signal.SIGKILL)
                self.killed += 1
            yield piece

    def share(self, value):
        return self.executor.share(value)


@pytest.mark.slow
def test_workers_killed_at_any_moment(small: None):
    """SIGKILL to a worker at ten random moments of solves: the same field every time, by those that come after it."""
    field, rng = square(4), random.Random(0)
    solved(field, Here())
    with Processes(2) as executor:
        deadly = Deadly(executor, rng)
        for _ in range(10):
            deadly.left = rng.randrange(2, 30)  # of some 30 pieces
            check_same(field, solved(square(4), deadly))
        assert deadly.killed >= 8


@pytest.mark.slow
def test_nothing_stays_when_a_solve_is_interrupted(small: None):
    """KeyboardInterrupt between two pieces: workers end with the context, and the files of factors are gone."""
    folders: list[SharedFolder] = []

    class Interrupted(Deadly):
        def passed(self, pieces):
            for number, piece in enumerate(pieces):
                if number == 3:
                    raise KeyboardInterrupt
                yield piece

        def make_folder(self) -> SharedFolder:
            folders.append(super().make_folder())
            return folders[-1]

    with Processes(2) as executor, pytest.raises(KeyboardInterrupt):
        solved(square(4), Interrupted(executor, random.Random(0)))
    assert not multiprocessing.active_children()
    gc.collect()
    assert len(folders) == 1 and not folders[0].path.exists()
