"""Every test starts from the same random numbers, and finds float64 points and spaces ready."""

from __future__ import annotations

import gc
import signal

import numpy as np
import pytest
import torch
from torch import Tensor

import cnf

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script: Ctrl-C could not be tested
    signal.signal(signal.SIGINT, signal.default_int_handler)
gc.disable()  # until all tests are known: what is imported stays, and to look through it again and again takes seconds
torch.set_num_threads(1)  # the systems here are small: threads would only get into each other's way


def pytest_collection_finish() -> None:
    """From here on memory is freed as usual, in what the tests make."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def seeded():
    """The same random numbers whichever tests run, and in whatever order."""
    torch.manual_seed(0)
    np.random.seed(0)
    assert torch.get_default_dtype() == torch.float32  # the library must not need, nor change, torch's default


@pytest.fixture
def plane() -> cnf.Space:
    """One channel u over x, y."""
    return cnf.Space("x y", "u")


@pytest.fixture
def points() -> Tensor:
    """Twelve points in the unit square, no two close."""
    return cnf.Box((0, 0), (1, 1)).halton(12, seed=3)
