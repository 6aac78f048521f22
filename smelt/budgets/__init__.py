"""What a model costs per token (FLOPs, parameters, KV cache) and the looped model that costs the same."""
