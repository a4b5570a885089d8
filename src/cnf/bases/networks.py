"""Bases made of networks: the last hidden layer of one, or one network per function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from cnf.bases.basis import Basis
from cnf.bases.layers import encode, has_rules, smoothness
from cnf.bases.network_detail import network_detail
from cnf.bases.precision import Recast
from cnf.bases.properties import Properties
from cnf.constraints import Space
from cnf.errors import BasisError
from cnf.operators import jets
from cnf.operators.detail import Detail, Together
from cnf.operators.expansion import Request, combine, wanted
from cnf.operators.forward import derivatives


class ConstraintLayer(Basis):
    """The outputs of a network R^D -> R^N as the basis: its last hidden layer, whose weights the solve replaces.

    >>> network = cnf.encoders.MLP(2, 20, hidden=16, seed=0)
    >>> basis = cnf.bases.ConstraintLayer(cnf.Space("x y", "u"), network)
    >>> basis.size, basis(cnf.Box([0, 0], [1, 1]).random(3)).shape
    (20, torch.Size([3, 20]))
    """

    properties = Properties("poor", "poor", False, False, True, True, "as the network")

    def __init__(self, space: Space, network: nn.Module):
        super().__init__(space)
        _check_module(network, "network")
        self.network = network
        self.smoothness = smoothness(network)
        if self._trial().dim() != 2:
            raise BasisError("the network of a ConstraintLayer must return one row of N values per point, (P, N)")

    @property
    def shared(self) -> bool:
        return True

    def known_detail(self) -> Detail:
        return network_detail(self.network, self.dimension)

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        if not has_rules(self.network):
            return super().rows(x, requests)
        bundle = encode(self.network, x, jets.closure(wanted(requests)))
        zeros = x.new_zeros(x.shape[0], self.size)
        filled = {i: zeros if v is None else v.expand(x.shape[0], -1) for i, v in bundle.items()}
        return combine(filled, requests)

    def in_precision(self, precision: torch.dtype) -> RecastLayer:
        """The same functions with the network evaluated in another precision; rows keep that of the points."""
        return RecastLayer(Recast(self.network, precision))

    def config(self) -> dict:
        return {"space": self.space, "network": self.network}


@dataclass(frozen=True)
class RecastLayer:
    """The functions of a ConstraintLayer, evaluated by a network in another precision."""

    network: Recast

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        points = x.to(self.network.precision)
        return combine(derivatives(self.network, points, wanted(requests)), requests).to(x.dtype)


class Independent(Basis):
    """One network per basis function, each R^D -> R^1 (shared by the channels) or R^D -> R^C.

    Networks of one architecture are evaluated together, their parameters stacked; others one by one.

    >>> networks = [cnf.encoders.LearnablePolynomial(1, degree=2, seed=k) for k in range(3)]
    >>> cnf.bases.Independent(cnf.Space("x", "u"), networks)(cnf.Box(0, 1).random(5)).shape
    torch.Size([5, 3])
    """

    properties = Properties("good", "good", False, False, False, True, "as the networks")

    def __init__(self, space: Space, networks: Sequence[nn.Module]):
        members = list(networks)
        if not members:
            raise BasisError("Independent needs at least one network")
        for member in members:
            _check_module(member, "each network")
        super().__init__(space, len(members))
        self.networks = nn.ModuleList(members)
        known = [s for s in (smoothness(m) for m in members) if s is not None]
        self.smoothness = min(known) if known else None
        self._alike = len(members) > 1 and all(_signature(m) == _signature(members[0]) for m in members)
        self._trial()

    def known_detail(self) -> Detail:
        if not self._alike:
            return Together([network_detail(m, self.dimension) for m in self.networks])
        return network_detail(self.networks[0], self.dimension, parameters=self.stacked)

    @property
    def stacked(self) -> dict[str, Tensor] | None:
        """The parameters and buffers of all networks one above the other; None if they are not alike."""
        if not self._alike:
            return None
        tables = [dict([*m.named_parameters(), *m.named_buffers()]) for m in self.networks]
        return {name: torch.stack([table[name] for table in tables]) for name in tables[0]}

    def forward(self, x: Tensor) -> Tensor:
        outputs = (
            self._together(x) if self._alike else torch.stack([self._column(m(x), x) for m in self.networks], dim=1)
        )
        return outputs[..., 0] if outputs.shape[-1] == 1 else outputs  # (P, N) or (P, N, C)

    def _together(self, x: Tensor) -> Tensor:
        first = self.networks[0]
        return vmap(lambda p: self._column(functional_call(first, p, (x,)), x), out_dims=1)(self.stacked)

    def _column(self, output: Tensor, x: Tensor) -> Tensor:
        if output.dim() == 1:
            output = output[:, None]
        if output.dim() != 2 or output.shape[1] not in (1, len(self.space.channels)):
            raise BasisError(
                f"a network of Independent returned shape {tuple(output.shape)}; expected (P, 1) or (P, "
                f"{len(self.space.channels)})"
            )
        return output

    def config(self) -> dict:
        return {"space": self.space, "networks": list(self.networks)}


def _check_module(module: object, what: str) -> None:
    if not isinstance(module, nn.Module):
        raise BasisError(f"{what} must be a torch module, got a {type(module).__name__}")


def _signature(module: nn.Module) -> tuple:
    """Equal only for modules that differ in nothing but the contents of their parameters and buffers."""
    shapes = [(n, tuple(t.shape), t.dtype) for n, t in [*module.named_parameters(), *module.named_buffers()]]
    return (tuple(shapes), tuple((name, type(m), _settings(m)) for name, m in module.named_modules()))


def _settings(module: nn.Module) -> tuple:
    """The plain attributes of one module (a frequency, a slope); objects that cannot be compared count as
    themselves."""
    own = {name: value for name, value in vars(module).items() if name not in BOOKKEEPING}
    return tuple((name, _comparable(value)) for name, value in sorted(own.items()))


def _comparable(value: object) -> object:
    if value is None or isinstance(value, str | int | float | complex | torch.dtype | torch.device):
        return (type(value), value)
    if isinstance(value, list | tuple):
        return (type(value), *map(_comparable, value))
    if isinstance(value, dict):
        return (dict, *((str(key), _comparable(entry)) for key, entry in value.items()))
    return id(value)


BOOKKEEPING = vars(nn.Module()).keys() - {"training"}
