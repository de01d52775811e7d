"""Device and arithmetic of a training, and of evaluations of the trained model."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..checks import check_choice
from ..encoders.family import Family
from ..errors import must
from ..lazy import torch
from ..store.entry import RECORD

# Files that `finetune` and `prune` write beside a model, and the keys of the precision in them.
_PLACES = (
    ("run.json", ("precision",)),
    (RECORD, ("specification", "precision")),
    ("microtome.json", ("provenance", "precision")),
)
Autocast = Callable[[], contextlib.AbstractContextManager[Any]]
DTYPES = ("auto", "float32", "tf32", "bfloat16", "float16")
DEFAULT = "float32"


def read_precision(folder: Path | None) -> str:
    """
    Read the precision in which a model was trained, where its folder records it.

    Parameters
    ----------
    folder : Path, optional

    Returns
    -------
    {"float32", "tf32", "bfloat16", "float16"}
        Of matrix products; "float32" where none is recorded.
    """
    for name, keys in _PLACES:
        if folder is None or not (folder / name).is_file():
            continue
        value: Any = json.loads((folder / name).read_text(encoding="utf-8"))
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value:
            return str(value)
    return DEFAULT


def products_in(precision: str, device: str) -> Autocast:
    """
    Choose the precision in which a model predicts.

    Parameters
    ----------
    precision : {"float32", "tf32", "bfloat16", "float16"}
    device : str
        The type of the device, such as "cpu". TF32 exists only on "cuda"; elsewhere it is float32.

    Returns
    -------
    callable
        Returns the context in which the model runs.
    """
    if precision == "tf32":
        return _tf32 if device == "cuda" else contextlib.nullcontext
    if precision == DEFAULT:
        return contextlib.nullcontext
    return lambda: torch.autocast(device, dtype=getattr(torch, precision))


def training_kernels(device: torch.device, *, tf32: bool) -> Callable[[], Any]:
    """
    Choose attention kernels with deterministic gradients, which not all kernels on a GPU have.

    Parameters
    ----------
    device : torch.device
    tf32 : bool
        Whether matrix products on a GPU use TF32.

    Returns
    -------
    callable
        Returns a context in which they are used.
    """
    if device.type == "cpu":
        return contextlib.nullcontext
    from torch.nn.attention import SDPBackend, sdpa_kernel

    @contextlib.contextmanager
    def deterministic() -> Iterator[None]:
        with _tf32(tf32), sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
            yield

    return deterministic


@contextlib.contextmanager
def _tf32(allowed: bool = True) -> Iterator[None]:
    """Let matrix products on a GPU use TF32, or not."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def choose_dtype(device: str, dtype: str, family: Family, *, vectorized: bool = False) -> str:
    """
    Resolve the arithmetic of a training, or raise an InputError if device or model do not support it.

    Parameters
    ----------
    device : str
        "cpu" or "cuda".
    dtype : {"auto", "float32", "tf32", "bfloat16", "float16"}
        "auto" is bfloat16 on a GPU that has it, and float32 elsewhere.
    family : Family
        Of the model.
    vectorized : bool
        Whether several models train as one, in float32 or TF32.

    Returns
    -------
    {"float32", "tf32", "bfloat16", "float16"}
    """
    if device not in ("cpu", "cuda"):
        raise must(
            "device", "'cpu' or 'cuda' for training (CUDA_VISIBLE_DEVICES chooses among several)", device
        )
    check_choice("dtype", dtype, DTYPES)
    if dtype == "auto":
        possible = device == "cuda" and family.bfloat16 and not vectorized
        half = possible and torch.cuda.is_bf16_supported(including_emulation=False)
        return "bfloat16" if half else DEFAULT
    if dtype == "tf32" and device == "cpu":
        raise must("dtype", "float32, bfloat16 or float16 on a CPU", dtype)
    if dtype == "bfloat16" and not family.bfloat16:
        raise must("dtype", f"float32 or tf32 for {family.title}, which overflows in bfloat16", dtype)
    if vectorized and dtype not in (DEFAULT, "tf32"):
        raise must("dtype", "float32 or tf32 for vectorized training", dtype)
    return dtype


def make_accelerator(device: str, dtype: str) -> Any:
    """
    Make the accelerator, which manages the devices.

    Parameters
    ----------
    device : str
        "cpu" or "cuda".
    dtype : {"float32", "tf32", "bfloat16", "float16"}
        Of matrix products; weights are always float32. "tf32" rounds the factors, and needs a GPU.

    Returns
    -------
    accelerate.Accelerator
    """
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    mixed = {"bfloat16": "bf16", "float16": "fp16"}.get(dtype, "no")
    if device != "cpu":
        # Bit-identical results: kernels that add in a nondeterministic order are excluded.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        # Nothing here reads uninitialized memory, and filling it would take one kernel per tensor.
        settings: Any = torch.utils.deterministic
        settings.fill_uninitialized_memory = False
    # The accelerator's state is global and cannot be changed, so it is reset for each training, except among
    # several processes, which were set up together.
    AcceleratorState._reset_state(reset_partial_state=int(os.environ.get("WORLD_SIZE", "1")) == 1)
    return Accelerator(cpu=device == "cpu", mixed_precision=mixed)
