"""Arrays by name, in one file that processes map into their memory: what one worker leaves for the next.

A file is written beside its place and moved there when it is whole: of a worker that is lost nothing is ever read. It
begins with the length of a header in JSON, name to place, shape and type; there is nothing in it that could be run.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cnf.errors import FileError

ALIGNED = 64  # bytes


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """As they lie in memory: one whose columns are contiguous comes back so."""
    header, at = {}, 0
    for name, array in arrays.items():
        header[name] = [at, array.shape, array.dtype.str, _by_columns(array)]
        at += -(-array.nbytes // ALIGNED) * ALIGNED
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % ALIGNED)
    unfinished = path.with_name(f".{secrets.token_hex(8)}.{path.name}")  # processes of two machines may have one number
    try:
        with open(unfinished, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for array in arrays.values():
                file.write((array.T if _by_columns(array) else np.ascontiguousarray(array)).reshape(-1).data)
                file.write(b"\0" * (-array.nbytes % ALIGNED))
        os.replace(unfinished, path)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from None


def _by_columns(array: np.ndarray) -> bool:
    return array.flags.f_contiguous and not array.flags.c_contiguous


def map_arrays(path: Path) -> dict[str, np.ndarray]:
    """Views of the file, which may be removed meanwhile; what is written into them stays in this process.

    LAPACK does write into factors that it only reads, and puts back what was there.
    """
    whole = np.memmap(path, np.uint8, mode="c")
    length = int.from_bytes(whole[:8].tobytes(), "little")
    header, start = json.loads(whole[8 : 8 + length].tobytes()), 8 + length
    return {
        name: np.ndarray(shape, kind, whole.data, start + at, order="F" if by_columns else "C")
        for name, (at, shape, kind, by_columns) in header.items()
    }
