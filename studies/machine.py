"""Machine: what measured numbers depend on besides the code: processor, cores, threads, versions; no dates."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def describe_machine(threads: int = 1) -> dict[str, Any]:
    """Plain facts of this machine, and the threads that a case has."""
    return {
        "processor": name_processor(),
        "cores": os.cpu_count() or 1,
        "threads": threads,
        "python": platform.python_version(),
        "torch": find_version("torch"),
        "cnf": find_version("constrained-neural-fields"),
    }


def name_processor() -> str:
    """The model that the system names, else the kind of machine."""
    info = Path("/proc/cpuinfo")
    found = re.findall(r"^model name\s*:\s*(.+)$", info.read_text(), re.M) if info.is_file() else []
    return found[0].strip() if found else platform.processor() or platform.machine()


def find_version(package: str) -> str:
    """Of an installed package, without what is said of its build."""
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return "unknown"


def say_machine(facts: dict[str, Any]) -> str:
    """One line about it."""
    cores = f"{facts['cores']} core{'s' * (facts['cores'] != 1)}"
    threads = f"{facts['threads']} thread{'s' * (facts['threads'] != 1)} per case"
    return f"{facts['processor']}, {cores}, {threads}; torch {facts['torch']}, cnf {facts['cnf']}"
