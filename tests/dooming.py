"""Work whose workers are killed; apart from the tests, so that workers load nothing but this."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cnf.execution import Processes


@dataclass(frozen=True)
class Doomed:
    """Work that ends its process by SIGKILL so many seconds after the first time it begins a piece of these."""

    work: Callable[[Any], Any]
    moments: dict[str, float]
    folder: Path

    def __call__(self, piece: Any) -> Any:
        name = name_piece(piece)
        first = not self.begun(name)
        (self.folder / f"{name}.{os.getpid()}.{time.monotonic_ns()}").touch()
        if first and name in self.moments:
            threading.Timer(self.moments[name], os.kill, (os.getpid(), signal.SIGKILL)).start()
        return self.work(piece)

    def begun(self, name: str = "*") -> int:
        """How often a piece was, or all of them."""
        return len(list(self.folder.glob(f"{name}.*")))


def name_piece(piece: Any) -> str:
    """Of a sweep, of a cloud in parts, or a number."""
    if isinstance(piece, dict):
        return str(piece["parameters"]["k"])
    return str(getattr(piece, "number", piece))


class Killing(Processes):
    """Two workers, who end when they do some pieces."""

    def __init__(self, folder: Path, moments: dict[str, float]) -> None:
        super().__init__(2, tries=len(moments) + 1)  # a piece may be at work when others end its worker
        folder.mkdir()
        self.doom = Doomed(len, moments, folder)

    def run(self, work: Callable[[Any], Any], pieces: Iterable[Any]) -> Generator[tuple[int, Any]]:
        return super().run(replace(self.doom, work=work), pieces)


def draw_moments(seed: int, kills: int, pieces: range, longest: float) -> dict[str, float]:
    """Which pieces end their worker, and how many seconds after they begin."""
    drawn = random.Random(seed)
    return {str(k): drawn.uniform(0.0, longest) for k in sorted(drawn.sample(pieces, kills))}


def take_a_while(piece: int) -> int:
    """Work of a twentieth of a second."""
    time.sleep(0.05)
    return piece**2
