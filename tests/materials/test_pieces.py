"""Queries in pieces: the same numbers on any number of threads, and torch's own setting as it was."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from cnf.materials.fitting.pieces import ALIKE, evaluate_in_pieces, one_thread

POINTS = torch.rand(1000, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("allowed", [1, 2, 3])
def test_pieces_come_back_in_order(allowed: int):
    """2 x + 1 of a thousand points and of none, 128 at a time."""
    torch.set_num_threads(allowed)
    assert torch.equal(evaluate_in_pieces(lambda x: 2 * x + 1, POINTS, 128), 2 * POINTS + 1)
    assert evaluate_in_pieces(lambda x: 2 * x + 1, POINTS[:0], 128).shape == (0, 3)


def test_as_many_threads_as_torch_may_use_and_one_for_each_piece():
    """Two pieces wait for each other, so both are at work at once; within them torch has one thread, after it two."""
    torch.set_num_threads(2)
    both, seen = threading.Barrier(2, timeout=30), []

    def evaluate(x: Tensor) -> Tensor:
        both.wait()
        seen.append((threading.get_ident(), torch.get_num_threads(), torch.is_grad_enabled()))
        return x

    evaluate_in_pieces(evaluate, POINTS[:256], 128)
    assert len({who for who, *_ in seen}) == 2
    assert {(threads, grad) for _, threads, grad in seen} == {(1, False)}
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(("allowed", "several"), [(1, True), (2, False)])
def test_one_thread_if_no_more_are_allowed_or_safe(allowed: int, several: bool):
    """All pieces in the caller's own thread, each with one thread of torch, without gradients."""
    torch.set_num_threads(allowed)
    seen = set()

    def evaluate(x: Tensor) -> Tensor:
        seen.add((threading.get_ident(), torch.get_num_threads(), torch.is_grad_enabled()))
        return x

    evaluate_in_pieces(evaluate, POINTS, 128, several)
    assert seen == {(threading.get_ident(), 1, False)} and torch.get_num_threads() == allowed


def test_an_error_comes_through_and_leaves_the_setting():
    """Of a piece in a thread: the same error, and torch may use two threads as before."""
    torch.set_num_threads(2)

    def fail(x: Tensor) -> Tensor:
        raise ZeroDivisionError("no")

    with pytest.raises(ZeroDivisionError):
        evaluate_in_pieces(fail, POINTS, 128)
    assert torch.get_num_threads() == 2
    with one_thread() as allowed:
        assert (allowed, torch.get_num_threads()) == (2, 1)


def test_pieces_have_whole_blocks_of_rows():
    """1000 points, 256 at a time: 232 are left, for which 256 are evaluated; and 64 for a single one."""
    counts = []

    def evaluate(x: Tensor) -> Tensor:
        counts.append(len(x))
        return x

    torch.set_num_threads(1)
    assert torch.equal(evaluate_in_pieces(evaluate, POINTS, 256), POINTS)
    assert torch.equal(evaluate_in_pieces(evaluate, POINTS[:1], 256), POINTS[:1])
    assert counts == [256, 256, 256, 256, ALIKE]


def test_no_coarser_precision_from_outside():
    """In a region of autocast a product of matrices would have three digits, and in threads it would not."""
    matrix = POINTS[:3].float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = evaluate_in_pieces(lambda x: x @ matrix, POINTS.float(), 128)
    assert found.dtype == torch.float32
    assert (found - POINTS.float() @ matrix).abs().max() <= 1e-6
