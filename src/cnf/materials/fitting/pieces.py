"""Materials, pieces: a long query evaluated a few directions at a time, on as many threads as torch may use.

In: a function of directions, and many of them. Out: its values. One thread evaluates one piece from end to end. Threads
that share every operation of it, as torch's own do, wait for one another hundreds of times per piece, and for whoever
else is at work on the machine; and the last digit of a product depends on how many share it. Here it does not: pieces
are cut alike, and a piece is evaluated alike, whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from cnf.bases.precision import without_autocast
from cnf.threads import map_pieces, one_thread

ALIKE = 64  # rows of a piece are a multiple: products round the rows at their end in another way than all others


def evaluate_in_pieces(evaluate: Callable[[Tensor], Tensor], points: Tensor, rows: int, several: bool = True) -> Tensor:
    """evaluate(points), `rows` of them at a time, without gradients; `several`: it serves several threads at once."""

    def run(piece: Tensor) -> Tensor:  # gradients and autocast are matters of each thread
        with torch.no_grad(), without_autocast(piece.device):
            missing = -len(piece) % ALIKE
            if not missing or not len(piece):
                return evaluate(piece)
            return evaluate(torch.cat([piece, piece[-1:].expand(missing, -1)]))[: len(piece)]

    pieces = points.detach().split(rows)
    with one_thread() as allowed:
        threads = min(allowed, len(pieces)) if several and points.device.type == "cpu" else 1
        found = map_pieces(run, pieces, threads)
        return found[0] if len(found) == 1 else torch.cat(found)
