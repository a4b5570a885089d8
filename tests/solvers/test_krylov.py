"""Krylov: NumPy's answers by iteration, few iterations whatever the size, and no answer rather than a wrong one."""

from __future__ import annotations

import gc
import sys
import warnings
import weakref

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.spatial import cKDTree

from cnf.errors import CnfError, NumericalWarning, SingularSystemError
from cnf.solvers import Krylov
from cnf.solvers.krylov import conjugate_gradients, gmres
from cnf.solvers.schwarz import Schwarz, cut_up
from cnf.solvers.sparse_matrix import INDEX, Pattern, SparseMatrix

EPS = float(np.finfo(np.float64).eps)


def taken(matrix: sparse.sparray | np.ndarray, sites: np.ndarray | None = None) -> SparseMatrix:
    rows = sparse.csr_matrix(matrix)
    rows.sort_indices()
    pattern = Pattern(rows.shape, rows.indptr.astype(INDEX), rows.indices.astype(INDEX), sites)
    return SparseMatrix(pattern, torch.from_numpy(rows.data.astype(np.float64)))


def grid(rows: int, columns: int) -> sparse.csr_matrix:
    """The five-point Laplacian with zero boundary values, positive definite."""

    def second(n: int) -> sparse.dia_array:
        return sparse.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])

    one, other = sparse.eye_array(rows), sparse.eye_array(columns)
    return sparse.csr_matrix(sparse.kron(second(rows), other) + sparse.kron(one, second(columns)))


def wendland(count: int, skew: float = 0.0, seed: int = 0) -> sparse.csr_matrix:
    """Wendland's C^2 function at points of the unit square, about 30 in each support; `skew` varies its radius."""
    generator = np.random.default_rng(seed)
    points = generator.random((count, 2))
    radii = np.sqrt(30 / (np.pi * count)) * (1 + skew * (generator.random(count) - 0.5))
    pairs = cKDTree(points).sparse_distance_matrix(cKDTree(points), radii.max(), output_type="coo_matrix")
    r = np.minimum(pairs.data / radii[pairs.col], 1)
    entries = (1 - r) ** 4 * (4 * r + 1)
    found = sparse.csr_matrix((entries, (pairs.row, pairs.col)), shape=(count, count))
    found.eliminate_zeros()
    return found


def scattered(n: int, seed: int = 1) -> sparse.csr_matrix:
    """Nonsymmetric in values and structure, with a dominant diagonal."""
    generator = np.random.default_rng(seed)
    found = sparse.random_array((n, n), density=5 / n, rng=generator) - sparse.random_array((n, n), density=5 / n)
    return sparse.csr_matrix(found + sparse.diags_array(2.0 + 4 * generator.random(n)))


DEFINITE = {"grid": grid(13, 17), "wendland": wendland(300), "diagonal": sparse.csr_matrix(np.diag([1.0, 2.0, 3.0]))}
GENERAL = {"skewed": wendland(300, 0.5), "scattered": scattered(250), "one": sparse.csr_matrix(np.array([[3.0]]))}
CASES = [(m, True) for m in DEFINITE.values()] + [(m, False) for m in [*GENERAL.values(), *DEFINITE.values()]]
NAMES = [*DEFINITE, *GENERAL, *(f"{name}, not declared" for name in DEFINITE)]
every_system = pytest.mark.parametrize(("matrix", "symmetric"), CASES, ids=NAMES)


def agrees(matrix: sparse.csr_matrix, factor) -> None:
    """Both maps are numpy.linalg.solve's, to what the condition number allows."""
    dense, n = matrix.toarray(), matrix.shape[0]
    b = np.random.default_rng(5).standard_normal((n, 3))
    condition = np.linalg.cond(dense)
    for found, a in ((factor.solve, dense), (factor.solve_transposed, dense.T)):
        expected = np.linalg.solve(a, b)
        error = np.abs(found(torch.from_numpy(b)).numpy() - expected).max()
        assert error <= (1e-13 + 50 * EPS) * 10 * condition * np.abs(expected).max()


@every_system
def test_solves_as_numpy_does(matrix, symmetric):
    """Three right-hand sides with the matrix and with its transpose, patches of 20 unknowns; answer: NumPy."""
    agrees(matrix, Krylov(size=20).factor(taken(matrix), symmetric))


