"""Values of generated networks at shared points, and their gradient: what a system of values spends its time on.

What comes in: points (P, D) and the parameters of n networks that are linear layers and activations one after the
other; what goes out: their values (n, F, P). Functions and points are taken in pieces that stay in the cache, and
nothing is kept for the gradient, which evaluates each piece again: 4096 networks at 4096 points would keep 24 GB.

Differentiable in the parameters as often as wanted: the gradient of the gradient is left to autograd, by the way that
also serves where this one cannot be used (points that are differentiated in, transforms of torch.func, compiling).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cnf.bases.activations import Activation, activation_of
from cnf.bases.encoders import LayeredEncoder
from cnf.bases.layers import is_altered
from cnf.bases.looked_into import is_looked_into
from cnf.bases.precision import without_autocast

CACHE = 3 * 2**17  # numbers of all layers in one piece, 3 MB: a few such pieces stay in the cache
LEAST_POINTS = 256  # in a piece, however wide the network: else its weights would be read more than used

Tables = dict[str, Tensor]  # parameters of all functions, (n, *shape), by name
Values = Callable[[Tensor, Tables, int], Tensor]  # points (P, D), tables, F -> (n, F, P), by plain autograd


@dataclass(frozen=True)
class Linear:
    """Which of the tables are the weight (n, out, in) and the bias (n, out) of a linear layer."""

    weight: int
    bias: int | None


Layer = Linear | Activation


@dataclass(frozen=True)
class Chain:
    """A network as a plain sequence of layers; `names` are those of its tables, in the order the layers count them."""

    layers: tuple[Layer, ...]
    names: tuple[str, ...]


def chain_of(network: nn.Module) -> Chain | None:
    """The network as a chain; None if anything else happens in it, or a layer occurs twice."""
    prefix, sequence = "", network
    if isinstance(network, LayeredEncoder) and type(network).forward is LayeredEncoder.forward:
        if is_altered(network):
            return None
        prefix, sequence = "layers.", network.layers
    if type(sequence) is not nn.Sequential or is_altered(sequence):
        return None
    known = dict(network.named_parameters())
    layers: list[Layer] = []
    names: list[str] = []
    for key, layer in sequence._modules.items():
        activation = None if layer is None else activation_of(layer)
        if layer is None or is_altered(layer):
            return None
        if activation is not None and layers:
            layers.append(activation)
        elif type(layer) is nn.Linear and f"{prefix}{key}.weight" in known:
            own = [name for name in (f"{prefix}{key}.weight", f"{prefix}{key}.bias") if name in known]
            if (len(own) == 2) != (layer.bias is not None):
                return None  # a bias that belongs to another layer as well
            layers.append(Linear(len(names), len(names) + 1 if len(own) == 2 else None))
            names += own
        else:
            return None
    return Chain(tuple(layers), tuple(names)) if set(names) == set(known) and names else None


def is_plain(x: Tensor, tables: Tables) -> bool:
    """True where a gradient that is written out is right: ordinary tensors, differentiated in the parameters only."""
    if is_looked_into():
        return False
    if (x.requires_grad and torch.is_grad_enabled()) or torch.is_autocast_enabled(x.device.type):
        return False
    return all(type(tensor) in (Tensor, nn.Parameter) for tensor in (x, *tables.values()))


def generated_values(chain: Chain, x: Tensor, tables: Tables, memory: int, by_autograd: Values) -> Tensor:
    """Values (n, F, P) of all generated networks at the points x (P, D), at most `memory` numbers at a time.

    `by_autograd` is the same, slower and differentiable in every way; only the gradient of the gradient uses it.
    """
    return _Values.apply(x, chain, memory, by_autograd, *(tables[name] for name in chain.names))


class Scratch:
    """Memory that every piece uses again, in the same order: fresh pages for each would cost as much as its tanh."""

    def __init__(self, like: Tensor):
        self._like, self._kept, self._next = like, list[Tensor](), 0

    def begin(self) -> Scratch:
        """All of it is free again."""
        self._next = 0
        return self

    def take(self, *shape: int) -> Tensor:
        size = math.prod(shape)
        if self._next == len(self._kept):
            self._kept.append(self._like.new_empty(size))
        elif self._kept[self._next].numel() < size:
            self._kept[self._next] = self._like.new_empty(size)
        self._next += 1
        return self._kept[self._next - 1][:size].view(shape)


class _Values(torch.autograd.Function):
    """With a_0 = x^T and points as columns, layer by layer z = W a + b, a = s(z). Backwards, from the gradient g of the
    values: g <- g s'(z) at an activation; d W = g a^T, d b = sum g, g <- W^T g at a linear layer.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, chain: Chain, memory: int, by_autograd: Values, *tables: Tensor) -> Tensor:
        ctx.chain, ctx.memory, ctx.by_autograd = chain, memory, by_autograd
        ctx.save_for_backward(x, *tables)
        last = next(layer for layer in reversed(chain.layers) if isinstance(layer, Linear))
        columns = x.T.contiguous()  # (D, P)
        values = x.new_empty(tables[0].shape[0], tables[last.weight].shape[1], x.shape[0])
        scratch = Scratch(values)
        for group, part in _pieces(chain, tables, x.shape[0], memory):
            own = [table[group] for table in tables]
            values[group, :, part] = evaluate(chain, columns[:, part], own, scratch.begin())
        return values

    @staticmethod
    def backward(ctx: Any, of_values: Tensor):
        x, *tables = ctx.saved_tensors
        wanted = [k for k, needed in enumerate(ctx.needs_input_grad[4:]) if needed]
        gradients: Sequence[Tensor]
        if torch.is_grad_enabled():  # create_graph=True
            named = dict(zip(ctx.chain.names, tables, strict=True))
            values = ctx.by_autograd(x, named, of_values.shape[1])
            gradients = torch.autograd.grad(values, [tables[k] for k in wanted], of_values, create_graph=True)
        else:
            every = _summed(ctx.chain, x, tables, of_values.contiguous(), ctx.memory)  # it comes by points
            gradients = [every[k] for k in wanted]
        found = dict(zip(wanted, gradients, strict=True))
        return None, None, None, None, *(found.get(k) for k in range(len(tables)))


