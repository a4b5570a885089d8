"""Verdict: what is said of the field that a run leaves behind.

Steps measure a sample of the conditions. That is enough to steer by, and not enough to call a field exact: when the run
is over, every condition is measured on the field that is kept.
"""

from __future__ import annotations

import math
import warnings

import torch

from cnf.errors import CnfError, ViolationWarning
from cnf.field import ConstrainedField
from cnf.training.evaluation import WarnOnce
from cnf.training.history import History


def pronounce(field: ConstrainedField, history: History, keep: str, once: WarnOnce) -> None:
    """Measure the field that is kept, note it in the history, and warn once if anything misses the tolerance.

    `once` holds back what the solves of the run have warned of already.
    """
    try:
        with once(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ViolationWarning)  # said below, once
            certificate = field.certificate
    except (CnfError, torch.linalg.LinAlgError):
        if history.stopped != "interrupted":
            raise
        return  # stopped before the first look at these parameters: the next solve will say it
    held = history.best_exact
    history.kept_residual = certificate.worst
    if keep == "best":
        history.best_exact = certificate.exact
    lowest = min(history.loss, default=math.inf)
    if certificate.violated:
        found = f"after training, the constraints are missed by {certificate.worst:.1e} (relative), more than the "
        found += f"tolerance {certificate.tolerance:.0e}"
        if held and keep == "best":
            found += f"; at step {history.best_step} the sample of them that steps measure did hold"
        message = f"{found}; print(field.certificate) says where and why"
    elif keep == "best" and certificate.exact and history.best_loss > lowest:
        step = history.loss.index(lowest)
        message = (
            f"the lowest loss, {lowest:.4g} at step {step}, missed the constraints by {history.residual[step]:.1e} "
            f"(tolerance {certificate.tolerance:.0e}); kept is the lowest that met them, {history.best_loss:.4g} at "
            f"step {history.best_step}. To allow more, give the field a larger tolerance; to stay away from ill "
            "conditioned systems, add cnf.losses.Condition"
        )
    else:
        return
    warnings.warn(message, ViolationWarning, stacklevel=4)
