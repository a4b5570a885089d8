"""Kills: workers, parents and schedulers that end by SIGKILL, at moments that are drawn; what was done is not lost."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cnf
from cnf.execution.sharing import PREFIX, SharedFolder, remove_abandoned
from cnf.shapes.clouds.cloud import PointCloud
from cnf.shapes.reconstruction.reconstruct import reconstruct
from tests.dooming import Killing, draw_moments, take_a_while
from tests.shapes.known_clouds import torus

PROBLEM = r"""coordinates = "x"
[parameters]
k = 1
[domain]
type = "interval"
from = 0
to = 1
[[equations]]
on = "interior"
equation = "-u'' + k u = 1"
[[equations]]
on = "boundary"
equation = 'u = 0'
[points]
count = 12
"""


def test_ten_workers_killed_at_random_moments(tmp_path: Path):
    """Thirty squares on two workers, ten of which end theirs while they are at it or soon after: all thirty come.

    Begun again is only what a worker was at when it was killed.
    """
    moments = draw_moments(7, 10, range(30), 0.06)
    with Killing(tmp_path / "marks", moments) as executor:
        assert dict(executor.run(take_a_while, range(30))) == {k: k**2 for k in range(30)}
    assert 30 < executor.doom.begun() <= 30 + 10
    workers = {mark.name.split(".")[1] for mark in (tmp_path / "marks").iterdir()}
    assert len(workers) >= 10  # the last kills may come when all is done


@pytest.mark.slow
def test_a_sweep_is_the_same_if_workers_are_killed(tmp_path: Path):
    """Six problems on two workers, two of whom are ended: rows and fields are those of this process, bit by bit."""
    path = tmp_path / "problem.toml"
    path.write_text(PROBLEM)
    wanted = cnf.sweep(path, {"k": "1:6:6"})
    with Killing(tmp_path / "marks", draw_moments(1, 2, range(1, 7), 0.06)) as executor:
        found = cnf.sweep(path, {"k": "1:6:6"}, out=tmp_path / "out", workers=executor)
    x = torch.linspace(0, 1, 9, dtype=torch.float64)[:, None]
    for one, other in zip(wanted.rows, found.rows, strict=True):
        assert one.found is not None and other.found is not None and other.good
        assert {k: v for k, v in one.found.items() if "seconds" not in k} == {
            k: v for k, v in other.found.items() if "seconds" not in k
        }
        assert torch.equal(one.load()(x), other.load()(x))
    assert executor.doom.begun() <= 6 + 2


@pytest.mark.slow
def test_a_surface_is_the_same_if_workers_are_killed(tmp_path: Path):
    """A torus in parts, one of which ends its worker: the mesh is that of this process, bit by bit."""
    cloud = PointCloud(*torus(2500))
    wanted = reconstruct(cloud, part=1000)
    with Killing(tmp_path / "marks", draw_moments(3, 1, range(4), 0.5)) as executor:
        found = reconstruct(cloud, part=1000, workers=executor)
    assert np.array_equal(wanted.mesh.vertices, found.mesh.vertices)
    assert np.array_equal(wanted.mesh.faces, found.mesh.faces)
    assert len(wanted.surface.parts) == 4 and executor.doom.begun() >= 4 + 1


PARENT = """
import os, sys, time
import numpy as np
from cnf.execution import Processes

def wait(piece):
    print(os.getpid(), flush=True)
    time.sleep(600)

if __name__ == "__main__":
    with Processes(2) as executor:
        shared = executor.share(np.zeros(1 << 16))
        print(executor._folders[0].path, flush=True)
        for _ in executor.run(wait, range(2)):
            pass
"""


@pytest.mark.slow
def test_workers_end_with_their_parent_and_take_shared_files_with_them(tmp_path: Path):
    """The parent ends by SIGKILL while two workers sleep for ten minutes: seconds later all of it is gone."""
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        folder, *pids = (parent.stdout.readline().strip() for _ in range(3))
        assert Path(folder).is_dir() and all(is_there(int(pid)) for pid in pids)
        parent.kill()
    wait_until(lambda: not any(is_there(int(pid)) for pid in pids) and not Path(folder).exists(), 20)


def test_shared_files_of_ended_processes_are_removed(tmp_path: Path):
    """A folder that nobody holds goes as the next one is made there; those that are held, or are not ours, stay."""
    left = tmp_path / f"{PREFIX}abandoned"
    left.mkdir()
    (left / "0.npy").touch()
    foreign = tmp_path / "cnf-shared-"
    foreign.mkdir()
    held = SharedFolder.begin(tmp_path)
    assert not left.exists() and held.path.is_dir() and foreign.is_dir()
    remove_abandoned(tmp_path)
    assert held.path.is_dir()
    held.remove()
    assert list(tmp_path.iterdir()) == [foreign]


@contextmanager
def dask_cluster() -> Iterator[tuple[str, subprocess.Popen]]:
    """A scheduler and a worker in processes of their own: its address, and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard", "--host", address]
    with subprocess.Popen(command, **quiet) as scheduler:  # type: ignore[call-overload]
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny"]
        with subprocess.Popen([*command, "--no-dashboard", "--death-timeout", "60"], **quiet) as worker:  # type: ignore[call-overload]
            try:
                yield address, scheduler
            finally:
                scheduler.kill()
                worker.kill()


@pytest.mark.slow
def test_a_killed_scheduler_loses_nothing_that_was_finished(tmp_path: Path):
    """SIGKILL after the second of six answers: the others are told as lost, and the next run, here, does only them."""
    path, out = tmp_path / "problem.toml", tmp_path / "out"
    path.write_text(PROBLEM)
    done: list[str] = []
    with dask_cluster() as (address, scheduler):

        def tell(row: Any) -> None:
            done.append(row.folder.name)
            if len(done) == 2:
                scheduler.kill()

        found = cnf.sweep(path, {"k": "1:6:6"}, out=out, workers=address, report=tell)
    kept = [not row.lost for row in found.rows]
    assert 2 <= sum(kept) < 6 and not found.complete
    assert all(row.lost == ("does not answer any more" in row.reason) for row in found.rows)
    again = cnf.sweep(path, {"k": "1:6:6"}, out=out)
    assert [row.repeated for row in again.rows] == kept and all(row.good for row in again.rows)


def is_there(pid: int) -> bool:
    """Whether a process goes on; one that ended and waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(what: Callable[[], bool], seconds: float) -> None:
    ends = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < ends, "it did not come about"
        time.sleep(0.05)
