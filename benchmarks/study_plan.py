"""What planning and status of a study of 10,000 jobs take, in a fresh interpreter that must not import torch.

PYTHONPATH=src python benchmarks/study_plan.py --jobs 10000
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from typing import Any

import microtome as mt


def study_of(jobs: int) -> dict[str, Any]:
    """A study of half fine-tunings and half truncations and spans, of about this many jobs."""
    side = max(1, math.isqrt(jobs // 4))
    return {
        "models": {f"model-{k}": "zoo:masked" for k in range(side)},
        "tasks": {f"task-{k}": "polarity" for k in range(side)},
        "finetune": {"seeds": [1, 2]},
        "experiments": {"truncate": {}, "skip": {}},
    }


def measure(jobs: int) -> dict[str, float]:
    """Seconds of the clock and of the processor."""
    times: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as store:
        for name in ("plan", "status"):
            clock, processor = time.perf_counter(), time.process_time()
            status = getattr(mt.study(study_of(jobs)), name)(store)
            times[f"{name}, clock"] = time.perf_counter() - clock
            times[f"{name}, processor"] = time.process_time() - processor
    return {"jobs": len(status.jobs), **times}


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--jobs", type=int, default=10_000)
    times = measure(parser.parse_args().jobs)
    for name, value in times.items():
        print(f"{name}: {value:,.2f}" if name != "jobs" else f"{value:,} jobs")
    if "torch" in sys.modules:
        raise SystemExit("torch was imported")


if __name__ == "__main__":
    main()
