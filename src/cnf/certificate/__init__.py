"""The proof: what a field misses, measured on the field itself, as plain data."""

from cnf.certificate.certificate import Certificate, Residual
from cnf.certificate.convergence import Convergence
from cnf.certificate.findings import Conflict
from cnf.certificate.judgement import judge
from cnf.certificate.measuring import certify, estimate_worst

__all__ = ["Certificate", "Conflict", "Convergence", "Residual", "certify", "estimate_worst", "judge"]
