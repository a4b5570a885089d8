"""fit: train what is learnable in a field, its conditions met at every step; or a plain network, without conditions.

Each step solves the field, takes the loss of the solution and updates the parameters. The state at the start of a step
is all there is to a run (parameters, optimiser, schedule, torch's random state, history), so runs can be stopped
anywhere and go on bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from cnf.files import as_path, check_writable
from cnf.training.checkpoint import plain
from cnf.training.evaluation import Losses, name_terms
from cnf.training.history import History
from cnf.training.progress import show_progress
from cnf.training.run import Patience, Run
from cnf.training.schedules import make_rates
from cnf.training.settings import Callback, MakeOptimizer, check_settings, choose_parameters, make_optimizer


def fit(
    field: nn.Module,
    loss: Losses,
    steps: int = 500,
    lr: float | None = None,
    *,
    optimizer: str | MakeOptimizer = "adam",
    parameters: Iterable[Tensor] | None = None,
    seed: int = 0,
    progress: bool = True,
    patience: int | None = None,
    min_improvement: float = 1e-6,
    target: float | None = None,
    clip: float | None = None,
    schedule: object = None,
    precision: torch.dtype | None = None,
    log_every: int | None = None,
    log_condition_every: int | None = 10,
    checkpoint: object = None,
    checkpoint_every: int = 100,
    resume: bool = False,
    callbacks: Callback | Sequence[Callback] = (),
    keep: str = "best",
) -> History:
    """Train the field's parameters (or those given) to lower the loss; returns the history of the run.

    `loss`: loss(solution) -> scalar, a term of `cnf.losses`, a list of these, or {name: term}; they are added.
    `optimizer`: "adam" (lr 1e-2 unless said), "lbfgs" (strong Wolfe line search, one iteration per step, lr 1), or a
    callable from a list of parameters to a torch optimizer. `schedule`: "cosine", "linear" (the rate falls to zero),
    one of `cnf.training.schedules` such as cosine(last=0.01, warm_up=0.05), a callable from the fraction of the run to
    a factor of the rate, or a callable from the optimizer to a torch scheduler. `precision`: losses see the networks of
    the basis in torch.float32, say; the conditions keep the precision of the field. `clip`: longest gradient.
    `seed` decides which points the terms draw at which step. `patience`: stop after so many steps without a loss lower
    by `min_improvement` of its size; `target`: stop at that loss. `callbacks`: callback(step, solution, history),
    before the update; True to stop. `log_every`: a line of progress every so many steps; None: about ten in all.
    `checkpoint`: a file written every `checkpoint_every` steps and at the end; `resume=True` goes on from it, `steps`
    counting from the very beginning. `keep`: "best" leaves the field with the parameters of the lowest loss seen at a
    step that met the tolerance (with points drawn at random the luckiest step counts as best: "last" may serve better
    there), "last" with the last ones.
    Ctrl-C stops in good order.

    Steps measure a sample of the conditions (`solution.spot_check`; `solution.certificate` measures all); when the run
    is over, all conditions of the field that is kept are measured, and a warning says so if they miss the tolerance.

    `field` may be any torch module without conditions (a soft baseline): loss(network) -> scalar, callbacks see the
    network, and there is no residual.

    >>> space = cnf.Space("x", "u")
    >>> ends = space.constraint("u = 0", at=[[0.0], [1.0]])
    >>> network = cnf.encoders.MLP(1, 1, hidden=8, seed=0).double()
    >>> field = cnf.ConstrainedField(cnf.bases.RandomFourier(space, 8), [ends], base=network)
    >>> middle = cnf.losses.Regression([[0.5]], 1.0)
    >>> history = cnf.fit(field, middle, steps=30, lr=0.05, progress=False)
    >>> history.loss[-1] < history.loss[0], field.solve().certificate.exact
    (True, True)
    """
    check_settings(
        field=field,
        steps=steps,
        lr=lr,
        patience=patience,
        min_improvement=min_improvement,
        target=target,
        clip=clip,
        optimizer=optimizer,
        seed=seed,
        log_condition_every=log_condition_every,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        resume=resume,
        keep=keep,
        schedule=schedule,
        precision=precision,
        log_every=log_every,
    )
    terms = name_terms(loss)
    names, trained = choose_parameters(field, parameters)
    path = None if checkpoint is None else as_path(checkpoint)
    made = make_optimizer(optimizer, trained, lr)
    rates = make_rates(schedule, made, steps)
    if path is not None:
        check_writable(path)
        plain(made.state_dict())
        plain(rates.state(), "schedule")
    run = Run(
        model=field,
        terms=terms,
        names=names,
        trained=trained,
        optimizer=made,
        rates=rates,
        steps=steps,
        seed=seed,
        patience=Patience(patience, min_improvement),
        target=target,
        clip=clip,
        precision=precision,
        condition_every=log_condition_every or 0,
        path=path,
        checkpoint_every=checkpoint_every,
        callbacks=(callbacks,) if callable(callbacks) else tuple(callbacks),
        keep=keep,
    )
    notice = ""
    if path is not None and path.exists():
        if resume:
            notice = run.resume(path, None if callable(optimizer) else lr)
        else:
            notice = f"{path} will be overwritten (resume=True would go on from it)"
    elif resume:
        notice = f"there is no checkpoint {path} yet; starting from the beginning"
    run.show = show_progress(steps, min(len(run.history), steps), progress, log_every)
    if notice:
        run.show.say(notice)
    return run.go()
