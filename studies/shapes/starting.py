"""Shapes, methods of other packages: which there are, and one of them on one cloud, in an interpreter that has them."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cnf.errors import CnfError
from cnf.execution.processes import THREADS
from cnf.meshes.mesh import Mesh
from studies.shapes import peers
from studies.shapes.methods import Made

PEERS = tuple(peers.PEERS)
SCRIPT = str(Path(peers.__file__).resolve())


@functools.cache
def list_peers(interpreter: Path | None) -> list[str]:
    """What an interpreter can run; an interpreter that cannot be started is an error, a missing package is not."""
    if interpreter is None:
        return peers.find_peers()
    try:
        done = subprocess.run(
            [str(interpreter), SCRIPT, "--list"], capture_output=True, text=True, timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = getattr(error, "strerror", None) or "it does not answer"
        raise CnfError(f"--peers-python {interpreter} cannot be started: {reason}; give a Python with numpy") from None
    if done.returncode != 0:
        reason = last_line(done.stderr) or f"exit code {done.returncode}"
        raise CnfError(f"--peers-python {interpreter} cannot run the other methods: {reason}; give a Python with numpy")
    return done.stdout.split()


def say_missing(names: Sequence[str], interpreter: Path | None) -> list[str]:
    """A line per package that is not there, with the methods that need it."""
    where = "that interpreter" if interpreter is not None else "this one"
    lines = []
    for package in dict.fromkeys(peers.PEERS[name][0] for name in names if name in PEERS):
        own = ", ".join(name for name in names if name in PEERS and peers.PEERS[name][0] == package)
        advice = "name an interpreter that has it: --peers-python PATH"
        lines.append(f"left out: {own}: {package} is not in {where}; {advice}")
    return lines


def run_peer(
    method: str, points: np.ndarray, normals: np.ndarray | None, resolution: int, threads: int, interpreter: Path | None
) -> Made:
    """One method on one cloud, which estimates normals itself if there are none.

    Its process ends with this one, whose end closes its standard input.
    """
    with tempfile.TemporaryDirectory(prefix="cnf-study-") as folder:
        given, made = Path(folder) / "cloud.npz", Path(folder) / "mesh.npz"
        arrays: dict[str, Any] = {"points": points} | ({} if normals is None else {"normals": normals})
        np.savez(given, **arrays)
        command = [str(interpreter or sys.executable), SCRIPT, method, str(given), str(made)]
        command += ["--threads", str(threads), "--resolution", str(resolution)]
        environment = {**os.environ, **dict.fromkeys(THREADS, str(threads))}
        with subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            errors = process.stderr.read()
            code = process.wait()
        if code != 0:
            raise CnfError(f"ended by signal {-code}" if code < 0 else last_line(errors) or f"exit code {code}")
        try:
            with np.load(made, allow_pickle=False) as content:
                mesh, report = Mesh(content["vertices"], content["faces"]), json.loads(str(content["report"]))
        except (OSError, ValueError, KeyError, CnfError) as error:
            raise CnfError(f"no mesh to measure ({last_line(str(error))})") from None
    return Made(mesh, str(report.pop("setting", "")), report)


def last_line(text: str) -> str:
    """What an error ends with."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
