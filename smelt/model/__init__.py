"""The looped MoE Transformer: its settings, its execution plan and the network that walks it.

- `settings.ModelSettings`: the shape of a model (layers, heads, experts, loop).
- `execution.plan`: the list of steps that everything walks: layer, visit, residual scale, KV slot.
- `transformer.Transformer`: the network (imports torch); `decode.greedy` generates with a KV cache.

Nothing is imported here, so that a job that needs the plan alone does not load torch.
"""
