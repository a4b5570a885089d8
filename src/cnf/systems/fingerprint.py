"""Fingerprint: tells whether anything that a field depends on changed, however it was changed.

Version counters miss writes through `.data`, and a module depends on more than its tensors: on its class, its hooks,
the numbers, lists and arrays it keeps, the functions it was given, what those enclose and the globals they name. All of
that is looked at; of code that is installed (torch, NumPy, this library) only what it encloses. What cannot be looked
into is compared by identity.
"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType

import numpy as np
import sympy as sp
import torch
from torch import Tensor, nn

from cnf.errors import CnfError
from cnf.fetching import is_here
from cnf.solvers.solver import Method

PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, sp.Basic)
INSTALLED = tuple({str(Path(__file__).parents[1]), *map(sysconfig.get_path, ("stdlib", "platstdlib"))})
CONTAINERS = (dict, OrderedDict, list, tuple)  # without attributes of their own
GLOBAL_HOOKS = (nn.modules.module._global_forward_hooks, nn.modules.module._global_forward_pre_hooks)
COMPILED = "_compiled_call_impl"  # of a module: torch's own, made from the rest


def fingerprint(tensors: Sequence[Tensor]) -> tuple:
    """One entry per tensor: shape, dtype, device and a digest of the bits."""
    reader = _Reader()
    found = tuple(reader.entry(t) for t in tensors)
    reader.fetch()
    return found


def fingerprint_of(part: object) -> object:
    """A value that is equal as long as nothing changed that `part` depends on."""
    reader = _Reader()
    found = reader.read(part)
    reader.fetch()
    return found


def tensors_in(part: object) -> list[Tensor | np.ndarray]:
    """Every tensor and array that can be reached from `part`."""
    reader = _Reader()
    reader.read(part)
    return [found for found in reader.alive if isinstance(found, Tensor | np.ndarray)]


def is_installed(code: CodeType | type) -> bool:
    """True for code of an installed package or of this library, which nobody changes between two calls."""
    if isinstance(code, CodeType):
        path = code.co_filename
    else:
        home = sys.modules.get(code.__module__)
        path = getattr(home, "__file__", None) or ""
        if not path:
            return code.__module__ in sys.builtin_module_names or code.__module__ in sys.stdlib_module_names
    return _is_installed_at(path)


def named_globals(function: FunctionType) -> Iterator[tuple[dict, str]]:
    """(namespace, name) of everything outside it that a function names; nothing of installed code."""
    code, spaces = function.__code__, [function.__globals__]
    if is_installed(code):
        return
    names = list(_names(code))
    spaces += [vars(v) for v in map(function.__globals__.get, names) if _is_own_module(v)]
    for space in spaces:
        for name in names:
            if name in space and not isinstance(space[name], ModuleType | BuiltinFunctionType):
                yield space, name


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_own_module(value: object) -> bool:
    path = (getattr(value, "__file__", None) or "") if isinstance(value, ModuleType) else ""
    return bool(path) and not _is_installed_at(path)


def _is_installed_at(path: str) -> bool:
    return path.startswith(INSTALLED) or "site-packages" in path or "dist-packages" in path


def slots_of(part: object) -> Iterator[tuple[str, object]]:
    """Name and value of the attributes that an object keeps outside its dictionary."""
    for kind in type(part).__mro__[:-1]:
        names = kind.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            hidden = (
                f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
            )
            entry = kind.__dict__.get(hidden)
            if isinstance(entry, MemberDescriptorType):
                try:
                    yield hidden, entry.__get__(part)
                except AttributeError:  # never set
                    continue


def derived_names(part: object) -> tuple[str, ...]:
    """Attributes that change nothing: the solution that a field remembers, or who does the work."""
    return getattr(type(part), "_derived", ()) if isinstance(part, nn.Module | Method) else ()


def _remembered_names(kind: type) -> frozenset[str]:
    """Attributes in which a frozen value remembers what it worked out from the others, once somebody asked."""
    settings = getattr(kind, "__dataclass_params__", None)
    if settings is None or not settings.frozen:  # anything may be written over what is remembered
        return frozenset()
    own = (vars(k) for k in kind.__mro__ if is_installed(k))
    return frozenset(name for written in own for name, value in written.items() if type(value) is cached_property)


class _Same:
    """Compared by identity; keeps its object alive, so that the identity stays its own."""

    def __init__(self, kept: object):
        self.kept = kept

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.kept is self.kept

    def __hash__(self) -> int:
        return id(self.kept)


class _Digest:
    """A digest of bits, compared by what it is once they were there to be read; by identity before."""

    content: bytes | None = None

    def __eq__(self, other: object) -> bool:
        if self.content is None:
            return self is other
        return isinstance(other, _Digest) and other.content == self.content

    def __hash__(self) -> int:
        return 0  # the same before and after


class _Reader:
    def __init__(self) -> None:
        self._seen: dict[int, int] = {}  # what was read already: objects may refer to each other in circles
        self.alive: list[object] = []  # so that no identity is given twice meanwhile
        self._away: list[tuple[_Digest, Tensor]] = []  # what is not on the host, and has not been looked at yet

    def entry(self, t: Tensor) -> tuple:
        """Shape, dtype, device and a digest of the bits, which `fetch` makes of those that are elsewhere."""
        refuse_transforms([t])
        with torch._C._DisableFuncTorch():  # a remembered solution may be asked for inside a derivative
            bits, digest = _bits(t.detach()), _Digest()
            if bits is None or is_here(bits):
                digest.content = b"" if bits is None else _hash(bits.numpy())
            else:
                self._away.append((digest, bits))
        return (tuple(t.shape), t.dtype, str(t.device), digest)

    def fetch(self) -> None:
        """All tensors of one device in one transfer."""
        for device in dict.fromkeys(bits.device for _, bits in self._away):
            own = [(digest, bits) for digest, bits in self._away if bits.device == device]
            with torch._C._DisableFuncTorch():
                packed = torch.cat([bits for _, bits in own]).cpu()
            for (digest, _), part in zip(own, packed.split([bits.numel() for _, bits in own]), strict=True):
                digest.content = _hash(part.numpy())

    def read(self, part: object) -> object:
        if isinstance(part, PLAIN):
            return (type(part), repr(part) if isinstance(part, float | complex) else part)
        if type(part) in CONTAINERS and not part:  # a module has a dozen
            return type(part)
        if id(part) in self._seen:
            return ("seen", self._seen[id(part)])
        self._seen[id(part)] = len(self._seen)
        self.alive.append(part)
        if isinstance(part, Tensor):
            return (self.entry(part),)
        if isinstance(part, np.ndarray):
            content = self.read(part.tolist()) if part.dtype.hasobject else _hash(np.ascontiguousarray(part))
            return (part.shape, str(part.dtype), content)
        if isinstance(part, dict):
            return (type(part), tuple((self.read(k), self.read(v)) for k, v in part.items()), self._attributes(part))
        if isinstance(part, list | tuple):
            return (type(part), tuple(self.read(v) for v in part), self._attributes(part))
        if isinstance(part, set | frozenset):
            return (type(part), frozenset(self.read(v) for v in part))
        if isinstance(part, FunctionType | MethodType | partial | BuiltinFunctionType | torch.jit.ScriptFunction):
            return self._callable(part)
        if isinstance(part, type):
            return self._class(part)
        return self._object(part)

    def _callable(self, part) -> object:
        if isinstance(part, MethodType):
            return (self.read(part.__func__), self.read(part.__self__))
        if isinstance(part, partial):
            return (self.read(part.func), self.read(part.args), self.read(part.keywords))
        if not isinstance(part, FunctionType):
            return _Same(part)
        plain = getattr(part, "_torchdynamo_orig_callable", None)
        if plain is not None:  # compiled: the rest is torch's own
            return self.read(plain)
        enclosed = tuple(self._cell(cell) for cell in part.__closure__ or ())
        outside = tuple((name, self.read(space[name])) for space, name in named_globals(part))
        own = (self.read(part.__defaults__), self.read(part.__kwdefaults__), self.read(vars(part)))
        return (part.__code__, *own, enclosed, outside)

    def _cell(self, cell) -> object:
        try:
            return self.read(cell.cell_contents)
        except ValueError:  # not filled yet
            return None

    def _class(self, kind: type) -> object:
        """A class and those it derives from, with everything that is written in them, unless they are installed."""
        own = [k for k in kind.__mro__ if not is_installed(k)]
        return (_Same(kind), *(self.read(value) for k in own for _, value in written_in(k)))

    def _object(self, part: object) -> object:
        if isinstance(part, ModuleType):
            return _Same(part)
        if isinstance(part, weakref.ref):
            return self.read(part())
        if isinstance(part, torch.jit.ScriptModule):
            return (_Same(part), _hash(part.save_to_buffer()))
        plain = getattr(part, "_orig_mod", None) if isinstance(part, nn.Module) else None
        if isinstance(plain, nn.Module):  # compiled
            return self.read(plain)
        if isinstance(part, property):
            return (self.read(part.fget), self.read(part.fset))
        attributes = self._attributes(part)
        if not attributes:
            return self._opaque(part)
        forward = self.read(getattr(type(part), "forward", None)) if isinstance(part, nn.Module) else None
        return (self.read(type(part)), forward, attributes)

    def _attributes(self, part: object) -> tuple:
        if type(part) in CONTAINERS:
            return ()
        kept = getattr(part, "__dict__", None) or {}
        left = {COMPILED, *derived_names(part), *_remembered_names(type(part))}
        own = [(name, self.read(value)) for name, value in kept.items() if name not in left]
        return (*own, *((name, self.read(value)) for name, value in slots_of(part)))

    def _opaque(self, part: object) -> object:
        """What says how to rebuild it (a deque, a random generator) is read from that."""
        try:
            rebuilt = part.__reduce_ex__(4)
        except Exception:  # anything may be raised by what cannot be taken apart
            return _Same(part)
        if isinstance(rebuilt, str):
            return _Same(part)
        make, given, state, *entries = (*rebuilt, None)
        listed = [[*entry] for entry in entries if entry is not None]  # type: ignore[misc]
        return (_Same(make), self.read(given), self.read(state), self.read(listed))


def written_in(kind: type) -> Iterator[tuple[str, object]]:
    """Methods and attributes of a class, apart from what Python itself puts there."""
    for name, value in vars(kind).items():
        private = name.startswith("__") and name.endswith("__") and not callable(value)
        if not private and name not in ("_abc_impl", "__weakref__") and not isinstance(value, MemberDescriptorType):
            yield name, value


def _bits(tensor: Tensor) -> Tensor | None:
    """The bytes of a tensor, where it is; None if there are none."""
    if tensor.is_meta or not tensor.numel():
        return None
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    flat = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1)
    if flat.stride(0) != 1:  # a single number that was expanded counts as contiguous
        flat = flat.clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8)


def refuse_transforms(tensors: Sequence[Tensor] = ()) -> None:
    """The gradient of a solve is its own (one solve with the factor that is there): torch.func would not see it."""
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    if torch._C._are_functorch_transforms_active() and all(map(wrapped, tensors)):
        raise CnfError(
            "a field cannot be solved inside a transform of torch.func (grad, jvp, vmap, jacrev, ...). Solve it "
            "outside and transform the solution, or take gradients with torch.autograd.grad; a field that is part of "
            "a base network must be in eval mode"
        )


def _hash(content: np.ndarray | bytes) -> bytes:
    return hashlib.sha256(content).digest()  # type: ignore[arg-type]
