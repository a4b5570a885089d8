"""Files, reading triangle strips, as PLY files of older scanners and glTF have them.

In come vertex numbers in a row; out go triangles. Every vertex of a strip makes a triangle with the two before it,
every other one turned around, so that all look to the same side.
"""

from __future__ import annotations

import numpy as np

END = -1  # ends a strip within a list


def cut_strips(corners: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Triangles (F, 3) of strips: lists of `counts` vertex numbers (L,) all in a row (sum of counts,), cut at `END`.

    A vertex that is repeated, as strips do to turn a corner, makes no triangle.
    """
    strip = np.asarray(corners).astype(np.int64)
    place = np.arange(len(strip))
    starts = np.zeros(len(strip) + 1, dtype=bool)
    starts[np.cumsum(counts) - counts] = True  # a list begins a strip, and so does what follows an end
    starts[1:] |= strip == END
    began = np.maximum.accumulate(np.where(starts[:-1], place, 0))  # where the strip of every place starts
    found = np.stack([strip[:-2], strip[1:-1], strip[2:]], axis=1)  # (n - 2, 3)
    turned = (place[2:] - began[2:]) % 2 == 1
    found[turned] = found[turned][:, [1, 0, 2]]
    a, b, c = found.T
    whole = (began[2:] <= place[:-2]) & (found != END).all(axis=1)
    return found[whole & (a != b) & (b != c) & (c != a)]
