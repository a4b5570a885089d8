"""Threads: one for each piece of work, instead of several for every operation.

Threads that share every operation, as those of torch and of BLAS do, wait for one another thousands of times a second,
and for whoever else is at work on the machine: there, many small operations take up to twenty times as long as on one
thread. Threads that each do a piece from end to end wait once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock, local
from typing import Any, TypeVar

import torch
from threadpoolctl import ThreadpoolController

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_allowed: ContextVar[int | None] = ContextVar("allowed", default=None)  # threads there were before the block around


@contextmanager
def one_thread() -> Iterator[int]:
    """Let torch use a single thread for each operation; gives how many it was allowed before any such block."""
    outer = _allowed.get()
    allowed = torch.get_num_threads() if outer is None else outer
    if outer is not None or allowed == 1:
        yield allowed
        return
    token = _allowed.set(allowed)
    torch.set_num_threads(1)
    try:
        yield allowed
    finally:
        torch.set_num_threads(allowed)
        _allowed.reset(token)


class _BlasLimit:
    """One thread for BLAS, whose setting is the whole process's: what it was before the first block is restored.

    Each thread restores it when its outermost block ends, for the setting of another thread may be ignored: the library
    that sets it lets one thread do so at a time.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._own = Lock(), 0, local()
        self._first: Any = None

    def __enter__(self) -> None:
        self._own.depth = getattr(self._own, "depth", 0) + 1
        if self._own.depth > 1:
            return
        with self._lock:
            limiter = ThreadpoolController().limit(limits=1, user_api="blas")
            if self._inside == 0:
                self._first = limiter
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        self._own.depth -= 1
        if self._own.depth:
            return
        with self._lock:
            self._inside -= 1
            self._first.restore_original_limits()


_blas = _BlasLimit()


@contextmanager
def one_thread_each() -> Iterator[int]:
    """The same for torch and for the BLAS of NumPy and SciPy."""
    with one_thread() as allowed, _blas:
        yield allowed


def map_pieces(work: Callable[[Piece], Result], pieces: Sequence[Piece], threads: int) -> list[Result]:
    """work(piece) for each, in their order, on so many threads; operations within a piece are not shared."""
    if threads == 1 or len(pieces) < 2:
        return [work(piece) for piece in pieces]
    # Inside `one_thread`, for what a thread sets is also the default of threads to come, and is restored there.
    with one_thread(), ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return list(pool.map(work, pieces))
