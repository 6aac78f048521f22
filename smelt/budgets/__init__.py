"""What a model costs per token (FLOPs, parameters, KV cache) and the looped twin that costs the same."""
