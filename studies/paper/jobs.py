"""Jobs: which studies, with which options, give the paper's tables and figures.

A job is a study at the paper's size and, for a look, at a small one. `size` are the settings that make rows those of
the paper's experiment; rows of other settings are shown, and said to be of another size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from cnf.errors import CnfError, nearest
from studies.options import find_data
from studies.study import Study

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """A study with its options; its folder below --out and its rows are called by its name."""

    name: str
    kind: str  # the part of the key that decides how long a case takes
    full: Options = field(default_factory=dict)
    quick: Options | None = field(default_factory=dict)  # None: no part of a look
    size: Options = field(default_factory=dict)  # of settings
    words: str = ""  # the same by hand: `python -m studies NAME` and these
    guess: tuple[float, float] = (60.0, 10.0)  # seconds of a case, full and quick, where nothing was measured yet
    clock: tuple[str, ...] = ("case_seconds", "training_seconds", "seconds")  # columns that say how long a case took
    study_name: str = ""  # that of the job unless several jobs are of one study

    def __post_init__(self) -> None:
        object.__setattr__(self, "study_name", self.study_name or self.name)

    def study(self) -> type[Study]:
        """The class, wherever the studies are listed."""
        from studies.listing import list_studies

        known = {study.name: study for study in list_studies()}
        if self.study_name not in known:
            raise CnfError(f"there is no study called {self.study_name}")
        return known[self.study_name]

    def make(self, quick: bool = False) -> Study:
        """The study, ready to be run; it refuses what cannot be, such as one whose data are not there."""
        kind, options = self.study(), dict((self.quick or {}) if quick else self.full)
        unknown = [name for name in options if name not in {f.name for f in fields(kind)}]  # type: ignore[arg-type]
        if unknown:
            raise CnfError(f"the study {self.study_name} has no option {', '.join(unknown)}; see studies/paper/jobs.py")
        if "env" in options:
            options["env"] = find_data(None, options["env"], f"a folder with {options['env']}") / options["env"]
        return kind(**{name: _settle(value) for name, value in options.items()})

    @property
    def command(self) -> str:
        """How the study is run alone, at the paper's size."""
        return f"python -m studies {self.study_name} {self.words}".rstrip()

    def is_full(self, settings: Mapping[str, Any]) -> bool:
        """Whether rows of these settings are of the paper's size."""
        return all(settings.get(name) == value for name, value in self.size.items())


def _settle(value: Any) -> Any:
    """An option as the study takes it."""
    return list(value) if isinstance(value, tuple) else value


LIGHT = "env/venice_sunset_1k_512x256.npz"  # in the folder of data
MATERIAL_METHODS = (
    *("kernel-grid", "kernel-grid-free"),
    *("nbrdf", "ffn", "siren", "kernel-ffn", "kernel-siren"),
    *("dot-siren", "hypernet", "layer", "hypernet-kernel"),
)
EVERY_MATERIAL = "every-material"  # all there are, at a tenth of the paper's sample visits
EVERY_METHODS = ("kernel-grid", "kernel-grid-free", "nbrdf", "ffn", "siren", "kernel-ffn", "kernel-siren")
EVERY_COUNT = 155  # networks of MERL's 100 materials and of RGL's 51, and four tables of RGL
MATERIAL_SIZE: Options = {
    **{"conditions": 100, "parameters": 200_000, "placement": "paper", "loss": "plain", "precision": "float64"},
    **{"size": 128, "environment": LIGHT.rpartition("/")[2]},
}


JOBS = (
    Job("light-path", kind="study", guess=(3, 3)),
    Job(
        "conditioning",
        kind="basis",
        full={"points": 4096, "parameters": 1.3e6, "steps": 30},
        size={"points": 4096, "parameters": 1.3e6, "steps": 30},
        words="--points 4096 --parameters 1.3e6 --steps 30",
        guess=(900, 5),
    ),
    Job(
        "advection",
        kind="method",
        full={"seeds": 5, "slow_seeds": 1},
        quick={"quick": True},
        size={"side": 32, "steps": 10},
        words="--seeds 5 --slow-seeds 1",
        guess=(40, 4),
    ),
    Job(
        "transfer",
        kind="study",
        quick={"side": 16, "steps": 3, "seeds": 1},
        size={"side": 32, "steps": 10},
        guess=(8, 2),
    ),
    Job("normals", kind="method", quick={"quick": True}, size={"quick": False, "epochs": 50}, guess=(150, 4)),
    Job(
        "shapes",
        kind="method",
        quick={"shapes": ("spot",), "methods": ("cnf", "paper"), "points": 1000, "resolution": 48},
        size={"points": 10_000, "resolution": 160},
        guess=(30, 15),
    ),
    Job(
        "materials",
        kind="method",
        full={"quick": False, "count": 20, "methods": MATERIAL_METHODS, "env": LIGHT},
        quick={
            **{"materials": ("chrome", "blue-fabric"), "methods": MATERIAL_METHODS, "size": 64},
            **{"samples": 40_000, "epochs": 1, "batch": 400},
        },
        size={"samples": 640_000, "epochs": 10, "batch": 5000, **MATERIAL_SIZE},
        words=f"--full --count 20 --env $CNF_DATA/{LIGHT} --methods {','.join(MATERIAL_METHODS)}",
        guess=(200, 12),
    ),
    Job(
        EVERY_MATERIAL,
        kind="method",
        full={"everything": True, "methods": EVERY_METHODS, "env": LIGHT},
        quick=None,
        size={"samples": 160_000, "epochs": 4, "batch": 1000, **MATERIAL_SIZE},
        words=f"--everything --env $CNF_DATA/{LIGHT} --methods {','.join(EVERY_METHODS)} "
        f"--out results/studies/{EVERY_MATERIAL}",
        guess=(20, 20),
        study_name="materials",
    ),
)


def choose_jobs(names: list[str]) -> list[Job]:
    """Those named, in the order of the page; all if there are none."""
    known = {job.name: job for job in JOBS}
    for name in names:
        if name not in known:
            raise CnfError(f"there is no job {name!r}; choose from {', '.join(known)}." + nearest(name, known))
    return [job for job in JOBS if not names or job.name in names]


def find_job(name: str) -> Job:
    """A job by its name."""
    return choose_jobs([name])[0]
