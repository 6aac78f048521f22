#!/usr/bin/env bash
# Every check and benchmark that needs a GPU, in under 8 minutes on one H200: `benchmarks/gpu.sh [python]`.
# Needs torch with CUDA, a C compiler (Triton's), pytest and hypothesis; transformers for the last row.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:-python3}
export PYTHONPATH=. CUBLAS_WORKSPACE_CONFIG=:4096:8 PYTHONUNBUFFERED=1

"$python" -c 'import sys, torch; sys.exit(0 if torch.cuda.is_available() else "error: no CUDA device here")' || exit 1
status=0
timeout 150 "$python" -m pytest -q -p no:cacheprovider tests/model/test_gpu.py tests/training/backends/test_gpu.py -m "not slow" || status=$?
timeout 315 "$python" benchmarks/gpu.py || status=$?
exit "$status"
