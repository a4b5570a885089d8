"""Report: an answer as tables, pictures, data files and one page."""

from cnf.pde.report.folder import write_answer

__all__ = ["write_answer"]
