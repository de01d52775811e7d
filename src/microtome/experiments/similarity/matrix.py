"""Similarity matrices: measures between every pair of layers of arrays or files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...comparison.inputs import prepare
from ...comparison.request import PRECISIONS, Request, SimilarityOptions
from ...comparison.similarity import compute_maps
from ...context import Context
from ...findings.record import Maps, describe_file, with_facts
from ..base import Experiment, Plan, as_function, option


@dataclass(frozen=True, kw_only=True)
class MatrixOptions:
    """Which measures are computed, how exactly, and with which intervals and null distributions."""

    measures: Any = option(
        "Names of `microtome ls measures`, separated by commas; options as svcca:threshold=0.95.",
        "debiased_cka",
        panel="Statistics",
        positional=True,
        short="-m",
        metavar="NAME,...",
    )
    certainty: bool = option(
        "Compute intervals; rows of one document or sentence are correlated, and stay together.",
        False,
        panel="Statistics",
    )
    halves: int = option(
        "Number of half-samples, for intervals that need them.", 40, least=2, most=100_000, panel="Statistics"
    )
    permutations: int = option(
        "Number of permutations of the rows, for null distributions.",
        0,
        least=0,
        most=10_000_000,
        panel="Statistics",
    )
    zscore: bool = option("Standardize every neuron first.", False, panel="Rows")
    remove_top: int = option(
        "Number of neurons of largest variance to remove from each layer.", 0, least=0, panel="Rows"
    )
    precision: str = option(
        "Numerics: float32 products added up in float64, or float64 throughout.",
        "fast",
        choices=PRECISIONS,
        panel="Statistics",
    )
    memory: str | int = option("Memory for intermediate results.", "2GB", panel="Output", metavar="SIZE")

    def similarity_options(self, context: Context, **options: Any) -> SimilarityOptions:
        """The options of this experiment as the engine takes them; the context sets the threads."""
        names = ("certainty", "halves", "permutations", "zscore", "remove_top", "precision", "memory", "seed")
        return SimilarityOptions(
            **{name: getattr(self, name) for name in names},
            device=context.device,
            level=context.level,
            progress=context.progress,
            **options,
        )


@dataclass(frozen=True, kw_only=True)
class SimilarityMatrix(MatrixOptions, Experiment):
    """
    Compare every layer of one stack with every layer of another, or of itself.

    Stacks are lists of arrays of shape (rows, features), arrays of shape (layers, rows, features), or paths;
    files are read in pieces. Clusters of correlated rows come from `clusters`, or else from a folder that
    `extract` wrote: documents, where it names ten or more, and sentences otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> first = rng.normal(size=(200, 6))
    >>> maps = similarity_matrix([first, first + rng.normal(size=(200, 6))], measures=["debiased_cka"])
    >>> maps["debiased_cka"].values.shape
    (2, 2)
    """

    name = "similarity"
    unused = frozenset({"store"})
    returns = "Maps"

    left: Any = option(
        "Layers: a .npy or .safetensors file, or a folder of them.", panel="Input", argument=True, metavar="A"
    )
    right: Any = option(
        "Layers to compare with; A itself when absent.",
        None,
        panel="Input",
        argument=True,
        positional=True,
        metavar="B",
    )
    clusters: Any = option(
        "Cluster of each row, such as its sentence: a .npy file.", None, panel="Rows", metavar="FILE"
    )
    sample: int | None = option(
        "Use a random sample of N rows, of whole clusters where there are any.",
        None,
        least=4,
        panel="Rows",
        metavar="N",
    )
    leave_out: Any = option(
        "Rows to leave out: a .npy file, true for each of them.", None, panel="Rows", metavar="FILE"
    )
    names: Sequence[str] | None = option(
        "Names of the layers of A, separated by commas.", None, panel="Input"
    )
    right_names: Sequence[str] | None = option(
        "Names of the layers of B, separated by commas.", None, panel="Input"
    )
    spectra: bool = option("Add the variance spectrum of each layer to the result.", False, panel="Output")
    seed: int = option(
        "Seed of the sample, the half-samples and the permutations.", 0, least=0, panel="Statistics"
    )

    def plan(self, context: Context) -> Plan:
        """Open the layers, check them against each other, and estimate time and memory; reads no rows."""
        own = ("clusters", "sample", "leave_out", "names", "right_names", "spectra")
        options = self.similarity_options(context, **{name: getattr(self, name) for name in own})
        request = prepare(self.left, self.right, self.measures, options)
        return Plan(summary=request.summary(), sentence=request.sentence(), inputs=request)

    def run(self, plan: Plan, context: Context) -> Maps:
        """Compute the maps."""
        request: Request = plan.inputs
        paths = [path for path in (self.clusters, self.leave_out) if isinstance(path, str | os.PathLike)]
        # Hashing takes time, which only a result that a command reproduces is worth.
        files = [describe_file(path) for path in (*request.files(), *paths)] if context.command else []
        maps = compute_maps(replace(request, progress=context.progress))
        return with_facts(maps, inputs=files)


similarity_matrix = as_function(SimilarityMatrix, "similarity_matrix")
