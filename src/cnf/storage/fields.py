"""The file of a field: what it is made of, its parameters, and the weights it was solved to.

A field that was read back has the same values, bit for bit, whatever the number of threads: nothing is solved again.
That its conditions hold is measured anew all the same when it is first used; only rank and condition number, which
would need the systems, are taken from the file.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch import nn

from cnf.bases.basis import Basis
from cnf.errors import CnfError, CnfWarning, FileError, StorageWarning, ViolationError
from cnf.files import read_archive, write_archive
from cnf.storage.building import Builder, build_solver, check_constraints
from cnf.storage.conditions import check_work
from cnf.storage.describing import Describer, describe_solver
from cnf.storage.earlier import renew_field
from cnf.storage.networks import check_state, restore_state
from cnf.systems.formulation import KnownAccount, SavedWeights

KIND, VERSION = "cnf field", 2
LONGEST = 400  # characters of a note in a file
FROM_FILE = "weights read from a file; rank and condition are what it says"


Field = TypeVar("Field", bound=nn.Module)


@dataclass(frozen=True)
class Given:
    """What a file cannot hold and the caller passes again; `networks` and `coefficients` by name."""

    basis: Basis | None = None
    base: nn.Module | None = None
    networks: Mapping[str, nn.Module] = field(default_factory=dict)
    coefficients: Mapping[str, object] = field(default_factory=dict)


# -- writing -----------------------------------------------------------------------------------------------------


def write_field(field: Any, path: object) -> None:
    """The field with its weights, solved for if that has not been done.

    A field that misses its tolerance is saved too, with a warning, whatever `on_violation` says: work is not lost
    because a condition is missed. Whoever loads it is told again. One that cannot be solved is saved without weights.
    """
    for constraint in field.constraints:
        check_work(constraint.operator, constraint.points, CnfError)
    owned = {id(p): name for name, p in field.named_parameters() if name.startswith(("basis.", "base."))}
    describer = Describer(owned)
    description = {
        "basis": describer.described(field.basis, "basis"),
        "base": describer.described(field.base, "base"),
        "constraints": describer.described(field.constraints, "constraints"),
        "numbers": describer.numbers,
        "solver": describe_solver(field.solver),
        "tolerance": field.tolerance,
        "on_violation": field.on_violation,
        "training": field.training,
        "otherwise": [name for name, module in field.named_modules() if module.training != field.training],
        "frozen": [name for name, parameter in field.named_parameters() if not parameter.requires_grad],
    }
    state = {name: value.detach() for name, value in field.state_dict().items()}
    content = {"field": description, "state": state, **_described_weights(field)}
    write_archive(path, KIND, VERSION, content)


def _described_weights(field: Any) -> dict[str, object]:
    try:
        solution = _solution_in_eval_mode(field)
    except CnfError as error:
        reason = str(error).splitlines()[0]
        warnings.warn(
            f"saved without weights, because it cannot be solved as it is ({reason}); the file holds all else",
            StorageWarning,
            stacklevel=4,
        )
        return {"weights": None, "account": None}
    account, certificate = solution.expansion.account, solution.certificate
    known = {
        "solver": account.name,
        "notes": list(account.notes),
        "shared": account.shared,
        "rank": certificate.rank,
        "condition": certificate.condition,
    }
    return {"weights": solution.expansion.state(), "account": known}


def _solution_in_eval_mode(field: Any) -> Any:
    """What the field evaluates to once trained; it is left as it was."""
    modes = [(module, module.training) for module in field.modules()]
    action = field.on_violation
    field.eval()
    try:
        return field.solution
    except ViolationError:
        field.on_violation = "warn"
        return field.solution
    finally:
        field.on_violation = action
        for module, mode in modes:
            module.training = mode


# -- reading -----------------------------------------------------------------------------------------------------


def read_field(path: object, make: Callable[..., Field], given: Given, device: torch.device | None = None) -> Field:
    """The field that `write_field` wrote, made by `make(basis, constraints, base=, solver=, ...)`; on a device."""
    content = read_archive(path, KIND, VERSION)
    try:
        if content["version"] == 1:
            content = renew_field(content)
        return _built_field(content, make, given, device)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else ""
        raise FileError(
            f"{path} does not describe a field this version can rebuild ({type(error).__name__}: {reason:.200})"
        ) from None


def _built_field(content: dict, make: Callable[..., Any], given: Given, device: torch.device | None) -> Any:
    what, state = content["field"], check_state(content["state"])
    networks = {**({"base": given.base} if given.base is not None else {}), **given.networks}
    builder = Builder(state, networks, given.coefficients, given.basis, what["numbers"])
    builder.ask_for_missing([what["basis"] if given.basis is None else None, what["base"], what["constraints"]])
    basis = builder.built(what["basis"], "basis")
    base = builder.built(what["base"], "base")
    if device is not None and base is not None:
        base.cpu()  # where the conditions are read; they move together
    constraints = check_constraints(builder.built(what["constraints"], "constraints"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CnfWarning)  # they were given when the field was made
        field = make(
            basis,
            constraints,
            base=base,
            solver=build_solver(what["solver"]),
            tolerance=what["tolerance"],
            on_violation=what["on_violation"],
        )
    restore_state(field, state)
    # Rules of integrals were found for parts that had parameters of their own: what is restored may vary much faster.
    field.constraints = tuple(constraint.ruled({}) for constraint in field.constraints)
    frozen = set(what["frozen"])
    for name, parameter in field.named_parameters():
        parameter.requires_grad_(name not in frozen)
    saved = _saved_weights(content, field)
    if device is not None:
        field.to(device)
        if saved is not None:
            saved = replace(saved, state={name: t.to(device) for name, t in saved.state.items()})
    if saved is not None:
        field.eval().restore(saved)
    training, otherwise = bool(what["training"]), set(what["otherwise"])
    for name, module in field.named_modules():
        module.training = training != (name in otherwise)
    if saved is not None and not builder.asked:  # nothing in it is known to depend on the mode
        field.restore(saved)
    return field


def _saved_weights(content: dict, field: Any) -> SavedWeights | None:
    if content.get("weights") is None:
        return None
    weights, account = check_state(content["weights"]), content["account"]
    if any(t.dtype != field.dtype for t in weights.values()):
        raise FileError("the weights in the file are of another precision than its field")
    conditions = sum(c.rows for c in field.constraints) + field.basis.brought_conditions
    rank, shared, condition = account["rank"], account["shared"], account["condition"]
    texts = [account["solver"], *account["notes"]]
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (rank, shared))
    if not whole or not 0 <= rank <= conditions or shared < 1 or not isinstance(condition, float):
        raise FileError("what the file says of its systems is damaged")
    if not (math.isnan(condition) or condition >= 0) or not all(isinstance(t, str) for t in texts):
        raise FileError("what the file says of its systems is damaged")
    solver, *notes = (text[:LONGEST] for text in texts)
    known = KnownAccount(solver, tuple(dict.fromkeys([*notes, FROM_FILE])), shared, rank, condition)
    return SavedWeights(weights, known)
