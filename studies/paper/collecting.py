"""Collecting: finished cases, wherever a study kept them, become the rows that the repository keeps.

A case file says itself which study it is of and with which settings it was run, so a folder needs no explanation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cnf.errors import CnfError
from studies.keeping import compare, read_kept
from studies.paper.jobs import JOBS, Job
from studies.paper.records import FACTS, Records, merge_records, read_records, settle_settings, write_records
from studies.study import Row


def collect_folder(folder: Path, rows: Path, jobs: Sequence[Job] = JOBS) -> list[Job]:
    """Take over every finished case in a study's folder; returns the jobs that have new rows."""
    changed = []
    for job in jobs:
        found = gather_kept(job, folder)
        if found is not None and choose_job(job.study_name, found.settings) is job:
            keep_records(job, found, rows)
            changed.append(job)
    if not changed:
        raise CnfError(
            f"{folder} has no finished case of {', '.join(job.name for job in jobs)}; give the --out folder of a "
            "study, the one that has cases/ in it"
        )
    return changed


def choose_job(study: str, settings: Mapping[str, Any]) -> Job:
    """Which job of a study rows belong to: the one of their size, else the first."""
    jobs = [job for job in JOBS if job.study_name == study]
    return next((job for job in jobs if job.is_full(settings)), jobs[0])


def gather_kept(job: Job, folder: Path) -> Records | None:
    """The finished cases of a job in a folder; None if there are none."""
    kept = [k for _, k in read_kept(job.study_name, folder) if "failed" not in k["row"]]
    if not kept:
        return None
    settings = [settle_settings(k["settings"]) for k in kept]
    if other := next((s for s in settings if s != settings[0]), None):
        raise CnfError(f"{folder} has cases of {job.name} with different settings ({compare(settings[0], other)})")
    rows: list[Row] = [{**k["case"], **k["row"]} for k in kept]
    machines: list[dict[str, Any]] = []
    for k in kept:
        facts = k.get("machine")
        if not isinstance(facts, dict) or any(type(facts.get(name)) is not kind for name, kind in FACTS.items()):
            continue  # of an earlier version, which did not say where it was run
        if (plain := {name: facts[name] for name in FACTS}) not in machines:
            machines.append(plain)
    return Records(job.name, settings[0], _ordered(job, rows), machines)


def keep_records(job: Job, found: Records, rows: Path, anew: bool = False) -> Records:
    """Write records beside those that are there; rows of other settings are refused, for one of them would be lost.

    `anew`: those that are there are replaced, for everything was run.
    """
    study, there = job.study(), read_records(job.study(), rows, job.name)
    if there is not None and there.settings != found.settings and not anew:
        raise CnfError(
            f"{rows / job.name}.csv has rows of other settings ({compare(there.settings, found.settings)}); remove the "
            "file first if they are to be replaced"
        )
    merged = found if anew else merge_records(there, found, study.key)
    write_records(Records(job.name, merged.settings, _ordered(job, merged.rows), merged.machines), study, rows)
    return merged


def _ordered(job: Job, rows: list[Row]) -> list[Row]:
    """In the order in which the study has its cases, as far as it can be asked; others after them."""
    try:
        study = job.make()
        places = {tuple(case[name] for name in study.key): k for k, case in enumerate(study.cases())}
    except (CnfError, TypeError):
        return rows
    return sorted(rows, key=lambda row: places.get(tuple(row[name] for name in study.key), len(places)))
