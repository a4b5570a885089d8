"""Metric: squared distances of encoded points without encoding them to the end.

An encoder usually ends in a linear layer phi = W h + b, wider than the hidden layer h before it. The kernel sees only
distances, and

    |phi(x) - phi(c)|^2 = (h - h_c)^T G (h - h_c),    G = W^T W / length^2,

so products of h with G and with -2 G h_c give the distances to all anchors; neither b nor phi is ever formed. For 256
hidden values, 512 features and 100 anchors that is half the work of the layer and the distances. Where no gradients are
asked for in another precision, h^T G h is |R h|^2 with R^T R = G, triangular: of its blocks nearly half are zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from cnf.bases.encoders import MLP, SIREN, FourierFeatures
from cnf.bases.layers import is_altered
from cnf.bases.precision import recast

STRIPS = 4
ROUND = 16  # widths of wide strips are a multiple: products of 63 columns take half as long again as those of 64


@dataclass(frozen=True)
class HiddenMetric:
    """G (H, H) on the hidden values of `body`, and what the anchors contribute; `centre` keeps the numbers small."""

    body: nn.Module
    centre: Tensor  # (H,) mean of the anchors' hidden values
    metric: Tensor  # (H, H): G
    image: Tensor  # (H, N): -2 G h_c
    squares: Tensor  # (N,) h_c^T G h_c
    root: tuple[Tensor, ...] = ()  # R^T in strips (H - k, width) that act on the hidden values from the k-th on

    @staticmethod
    def of(body: nn.Module, last: nn.Linear, length: Tensor, anchors: Tensor) -> HiddenMetric:
        hidden = body(anchors)  # (N, H)
        centre = hidden.detach().mean(dim=0)
        hidden = hidden - centre
        weight = last.weight / length
        metric = weight.T @ weight
        image = metric @ hidden.T  # (H, N)
        squares = (hidden.T * image).sum(dim=0)
        return HiddenMetric(body, centre, metric, -2 * image, squares)

    def in_precision(self, precision: torch.dtype) -> HiddenMetric:
        return replace(
            self,
            body=recast(self.body, precision),
            centre=self.centre.to(precision),
            metric=self.metric.to(precision),
            image=self.image.to(precision),
            squares=self.squares.to(precision),
            root=() if torch.is_grad_enabled() else self.strips(precision),
        )

    def strips(self, precision: torch.dtype) -> tuple[Tensor, ...]:
        """The rows of R, a few at a time and without what is zero of them; none if rounding makes G indefinite."""
        upper, failed = torch.linalg.cholesky_ex(self.metric.double(), upper=True)
        if bool(failed) or not len(upper):
            return ()
        width = -(-len(upper) // STRIPS)
        width = width if width < ROUND else -(-width // ROUND) * ROUND
        starts = range(0, len(upper), width)
        return tuple(upper[k : k + width, k:].T.contiguous().to(precision) for k in starts)

    def distances(self, x: Tensor) -> Tensor:
        """Squared, scaled distances of points to all anchors, (P, D) -> (P, N)."""
        hidden = self.body(x) - self.centre
        return torch.addmm(self.squares, hidden, self.image) + self._own(hidden)

    def _own(self, hidden: Tensor) -> Tensor:
        """h^T G h, (P, H) -> (P, 1)."""
        if not self.root:
            return (hidden * (hidden @ self.metric)).sum(dim=1, keepdim=True)
        parts = [hidden[:, -len(strip) :] @ strip for strip in self.root]
        return torch.stack([part.square().sum(dim=1) for part in parts]).sum(dim=0)[:, None]


def split_encoder(encoder: nn.Module) -> tuple[nn.Module, nn.Linear] | None:
    """Everything before the last linear layer, and that layer; None if that does not pay or is not known to be so."""
    layers: list[nn.Module] = [encoder]
    while type(layers[-1]) in (MLP, SIREN, FourierFeatures, nn.Sequential):
        whole = layers.pop()
        inner = whole if type(whole) is nn.Sequential else whole.layers
        if is_altered(whole) or (isinstance(inner, nn.Module) and is_altered(inner)):
            return None
        layers += list(inner) if isinstance(inner, nn.Sequential) else [whole]
        if not layers or layers[-1] is whole:
            return None
    last = layers[-1]
    if len(layers) < 2 or type(last) is not nn.Linear or last.out_features < last.in_features:
        return None
    if is_altered(last) or any(m is last for part in layers[:-1] for m in part.modules()):
        return None
    return nn.Sequential(*layers[:-1]), last
