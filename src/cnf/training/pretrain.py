"""Pre-training: make a basis well conditioned before it is asked to fit anything."""

from __future__ import annotations

from cnf.field import ConstrainedField
from cnf.training.fit import fit
from cnf.training.history import History
from cnf.training.losses import Condition, Loss


def pretrain(
    field: ConstrainedField, steps: int = 200, lr: float = 1e-2, loss: Loss | None = None, **settings: object
) -> History:
    """Train the basis for conditioning alone: log condition number, or `loss=cnf.losses.Independence()`.

    Only the parameters of the basis move; values play no part, so the result serves any data at these points
    (`field.update`, `field.transfer`). Further settings go to `cnf.fit`.

    >>> space = cnf.Space("x", "u")
    >>> points = torch.linspace(0, 1, 6, dtype=torch.float64)[:, None]
    >>> field = cnf.ConstrainedField(cnf.bases.SkewedRBF(space, points, 0.5), [space.constraint("u = 1", at=points)])
    >>> history = cnf.pretrain(field, steps=5, loss=cnf.losses.Independence(), progress=False)
    >>> history.loss[-1] < history.loss[0]
    True
    """
    learned = [p for p in field.basis.parameters() if p.requires_grad]
    return fit(field, loss if loss is not None else Condition(), steps, lr, parameters=learned, **settings)  # type: ignore[arg-type]
