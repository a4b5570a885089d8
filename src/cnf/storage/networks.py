"""A network alone as plain data, and back."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from cnf.errors import CnfError, FileError
from cnf.storage.building import Builder
from cnf.storage.describing import Describer
from cnf.storage.earlier import renew_part


def describe_network(network: nn.Module) -> dict[str, object]:
    """{"network": description, "state": tensors}, for `cnf.files.write_archive`."""
    state = {name: value.detach() for name, value in network.state_dict().items()}
    return {"network": Describer().described(network, "network"), "state": state}


def build_network(content: Mapping[str, object], source: object) -> nn.Module:
    """The network that `describe_network` described; `source` is the file it came from, for messages."""
    try:
        state = check_state(content["state"])
        network = Builder(state).built(renew_part(content["network"]), "network")
        if not isinstance(network, nn.Module):
            raise FileError(f"{source} does not describe a network")
        restore_state(network, state)
    except CnfError as error:
        raise FileError(f"{source}: {error}") from None
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise FileError(
            f"{source} does not describe a network this version can rebuild ({type(error).__name__})"
        ) from None
    return network


def check_state(state: object) -> dict[str, Tensor]:
    """The tensors of a file by name, if that is what they are."""
    if not isinstance(state, dict) or not all(isinstance(t, Tensor) for t in state.values()):
        raise FileError("the file is damaged: its parameters are missing")
    return state


def restore_state(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Every parameter and buffer bit for bit, in the precision it was saved in."""
    with torch.no_grad():
        for name, own in (*module.named_parameters(), *module.named_buffers()):
            saved = state.get(name)
            if saved is not None and saved.is_floating_point() and own.is_floating_point() and own.dtype != saved.dtype:
                own.data = own.data.to(saved.dtype)
    module.load_state_dict(dict(state))
