"""Arrays in one file that NumPy reads: always the same bytes for the same arrays."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cnf.files import write_atomically


def write_arrays(path: object, arrays: Mapping[str, np.ndarray]) -> Path:
    """As `np.savez_compressed`, which fails for arrays called `file`, and whole or not at all."""
    return write_atomically(path, lambda file: _write(file, arrays))


def _write(file: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.ascontiguousarray(values), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content.getvalue())
