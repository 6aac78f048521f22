"""What a model costs per token (FLOPs, parameters, KV cache) and the looped model that costs the same.

- `ledger.budget`: FLOPs per token, parameters and KV bytes of one model, from the steps of its execution plan.
- `matching.closest`: the looped model nearest to a baseline in all three.
- `memory`, `sharding`: bytes on a device. `plan`: what a study costs before it runs.

Nothing is imported here: a job imports the module that it needs.
"""
