"""Threads: settings are as they were after every block, and results do not depend on how many threads there are."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from cnf.shapes.reconstruction.reconstruct import reconstruct
from cnf.threads import map_pieces, one_thread_each


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with threadpool_limits(2, "blas"):
        yield
    torch.set_num_threads(before)


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_blocks_that_overlap_restore_blas():
    """Two threads, whose blocks begin and end one after the other, and one within: 1 inside, 2 once all have ended."""
    assert blas_threads() == {2}
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with one_thread_each():
            entered.set()
            leave.wait(30)

    thread = threading.Thread(target=other)
    with one_thread_each() as allowed:
        assert allowed == 2 and blas_threads() == {1}
        with one_thread_each() as inner:
            assert inner == 2
        assert blas_threads() == {1}
        thread.start()
        entered.wait(30)
    leave.set()
    thread.join()
    assert blas_threads() == {2}


def test_threads_to_come_have_their_own_setting():
    """After a pool whose threads had one each, a new thread has two, as this one."""
    assert map_pieces(lambda k: k * k, range(5), 2) == [0, 1, 4, 9, 16]
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert seen == [2] and torch.get_num_threads() == 2


def test_meshes_do_not_depend_on_threads():
    """An open sphere, closed by the winding number, whose sums a tree shortens: the same mesh, bit by bit."""
    random = np.random.default_rng(0)
    points = random.normal(size=(3000, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points = points[points[:, 2] < 0.6]
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        found.append(reconstruct(points, points, resolution=64).mesh)
    np.testing.assert_array_equal(found[0].vertices, found[1].vertices)
    np.testing.assert_array_equal(found[0].faces, found[1].faces)
