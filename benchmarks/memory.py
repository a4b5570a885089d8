"""Memory: assembling 4096 Laplacian rows with a 512-feature encoder, with and without a backward pass.

python -m benchmarks.memory
"""

from __future__ import annotations

import torch

from benchmarks.speed import assembled, problem
from benchmarks.timing import peak_memory


def main() -> None:
    torch.zeros(1)
    idle = peak_memory()
    field = problem(4096)
    with torch.no_grad():
        assembled(field)
    forward = peak_memory()
    matrix = assembled(field)
    matrix.sum().backward()
    backward = peak_memory()
    print("peak resident memory, M = N = 4096 (the matrix itself is 0.134 GB; all pairs of features would be 69 GB)")
    print(f"  before                     {idle:.2f} GB")
    print(f"  assembled                  {forward:.2f} GB  (asked: under 2)")
    print(f"  assembled with backward    {backward:.2f} GB")


if __name__ == "__main__":
    main()
