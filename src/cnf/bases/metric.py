"""Metric: squared distances of encoded points without encoding them to the end.

An encoder usually ends in a linear layer phi = W h + b, wider than the hidden layer h before it. The kernel sees only
distances, and

    |phi(x) - phi(c)|^2 = (h - h_c)^T G (h - h_c),    G = W^T W / length^2,

so products of h with G and with -2 G h_c give the distances to all anchors; neither b nor phi is ever formed. For 256
hidden values, 512 features and 100 anchors that is half the work of the layer and the distances.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from cnf.bases.encoders import MLP, SIREN, FourierFeatures
from cnf.bases.layers import is_altered
from cnf.bases.precision import Recast


@dataclass(frozen=True)
class HiddenMetric:
    """G (H, H) on the hidden values of `body`, and what the anchors contribute; `centre` keeps the numbers small."""

    body: nn.Module
    centre: Tensor  # (H,) mean of the anchors' hidden values
    metric: Tensor  # (H, H): G
    image: Tensor  # (H, N): -2 G h_c
    squares: Tensor  # (N,) h_c^T G h_c

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
            body=Recast(self.body, precision),
            centre=self.centre.to(precision),
            metric=self.metric.to(precision),
            image=self.image.to(precision),
            squares=self.squares.to(precision),
        )

    def distances(self, x: Tensor) -> Tensor:
        """Squared, scaled distances of points to all anchors, (P, D) -> (P, N)."""
        hidden = self.body(x) - self.centre
        own = (hidden * (hidden @ self.metric)).sum(dim=1, keepdim=True)
        return torch.addmm(self.squares, hidden, self.image) + own


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
