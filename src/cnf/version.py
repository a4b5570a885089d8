"""The version of the installed package, looked up when somebody asks."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("constrained-neural-fields")
except PackageNotFoundError:  # run from a source tree that was not installed
    __version__ = "0+unknown"
