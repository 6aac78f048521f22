"""A network spread over processes: FSDP2 by block, and experts that stay where they are.

*Sharded*: each process keeps an equal slice of every parameter, gradient and moment. A block's parameters are gathered
for its forward pass, dropped, and gathered again for its backward pass; a looped block once a visit. Its gradients
are summed into slices after each.

*Expert parallel*: the experts, nearly all of a sparse network, are not gathered at all. Process r keeps experts
[r E/P, (r+1) E/P) of each layer, as one tensor of a global name, and the tokens go to them and back (all-to-all, as
many rows as there are choices). What comes back is summed in the order of a token's choices, as on one process.

The network knows nothing of it but `Layer.run_experts`.
"""

import functools
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from smelt.errors import UserError
from smelt.model import gpu
from smelt.model.experts import Experts, experts
from smelt.model.settings import ModelSettings
from smelt.model.transformer import Layer, Transformer, draw


def sharded(
    settings: ModelSettings,
    precision: torch.dtype,
    seed: int,
    mesh: DeviceMesh,
    expert_parallel: bool = False,
    execution: gpu.Execution | None = None,
) -> Transformer:
    """A network over the processes of a mesh of one dimension, with the weights that `initialise` gives this seed.

    It runs by the CPU's kernels, or by those of smelt.model.gpu as `execution` says. No process ever holds more than
    its slices and one whole parameter. Raises UserError where the experts cannot be shared out evenly.
    """
    with torch.device("meta"):
        model = Transformer(settings, precision)
    if execution is not None:
        gpu.install(model, execution)
    shard(model, mesh, expert_parallel)
    model.to_empty(device=mesh.device_type)
    _initialise(model, seed)
    return model


def shard(model: Transformer, mesh: DeviceMesh, expert_parallel: bool = False) -> None:
    """Spread a network on the meta device over `mesh`; the weights are still to be filled."""
    count = model.settings.experts
    if expert_parallel and count % mesh.size():
        raise UserError(
            f"training.expert_parallel: {count} experts of a layer do not go evenly into {mesh.size()} processes; "
            "choose training.processes so that they do, or leave expert_parallel out"
        )
    kept: set[nn.Parameter] = set()
    for layer in map(_layer, model.layers):
        if expert_parallel:
            layer.w13, layer.w2 = (
                nn.Parameter(distribute_tensor(weight.detach(), mesh, [Shard(0)], src_data_rank=None))
                for weight in (layer.w13, layer.w2)
            )
            layer.run_experts = functools.partial(exchanged, group=mesh.get_group(), run=layer.run_experts)
            if mesh.device_type == "cuda":  # how many rows go where is known to the host alone
                layer.run_experts = torch.compiler.disable(layer.run_experts)
            kept |= {layer.w13, layer.w2}
        fully_shard(layer, mesh=mesh, reshard_after_forward=True, ignored_params=kept)
    fully_shard(model, mesh=mesh, ignored_params=kept)
    for module in model.modules():
        if isinstance(module, FSDPModule):  # losses are shares of the whole batch's already
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)


def _layer(module: nn.Module) -> Layer:
    return cast(Layer, module)


def _initialise(model: Transformer, seed: int) -> None:
    """`initialise`, drawn whole by each process, which keeps its slices, so that their number decides nothing."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            whole = torch.ones(parameter.shape)
            if whole.dim() > 1:
                draw(name, whole, len(model.plan), generator)
            place(parameter, whole)


def place(parameter: Tensor, whole: Tensor) -> None:
    """Fill a tensor, or this process's slice of it along its first dimension, from the whole."""
    if not isinstance(parameter, DTensor):
        parameter.copy_(whole)
        return
    slices, number = whole.chunk(parameter.device_mesh.size()), parameter.device_mesh.get_local_rank()
    if number < len(slices):  # a short dimension leaves the last processes nothing
        parameter.to_local().copy_(slices[number])


def gathered(value: Tensor) -> Tensor:
    """The whole of a tensor. All must call it."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def exchanged(
    x: Tensor,
    indices: Tensor,
    weights: Tensor,
    w13: Tensor,
    w2: Tensor,
    precision: torch.dtype,
    group: Any,
    run: Experts = experts,
) -> Tensor:
    """`run` where process r of `group` keeps its share of the experts in w13 and w2 (sharded along the experts).

    x is (T, H), indices and weights are (T, k); T may differ from process to process.
    """
    w13, w2 = (weight.to_local() if isinstance(weight, DTensor) else weight for weight in (w13, w2))
    own, processes = len(w13), dist.get_world_size(group)
    flat = indices.flatten()
    order = flat.argsort(stable=True)  # by expert, and so by process
    sent = torch.bincount(flat, minlength=own * processes).view(processes, own)
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent, group=group)
    out_sizes, in_sizes = sent.sum(dim=1).tolist(), received.sum(dim=1).tolist()
    # In the products' precision, in which rows, results and their gradients are computed: nothing is rounded.
    chosen = x.index_select(0, order // indices.shape[1]).to(precision)
    rows = _Exchange.apply(chosen, out_sizes, in_sizes, group)
    local = torch.arange(own, device=x.device).repeat(processes).repeat_interleave(received.flatten()).unsqueeze(1)
    if len(rows):
        results = run(rows, local, weights.new_ones(local.shape), w13, w2, precision)
    else:  # nobody chose these experts, whose gradient is zero, not missing
        results = rows + 0.0 * (w13.sum() + w2.sum())
    back = _Exchange.apply(results.to(precision), in_sizes, out_sizes, group)
    inverse = torch.empty_like(order).index_copy_(0, order, torch.arange(len(order), device=x.device))
    out = back.index_select(0, inverse).unflatten(0, indices.shape)
    return (weights.unsqueeze(1) @ out.float()).squeeze(1).to(x.dtype)


class _Exchange(torch.autograd.Function):
    """Rows (R, H), the first sizes[0] of which go to process 0 and so on; gradients go the way back."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int], others: list[int], group: Any) -> Tensor:
        ctx.sizes, ctx.others, ctx.group = sizes, others, group
        return _exchange(rows, sizes, others, group)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _exchange(grad, ctx.others, ctx.sizes, ctx.group), None, None, None


def _exchange(rows: Tensor, sizes: list[int], others: list[int], group: Any) -> Tensor:
    received = rows.new_empty(sum(others), *rows.shape[1:])
    dist.all_to_all_single(received, rows.contiguous(), others, sizes, group=group)
    return received
