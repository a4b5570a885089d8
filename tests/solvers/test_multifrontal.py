"""Multifrontal Cholesky: NumPy's answer on every structure of matrix, whatever the order, and a refusal where due."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from scipy import sparse

import cnf
from cnf.errors import CnfError, SingularSystemError
from cnf.solvers import SparseCholesky, SparseLU
from cnf.solvers.elimination import OVERHEAD, Elimination, eliminate
from cnf.solvers.multifrontal import Multifrontal
from cnf.solvers.sparse_matrix import INDEX, Pattern, SparseMatrix

EPS = np.finfo(np.float64).eps


def taken_apart(matrix: sparse.sparray, sites: np.ndarray | None = None) -> tuple[Pattern, np.ndarray]:
    """Pattern and values."""
    rows = sparse.csr_matrix(matrix)
    rows.sort_indices()
    return Pattern(rows.shape, rows.indptr.astype(INDEX), rows.indices.astype(INDEX), sites), rows.data


def dominated(structure: np.ndarray, seed: int = 0) -> sparse.csr_matrix:
    """Random values on a symmetric structure (n, n), with a diagonal that makes it positive definite."""
    random = np.random.default_rng(seed).uniform(-1, 1, structure.shape) * structure
    lower = np.tril(random, -1)
    symmetric = lower + lower.T
    return sparse.csr_matrix(symmetric + np.diag(1.0 + np.abs(symmetric).sum(axis=1)))


def scattered(n: int, chance: float, seed: int) -> sparse.csr_matrix:
    structure = np.random.default_rng(seed).random((n, n)) < chance
    return dominated(structure | structure.T, seed)


def arrow(n: int, head: int, first: bool) -> sparse.csr_matrix:
    """Diagonal but for `head` full rows and columns."""
    structure = np.zeros((n, n), dtype=bool)
    chosen = np.arange(head) if first else np.arange(n - head, n)
    structure[chosen] = True
    return dominated(structure | structure.T)


def grid_laplacian(rows: int, columns: int) -> sparse.csr_matrix:
    """The five-point Laplacian with zero boundary values; its smallest eigenvalue is known, and positive."""

    def second(n: int) -> sparse.dia_array:
        return sparse.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])

    one, other = sparse.eye_array(rows), sparse.eye_array(columns)
    return sparse.csr_matrix(sparse.kron(second(rows), other) + sparse.kron(one, second(columns)))


MATRICES = {
    "one": dominated(np.ones((1, 1), dtype=bool)),
    "diagonal": dominated(np.eye(30, dtype=bool)),
    "blocks": dominated(sparse.block_diag([np.ones((k, k)) for k in (1, 5, 2, 9, 40, 3)]).toarray() > 0),
    "dense": dominated(np.ones((70, 70), dtype=bool)),
    "chain": dominated(np.abs(np.subtract.outer(np.arange(200), np.arange(200))) <= 1),
    "band": dominated(np.abs(np.subtract.outer(np.arange(300), np.arange(300))) <= 12),
    "arrow, head first": arrow(120, 3, True),
    "arrow, head last": arrow(120, 3, False),
    "grid": grid_laplacian(19, 27),
    "long grid": grid_laplacian(3, 150),
    "sparse": scattered(400, 0.005, 1),
    "fuller": scattered(300, 0.05, 2),
    "almost empty": scattered(250, 0.001, 3),
}
every_matrix = pytest.mark.parametrize("matrix", MATRICES.values(), ids=list(MATRICES))


@pytest.fixture(autouse=True)
def many_fronts(monkeypatch):
    """Small matrices would be merged into a front or two; a front that costs nothing to start leaves most apart."""
    monkeypatch.setattr("cnf.solvers.elimination.OVERHEAD", 0.0)


def agrees(matrix: sparse.csr_matrix, factor: Multifrontal, columns: int = 3) -> None:
    """The answer of numpy.linalg.solve, to what the condition number allows."""
    n = matrix.shape[0]
    b = np.random.default_rng(9).standard_normal((n, columns))
    expected = np.linalg.solve(matrix.toarray(), b)
    sizes = np.linalg.eigvalsh(matrix.toarray())
    bound = 10 * n * EPS * sizes[-1] / sizes[0] * np.abs(expected).max()
    assert np.abs(factor.solve(b) - expected).max() <= bound


@every_matrix
def test_solves_as_numpy_does(matrix):
    """A x = b for positive definite A of many structures; answer: numpy.linalg.solve."""
    agrees(matrix, Multifrontal(*taken_apart(matrix)))


@every_matrix
def test_solves_without_metis(matrix, monkeypatch):
    """The same in the order of minimum degree, which serves where pymetis is not installed."""
    monkeypatch.setitem(sys.modules, "pymetis", None)
    pattern, values = taken_apart(matrix)
    factor = Multifrontal(pattern, values)
    if matrix.nnz > matrix.shape[0]:
        assert pattern.order.method == "minimum degree"
    agrees(matrix, factor)


@pytest.mark.parametrize("overhead", [OVERHEAD, 1e9], ids=["as usual", "as far as possible"])
@every_matrix
def test_merging_does_not_change_the_answer(matrix, overhead, monkeypatch):
    """Fronts merged as usual, and into one for each connected part; answer: numpy.linalg.solve."""
    monkeypatch.setattr("cnf.solvers.elimination.OVERHEAD", overhead)
    pattern, values = taken_apart(matrix)
    if overhead > 1:
        assert len(pattern.elimination.fronts) == sparse.csgraph.connected_components(matrix)[0]
    agrees(matrix, Multifrontal(pattern, values))


def test_many_fronts():
    """That the other tests are about something: the grid of 513 nodes has over fifty fronts, some with siblings."""
    fronts = eliminate(taken_apart(MATRICES["grid"])[0]).fronts
    assert len(fronts) > 50
    assert max(len(front.children) for front in fronts) > 1


def test_strips_cover_large_updates(monkeypatch):
    """Update matrices are added strip by strip: strips of 5 columns give the answer of NumPy as well."""
    monkeypatch.setattr("cnf.solvers.multifrontal.STRIP", 5)
    for name in ("grid", "fuller"):
        agrees(MATRICES[name], Multifrontal(*taken_apart(MATRICES[name])))


@pytest.mark.parametrize("listed", ["site after site", "kind after kind"])
def test_columns_of_a_site_together(listed):
    """Every node of a grid carries 1 to 4 unknowns with full coupling; answer: numpy.linalg.solve, and far fewer nodes.

    Sites are given site after site and, as Hermite bases do, all values before all derivatives.
    """
    nodes = grid_laplacian(11, 13).toarray() != 0
    counts = np.random.default_rng(0).integers(1, 5, nodes.shape[0])
    sites = np.repeat(np.arange(nodes.shape[0]), counts)
    if listed == "kind after kind":
        sites = sites[np.argsort(np.concatenate([np.arange(count) for count in counts]), kind="stable")]
    matrix = dominated(nodes[np.ix_(sites, sites)])
    agrees(matrix, Multifrontal(*taken_apart(matrix, 7 * sites + 3)))  # labels need not be consecutive


def test_sites_that_are_not_sites():
    """Columns declared to share a point, but with different neighbours: still the answer of NumPy."""
    matrix = MATRICES["fuller"]
    agrees(matrix, Multifrontal(*taken_apart(matrix, np.arange(matrix.shape[0]) // 3)))


def test_entries_of_the_factor():
    """L of the elimination, put together from its blocks, satisfies L L^T = P A P^T entry by entry."""
    matrix = MATRICES["grid"]
    pattern, values = taken_apart(matrix)
    factor = Multifrontal(pattern, values)
    plan = pattern.elimination
    lower = np.zeros(matrix.shape)
    for front, (square, below) in zip(plan.fronts, factor._blocks, strict=True):
        lower[front.first : front.last, front.first : front.last] = np.tril(square)
        lower[front.rows, front.first : front.last] = below
    permuted = matrix.toarray()[np.ix_(plan.order, plan.order)]
    assert np.abs(lower @ lower.T - permuted).max() <= 100 * EPS * np.abs(permuted).max()
    assert np.array_equal(lower, np.tril(lower))


def spaces_in_use(plan: Elimination) -> None:
    """Replays the work space: nothing that is still needed is overwritten."""
    waiting: dict[int, tuple[int, int]] = {}
    for k, front in enumerate(plan.fronts):
        mine = (front.update, front.update + front.height**2)
        assert mine[1] <= plan.work
        for begin, end in waiting.values():
            assert mine[1] <= begin or end <= mine[0] or mine[0] == mine[1]
        for child in front.children:
            del waiting[child]
        if front.height:
            waiting[k] = mine
    assert not waiting


@every_matrix
def test_layout(matrix):
    """Every unknown is a pivot once, children come first, and no update matrix overwrites one that is waiting."""
    plan = eliminate(taken_apart(matrix)[0])
    assert np.array_equal(np.sort(plan.order), np.arange(matrix.shape[0]))
    assert [front.first for front in plan.fronts[1:]] == [front.last for front in plan.fronts[:-1]]
    assert np.unique(plan.targets).shape == plan.targets.shape
    for k, front in enumerate(plan.fronts):
        assert (np.diff(front.rows) > 0).all() and (front.rows >= front.last).all()
        for child in front.children:
            assert child < k
            positions = np.concatenate([np.arange(front.first, front.last), front.rows])
            assert np.array_equal(positions[plan.fronts[child].relative], plan.fronts[child].rows)
    spaces_in_use(plan)


def test_fill_of_a_chain():
    """A tridiagonal matrix fills in little: without mergers the factor of 200 columns has under 1,200 entries.

    Nested dissection of a path leaves at most two rows below every pivot; blocks are stored as full squares.
    """
    assert eliminate(taken_apart(MATRICES["chain"])[0]).size < 1200


def test_fill_without_metis(monkeypatch):
    """An arrow of 120 columns, its 3 full ones first, fills to a full square in that order, and by hardly anything in
    the order of minimum degree: 117 columns of 4 entries, then 3 x 3.
    """
    monkeypatch.setitem(sys.modules, "pymetis", None)
    assert eliminate(taken_apart(MATRICES["arrow, head first"])[0]).size <= 117 * 4 + 9 + 120


def hermite_system(count: int = 120) -> tuple[torch.Tensor, SparseMatrix, torch.Tensor]:
    """Value and gradient at random points of a cube; the matrix comes with its sites. Returns points and all."""
    from cnf.systems.layout import lay_out
    from cnf.systems.sparse_assembly import assemble_sparse, plan_structure

    generator = torch.Generator().manual_seed(0)
    points = torch.rand(count, 3, dtype=torch.float64, generator=generator)
    slopes = torch.randn(count, 3, dtype=torch.float64, generator=generator)
    space = cnf.Space("x y z", "u")
    conditions = [
        space.constraint("u = 0", at=points, name="value"),
        space.constraint(r"\nabla u", at=points, equals=slopes, name="slope"),
    ]
    basis = cnf.bases.Hermite(space, conditions, cnf.kernels.Wendland(1, 0.4))
    with torch.no_grad():
        evaluated = basis.snapshot()
        layout = lay_out(basis, conditions)
        structure = plan_structure(evaluated, basis, conditions, layout)
        matrix = assemble_sparse(evaluated, basis, conditions, layout, structure)[0]
    return points, matrix, slopes


def test_hermite_system():
    """Wendland-Hermite value and gradient conditions, through SparseCholesky; answer: numpy.linalg.solve."""
    _, matrix, slopes = hermite_system()
    assert matrix.pattern.sites is not None
    b = torch.cat([torch.zeros(120, dtype=torch.float64), slopes.T.reshape(-1)])[:, None]
    dense = matrix.to_dense().numpy()
    expected = np.linalg.solve(dense, b.numpy())
    factor = SparseCholesky("multifrontal").factor(matrix, symmetric=True)
    bound = 1000 * EPS * np.linalg.cond(dense) * np.abs(expected).max()
    assert np.abs(factor.solve(b).numpy() - expected).max() <= bound
    assert np.abs(factor.solve_transposed(b).numpy() - expected).max() <= bound
    assert "multifrontal" in factor.name


@every_matrix
def test_indefinite_is_refused(matrix):
    """A minus a little more than its smallest eigenvalue has a negative eigenvalue and no Cholesky factor."""
    eigenvalues = np.linalg.eigvalsh(matrix.toarray())
    shifted = matrix - (eigenvalues[0] + 1e-6 * eigenvalues[-1]) * sparse.eye_array(matrix.shape[0])
    with pytest.raises(SingularSystemError, match="positive definite"):
        Multifrontal(*taken_apart(shifted))


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan])
def test_bad_pivot_is_refused(bad):
    """A zero, negative or undefined diagonal entry has no root."""
    matrix = MATRICES["grid"].copy()
    matrix[300, 300] = bad
    pattern, values = taken_apart(matrix)
    with pytest.raises(SingularSystemError, match="positive definite"):
        Multifrontal(pattern, values)


def test_upper_values_are_those_of_one_triangle():
    """Only one of A_ij and A_ji is read: with the other spoilt, the answer is that of the symmetric matrix."""
    matrix = MATRICES["fuller"]
    pattern, values = taken_apart(matrix)
    unread = np.setdiff1d(np.arange(pattern.count), pattern.elimination.entries)
    assert unread.shape[0] == (matrix.nnz - matrix.shape[0]) // 2
    spoilt = values.copy()
    spoilt[unread] = np.nan
    agrees(matrix, Multifrontal(pattern, spoilt))


def test_new_values_on_a_pattern():
    """The fronts are laid out once; a second set of values on the pattern is factored as correctly as the first."""
    first, second = scattered(300, 0.02, 5), scattered(300, 0.02, 5)
    second.data = second.data * np.where(second.tocoo().row == second.tocoo().col, 2.0, -0.5)
    pattern, values = taken_apart(first)
    early = Multifrontal(pattern, values)
    plan = pattern.elimination
    late = Multifrontal(pattern, second.data)
    assert pattern.elimination is plan
    agrees(first, early)
    agrees(second, late)


@pytest.mark.parametrize("columns", [0, 1, 2, 17])
def test_right_hand_sides(columns):
    """Several at once give what each gives alone, up to rounding, and are left as they were."""
    matrix = MATRICES["grid"]
    factor = Multifrontal(*taken_apart(matrix))
    b = np.random.default_rng(3).standard_normal((matrix.shape[0], columns))
    before = b.copy()
    together = factor.solve(b)
    assert together.shape == b.shape
    assert np.array_equal(b, before)
    for k in range(columns):
        expected = np.linalg.solve(matrix.toarray(), b[:, k])
        assert np.abs(together[:, k] - expected).max() <= 1e-11 * np.abs(expected).max()


def test_same_numbers_every_time():
    """Two factorisations of one matrix, each with a layout of its own, give the same bits."""
    b = np.random.default_rng(4).standard_normal((MATRICES["grid"].shape[0], 2))
    answers = [Multifrontal(*taken_apart(MATRICES["grid"])).solve(b) for _ in range(2)]
    assert np.array_equal(*answers)


def test_only_for_definite_systems():
    """SparseLU with this backend says which solver to choose; unknown backends are listed with it."""
    pattern, values = taken_apart(MATRICES["grid"])
    matrix = SparseMatrix(pattern, torch.from_numpy(values))
    with pytest.raises(CnfError, match="SparseCholesky"):
        SparseLU("multifrontal").factor(matrix)
    with pytest.raises(CnfError, match="multifrontal"):
        SparseCholesky("none").factor(matrix, symmetric=True)
