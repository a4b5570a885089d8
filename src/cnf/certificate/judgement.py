"""Judgement: what is done about a certificate that misses its tolerance."""

from __future__ import annotations

import warnings

from cnf.certificate.certificate import Certificate
from cnf.errors import ViolationError, ViolationWarning


def judge(certificate: Certificate, on_violation: str) -> None:
    """Raise or warn if the tolerance is missed or cannot be measured; neither is ever silent.

    A sample that holds passes: it claims nothing.
    """
    if certificate.violated:
        name, residual = max(certificate.residuals.items(), key=lambda pair: _severity(pair[1].relative))
        missed = (
            f"constraint {name!r} is missed by {residual.absolute:.1e} (relative {residual.relative:.1e}, tolerance "
            f"{certificate.tolerance:.0e})"
        )
    elif certificate.unmeasured:
        missed = f"constraint {next(iter(certificate.unmeasured))!r} could not be measured"
    else:
        return
    if on_violation == "raise":
        raise ViolationError(f"{missed}: {certificate.advice()}", certificate)
    warnings.warn(f"{missed}; see solution.certificate for the reason", ViolationWarning, stacklevel=5)


def _severity(relative: float) -> float:
    """NaN before everything."""
    return relative if relative == relative else float("inf")
