"""The looped MoE Transformer: its settings, its execution plan and the network that walks it."""
