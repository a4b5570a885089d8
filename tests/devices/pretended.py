"""A pretended device: tensors that say they live elsewhere, with real numbers in the memory of this process.

It takes torch's slot for devices from outside ("pretend" beside "cpu" and "cuda") and behaves as a graphics card does:
tensors of two devices do not mix (but for single numbers), nothing reaches NumPy, and every time the host has to wait
for a number it is written down in `Traffic`, with the line that asked. Only the speed is not pretended.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

aten = torch.ops.aten
NAME = "pretend"
_setup_privateuseone_for_python_backend(NAME)
# Whoever checkpoints in this process asks for it, whatever device it is on.
getattr(torch, NAME).get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]

# The size of what these return, or whether they succeeded, must be known on the host.
WAITING = {
    aten._local_scalar_dense,
    aten.equal,
    aten.is_nonzero,
    aten.nonzero,
    aten.masked_select,
    aten._unique,
    aten._unique2,
    aten.unique_dim,
    aten.unique_consecutive,
    aten.bincount,
    aten._linalg_svd,
    aten._linalg_eigh,
    aten.linalg_eig,
}
INDEXED = {aten.index, aten.index_put, aten.index_put_, aten._unsafe_index, aten._index_put_impl_}
MOVING = {aten.copy_, aten._to_copy}


@dataclass
class Traffic:
    """How often the host waited for the device, and how often it sent something there, by the lines that did."""

    waits: Counter[str] = field(default_factory=Counter)
    uploads: Counter[str] = field(default_factory=Counter)


_watching: list[Traffic] = []


@contextmanager
def watched() -> Iterator[Traffic]:
    """What crosses between host and device meanwhile."""
    traffic = Traffic()
    _watching.append(traffic)
    try:
        yield traffic
    finally:
        _watching.remove(traffic)


def _note(kind: str, happened: bool = True) -> None:
    if happened and _watching:
        ours = [f for f in traceback.extract_stack() if "/cnf/" in f.filename]
        where = f"{ours[-1].filename.rsplit('/cnf/')[-1]}:{ours[-1].lineno} {ours[-1].line}" if ours else "elsewhere"
        for traffic in _watching:
            getattr(traffic, kind)[where] += 1


class Pretended(Tensor):
    """A tensor of the device; `held` has its numbers."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> Pretended:
        made = Tensor._make_wrapper_subclass(
            cls, held.shape, held.stride(), held.storage_offset(), dtype=held.dtype, device=f"{NAME}:0"
        )
        made.held = held
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __repr__(self, **_: object) -> str:
        return f"pretended({self.held!r})"

    def tolist(self) -> list:
        """As of any device: the numbers are fetched first (torch's own refuses subclasses)."""
        return self.detach().cpu().tolist()

    def numpy(self, **_: object):
        raise TypeError(f"can't convert {NAME}:0 device type tensor to numpy. Use Tensor.cpu() first")

    __array__ = numpy

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        packet, given = func.overloadpacket, []  # type: ignore[var-annotated]

        def taken(tensor: Tensor) -> Tensor:
            given.append(tensor)
            return tensor.held if isinstance(tensor, Pretended) else tensor

        plain_args, plain_kwargs = _mapped(taken, args), _mapped(taken, kwargs or {})
        target = plain_kwargs.get("device")
        leaves = target is not None and torch.device(target).type != NAME
        if leaves and torch.device(target).type == "meta":  # its shape alone is asked for
            return func(*plain_args, **plain_kwargs)
        if packet in MOVING:
            leaves = leaves or not isinstance(args[0], Pretended)
            _note("waits" if leaves else "uploads", leaves or not isinstance(args[-1], Pretended))
        else:
            _check_devices(func, packet, given)
        _note("waits", packet in WAITING or (packet in INDEXED and any(t.dtype == torch.bool for t in given[1:])))
        if target is not None:
            plain_kwargs["device"] = "cpu"
        found = func(*plain_args, **plain_kwargs)
        if leaves:
            return args[0] if packet is aten.copy_ else found
        outer = {id(t.held): t for t in given if isinstance(t, Pretended)} if func._schema.is_mutable else {}
        assert all(t.shape == t.held.shape for t in outer.values()), f"{func} resized a tensor"
        return _mapped(lambda t: outer.get(id(t)) if id(t) in outer else Pretended(t), found)


def _mapped(change: Callable[[Tensor], Any], part: Any) -> Any:
    """The same with every tensor changed, however deep in lists, tuples and dictionaries."""
    if isinstance(part, Tensor):
        return change(part)
    if isinstance(part, list | tuple):
        return type(part)([_mapped(change, each) for each in part])
    return {name: _mapped(change, each) for name, each in part.items()} if isinstance(part, dict) else part


def _check_devices(func, packet, given: list[Tensor]) -> None:
    strangers = [t for t in given if not isinstance(t, Pretended) and t.dim()]
    if packet in INDEXED:  # indices of the host are sent
        _note("uploads", bool(strangers))
        strangers = [t for t in strangers if t.is_floating_point()]
    if strangers:
        raise RuntimeError(
            f"{func}: Expected all tensors to be on the same device, but found at least two devices, {NAME}:0 and cpu!"
        )


_library = torch.library.Library("aten", "IMPL")


def _empty(size, *args, device=None, pin_memory=None, memory_format=None, **kwargs) -> Pretended:
    """New memory on the device."""
    made = aten.empty if memory_format is not None or not args else aten.empty_strided
    return Pretended(made(size, *args, device="cpu", **kwargs))


def _copy_from(source: Tensor, to: Pretended, non_blocking: bool = False) -> Pretended:
    """What torch.tensor(numbers, device=...) ends with."""
    _note("uploads")
    to.held.copy_(source)
    return to


def _zeros(size, device=None, pin_memory=None, **kwargs) -> Pretended:
    """Tangents that vanish, in forward mode; here written out."""
    return Pretended(torch.zeros(size, **kwargs))


def _counted(overload):
    """What torch would begin with empty memory and resize: a wrapper keeps its size."""

    def make(*args, device=None, pin_memory=None, **kwargs) -> Pretended:
        return Pretended(overload(*args, device="cpu", **kwargs))

    return make


for _name in ("arange", "arange.start", "arange.start_step", "linspace", "eye", "eye.m", "tril_indices"):
    _packet, _, _overload = _name.partition(".")
    _library.impl(_name, _counted(getattr(getattr(aten, _packet), _overload or "default")), "PrivateUse1")
_library.impl("_efficientzerotensor", _zeros, "PrivateUse1")
_library.impl("empty.memory_format", _empty, "PrivateUse1")
_library.impl("empty_strided", _empty, "PrivateUse1")
_library.impl("_copy_from", _copy_from, "PrivateUse1")
