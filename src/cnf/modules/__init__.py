"""Modules: solved fields as plain torch modules, which leave the library."""

from cnf.modules.checking import check_module
from cnf.modules.field_module import FieldModule
from cnf.modules.making import module_of

__all__ = ["FieldModule", "check_module", "module_of"]
