"""Hard surfaces, the cases: by name, what is drawn from which form, and what the methods are told."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from studies.hard_surfaces import forms
from studies.shapes.collection import STUDY_SHAPES, read_shape
from studies.shapes.measures import sample_oriented

FEW = (300, 1000)  # points of a whole model
MANY = 10_000
RATIO, DRAWN = 10.0, 3  # of the densities of the two halves; points drawn for one that is kept


@dataclass(frozen=True)
class Hard:
    """A case: the group it belongs to, its points, and where they come from."""

    group: str
    count: int
    model: str = ""  # of the collection; without one the form is made here
    form: Callable[[int, int], forms.Sampled] | None = None
    uneven: bool = False
    normals: bool = True  # whether the methods are given them

    def draw(self, folder: Path | None, seed: int) -> forms.Sampled:
        """The truth, and points on it with their true normals."""
        wanted = DRAWN * self.count if self.uneven else self.count
        if self.form is not None:
            drawn = self.form(wanted, seed)
        else:
            assert folder is not None
            truth = read_shape(self.model, folder)
            drawn = forms.Sampled(truth, *sample_oriented(truth, wanted, seed))
        return forms.keep_unevenly(drawn, self.count, RATIO, seed) if self.uneven else drawn


GROUPS = {  # name -> what is hard
    "few": "few points",
    "uneven": "one half sampled ten times as densely as the other",
    "thin": "a slab of 1.5 spacings",
    "near": "two spheres half a spacing apart",
    "no-normals": "thin parts, no normals given",
    "open": "surfaces with a rim",
}
CASES: dict[str, Hard] = {
    **{f"{model}-{count}": Hard("few", count, model) for count in FEW for model in STUDY_SHAPES},
    "uneven-spot": Hard("uneven", MANY, "spot", uneven=True),
    "uneven-torus": Hard("uneven", MANY, form=forms.make_torus, uneven=True),
    "slab": Hard("thin", MANY, form=forms.make_slab),
    "near-spheres": Hard("near", MANY, form=forms.make_near_spheres),
    "homer-no-normals": Hard("no-normals", MANY, "homer", normals=False),
    "cup-no-normals": Hard("no-normals", MANY, form=forms.make_cup, normals=False),
    "fins-no-normals": Hard("no-normals", MANY, form=forms.make_fins, normals=False),
    "hemisphere": Hard("open", MANY, form=partial(forms.make_open_sphere, forms.OPENING)),
    "sphere-with-hole": Hard("open", MANY, form=partial(forms.make_open_sphere, math.pi - forms.HOLE)),
}
MADE = tuple(name for name, case in CASES.items() if not case.model)  # those that need no data
