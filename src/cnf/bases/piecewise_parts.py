"""What a `Piecewise` basis is given, checked; and its cells as tables, as they are saved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from cnf.bases.basis import Basis
from cnf.bases.cells import Cells
from cnf.bases.corner_functions import CornerFunctions
from cnf.bases.cover import Cover
from cnf.bases.edge_functions import EdgeFunctions
from cnf.bases.partition import Partition
from cnf.constraints import Space
from cnf.errors import BasisError


def tables(cells: Cells | Cover) -> dict[str, object]:
    """Cells and, for a cover, the patches of each, the frames (patches, 2 D) and the regions, as they are saved."""
    if isinstance(cells, Cells):
        return {"cells": torch.from_numpy(cells.table())}
    frames = np.concatenate([cells.lower, cells.upper], axis=1)
    return {
        "cells": torch.from_numpy(cells.cells.table()),
        "patch": torch.from_numpy(cells.patch),
        "frames": torch.from_numpy(frames),
        "regions": None if cells.partition is None else cells.partition.shapes,
    }


def from_tables(
    cells: Tensor,
    patch: Tensor | None,
    frames: Tensor | None,
    regions: Sequence | None,
    dimension: int,
    timed: bool,
) -> Cells | Cover:
    tree = Cells.from_table(cells.detach().to(torch.float64).cpu().numpy(), dimension)
    if patch is None or frames is None:
        return tree
    ends = frames.detach().to(torch.float64).cpu().numpy()
    if ends.ndim != 2 or ends.shape[1] != 2 * dimension or patch.is_floating_point():
        raise BasisError(f"frames are saved as (patches, {2 * dimension}) and patches as whole numbers")
    partition = None if regions is None else Partition(regions, dimension - timed)
    return Cover(tree, patch.cpu().numpy(), ends[:, :dimension], ends[:, dimension:], partition)


def checked_corners(
    given: Sequence[int] | np.ndarray | Tensor | None,
    corners: Sequence[CornerFunctions | EdgeFunctions],
    patches: int,
    channels: int,
    dimension: int,
) -> np.ndarray:
    if given is None:
        return np.full(patches, -1)
    found = given.cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
    whole = found.shape == (patches,) and np.issubdtype(found.dtype, np.integer)
    if not whole or (found < -1).any() or (found >= len(corners)).any():
        raise BasisError(f"`at_corner` names one of {len(corners)} corners or -1 for each of the {patches} patches")
    kind = CornerFunctions if dimension == 2 else EdgeFunctions
    if corners and (dimension > 3 or any(not isinstance(c, kind) or c.channels != channels for c in corners)):
        raise BasisError(
            f"functions of corners are for two coordinates, those of edges for three; both need profiles for all "
            f"{channels} channels"
        )
    return found.astype(np.int64)


def checked_degrees(
    given: Sequence[Sequence[int]] | None, degree: tuple[int, ...], channels: int
) -> tuple[tuple[int, ...], ...] | None:
    if given is None:
        return None
    found = tuple(tuple(degrees) for degrees in given)
    whole = all(isinstance(p, int) and p >= 0 for degrees in found for p in degrees)
    if not whole or len(found) != channels or any(len(degrees) != len(degree) for degrees in found):
        raise BasisError(f"`channel_degrees` has a degree per coordinate for each of the {channels} channels")
    return found


def checked_local(given: Basis | None, space: Space, channel_degrees: object) -> Basis | None:
    if given is None:
        return None
    if not isinstance(given, Basis) or given.dimension != len(space.coordinates) or not given.shared:
        raise BasisError(f"`local` is a basis of {len(space.coordinates)} coordinates that all channels share")
    if channel_degrees is not None:
        raise BasisError("chosen functions are for channels of the same order; leave `channel_degrees` or `local` out")
    return given
