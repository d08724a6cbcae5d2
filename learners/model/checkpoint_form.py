"""What a checkpoint has of each parameter of a model.

transformers may hold weights in another form than checkpoints do: all experts of a layer as one
tensor, a head under another name. What it did on loading is undone by its own code, one parameter
at a time, so that no more than one is ever held twice.
"""

from __future__ import annotations

import torch
from transformers import PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion


def in_checkpoint(module: torch.nn.Module, name: str, tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    """The parameter's tensors under a checkpoint's names."""
    if not isinstance(module, PreTrainedModel):  # an adapter, or a part of a model
        return {name: tensor}
    return revert_weight_conversion(module, {name: tensor})


def checkpoint_forms(
    module: torch.nn.Module, named: dict[str, torch.nn.Parameter]
) -> dict[str, dict[str, torch.Tensor]]:
    """The same of all parameters, without their values: tensors on torch's device `meta`."""
    empty = {
        name: torch.empty(getattr(parameter, "ds_shape", parameter.shape), dtype=parameter.dtype, device="meta")
        for name, parameter in named.items()
    }
    forms = {name: in_checkpoint(module, name, tensor) for name, tensor in empty.items()}
    if isinstance(module, PreTrainedModel):
        separate = {part: tensor.shape for parts in forms.values() for part, tensor in parts.items()}
        together = revert_weight_conversion(module, empty)
        joined = sorted(part for part, tensor in together.items() if separate.get(part) != tensor.shape)
        if joined:
            raise ValueError(
                f"{type(module).__name__} cannot be trained whole: a checkpoint has in one tensor what it holds in "
                f"several (such as {joined[0]}); set learner.lora.rank to train an adapter"
            )
    return forms


def kept_buffers(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """What a checkpoint holds beside the parameters, in its form: nobody trains it, such as a router's bias."""
    kept = module.state_dict().keys()
    named = {name: buffer for name, buffer in module.named_buffers() if name in kept}
    return {part: of for name, buffer in named.items() for part, of in in_checkpoint(module, name, buffer).items()}
