"""Exporting: solved fields and meshes as files of other programs."""

from typing import TYPE_CHECKING

from cnf.late import from_modules, late_names

if TYPE_CHECKING:
    from cnf.exporting.models import write_model
    from cnf.exporting.samples import write_sample

__getattr__, __dir__ = late_names(
    __name__, from_modules({"cnf.exporting.models": "write_model", "cnf.exporting.samples": "write_sample"})
)

__all__ = ["write_model", "write_sample"]