@every_system
def test_solves_without_metis(matrix, symmetric, monkeypatch):
    """Patches grown from neighbour to neighbour; answer: NumPy."""
    monkeypatch.setitem(sys.modules, "pymetis", None)
    agrees(matrix, Krylov(size=20).factor(taken(matrix), symmetric))


@pytest.mark.parametrize("overlap", [0.0, 0.1, 0.4])
def test_any_overlap(overlap):
    """All neighbours or few: more iterations, the same answer."""
    agrees(DEFINITE["wendland"], Krylov(size=30, overlap=overlap).factor(taken(DEFINITE["wendland"]), True))
    agrees(GENERAL["skewed"], Krylov(size=30, overlap=overlap).factor(taken(GENERAL["skewed"])))


def test_rows_in_another_order():
    """Conditions listed in another order than the functions, so that the diagonal is empty; answer: NumPy."""
    matrix = GENERAL["skewed"][np.random.default_rng(3).permutation(300)]
    assert np.count_nonzero(matrix.diagonal()) < 200
    agrees(matrix, Krylov(size=60, overlap=0.0).factor(taken(matrix)))


def test_rows_and_columns_of_any_scale():
    """D A E with D, E from 1e-8 to 1e8: x = E^-1 A^-1 D^-1 b, to what the condition of A allows."""
    matrix, n = GENERAL["skewed"], 300
    left, right = 10.0 ** np.linspace(-8, 8, n), 10.0 ** np.random.default_rng(2).uniform(-8, 8, n)
    b = np.random.default_rng(4).standard_normal((n, 1))
    plain = np.linalg.solve(matrix.toarray(), b)
    scaled = sparse.csr_matrix(sparse.diags_array(left) @ matrix @ sparse.diags_array(right))
    found = Krylov(size=40).factor(taken(scaled)).solve(torch.from_numpy(left[:, None] * b)).numpy()
    error = np.abs(found * right[:, None] - plain).max() / np.abs(plain).max()
    assert error <= 1e-12 * np.linalg.cond(matrix.toarray())


def test_right_hand_sides_of_any_size():
    """Columns of size 0, 1e-12, 1 and 1e12 together: each is solved to its own size."""
    matrix = DEFINITE["wendland"]
    b = np.random.default_rng(4).standard_normal((300, 1)) * np.array([0, 1e-12, 1, 1e12])
    for symmetric in (True, False):
        x = Krylov(size=40).factor(taken(matrix), symmetric).solve(torch.from_numpy(b)).numpy()
        assert np.abs(x[:, 0]).max() == 0
        left = np.linalg.norm(matrix @ x - b, axis=0)[1:] / np.linalg.norm(b, axis=0)[1:]
        assert left.max() <= 1e-12


@pytest.mark.parametrize("symmetric", [True, False])
def test_iterations_do_not_grow(symmetric):
    """One-level patches suffice for compact kernels: 40 iterations at 1000 and at 8000 unknowns, hardly more there."""
    spent = []
    for count in (1000, 8000):
        matrix = wendland(count, 0.0 if symmetric else 0.3)
        factor = Krylov(size=100).factor(taken(matrix), symmetric)
        b = torch.from_numpy(np.random.default_rng(0).standard_normal((count, 1)))
        x = factor.solve(b).numpy()
        assert np.linalg.norm(matrix @ x - b.numpy()) <= 1e-11 * np.linalg.norm(b.numpy())
        spent.append(factor.spent[-1])
        assert f"{factor.spent[-1]} iterations" in factor.name
    assert spent[1] <= min(60, 1.5 * spent[0] + 3)


def test_one_patch_is_a_direct_solve():
    """A patch that holds everything inverts the matrix: one iteration, and at most another for rounding."""
    for symmetric in (True, False):
        factor = Krylov(size=1000).factor(taken(DEFINITE["wendland"]), symmetric)
        factor.solve(torch.ones(300, 1, dtype=torch.float64))
        assert factor.precondition.count == 1
        assert factor.spent[0] <= 3


