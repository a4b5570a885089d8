"""Executors: the same results wherever the pieces are done, and what happens to pieces that cannot be."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cnf.errors import CnfError, ConstraintError
from cnf.execution import Dask, Executor, Failed, Here, Processes, Shared, opened, use
from cnf.execution.sharing import LARGE


@dataclass(frozen=True)
class Table:
    """Something with a large and a small array, and what holds them."""

    large: np.ndarray
    small: np.ndarray
    named: dict[str, np.ndarray]


@dataclass(frozen=True)
class SumOfRows:
    """Work that looks something up in what is shared."""

    table: Shared[Table]

    def __call__(self, row: int) -> tuple[float, int, bool]:
        table = self.table.open()
        found = table.large[row].sum() + table.small[0] + table.named["again"][row].sum()
        return float(found), os.getpid(), isinstance(table.large, np.memmap)


@dataclass(frozen=True)
class Fragile:
    """Work that ends its process the first time it is given a piece below `lost`, and always below `gone`."""

    folder: Path
    lost: int
    gone: int = 0

    def __call__(self, piece: int) -> int:
        mark = self.folder / f"{piece}.seen"
        first = not mark.exists()
        mark.write_text(mark.read_text() + "x" if not first else "x")
        if piece < self.gone or (first and piece < self.lost):
            os.kill(os.getpid(), signal.SIGKILL)
        return piece**2


def refuse(piece: int) -> int:
    if piece == 1:
        raise ConstraintError("one is not wanted\ntake another")
    return piece


def sleep(piece: float) -> float:
    time.sleep(piece)
    return piece


@pytest.fixture(scope="module")
def two() -> Iterator[Processes]:
    with Processes(2) as executor:
        yield executor


@pytest.fixture(scope="module")
def cluster() -> Iterator[Dask]:
    with Dask(2) as executor:
        yield executor


def collect(executor: Executor, work: object, pieces: object) -> list[object]:
    """Results in the order of the pieces."""
    found = dict(executor.run(work, pieces))  # type: ignore[arg-type]
    assert sorted(found) == list(range(len(found)))
    return [found[number] for number in sorted(found)]


@pytest.mark.slow
def test_results_do_not_depend_on_the_executor(two: Processes, cluster: Dask):
    """Row sums of a shared table: bit by bit those of NumPy, here and in two others, which map the large arrays."""
    large = np.random.default_rng(0).normal(size=(40, LARGE // 8))
    table = Table(large, np.array([2.0]), {"again": large})
    wanted = [float(2 * 0 + large[k].sum() + 2.0 + large[k].sum()) for k in range(40)]
    for executor, others in ((Here(), 0), (two, 2), (cluster, 2)):
        found = collect(executor, SumOfRows(executor.share(table)), range(40))
        assert [total for total, _, _ in found] == wanted
        pids = {pid for _, pid, _ in found}
        assert (pids == {os.getpid()}) == (others == 0) and len(pids) == max(others, 1)
        assert all(mapped == bool(others) for _, _, mapped in found)
    for executor in (two, cluster):  # the array that is in two places is in one file
        assert len(list(executor._folders[-1].path.iterdir())) == 1


@pytest.mark.slow
def test_a_lost_piece_is_done_again(two: Processes, cluster: Dask, tmp_path: Path):
    """Workers killed at the first try of pieces 0 and 1: all squares come, these two were begun twice, others once.

    Dask may lose a finished result with its worker, and does that again, too.
    """
    for executor, name in ((two, "processes"), (cluster, "dask")):
        folder = tmp_path / name
        folder.mkdir()
        assert collect(executor, Fragile(folder, lost=2), range(6)) == [0, 1, 4, 9, 16, 25]
        tries = [len((folder / f"{k}.seen").read_text()) for k in range(6)]
        assert tries == [2, 2, 1, 1, 1, 1] or (executor is cluster and min(tries[:2]) >= 2 and max(tries) <= 3)


@pytest.mark.slow
def test_a_piece_that_always_ends_its_worker_is_given_up(two: Processes, cluster: Dask, tmp_path: Path):
    """After three tries there is a reason instead of a result; the others are not touched by it."""
    found = collect(two, Fragile(tmp_path, lost=0, gone=1), range(3))
    assert isinstance(found[0], Failed) and found[0].reason == "its process ended by signal 9"
    assert found[1:] == [1, 4] and (tmp_path / "0.seen").read_text() == "xxx"
    with pytest.raises(CnfError, match="its process ended by signal 9"):
        found[0].raise_error()
    (tmp_path / "0.seen").unlink()
    (found,) = collect(cluster, Fragile(tmp_path, lost=0, gone=1), [0])
    assert isinstance(found, Failed) and "KilledWorker" in found.reason
    assert (tmp_path / "0.seen").read_text() == "xxx"


@pytest.mark.slow
def test_errors_are_those_of_the_work(two: Processes, cluster: Dask):
    """An error raised by a piece has its class and message wherever it was raised, and others go on."""
    for executor in (Here(), two, cluster):
        found = collect(executor, refuse, [0, 1, 2])
        assert (found[0], found[2]) == (0, 2) and found[1].reason == "one is not wanted"
        with pytest.raises(ConstraintError, match="take another"):
            found[1].raise_error()


@pytest.mark.slow
def test_pieces_that_take_too_long_are_stopped():
    """Of 0 and 60 seconds, with a second for each: one result and one reason."""
    with Processes(1, timeout=1.0) as executor:
        found = collect(executor, sleep, [0.0, 60.0])
    assert found[0] == 0.0 and found[1].reason == "stopped after 1 s"


@pytest.mark.slow
def test_pieces_are_taken_as_they_are_needed_and_nothing_stays(tmp_path: Path):
    """No more pieces are made than workers can do; on leaving, workers have ended and shared files are gone."""
    made: list[int] = []

    def pieces() -> Iterator[float]:
        for k in range(10):
            made.append(k)
            yield 0.0

    executor = Processes(2)
    with executor:
        executor.share(np.zeros(LARGE))
        folders = [folder.path for folder in executor._folders]
        running = executor.run(sleep, pieces())
        next(running)
        assert len(made) <= 2
        workers = [*executor._idle]
        running.close()
    assert not any(worker.process.is_alive() for worker in workers)
    assert folders and not any(folder.exists() for folder in folders)


@pytest.mark.slow
def test_schedulers_that_are_there_and_not_there(cluster: Dask, tmp_path: Path):
    """One joined by its address does the work and goes on when we leave; one that is not there is told in a line."""
    cluster.client.wait_for_workers(2, timeout=60)  # one may still be starting again, killed by another test
    with Dask(cluster.client.scheduler.address, folder=tmp_path) as joined:
        assert joined.workers == 2 and collect(joined, refuse, [0, 2]) == [0, 2]
        joined.share(np.zeros(LARGE))
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())
    assert collect(cluster, refuse, [3]) == [3]
    with pytest.raises(CnfError, match=r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:1'"):
        Dask("tcp://127.0.0.1:1", timeout=1)


def test_numbers_of_workers():
    """From 1 to 256, whole."""
    for wrong in (0, 257, 1.5, True):
        with pytest.raises(CnfError, match="workers are 1 to 256"):
            Processes(wrong)  # type: ignore[arg-type]


def test_what_is_shared_here_is_the_value_itself():
    """No copy is made."""
    table = Table(np.zeros(3), np.zeros(1), {})
    assert Here().share(table).open() is table


def test_one_worker_is_that_in_use_and_what_is_given_goes_on():
    """`opened(1)` inside of `use` is what is used there, outside it is this process; neither is ended by it."""

    class Told(Here):
        ended = False

        def close(self) -> None:
            self.ended = True

    executor = Told()
    with opened(1) as alone:
        assert type(alone) is Here
    with use(executor), opened(1) as inner:
        assert inner is executor
    with opened(executor) as given:
        assert given is executor
    assert not executor.ended
    with opened(2) as started:
        assert isinstance(started, Processes)
