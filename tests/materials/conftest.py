"""Where the optional data are, and random pairs of directions."""

from __future__ import annotations

import math
import os
import pathlib

import pytest
import torch
from torch import Tensor

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="session")
def brdf_folder() -> pathlib.Path:
    """The folder of measured and fitted materials; tests that need it are skipped where it is absent."""
    folder = (ROOT / os.environ.get("CNF_DATA", "../shared/data")).resolve() / "brdf"
    if not folder.is_dir():
        pytest.skip(f"no data in {folder}; set CNF_DATA")
    return folder


@pytest.fixture
def pairs() -> Tensor:
    """Half and difference angles (2000, 3) float64, uniform, phi_d over a whole turn; some are below the horizon."""
    draws = torch.rand(2000, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return draws * torch.tensor([math.pi / 2, math.pi / 2, 2 * math.pi], dtype=torch.float64)
