"""Mutations: one guarded line per contract is broken in a copy of the source, and the tests that guard it must fail.

python -m benchmarks.mutations [NAME ...]      about three minutes for all; ends with 1 if one of them survives
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Mutation:
    """`old` stands once in the file; `tests` are arguments of pytest."""

    contract: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


TRUST, FIELD, SOLVERS = "tests/test_trust.py", "tests/test_field.py", "tests/solvers/test_contract.py"
MUTATIONS = (
    Mutation(
        "rounding of the field is part of its residual",
        "src/cnf/certificate/measuring.py",
        ".maximum(rounding.to(torch.float64))",
        "",
        (f"{TRUST}::test_rounding_of_huge_weights_is_counted",),
    ),
    Mutation(
        "points are also measured on their own",
        "src/cnf/certificate/measuring.py",
        "off[p] = off[p].maximum(single.abs())",
        "del single",
        (f"{TRUST}::test_points_that_depend_on_each_other_are_not_exact",),
    ),
    Mutation(
        "a sample is not called exact",
        "src/cnf/certificate/certificate.py",
        "return self.complete and not self.violated",
        "return not self.violated",
        (f"{TRUST}::test_a_certificate_of_a_training_step_says_it_is_sampled",),
    ),
    Mutation(
        "a solution keeps its values",
        "src/cnf/systems/holding.py",
        "return self._keep(tensor, tensor.clone())",
        "return self._keep(tensor, tensor)",
        (f"{TRUST}::test_a_solution_keeps_what_it_was_solved_with",),
    ),
    Mutation(
        "the remembered solution follows every change",
        "src/cnf/field.py",
        "if self._cache is None or self._cache[0] != key:",
        "if self._cache is None:",
        (f"{TRUST}::test_every_change_is_seen",),
    ),
    Mutation(
        "channels share a matrix only if it is the same",
        "src/cnf/systems/layout.py",
        "terms = tuple((t.coefficient, t.derivatives, t.place)",
        "terms = tuple((t.derivatives, t.place)",
        (FIELD, "-k", "channels"),
    ),
    Mutation(
        "what nobody can vouch for is unmeasured",
        "src/cnf/systems/quadrature.py",
        "        if why:\n",
        "        if not why:\n",
        ("tests/test_integrals.py::test_what_is_not_known_is_unmeasured_until_it_says_how_fast_it_varies",),
    ),
    Mutation(
        "gradients of a solve are the adjoint's",
        "src/cnf/solvers/adjoint.py",
        "part = a.neg().index_select(0, rows)",
        "part = a.index_select(0, rows)",
        (SOLVERS, "-k", "compressed"),
    ),
    Mutation(
        "small systems are refined in terms of what was asked",
        "src/cnf/solvers/patches.py",
        "return x * columns[:, :, None], worst",
        "return x, worst",
        (SOLVERS, "-k", "many_small"),
    ),
    Mutation(
        "weights from a file are used, not solved for again",
        "src/cnf/field.py",
        "if saved is None:",
        "if True:",
        ("tests/test_storage.py::test_nothing_is_solved_until_something_changes",),
    ),
    Mutation(
        "files ask for no more memory than they hold",
        "src/cnf/storage/conditions.py",
        "if numbers > LARGEST + TIMES * points.numel():",
        "if numbers < 0:",
        ("tests/test_storage.py::test_sizes_are_refused_before_memory_is_asked_for",),
    ),
    Mutation(
        "results of other settings are not taken over",
        "studies/keeping.py",
        'elif kept["settings"] != wanted:',
        "elif False:",
        ("tests/studies/test_contract.py::test_other_settings_are_refused",),
    ),
)


def is_killed(mutation: Mutation) -> bool:
    """True if the tests pass on the source as it is and fail on the mutated one."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        for name in ("src", "studies", "tests", "benchmarks", "examples", "docs", "README.md", "pyproject.toml"):
            source = ROOT / name
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            (shutil.copytree(source, copy / name, ignore=ignored) if source.is_dir() else shutil.copy(source, copy))
        passes = _run(copy, mutation.tests)
        target = copy / mutation.file
        text = target.read_text()
        if text.count(mutation.old) != 1:
            raise SystemExit(
                f"{mutation.file} has {text.count(mutation.old)} places like {mutation.old!r}; expected one"
            )
        target.write_text(text.replace(mutation.old, mutation.new))
        return passes and not _run(copy, mutation.tests)


def _run(folder: Path, tests: tuple[str, ...]) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    paths = {"PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}", "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, env={**os.environ, **paths}, capture_output=True).returncode == 0


def main() -> int:
    wanted = sys.argv[1:]
    chosen = [m for m in MUTATIONS if not wanted or any(word in m.contract for word in wanted)]
    survived = 0
    for mutation in chosen:
        killed = is_killed(mutation)
        survived += not killed
        print(f"{'killed' if killed else 'SURVIVED':<9} {mutation.contract} ({mutation.file})", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} killed")
    return 1 if survived else 0


if __name__ == "__main__":
    raise SystemExit(main())