def _summed(chain: Chain, x: Tensor, tables: Sequence[Tensor], of_values: Tensor, memory: int) -> list[Tensor]:
    """The gradient in every table, piece by piece."""
    columns = x.T.contiguous()
    gradients = [torch.zeros(table.shape, dtype=table.dtype, device=table.device) for table in tables]
    scratch = Scratch(of_values)
    with without_autocast(x.device):  # a region around the backward pass alone
        for group, part in _pieces(chain, tables, x.shape[0], memory):
            sums = [gradient[group] for gradient in gradients]
            own = [table[group] for table in tables]
            add_gradients(chain, columns[:, part], own, of_values[group, :, part], sums, scratch.begin())
    return gradients


def evaluate(chain: Chain, columns: Tensor, tables: Sequence[Tensor], scratch: Scratch) -> Tensor:
    """Values (n, F, p) at points given as columns (D, p)."""
    value = columns.expand(tables[0].shape[0], -1, -1)
    for layer in chain.layers:
        value = _mapped(layer, value, tables, scratch) if isinstance(layer, Linear) else layer.value(value)
    return value


def add_gradients(
    chain: Chain,
    columns: Tensor,
    tables: Sequence[Tensor],
    of_values: Tensor,
    sums: Sequence[Tensor],
    scratch: Scratch,
) -> None:
    """Add to `sums` the gradient in every table, given that in the values (n, F, p)."""
    value = columns.expand(tables[0].shape[0], -1, -1)
    kept = []  # what every layer needs: its argument, or its slope
    for layer in chain.layers:
        if isinstance(layer, Linear):
            kept.append(value)
            value = _mapped(layer, value, tables, scratch)
        else:
            slope = scratch.take(*value.shape)
            layer.pair(value, slope)
            kept.append(slope)
    g = of_values
    for k in reversed(range(len(kept))):
        layer = chain.layers[k]
        if not isinstance(layer, Linear):
            g = kept[k].mul_(g)
            continue
        sums[layer.weight].baddbmm_(g, kept[k].mT)
        if layer.bias is not None:
            sums[layer.bias].add_(g.sum(dim=2))
        if k:
            weight = tables[layer.weight]
            g = torch.bmm(weight.mT, g, out=scratch.take(weight.shape[0], weight.shape[2], g.shape[2]))


def _mapped(layer: Linear, value: Tensor, tables: Sequence[Tensor], scratch: Scratch) -> Tensor:
    weight = tables[layer.weight]
    out = scratch.take(weight.shape[0], weight.shape[1], value.shape[2])
    if layer.bias is None:
        return torch.bmm(weight, value, out=out)
    return torch.baddbmm(tables[layer.bias][:, :, None], weight, value, out=out)


def _pieces(chain: Chain, tables: Sequence[Tensor], count: int, memory: int) -> Iterator[tuple[slice, slice]]:
    """Groups of functions and parts of points that keep few enough numbers at a time."""
    functions = tables[0].shape[0]
    width = sum(tables[layer.weight].shape[1] for layer in chain.layers if isinstance(layer, Linear))
    allowed = min(memory, max(CACHE * torch.get_num_threads(), LEAST_POINTS * width))
    pairs = max(1, allowed // width)
    parts = max(1, -(-count // pairs))
    points = max(1, -(-count // parts))  # parts of about the same size
    together = max(1, pairs // points)
    for start in range(0, functions, together):
        for first in range(0, count, points):
            yield slice(start, start + together), slice(first, first + points)