# -- patches -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metis", [True, False])
def test_patches_are_a_partition_with_overlap(metis, monkeypatch):
    """Every unknown belongs to one patch and is in some more; those of one site are always together."""
    if not metis:
        monkeypatch.setitem(sys.modules, "pymetis", None)
    base = wendland(150).toarray() != 0
    sites = np.concatenate([np.arange(150), np.arange(150), np.arange(60)])
    found = cut_up(taken(base[np.ix_(sites, sites)].astype(float), 5 * sites + 2).pattern, 30, 0.2)
    n, owned, held = sites.shape[0], [], []
    for batch in found.batches:
        for own, columns in zip(batch.own.numpy(), batch.columns.numpy(), strict=True):
            own, columns = own[own < n], columns[columns < n]
            assert np.array_equal(own, columns[: own.shape[0]])
            assert len(set(columns)) == columns.shape[0]
            for group in (own, columns):
                whole = np.flatnonzero(np.isin(sites, sites[group]))
                assert np.array_equal(np.sort(group), whole)
            owned.append(own)
            held.append(columns)
    assert np.array_equal(np.sort(np.concatenate(owned)), np.arange(n))
    assert len(owned) == found.count >= 8
    assert np.concatenate(held).shape[0] > 1.5 * n
    assert max(own.shape[0] for own in owned) <= 60


@pytest.mark.parametrize("definite", [True, False])
def test_preconditioner_is_the_sum_of_inverses(definite):
    """M r = sum over patches of A_pp^-1 r_p, all of it or each patch's own part, and its transpose; answer: NumPy."""
    matrix = DEFINITE["wendland"] if definite else GENERAL["skewed"]
    given = taken(matrix)
    patchwork = cut_up(given.pattern, 40, 0.1)
    precondition = Schwarz(patchwork, given.plain.data, definite)
    expected = np.zeros((300, 300))
    for batch in patchwork.batches:
        for own, columns in zip(batch.own.numpy(), batch.columns.numpy(), strict=True):
            own, columns = own[own < 300], columns[columns < 300]
            inverse = np.linalg.inv(matrix.toarray()[np.ix_(columns, columns)])
            kept = columns.shape[0] if definite else own.shape[0]
            expected[np.ix_(columns[:kept], columns)] += inverse[:kept]
    size = np.abs(expected).max()
    assert np.abs(precondition(np.eye(300)) - expected).max() <= 1e-12 * size
    assert np.abs(precondition(np.eye(300), transposed=True) - expected.T).max() <= 1e-12 * size
    if definite:
        assert np.abs(expected - expected.T).max() <= 1e-12 * size


def test_patches_are_kept_with_the_pattern():
    """Worked out once per pattern and setting; forgotten with the pattern."""
    pattern = taken(DEFINITE["wendland"]).pattern
    assert cut_up(pattern, 40, 0.1) is cut_up(pattern, 40, 0.1)
    assert cut_up(pattern, 50, 0.1) is not cut_up(pattern, 40, 0.1)
    assert cut_up(taken(DEFINITE["wendland"]).pattern, 40, 0.1) is not cut_up(pattern, 40, 0.1)
    forgotten = weakref.ref(cut_up(pattern, 40, 0.1))
    del pattern
    gc.collect()
    assert forgotten() is None


# -- the iterations themselves -----------------------------------------------------------------------------------


def test_as_many_iterations_as_eigenvalues():
    """A matrix with four different eigenvalues is solved in four steps, by either method (Cayley and Hamilton)."""
    root = np.linalg.qr(np.random.default_rng(0).standard_normal((60, 60)))[0]
    matrix = root @ np.diag(np.repeat([1.0, 3.0, 10.0, 20.0], 15)) @ root.T
    b = np.random.default_rng(1).standard_normal((60, 2))
    x, count = conjugate_gradients(matrix.__matmul__, lambda r: r, b, np.array([1e-12, 1e-12]), 50)
    assert count == 4
    assert np.abs(x - np.linalg.solve(matrix, b)).max() <= 1e-11
    x, count = gmres(matrix.__matmul__, lambda r: r, b[:, 0], 1e-12, 50)
    assert count == 4
    assert np.abs(x - np.linalg.solve(matrix, b[:, 0])).max() <= 1e-11


def test_gmres_restarts(monkeypatch):
    """Ten vectors at a time still lead to the answer; as many iterations are counted as products taken."""
    monkeypatch.setattr("cnf.solvers.krylov.RESTART", 10)
    matrix = GENERAL["scattered"]
    b = np.random.default_rng(1).standard_normal(250)
    products = []
    apply = lambda v: products.append(1) or v  # noqa: E731
    x, count = gmres(matrix.__matmul__, apply, b, 1e-12, 500)
    assert 10 < count < 500
    assert count <= len(products) <= count + count // 10 + 1
    assert np.linalg.norm(matrix @ x - b) <= 2e-12 * np.linalg.norm(b)


