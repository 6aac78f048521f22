"""What only Snakemake uses: job specs, resource requests, paths, targets, and checks before a start."""
