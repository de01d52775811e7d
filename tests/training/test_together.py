"""Do several processes train one model as one process would?"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import tiny

SCRIPT = """
import json, sys
import torch
import microtome as mt
from microtome.tasks.generated.table import GENERATED
torch.set_num_threads(1)
# 17 examples leave the second process nothing to do in every third update.
task = GENERATED["polarity"](sizes={"train": 17, "validation": 24})
run = mt.finetune(mt.load(sys.argv[1]), task, "wu2020", seed=1, steps=6, batch=8, rate=1e-3, epsilon=1e-3,
                  accumulate=2, longest=32, store=sys.argv[2])
print(json.dumps([str(run.folder), run.predictions, run.address]))
"""


def run(model: Path, store: Path, processes: int) -> list[list[object]]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = str(one.getsockname()[1])
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(model), str(store)],
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                **(
                    {
                        "RANK": str(rank),
                        "LOCAL_RANK": str(rank),
                        "WORLD_SIZE": str(processes),
                        "LOCAL_WORLD_SIZE": str(processes),
                        "MASTER_ADDR": "127.0.0.1",
                        "MASTER_PORT": port,
                        "ACCELERATE_USE_CPU": "true",
                    }
                    if processes > 1
                    else {}
                ),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(processes)
    ]
    told = []
    for process in started:
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        told.append(json.loads(out.splitlines()[-1]))
    return told


@pytest.mark.slow
def test_two_processes_train_what_one_does(tmp_path: Path) -> None:
    model = tiny.save_checkpoint(
        tmp_path / "model", "bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    (alone,) = run(model, tmp_path / "alone", 1)
    both = run(model, tmp_path / "both", 2)
    assert both[0] == both[1]
    assert both[0][2] != alone[2]
    one, two = (load_file(Path(str(told[0])) / "model.safetensors") for told in (alone, both[0]))
    # Gradients of the halves are averaged: the same sums in another order.
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-5
    assert bool(torch.isfinite(two["classifier.weight"]).all())
    assert json.loads((Path(str(both[0][0])) / "run.json").read_text())["processes"] == 2
    # Asked for again, it comes from the store, for all processes.
    assert run(model, tmp_path / "both", 2) == both
