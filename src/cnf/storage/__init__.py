"""Storage: fields and networks as files of plain data, and back; nothing is pickled.

    expressions.py   coefficients as trees
    describing.py    parts -> plain data
    conditions.py    plain data -> constraints
    building.py      plain data -> parts, with sizes that the file bears out
    fields.py        the file of a field: description, parameters, solved weights
    networks.py      the file of a network alone
    earlier.py       files of version 1, brought up to date

The archive itself, written whole and read with care, is `cnf.files`.
"""

from cnf.storage.fields import Given, read_field, write_field
from cnf.storage.networks import build_network, describe_network

__all__ = ["Given", "build_network", "describe_network", "read_field", "write_field"]
