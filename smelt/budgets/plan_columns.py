"""The columns of a study's plan, and what its total row makes of them."""

import pyarrow as pa

from smelt.artifacts import field

PLAN = pa.schema(
    [
        field("architecture", pa.string(), "name of the execution plan; total in the last row"),
        field("scale", pa.string(), "scale of the cell"),
        field("sparsity", pa.string(), "label of the cell's sparsity"),
        field("tokens", pa.int64(), "tokens processed: stable phase and all decays, full contexts"),
        field("training_flops", pa.float64(), "F x tokens, LM head apart"),
        field("gpu_hours", pa.float64(), "(training_flops + head_flops) / (peak FLOP/s x utilisation), in hours"),
        field("utilisation", pa.float64(), "share of the peak FLOP/s that is assumed"),
        field("bytes_per_gpu", pa.int64(), "state over gpus, checkpointed activations and logits; largest in total"),
        field("checkpoint_bytes", pa.int64(), "stored: one model a branch, resumable states, checkpoints of decays"),
        field("run", pa.string(), "id of the run"),
        field("seed", pa.int64(), "seed of the run"),
        field("accelerator", pa.string(), "GPU that hours and memory are of"),
        field("gpus", pa.int64(), "GPUs that hold the state at the least, sharded evenly; largest in total"),
        field(
            "sharded_gpus",
            pa.int64(),
            "the least that share contexts and experts evenly and hold all",
        ),
        field("sharded_bytes_per_gpu", pa.int64(), "slices, one context, a gathered block; largest in total"),
        field("communication_bytes", pa.int64(), "a GPU gets in a step, experts in place; largest in total"),
        field("gathered_communication_bytes", pa.int64(), "the same with experts gathered; largest in total"),
        field("stable_tokens", pa.int64(), "of tokens, those of the stable phase"),
        field("decay_tokens", pa.int64(), "of tokens, those of all decays together"),
        field("endpoint_tokens", pa.int64(), "D of the last endpoint: stable phase and one decay; empty in total"),
        field("first_endpoint_flops", pa.float64(), "C = F x D of the first endpoint; the smallest in total"),
        field("last_endpoint_flops", pa.float64(), "C = F x D of the last endpoint; the largest in total"),
        field("head_flops", pa.float64(), "FLOPs of the LM head, in no F but in gpu_hours"),
        field("state_bytes", pa.int64(), "weights, gradients and two moments in float32; largest in total"),
        field("activation_bytes", pa.int64(), "of a batch of one context, all kept, LM head apart; largest in total"),
        field("checkpointed_bytes", pa.int64(), "the same with checkpointing by block; largest in total"),
        field("logit_bytes", pa.int64(), "float32 logits of one context; largest in total"),
        field("model_bytes", pa.int64(), "float32 weights of one endpoint, embedding and LM head among them"),
        field("corpus_tokens", pa.int64(), "tokens of the text read; in total those of the longest runs, once a seed"),
        field("corpus_bytes", pa.int64(), "whole shards of both streams, token ids uncompressed; shared likewise"),
        field("reason", pa.string(), "warnings, and why a value is missing"),
    ]
)

# Columns of the total row: what adds up, and what the largest run decides.
SUMMED = ("tokens", "training_flops", "gpu_hours", "checkpoint_bytes", "stable_tokens", "decay_tokens", "head_flops",
          "model_bytes")  # fmt: skip
LARGEST = ("bytes_per_gpu", "gpus", "sharded_gpus", "sharded_bytes_per_gpu", "communication_bytes",
           "gathered_communication_bytes", "last_endpoint_flops", "state_bytes", "activation_bytes",
           "checkpointed_bytes", "logit_bytes")  # fmt: skip
