"""Assembly: operators applied to all basis functions at all points, in pieces of bounded size.

A[r, j] = L_r[Psi_j](x_r). Rows are grouped by constraint, then operator row, then point. When gradients are needed and
the matrix is large, pieces are recomputed in the backward pass instead of keeping their intermediate matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from cnf.bases.basis import Basis, Evaluator
from cnf.constraints import Constraint
from cnf.operators.expansion import Probe, Request, combine, wanted
from cnf.operators.forward import MultiIndex, derivatives
from cnf.solvers.sparse_matrix import SparseMatrix
from cnf.systems.layout import BlockLayout, Copy

PIECE = 2**22  # matrix entries evaluated at once: 32 MB in float64
NODES = 2**16  # points at which a network is evaluated at once
KEEP = 2**23  # entries of a constraint's rows above which pieces are recomputed rather than kept for backward

FieldFunction = Callable[[Tensor], Tensor]
Piece = Callable[[Tensor, Sequence[Request]], Tensor]  # points (P, D), requests -> (P, ...)


@dataclass(frozen=True)
class Block:
    """One linear system: matrix (m, n), targets (m, k), one column per copy of its layout."""

    layout: BlockLayout
    matrix: Tensor | SparseMatrix
    targets: Tensor

    @property
    def dense(self) -> Tensor:
        """The matrix written out, for what has no sparse form."""
        return self.matrix.to_dense() if isinstance(self.matrix, SparseMatrix) else self.matrix


def assemble_matrices(
    evaluator: Evaluator, basis: Basis, constraints: Sequence[Constraint], layout: Sequence[BlockLayout]
) -> list[Tensor]:
    """The matrix of every block."""
    needed = {(i, r, c) for block in layout for i, r in block.first.rows for c in block.first.channels}
    cells: dict[tuple[int, int, int], Tensor] = {}  # (constraint, row, channel) -> (P, N)
    for i, constraint in enumerate(constraints):
        wanted_here = {(r, c) for j, r, c in needed if j == i}
        for (r, c), value in evaluated(evaluator, basis.size, constraint.expanded(), wanted_here):
            cells[i, r, c] = cells[i, r, c] + value if (i, r, c) in cells else value
    return [_stacked(cells, constraints, block.first, basis) for block in layout]


def evaluated(evaluator: Evaluator, size: int, probes: Sequence[Probe], wanted_here: set[tuple[int, int]]):
    """Yield ((row, channel), matrix (P, N)) for the wanted parts of every probe."""
    for probe in probes:
        kept = [k for k, r in enumerate(probe.rows) if (r, probe.requests[k].channel) in wanted_here]
        if not kept:
            continue
        requests = [probe.requests[k] for k in kept]
        found = in_pieces(evaluator, probe.points, requests, probe.nodes, size)  # (P, K, N)
        for j, k in enumerate(kept):
            yield (probe.rows[k], probe.requests[k].channel), found[:, j]


def in_pieces(evaluator: Evaluator, points: Tensor, requests: Sequence[Request], nodes: int, size: int) -> Tensor:
    """evaluator.rows summed over the quadrature nodes, (P, K, N), never more than PIECE entries at once."""
    count = points.shape[0] // nodes
    entries = len(requests) * max(size, 1)  # of one node
    at_once = getattr(evaluator, "points_at_once", None)
    if at_once is not None:  # pieces within recomputed pieces would keep what both of them drop
        entries = max(entries, -(-PIECE // at_once))
    if count * nodes * entries <= PIECE:
        return _piece(evaluator, points, requests, nodes)
    remember = count * nodes * entries <= KEEP or not torch.is_grad_enabled()

    def piece(start: int, stop: int, nodes: int) -> Tensor:
        rows = slice(start, stop)
        given = (evaluator, points[rows], [request.at(rows) for request in requests], nodes)
        return _piece(*given) if remember else checkpoint(_piece, *given, use_reentrant=False)

    step = PIECE // (nodes * entries)
    if step:
        return torch.cat([piece(k * nodes, min(k + step, count) * nodes, nodes) for k in range(0, count, step)])
    some = max(1, PIECE // entries)  # the nodes of one condition are too many: their sum is added up in parts
    parts = []
    for k in range(0, count * nodes, nodes):
        sums = [piece(j, min(j + some, k + nodes), min(some, k + nodes - j)) for j in range(k, k + nodes, some)]
        parts.append(sum(sums[1:], sums[0]))
    return torch.cat(parts)


def _piece(evaluator: Evaluator, points: Tensor, requests: Sequence[Request], nodes: int) -> Tensor:
    found = evaluator.rows(points, requests)
    return found if nodes == 1 else found.reshape(-1, nodes, *found.shape[1:]).sum(dim=1)


def _stacked(
    cells: dict[tuple[int, int, int], Tensor], constraints: Sequence[Constraint], copy: Copy, basis: Basis
) -> Tensor:
    rows = []
    for i, r in copy.rows:
        count = constraints[i].points.shape[0]
        if basis.joint:
            present = [cells[i, r, c] for c in copy.channels if (i, r, c) in cells]
            row = sum(present[1:], present[0])
            rows.append(row[:, joint_columns(basis, copy, row.device)] if copy.groups else row)
        else:
            like = next(cells[i, r, c] for c in copy.channels if (i, r, c) in cells)
            zero = like.new_zeros(count, basis.size)
            parts = [cells.get((i, r, c), zero) for c in copy.channels]
            rows.append(parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))
    return rows[0] if len(rows) == 1 else torch.cat(rows)


def joint_columns(basis: Basis, copy: Copy, device: torch.device | None = None) -> Tensor:
    """Indices of the functions of a joint basis that belong to a copy."""
    starts, total = {}, 0
    for i, constraint in enumerate(basis.sources):
        for r in range(len(constraint.operator.rows)):
            starts[i, r] = (total, total + constraint.points.shape[0])
            total += constraint.points.shape[0]
    if not copy.groups:
        return torch.arange(basis.size, device=device)
    return torch.cat([torch.arange(*starts[group], device=device) for group in copy.groups])


def derived(function: FieldFunction, points: Tensor, indices: Sequence[MultiIndex]) -> dict[MultiIndex, Tensor]:
    """Derivatives (P, C); a field knows its own, anything else is differentiated by forward mode."""
    own = getattr(function, "derivatives", None)
    return derivatives(function, points, indices) if own is None else own(points, indices)


def applied(function: FieldFunction, probes: Sequence[Probe], shape: tuple[int, ...] | torch.Size) -> Tensor:
    """An operator applied to any function of points (P, D) -> (P, C), by forward mode: (P, R)."""

    def piece(points: Tensor, requests: Sequence[Request]) -> Tensor:
        found = derived(function, points, wanted(requests))
        return combine({a: v[:, None, :] for a, v in found.items()}, requests)[:, :, 0]

    # The nodes of integrals are many, and a network keeps much for each.
    parts = ((probe, sum_in_pieces(piece, probe, NODES, NODES)) for probe in probes)
    return add_rows(parts, shape, probes[0].points.new_zeros(()))


def sum_in_pieces(piece: Piece, probe: Probe, step: int, keep: int) -> Tensor:
    """`piece` (P', ...) of stretches of `step` points, summed over the nodes: (P, ...).

    With gradients, what more than `keep` points leave behind is worked out again in the backward pass.
    """
    count = probe.points.shape[0]
    again = torch.is_grad_enabled() and count > keep
    parts = []
    for start in range(0, max(1, count), step):
        rows = slice(start, start + step)
        given = (probe.points[rows], [r.at(rows) for r in probe.requests])
        parts.append(checkpoint(piece, *given, use_reentrant=False) if again else piece(*given))
    found = parts[0] if len(parts) == 1 else torch.cat(parts)
    return found if probe.nodes == 1 else found.unflatten(0, (-1, probe.nodes)).sum(dim=1)


def add_rows(parts: Iterable[tuple[Probe, Tensor]], shape: tuple[int, ...] | torch.Size, like: Tensor) -> Tensor:
    """What was found of every probe, (P, ..., K), added up by the rows of the operator: (P, ..., R); (P, R) = `shape`.

    `like` (...) has the dimensions between, the precision and the device.
    """
    found: dict[int, Tensor] = {}
    for probe, columns in parts:
        for k, r in enumerate(probe.rows):
            found[r] = found[r] + columns[..., k] if r in found else columns[..., k]
    zero = like.new_zeros(shape[0], *like.shape)
    return torch.stack([found.get(r, zero) for r in range(shape[1])], dim=-1)
