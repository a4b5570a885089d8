"""Exporting: solved fields and meshes as files of other programs."""

from cnf.exporting.models import write_model
from cnf.exporting.samples import write_sample

__all__ = ["write_model", "write_sample"]