# -- no wrong answers --------------------------------------------------------------------------------------------


class TestErrors:
    @pytest.mark.parametrize("symmetric", [True, False])
    def test_too_few_iterations(self, symmetric):
        """Three iterations are not enough: the error says what was reached and what to do."""
        factor = Krylov(size=20, most=3).factor(taken(DEFINITE["grid"]), symmetric)
        with pytest.raises(SingularSystemError, match=r"after 3 iterations .* residual of \d.*size=, overlap="):
            factor.solve(torch.ones(221, 1, dtype=torch.float64))

    @pytest.mark.parametrize("symmetric", [True, False])
    def test_nearly_enough_iterations(self, symmetric):
        """Stopped early or late: an error, or a warning with a residual up to 1e-10, or a good answer."""
        matrix, b = DEFINITE["wendland"], torch.ones(300, 1, dtype=torch.float64)
        outcomes = {"error": 0, "warning": 0, "answer": 0}
        for most in range(5, 60):
            factor = Krylov(size=20, most=most).factor(taken(matrix), symmetric)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    x = factor.solve(b).numpy()
                except SingularSystemError:
                    outcomes["error"] += 1
                    continue
            left = np.linalg.norm(matrix @ x - 1) / np.sqrt(300)
            assert left <= (1e-10 if caught else 2e-12)
            assert all(w.category is NumericalWarning and "not 1e-13" in str(w.message) for w in caught)
            outcomes["warning" if caught else "answer"] += 1
        assert min(outcomes.values()) > 0

    def test_indefinite_matrix(self):
        """Symmetric with negative eigenvalues, declared definite: refused; by GMRES, solved."""
        matrix = sparse.csr_matrix(grid(13, 17) - 1.1 * sparse.eye_array(221))
        assert np.linalg.eigvalsh(matrix.toarray())[0] < -0.5
        with pytest.raises(SingularSystemError, match=r"not numerically positive definite|not positive"):
            Krylov(size=5).factor(taken(matrix), True).solve(torch.ones(221, 1, dtype=torch.float64))
        agrees(matrix, Krylov(size=40).factor(taken(matrix), False))

    @pytest.mark.parametrize("symmetric", [True, False])
    def test_singular_matrix(self, symmetric):
        """The Laplacian of a closed ring has the constants in its kernel: no solution for b = 1, and an error."""
        n = 120
        ring = 2 * np.eye(n) - np.roll(np.eye(n), 1, axis=0) - np.roll(np.eye(n), -1, axis=0)
        with pytest.raises(SingularSystemError, match="singular"):
            Krylov(size=10).factor(taken(ring), symmetric).solve(torch.ones(n, 1, dtype=torch.float64))

    def test_two_equal_conditions(self):
        matrix = DEFINITE["wendland"].toarray()
        matrix[7], matrix[:, 7] = matrix[8], matrix[:, 8]
        matrix[7, 7] = matrix[8, 8]
        for symmetric in (True, False):
            with pytest.raises(SingularSystemError, match="duplicate"):
                Krylov(size=40).factor(taken(matrix), symmetric).solve(torch.ones(300, 1, dtype=torch.float64))

    def test_function_without_a_condition(self):
        """A column without entries: structurally singular."""
        matrix = DEFINITE["wendland"].toarray()
        matrix[:, 5] = 0
        with pytest.raises(SingularSystemError, match="no condition within their support"):
            Krylov().factor(taken(matrix))

    def test_not_square(self):
        with pytest.raises(SingularSystemError, match="300 and 299"):
            Krylov().factor(taken(DEFINITE["wendland"][:299]))

    @pytest.mark.parametrize(
        "settings",
        [{"tolerance": 0.0}, {"tolerance": 2.0}, {"overlap": -1}, {"overlap": 1.5}, {"size": 0}, {"most": 0}],
    )
    def test_settings_that_make_no_sense(self, settings):
        with pytest.raises(CnfError, match=next(iter(settings))):
            Krylov(**settings)

    def test_numbers_that_are_none(self):
        """NaN in the right-hand side is not iterated upon for ever, nor answered."""
        b = torch.ones(300, 1, dtype=torch.float64)
        b[3] = float("nan")
        for symmetric in (True, False):
            with pytest.raises(CnfError):
                Krylov(size=40).factor(taken(DEFINITE["wendland"]), symmetric).solve(b)
