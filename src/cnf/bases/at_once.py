"""AtOnce: many networks of one kind as one graph of plain operations on their stacked parameters.

`functional_call` under `vmap` puts other parameters into a module while it runs, which nothing that records operations
can follow. Here it has been followed once, with any number of points, and what is left is a graph.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from cnf.errors import BasisError

METHODS = {  # by which tensors do the same: operations called by name take sizes for constants while traced
    torch.ops.aten.sym_size.int: "size",
    torch.ops.aten.view.default: "reshape",
    torch.ops.aten._unsafe_view.default: "reshape",
    torch.ops.aten.reshape.default: "reshape",
    torch.ops.aten.expand.default: "expand",
    torch.ops.aten.repeat.default: "repeat",
    torch.ops.aten.new_zeros.default: "new_zeros",
    torch.ops.aten.new_ones.default: "new_ones",
}
POINTS = 5  # any number but one, which operations treat in a way of its own


class AtOnce(nn.Module):
    """Stacked parameters (n, ...) by name and shared points (P, D) -> values (n, P, F)."""

    def __init__(self, network: nn.Module, parameters: dict[str, Tensor], dimension: int):
        super().__init__()
        self.names = tuple(parameters)
        buffers = {name: buffer.detach() for name, buffer in network.named_buffers() if name not in parameters}
        like = next(iter(parameters.values()))

        def values(*given: Tensor) -> Tensor:
            *tables, x = given

            def one(own: dict[str, Tensor]) -> Tensor:
                found = functional_call(network, {**buffers, **own}, (x,))
                return found[:, None] if found.dim() == 1 else found

            return vmap(one)(dict(zip(self.names, tables, strict=True)))

        example = torch.zeros(POINTS, dimension, dtype=like.dtype, device=like.device)
        try:
            with torch.no_grad():
                tables = [table.detach() for table in parameters.values()]
                self.graph = make_fx(values, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*tables, example)
            ask_tensors(self.graph)
        except Exception as error:  # whatever a network of a user's own does that no graph holds
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise BasisError(
                f"{type(network).__name__} cannot be written as a graph of operations ({reason:.200}); a network whose "
                "way depends on numbers cannot leave the library"
            ) from None

    def forward(self, parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return self.graph(*[parameters[name] for name in self.names], x)


def ask_tensors(graph: GraphModule) -> None:
    """Let tensors themselves be asked for whatever depends on sizes."""
    for node in graph.graph.nodes:
        if node.op == "call_function" and node.target in METHODS:
            node.op, node.target = "call_method", METHODS[node.target]
    graph.graph.lint()
    graph.recompile()
