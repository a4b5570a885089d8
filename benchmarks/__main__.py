"""All benchmarks, one after the other: python -m benchmarks (about an hour; each can be run on its own)."""

from __future__ import annotations

import subprocess
import sys

NAMES = (
    "speed",
    "measuring",
    "memory",
    "hypernet",
    "light_path",
    "advection",
    "transfer",
    "conditioning",
    "pde",
    "sparse",
    "patches",
    "shaped_patches",
    "space_patches",
    "time_patches",
    "regions",
    "layered",
    "stokes_patches",
    "space_patches",
    "time_patches",
    "local_bases",
    "materials",
    "sweep",
)


def main() -> int:
    worst = 0
    for name in NAMES:
        print(f"\n== python -m benchmarks.{name}", flush=True)
        worst = max(worst, subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode)
    return worst


if __name__ == "__main__":
    raise SystemExit(main())
