"""Tests of the service, its sampler and its documents.

numpy and OpenBLAS choose their code by the processor, and so the last digits of sums and exponentials. Tests
and the servers that they start use what every processor with AVX2 has: recorded digests hold on all of these.
"""

import os
from pathlib import Path

_PROCESSOR = Path("/proc/cpuinfo")

if _PROCESSOR.exists() and " avx2 " in _PROCESSOR.read_text():
    os.environ["OPENBLAS_CORETYPE"] = "Haswell"
    os.environ["NPY_DISABLE_CPU_FEATURES"] = "X86_V4 AVX512_ICL AVX512_SPR"
