"""Modules: solved fields as plain torch modules, which leave the library."""

from cnf.modules.casting import Difference, judge_difference, measure_difference
from cnf.modules.checking import check_module
from cnf.modules.field_module import FieldModule
from cnf.modules.making import module_of

__all__ = ["Difference", "FieldModule", "check_module", "judge_difference", "measure_difference", "module_of"]
