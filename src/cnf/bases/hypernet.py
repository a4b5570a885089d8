"""Hypernet and HypernetKernel: every basis function has a network of its own, written by a hypernetwork.

The number of parameters grows only by one code per function. `HypernetKernel` uses the generated network as the
encoder of a kernel,

    Psi_j(x) = k(phi_j(anchor_j), phi_j(x)),

which makes functions distinct however many share an anchor: value and gradient may be prescribed at one point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from cnf.bases.activations import activation_of
from cnf.bases.anchors import Anchors, anchor_points
from cnf.bases.basis import Evaluator, SnapshotBasis, values_request
from cnf.bases.chain import highest
from cnf.bases.hypernet_slopes import distances_and_slopes, may_fuse
from cnf.bases.hypernet_values import chain_of, generated_values, is_plain
from cnf.bases.hypernetwork import (
    MEMORY,
    Hypernetwork,
    check_features,
    check_generated,
    converted,
    encode_own,
    generated,
    last_linear,
    over_functions,
    pattern_of,
    reversible,
    width_of,
)
from cnf.bases.kernels import Gaussian, KernelProfile
from cnf.bases.layers import smoothness
from cnf.bases.network_detail import kernel_of_network, network_detail
from cnf.bases.properties import Properties
from cnf.constraints import Space
from cnf.errors import BasisError
from cnf.operators import jets
from cnf.operators.detail import Detail
from cnf.operators.expansion import Request, combine, wanted
from cnf.operators.jets import Bundle, MultiIndex


class Hypernet(SnapshotBasis):
    """Psi_j = the main network with the parameters generated for function j; network R^D -> R^1 or R^C.

    >>> network = cnf.encoders.MLP(2, 1, hidden=8, seed=0)
    >>> basis = cnf.bases.Hypernet(cnf.Space("x y", "u"), network, size=6)
    >>> basis(cnf.Box([0, 0], [1, 1]).random(4)).shape
    torch.Size([4, 6])
    """

    properties = Properties("poor", "fair", False, False, True, True, "as the network")

    def __init__(
        self, space: Space, network: nn.Module, size: int, codes: int = 16, seed: int = 0, memory: int = MEMORY
    ):
        check_generated(network, size, codes, "Hypernet", "network")
        super().__init__(space, size)
        self.network = pattern_of(network)
        like = next(network.parameters())
        self.outputs = check_features(self.network, like.new_zeros(1, self.dimension), "Hypernet", "network")
        if self.outputs not in (1, len(space.channels)):
            raise BasisError(
                f"the network of a Hypernet has {self.outputs} outputs; expected 1, shared by all channels, or one for "
                f"each of the channels {', '.join(space.channels)}"
            )
        self.hypernetwork = Hypernetwork(network, size, codes, seed)
        self.codes, self.seed, self.memory = codes, seed, memory
        self.smoothness = smoothness(network)

    @property
    def shared(self) -> bool:
        return self.outputs == 1

    def snapshot(self) -> Evaluator:
        return GeneratedFunctions(self.network, self.hypernetwork(), self.memory)

    def known_detail(self) -> Detail:
        return network_detail(self.network, self.dimension, parameters=self.hypernetwork())

    def config(self) -> dict:
        return {"space": self.space, "network": self.network, "size": self.size, "codes": self.codes, "seed": self.seed}


@dataclass(frozen=True)
class GeneratedFunctions:
    """The functions of a Hypernet basis for one step: parameters generated once."""

    network: nn.Module
    parameters: dict[str, Tensor]
    memory: int
    precision: torch.dtype | None = None  # None: that of the points

    def in_precision(self, precision: torch.dtype) -> GeneratedFunctions:
        """The same functions with their networks evaluated in another precision; rows keep that of the points."""
        return replace(self, precision=precision)

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        indices = jets.closure(wanted(requests))
        chain = chain_of(self.network) if len(indices) == 1 and is_plain(x, self.parameters) else None
        if chain is None:
            return self._by_autograd(x, self.parameters, requests)
        tables, at = converted(self.parameters, x, self.precision)
        values = generated_values(chain, at, tables, self.memory, self._values_by_autograd)  # (n, F, P)
        return combine({indices[0]: values.permute(2, 0, 1).to(x.dtype)}, requests)

    def _by_autograd(self, x: Tensor, tables: dict[str, Tensor], requests: Sequence[Request]) -> Tensor:
        """Rows of any derivatives, differentiable in everything."""
        indices = jets.closure(wanted(requests))

        def piece(points: Tensor, own: dict[str, Tensor], asked: Sequence[Request]) -> Tensor:
            found = generated(self.network, *converted(own, points, self.precision), indices)
            bundle = {i: v.transpose(0, 1).to(points.dtype) for i, v in found.items() if v is not None}
            return combine(bundle, asked)

        numbers = len(indices) * width_of(self.network)
        return over_functions(piece, x, tables, requests, numbers, self.memory)

    def _values_by_autograd(self, x: Tensor, tables: dict[str, Tensor], outputs: int) -> Tensor:
        """The values of every output, (n, F, P)."""
        requests = [values_request(x.shape[1], x, output) for output in range(outputs)]
        return self._by_autograd(x, tables, requests).permute(2, 1, 0)


class HypernetKernel(SnapshotBasis):
    """Psi_j(x) = k(phi_j(anchor_j), phi_j(x)), the encoder phi_j generated for function j; anchors may repeat.

    `kernel=None` takes a Gaussian whose bandwidth is the typical distance between encoded anchors.

    >>> points = cnf.Box([0, 0], [1, 1]).grid(2)
    >>> encoder = cnf.encoders.MLP(2, 4, hidden=8, seed=0)
    >>> basis = cnf.bases.HypernetKernel(cnf.Space("x y", "u"), points, encoder)
    >>> basis(points).shape
    torch.Size([4, 4])
    """

    properties = Properties("good", "good", True, False, True, True, "as the kernel and the encoder")

    anchors: Tensor  # (N, D)

    def __init__(
        self,
        space: Space,
        anchors: Anchors,
        encoder: nn.Module,
        kernel: KernelProfile | None = None,
        codes: int = 16,
        seed: int = 0,
        memory: int = MEMORY,
    ):
        points = anchor_points(space, anchors, distinct=False)
        check_generated(encoder, points.shape[0], codes, "HypernetKernel", "encoder")
        super().__init__(space, points.shape[0])
        self.register_buffer("anchors", points)
        self.encoder = pattern_of(encoder).to(points.dtype)
        check_features(self.encoder, points, "HypernetKernel", "encoder")
        self.hypernetwork = Hypernetwork(self.encoder, points.shape[0], codes, seed)
        self.codes, self.seed, self.memory = codes, seed, memory
        self.kernel = kernel if kernel is not None else Gaussian(self._typical_distance())
        if not isinstance(self.kernel, KernelProfile):
            raise BasisError(f"kernel must be one of cnf.kernels, such as Gaussian(1.0); got a {type(kernel).__name__}")
        known = [s for s in (self.kernel.smoothness, smoothness(encoder)) if s is not None]
        self.smoothness = min(known) if known else None

    def _typical_distance(self) -> float:
        """Somewhat less than the median distance of an encoded anchor to the others, over a few functions."""
        with torch.no_grad():
            chosen = torch.arange(0, self.size, max(1, self.size // 16))
            own = {name: p[chosen] for name, p in self.hypernetwork().items()}
            zero = (0,) * self.dimension
            features = generated(self.encoder, own, self.anchors[:256], [zero])[zero]  # (n, P, F)
            centres = encode_own(self.encoder, own, self.anchors[chosen])  # (n, F)
            assert features is not None
            distances = (features - centres[:, None]).square().sum(dim=-1).sqrt().reshape(-1)
            positive = distances[distances > 1e-9 * centres.abs().max()]  # the rest is rounding: the same anchor
        # At the median itself systems with several conditions per anchor start with condition numbers up to 1e9.
        return 0.7 * float(positive.median()) if positive.numel() else 1.0

    def snapshot(self) -> Evaluator:
        parameters = self.hypernetwork()
        centres = self.kernel.scaled(encode_own(self.encoder, parameters, self.anchors))  # (N, F)
        return GeneratedKernel(self.encoder, self.kernel, parameters, centres, self.anchors, self.memory)

    def known_detail(self) -> Detail:
        return network_detail(self.encoder, self.dimension, kernel_of_network(self.kernel), self.hypernetwork())

    def config(self) -> dict:
        names = {"space": self.space, "anchors": self.anchors, "encoder": self.encoder, "kernel": self.kernel}
        return {**names, "codes": self.codes, "seed": self.seed}


@dataclass(frozen=True)
class GeneratedKernel:
    """The functions of a HypernetKernel basis for one step; `centres` (N, F) are the encoded anchors, scaled."""

    encoder: nn.Module
    kernel: KernelProfile
    parameters: dict[str, Tensor]
    centres: Tensor
    anchors: Tensor  # (N, D)
    memory: int
    precision: torch.dtype | None = None  # None: that of the points

    def in_precision(self, precision: torch.dtype) -> GeneratedKernel:
        """The same functions for a loss: encoders evaluated in another precision, the kernel in that of the points."""
        return replace(self, precision=precision)

    def rows(self, x: Tensor, requests: Sequence[Request]) -> Tensor:
        indices = jets.closure(wanted(requests))
        last = last_linear(self.encoder)
        first_order = self.kernel.distance and highest(requests) <= 1 and last is not None
        derive, apart = self._first_order_argument if first_order else self._argument, ""
        if last is not None and first_order and len(indices) > 1 and self._one_hidden_layer() and may_fuse():
            derive, apart = self._fused_argument, f"{last[1]}.weight"  # which it converts function by function

        def piece(points: Tensor, own: dict[str, Tensor], asked: Sequence[Request]) -> Tensor:
            tables, at = converted({n: t for n, t in own.items() if n != apart}, points, self.precision)
            argument = derive(at, {**tables, apart: own[apart]} if apart else tables, indices)
            turned = {i: None if v is None else v.T.to(points.dtype) for i, v in argument.items()}  # (P, n)
            s = turned.pop(indices[0])
            assert s is not None
            return self.kernel.chain(asked, s, turned)

        everything = {**self.parameters, "centres": self.centres, "anchors": self.anchors}
        return over_functions(piece, x, everything, requests, len(indices) * width_of(self.encoder), self.memory)

    def _argument(self, x: Tensor, own: dict[str, Tensor], indices: Sequence[MultiIndex]) -> Bundle:
        """s = |phi_j(x) - c_j|^2 (or phi_j(x) . c_j) and its derivatives, each (n, P)."""
        centres = own["centres"][:, None]  # (n, 1, F)
        found = generated(self.encoder, _parameters(own), x, indices)
        phi: Bundle = {i: None if v is None else self.kernel.scaled(v).to(v.dtype) for i, v in found.items()}
        if not self.kernel.distance:
            return {i: None if v is None else (v * centres).sum(dim=-1) for i, v in phi.items()}
        value = phi[indices[0]]
        assert value is not None
        phi[indices[0]] = value - centres
        return {i: squared(phi, i) for i in indices}

    def _first_order_argument(self, x: Tensor, own: dict[str, Tensor], indices: Sequence[MultiIndex]) -> Bundle:
        """The same for first derivatives only, when the encoder ends in a linear layer W.

        With a the last hidden layer, s = |W (a(x) - a(anchor))|^2 and s_k = 2 a_k . W^T W (a(x) - a(anchor)): two
        products with W in all, where pushing every derivative through it would take one each. Where the hidden layers
        allow it, W^T W (a(x) - a(anchor)) is pulled back through them once for all coordinates.
        """
        body, inner, weight = self._parted(own)
        backwards = reversible(body, inner, x) if len(indices) > 1 else None
        hidden = generated(body, inner, x, indices) if backwards is None else {indices[0]: backwards[0]}  # (n, P, H)
        moved = hidden[indices[0]] - encode_own(body, inner, own["anchors"])[:, None]  # type: ignore[operator]
        features = moved @ weight.mT
        inverse = self._inverse(weight)
        scaled = features * inverse
        argument: Bundle = {indices[0]: (features * scaled).sum(dim=-1)}
        if len(indices) == 1:
            return argument
        back = scaled @ weight  # (n, P, H)
        if backwards is not None:
            slopes = backwards[1](back)  # (n, P, D)
            return argument | {index: 2 * slopes[..., index.index(1)] for index in indices[1:]}
        for index in indices[1:]:
            slope = hidden[index]
            argument[index] = None if slope is None else 2 * (slope * back).sum(dim=-1)
        return argument

    def _fused_argument(self, x: Tensor, own: dict[str, Tensor], indices: Sequence[MultiIndex]) -> Bundle:
        """The same for an encoder with one hidden layer, function by function; see `hypernet_slopes`."""
        body, inner, weight = self._parted(own)
        activation = activation_of(body[1])
        assert activation is not None
        centre = encode_own(body, inner, own["anchors"])  # (n, H)
        first = next(iter(body._modules))
        hidden, bias = inner[f"{first}.weight"], inner[f"{first}.bias"]
        inverse = self._inverse(weight).to(x.dtype)
        s, slopes = distances_and_slopes(x, hidden, bias, centre, weight, inverse, activation)
        return {index: slopes[..., index.index(1)] if sum(index) else s for index in indices}

    def _one_hidden_layer(self) -> bool:
        """True if the encoder is linear, activation, linear, and nothing else happens in it."""
        last = last_linear(self.encoder)
        if last is None or len(last[0]) != 2 or any(m._forward_hooks or m._forward_pre_hooks for m in last[0]):
            return False
        first, activation = last[0]
        return type(first) is nn.Linear and first.bias is not None and activation_of(activation) is not None

    def _parted(self, own: dict[str, Tensor]) -> tuple[nn.Sequential, dict[str, Tensor], Tensor]:
        """All layers but the last, their parameters, and the weight of the last, (n, F, H)."""
        last = last_linear(self.encoder)
        assert last is not None
        body, name = last
        prefix = f"{name.rpartition('.')[0]}."
        inner = {n.removeprefix(prefix): t for n, t in _parameters(own).items() if not n.startswith(f"{name}.")}
        return body, inner, own[f"{name}.weight"]

    def _inverse(self, weight: Tensor) -> Tensor:
        """One over the squared length of every feature, (F,)."""
        return self.kernel.scaled(torch.ones_like(weight[0, :, 0])).square().to(weight.dtype)


def _parameters(own: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: table for name, table in own.items() if name not in ("centres", "anchors")}


def squared(phi: Bundle, index: MultiIndex) -> Tensor | None:
    """d^index |phi|^2 by the product rule, summed over the last axis."""
    found = None
    for lower in jets.below(index):
        upper = jets.subtract(index, lower)
        a, b = phi[lower], phi[upper]
        if lower > upper or a is None or b is None:
            continue  # a mirror image is counted with its partner
        count = jets.binomial(index, lower) * (1 if lower == upper else 2)
        part = count * (a * b).sum(dim=-1)
        found = part if found is None else found + part
    return found
