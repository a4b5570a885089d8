"""The loop: losses, `fit`, its history, its progress display and its checkpoints."""

from cnf.training.fit import fit
from cnf.training.history import History
from cnf.training.pretrain import pretrain

__all__ = ["History", "fit", "pretrain"]
