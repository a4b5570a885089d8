"""Hypernetwork: one generator writes the parameters of many networks, which are then evaluated together.

Function j has a code of its own (a row of a table: the first layer of a network fed with one-hot vectors); a linear
generator turns it into the parameters of a main network. Evaluation is batched over the generated parameters and made
in pieces whose size is bounded.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.utils.checkpoint import checkpoint

from cnf.bases.at_once import AtOnce
from cnf.bases.encoders import MLP, SIREN
from cnf.bases.layers import Sine, encode, push
from cnf.bases.looked_into import is_recorded
from cnf.errors import BasisError
from cnf.operators.expansion import Request
from cnf.operators.jets import Bundle, MultiIndex

MEMORY = 2**28  # numbers kept at once while evaluating generated networks: 2 GB in float64


class Hypernetwork(nn.Module):
    """One-hot codes (N) -> parameters of a network: a learnable code per function, then a linear generator.

    The generator's directions start as independent initialisations of the main network, and codes as standard normal,
    so that generated parameters have the spread the network's own initialisation would give them. Parameters that are
    constant in the given network (the scale of a normalisation) start with that constant.
    """

    def __init__(self, network: nn.Module, count: int, codes: int = 16, seed: int = 0):
        super().__init__()
        self.shapes = {name: tuple(p.shape) for name, p in network.named_parameters()}
        dtype = next(network.parameters()).dtype
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.codes = nn.Parameter(torch.randn(count, codes, dtype=dtype))  # (N, H)
            drafts = [_flat(_initialised(network)) for _ in range(codes)]
        self.generator = nn.Parameter(torch.stack(drafts) / codes**0.5)  # (H, parameters)
        self.offset = nn.Parameter(_constants(network))

    def forward(self) -> dict[str, Tensor]:
        """Parameters of all functions, each (N, *shape)."""
        flat = torch.addmm(self.offset, self.codes, self.generator)  # (N, parameters)
        sizes = [int(torch.Size(shape).numel()) for shape in self.shapes.values()]
        parts = flat.split(sizes, dim=1)
        return {name: part.reshape(-1, *shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}


def _initialised(network: nn.Module) -> nn.Module:
    """A copy of the network with fresh initial parameters, where its layers know how to make them."""
    fresh = copy.deepcopy(network)
    spreads = {name: p.detach().std().item() if p.numel() > 1 else 0.0 for name, p in network.named_parameters()}
    for name, parameter in fresh.named_parameters():
        bound = spreads[name] * 3**0.5  # uniform with the spread of the network as it was given
        nn.init.uniform_(parameter, -bound, bound)
    return fresh


def _flat(network: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in network.parameters()])


def _constants(network: nn.Module) -> Tensor:
    """What `_initialised` has no spread for: the value itself; zero for all others."""
    parts = [p.detach().reshape(-1) for p in network.parameters()]
    return torch.cat([p if bool((p == p[0]).all()) else torch.zeros_like(p) for p in parts])


class _Carrier(nn.Module):
    """A module whose call returns the bundle of another: lets generated parameters flow through `encode`."""

    def __init__(self, network: nn.Module, indices: Sequence[MultiIndex]):
        super().__init__()
        self.network, self.indices = network, tuple(indices)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        bundle = encode(self.network, x, self.indices)
        count = x.shape[0]
        return tuple(_dense(bundle[index], bundle, count) for index in self.indices)


def _dense(value: Tensor | None, bundle: Bundle, count: int) -> Tensor:
    if value is not None:
        return value.expand(count, value.shape[1])
    like = next(v for v in bundle.values() if v is not None and v.shape[0] == count)
    return torch.zeros_like(like)


def generated(network: nn.Module, parameters: dict[str, Tensor], x: Tensor, indices: Sequence[MultiIndex]) -> Bundle:
    """Bundles of all generated networks at shared points: index -> (N, P, F)."""
    if isinstance(network, AtOnce):
        (value,) = indices
        return {value: network(parameters, x)}
    carrier = _Carrier(network, indices)
    buffers = {f"network.{name}": _like(b, x) for name, b in network.named_buffers()}
    named = {f"network.{name}": p for name, p in parameters.items()}
    outputs = vmap(lambda own: functional_call(carrier, {**own, **buffers}, (x,)), in_dims=(0,))(named)
    return dict(zip(indices, outputs, strict=True))


def _like(buffer: Tensor, x: Tensor) -> Tensor:
    return buffer.to(x.dtype) if buffer.is_floating_point() else buffer


def converted(tables: dict[str, Tensor], x: Tensor, precision: torch.dtype | None) -> tuple[dict[str, Tensor], Tensor]:
    """Tables and points in a precision, differentiably; None: as they are."""
    if precision is None:
        return tables, x
    return {name: table.to(precision) for name, table in tables.items()}, x.to(precision)


Piece = Callable[[Tensor, dict[str, Tensor], Sequence[Request]], Tensor]


def over_functions(
    piece: Piece, x: Tensor, tables: dict[str, Tensor], requests: Sequence[Request], numbers: int, memory: int
) -> Tensor:
    """piece(points, tables, requests) -> (P, K, n) for groups of functions and of points, put together.

    `numbers` is what one function keeps per point while it is evaluated; a group keeps at most `memory`. Beyond one
    group the backward pass evaluates each group again rather than keeping all of them.
    """
    if is_recorded():  # pieces of one number of points would be kept for any other
        return piece(x, tables, requests)
    count, functions = x.shape[0], next(iter(tables.values())).shape[0]
    per_group = max(1, memory // max(1, numbers * count))
    per_part = max(1, count if numbers * count <= memory else memory // numbers)
    groups = [slice(k, k + per_group) for k in range(0, functions, per_group)]
    parts = [slice(k, k + per_part) for k in range(0, max(1, count), per_part)]  # no points: one empty part
    if len(groups) == len(parts) == 1:
        return piece(x, tables, requests)
    again = torch.is_grad_enabled()
    columns = []
    for group in groups:
        own = {name: table[group] for name, table in tables.items()}
        found = []
        for part in parts:
            arguments = (x[part], own, [request.at(part) for request in requests])
            found.append(checkpoint(piece, *arguments, use_reentrant=False) if again else piece(*arguments))
        columns.append(found[0] if len(found) == 1 else torch.cat(found))
    return torch.cat(columns, dim=2)


def width_of(network: nn.Module) -> int:
    """Numbers a network keeps per point and derivative: the widths of its layers together."""
    widths = [m.out_features for m in network.modules() if isinstance(m, nn.Linear)]
    return max(sum(widths), 1)


def pattern_of(network: nn.Module) -> nn.Module:
    """The pattern of the main network: its own parameters are replaced at every call, so they are not trained."""
    return copy.deepcopy(network).requires_grad_(False)


def check_generated(network: object, size: object, codes: object, basis: str, what: str) -> None:
    if not isinstance(network, nn.Module):
        raise BasisError(f"the {what} of {basis} must be a torch module; got a {type(network).__name__}")
    if not list(network.parameters()):
        raise BasisError(f"the {what} of {basis} has no parameters that could be generated; its layers must have some")
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise BasisError(f"{basis} needs at least one basis function; got {size!r}")
    if not isinstance(codes, int) or isinstance(codes, bool) or codes < 1:
        raise BasisError(f"codes is the length of every function's code, at least 1; got {codes!r}")


def check_features(network: nn.Module, points: Tensor, basis: str, what: str) -> int:
    """How many numbers the network gives per point; refused unless it is one row of them."""
    with torch.no_grad():
        try:
            features = network(points[:1])
        except RuntimeError as error:
            raise BasisError(
                f"the {what} of {basis} cannot take points of {points.shape[1]} coordinates ({error})"
            ) from error
    if not isinstance(features, Tensor) or features.dim() != 2 or features.shape[0] != 1:
        found = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise BasisError(f"the {what} of {basis} returned {found} for one point; expected (1, outputs)")
    return features.shape[1]


def encode_own(network: nn.Module, parameters: dict[str, Tensor], points: Tensor) -> Tensor:
    """Every generated network at its own point: (N, D) -> (N, F)."""
    buffers = {name: _like(b, points) for name, b in network.named_buffers()}
    return vmap(lambda own, x: functional_call(network, {**own, **buffers}, (x[None],))[0])(parameters, points)


ENTRYWISE = (nn.Tanh, nn.Sigmoid, nn.Softplus, nn.SiLU, Sine)
Pull = Callable[[Tensor], Tensor]


def reversible(network: nn.Module, parameters: dict[str, Tensor], x: Tensor) -> tuple[Tensor, Pull] | None:
    """Values (N, P, H) of all generated networks, and the map g (N, P, H) -> g . d values / d x (N, P, D).

    Reverse mode, written out so that autograd can go through it; None if the network is not a plain sequence of linear
    layers and activations.
    """
    if type(network) is not nn.Sequential or network._forward_hooks or network._forward_pre_hooks:
        return None
    value, factors = x, []
    for name, layer in network._modules.items():
        if layer is None or layer._forward_hooks or layer._forward_pre_hooks:
            return None
        if type(layer) is nn.Linear and f"{name}.weight" in parameters:
            weight, bias = parameters[f"{name}.weight"], parameters.get(f"{name}.bias")
            value = value @ weight.mT if bias is None else value @ weight.mT + bias[:, None]
            factors.append((weight, True))
        elif type(layer) in ENTRYWISE and factors:
            bundle = push(layer, {(0,): value, (1,): value.new_ones(1, 1, 1)})
            assert bundle[0,] is not None and bundle[1,] is not None
            value = bundle[0,]
            factors.append((bundle[1,], False))
        else:
            return None

    def pull(g: Tensor) -> Tensor:
        for factor, linear in reversed(factors):
            g = g @ factor if linear else g * factor
        return g

    return (value, pull) if factors else None


def last_linear(network: nn.Module) -> tuple[nn.Sequential, str] | None:
    """The network without its last layer, and that layer's name, if the network is a sequence ending in nn.Linear."""
    layers: Any = network
    prefix = ""
    if type(network) in (MLP, SIREN):
        layers, prefix = network.layers, "layers."
    if type(layers) is not nn.Sequential or len(layers) < 2 or type(layers[-1]) is not nn.Linear:
        return None
    hooked = any(m._forward_hooks or m._forward_pre_hooks for m in (network, layers, layers[-1]))
    if hooked or any(layer is layers[-1] for layer in layers[:-1].modules()):
        return None  # the last layer is not all that happens after the others, or is used among them too
    return cast(nn.Sequential, layers[:-1]), f"{prefix}{list(layers._modules)[-1]}"
