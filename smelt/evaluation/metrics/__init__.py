"""Log-likelihoods to scores by task, and to Core, Completion and MMLU."""
