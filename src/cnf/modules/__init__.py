"""Modules: solved fields as plain torch modules, which leave the library."""

from cnf.modules.field_module import FieldModule
from cnf.modules.making import module_of

__all__ = ["FieldModule", "module_of"]
