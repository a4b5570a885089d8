"""FieldModule: a solved field as a plain torch module of tensors, which compiles, exports, pickles and transforms."""

from __future__ import annotations

from torch import Tensor, nn

from cnf.bases.looked_into import is_recorded
from cnf.bases.precision import without_autocast
from cnf.errors import ConstraintError
from cnf.systems.base_function import evaluate_base


class FieldModule(nn.Module):
    """f(x) = base(x) + sums(x): points (..., D) -> values (..., C), in the precision of the module.

    Nothing in it is learnt any more: weights were solved for once. `.to` moves it to another precision or device.
    """

    like: Tensor

    def __init__(
        self, sums: nn.Module, base: nn.Module | None, coordinates: tuple[str, ...], channels: int, like: Tensor
    ):
        super().__init__()
        self.sums, self.base, self.coordinates, self.channels = sums, base, coordinates, channels
        self.register_buffer("like", like.new_zeros(()), persistent=False)  # its precision and its place
        self.training = False

    def train(self, mode: bool = True) -> FieldModule:
        """Nothing: what is evaluated stays as it was when the field was solved."""
        return self

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., C)."""
        width = len(self.coordinates)
        if x.dim() == 0 or x.shape[-1] != width:
            raise ConstraintError(
                f"points of shape {tuple(x.shape)} given; expected (..., {width}), columns "
                f"{', '.join(self.coordinates)}"
            )
        points = x.reshape(-1, width).to(self.like.dtype)
        if is_recorded():
            values = self._values(points)
        elif not points.shape[0]:
            values = points.new_zeros(0, self.channels)
        else:
            with without_autocast(points.device):
                values = self._values(points)
        return values.reshape(*x.shape[:-1], self.channels)

    def _values(self, points: Tensor) -> Tensor:
        values = self.sums(points)
        return values if self.base is None else values + evaluate_base(self.base, points, self.channels)

    def extra_repr(self) -> str:
        return f"({', '.join(self.coordinates)}) -> {self.channels} channels"
