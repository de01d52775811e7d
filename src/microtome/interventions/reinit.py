"""Re-initialization of the weights of blocks, and the schemes that draw them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..checks import whole_number
from ..encoders.cutting import check_numbers
from ..errors import InputError, must, unknown
from ..lazy import torch
from ..randomness import generator
from .declare import Change, at_most_depth, check_whole_groups, named, names_of, numbers, one_of

if TYPE_CHECKING:
    from ..encoders.encoder import TransformerEncoder

Draw = Callable[[np.ndarray, float, np.random.Generator], np.ndarray]
Bias = Literal["library", "keep", "zero"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """
    A scheme for re-initializing the weights of a block.

    Parameters
    ----------
    name : str
    summary : str
        One sentence.
    bias : {"library", "keep", "zero"}
        The default treatment of the biases.
    draw : callable, optional
        Called with a matrix, the standard deviation in the model's configuration, and a random number
        generator; returns the new matrix. None where the library initializes it.
    zero_outputs : bool
        Whether the parameters that write into the residual stream are set to zero.
    """

    name: str
    summary: str
    bias: Bias
    draw: Draw | None = None
    zero_outputs: bool = False


def truncated(shape: tuple[int, ...], bound: float, noise: np.random.Generator) -> np.ndarray:
    """
    Draw from a truncated standard normal distribution.

    Parameters
    ----------
    shape : tuple of int
    bound : float
        The largest distance from 0, in standard deviations of the untruncated normal distribution.
    noise : Generator

    Returns
    -------
    ndarray of shape `shape`
    """
    from scipy.special import ndtr, ndtri

    low = float(ndtr(-bound))
    return ndtri(noise.uniform(low, 1.0 - low, size=shape))


def _moment_matched(old: np.ndarray, _: float, noise: np.random.Generator) -> np.ndarray:
    draws = noise.standard_normal(old.shape)
    return old.mean(dtype=np.float64) + old.std(dtype=np.float64) * draws


_ALL = (
    Scheme(
        name="library",
        summary="As the library draws a new model of this configuration.",
        bias="library",
    ),
    Scheme(
        name="trunc_normal",
        summary="Normal, with the standard deviation of the configuration, cut at two of them.",
        bias="zero",
        draw=lambda old, sd, noise: sd * truncated(old.shape, 2.0, noise),
    ),
    Scheme(
        name="tamkin_code",
        summary="As published code drew it: within 0.0008 of zero where 0.04 was meant; biases are kept.",
        bias="keep",
        # The published call gave bounds in units of the weights instead of standard deviations.
        draw=lambda old, sd, noise: sd * truncated(old.shape, 2.0 * sd, noise),
    ),
    Scheme(
        name="moment_matched",
        summary="Normal, with the mean and the standard deviation that each matrix had.",
        bias="zero",
        draw=_moment_matched,
    ),
    Scheme(
        name="shuffled",
        summary="The entries that each matrix had, in random order.",
        bias="zero",
        draw=lambda old, _, noise: noise.permutation(old.reshape(-1)).reshape(old.shape),
    ),
    Scheme(
        name="near_identity",
        summary="As the library draws it, but with nothing written into the residual path.",
        bias="library",
        zero_outputs=True,
    ),
)
SCHEMES: Mapping[str, Scheme] = MappingProxyType({scheme.name: scheme for scheme in _ALL})


Part = Literal["matrix", "bias", "norm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reinit:
    """
    Re-initialize the weights of blocks.

    The values of a tensor depend on the seed, its block and its name, and on no other block that is
    re-initialized: blocks that two calls have in common get the same weights in both. Embeddings, modules
    beside the blocks, poolers and heads are unchanged.

    Parameters
    ----------
    blocks : tuple of int, optional
        The blocks to re-initialize, numbered from 1.
    past : int, optional
        All blocks above this one: `past=8` re-initializes 9, 10 and so on, `past=0` all.
    keep : tuple of int, optional
        All blocks but these.
    seed : int
    scheme : str
        How matrices (all tensors of two or more dimensions) are drawn, one of `SCHEMES`:

        - library: as for a new model of this configuration.
        - trunc_normal: normal, with the standard deviation of the configuration, truncated at two standard
          deviations.
        - tamkin_code: as in the code of Tamkin et al. (2020), which mistook the units of the truncation
          bounds: with a standard deviation of 0.02 all draws lie within 0.0008 of zero, and their standard
          deviation is 0.00046.
        - moment_matched: normal, with the mean and standard deviation of the previous matrix.
        - shuffled: the entries of the previous matrix, in random order.
        - near_identity: as in library, but the output of attention and of the feed-forward layers to the
          residual stream is zero. The block then returns its input, or the normalized input in post-norm
          families (such as BERT), where two norms remain in a row.
    bias : {"keep", "zero"}, optional
        Treatment of one-dimensional tensors outside norms. When absent: as in a new model (library,
        near_identity), kept (tamkin_code), or zero (the other schemes). The biases of the outputs that
        near_identity sets to zero are always zero.
    layernorm : {"reset", "keep"}
        Whether norms are reset to the values of a new model.
    """

    blocks: tuple[int, ...] | None = None
    past: int | None = None
    keep: tuple[int, ...] | None = None
    seed: int = 0
    scheme: str = "library"
    bias: Literal["keep", "zero"] | None = None
    layernorm: Literal["reset", "keep"] = "reset"

    def __post_init__(self) -> None:
        option = one_of({"blocks": self.blocks, "past": self.past, "keep": self.keep}, "Reinit")
        if option == "past":
            object.__setattr__(self, "past", whole_number("past", self.past, 0))
        else:
            object.__setattr__(self, option, numbers(option, getattr(self, option)))
        object.__setattr__(self, "seed", whole_number("seed", self.seed, 0))
        if not isinstance(self.scheme, str) or self.scheme not in SCHEMES:
            raise unknown("scheme", self.scheme, SCHEMES)
        if self.bias not in (None, "keep", "zero"):
            raise must("bias", "'keep', 'zero' or None", self.bias)
        if self.layernorm not in ("reset", "keep"):
            raise must("layernorm", "'reset' or 'keep'", self.layernorm)

    def blocks_of(self, encoder: TransformerEncoder) -> tuple[int, ...]:
        """Return the blocks of an encoder that are re-initialized."""
        all_blocks = range(1, encoder.depth + 1)
        if self.past is not None:
            at_most_depth("past", self.past, encoder)
            return tuple(all_blocks[self.past :])
        if self.keep is not None:
            check_numbers("keep", self.keep, encoder.depth)
            return tuple(block for block in all_blocks if block not in self.keep)
        assert self.blocks is not None
        check_numbers("blocks", self.blocks, encoder.depth)
        return tuple(sorted(self.blocks))

    def edit(self, encoder: TransformerEncoder) -> Change:
        """Re-initialize the weights in place."""
        blocks = self.blocks_of(encoder)
        check_whole_groups(encoder, blocks, "drawn")
        scheme = SCHEMES[self.scheme]
        bias = self.bias or scheme.bias
        # The random stream of a shared block is keyed by the number of its first layer.
        block_of_module = {id(encoder.blocks[block - 1]): block for block in reversed(blocks)}
        fresh = _fresh_blocks(encoder, self.seed) if block_of_module else []
        touched: list[Any] = []
        reinitialized: list[Any] = []
        with torch.no_grad():
            for block in sorted(block_of_module.values()):
                old = encoder.blocks[block - 1]
                new = dict(fresh[block - 1].named_parameters())
                silent = _outputs(encoder, old) if scheme.zero_outputs else frozenset[str]()
                for name, parameter, part in parts_of(old):
                    if name in silent:
                        values = torch.zeros_like(parameter)
                    elif part == "matrix":
                        values = _matrix(scheme, encoder, parameter, new[name], (self.seed, block, name))
                    elif part == "norm":
                        values = new[name] if self.layernorm == "reset" else parameter
                    else:
                        values = {"keep": parameter, "zero": torch.zeros_like(parameter)}.get(bias, new[name])
                    # Only zeros, and values already drawn with this seed, may be equal to the old ones.
                    certain = part == "matrix" and not torch.equal(values.to(parameter), parameter)
                    (reinitialized if certain else touched).append(parameter)
                    parameter.copy_(values)
        biases = {"library": "biases as in a new model", "keep": "biases kept", "zero": "biases zero"}[bias]
        norms = {"reset": "norms reset", "keep": "norms kept"}[self.layernorm]
        how = f"{self.scheme}, seed {self.seed}, {biases}, {norms}"
        return Change(
            description=f"re-initialized {named(blocks)} ({how})",
            reinitialized=names_of(encoder, reinitialized),
            touched=names_of(encoder, touched),
        )


def parts_of(block: torch.nn.Module) -> Iterator[tuple[str, Any, Part]]:
    """Yield the parameters of a block by kind: matrices, biases, and gains and biases of norms."""
    for name, parameter in block.named_parameters():
        owner = block.get_submodule(name.rpartition(".")[0])
        if "norm" in type(owner).__name__.lower():
            yield name, parameter, "norm"
        else:
            yield name, parameter, "matrix" if parameter.ndim >= 2 else "bias"


def _fresh_blocks(encoder: TransformerEncoder, seed: int) -> list[torch.nn.Module]:
    """Initialize a complete new model, so that a block's weights do not depend on the choice of blocks."""
    kind: Any = type(encoder.base)
    draw = int(generator(seed, "reinit", "library").integers(2**62))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw)
        fresh = kind(copy.deepcopy(encoder.config))
    return encoder.family.blocks_of(fresh)


def _matrix(
    scheme: Scheme, encoder: TransformerEncoder, old: Any, new: Any, key: tuple[int, int, str]
) -> torch.Tensor:
    if scheme.draw is None:
        return new
    seed, block, name = key
    noise = generator(seed, "reinit", block, name)
    sd = float(getattr(encoder.config, "initializer_range", 0.02))
    matrix = scheme.draw(old.detach().float().cpu().numpy(), sd, noise)
    return torch.from_numpy(matrix).to(device=old.device, dtype=old.dtype)


def _outputs(encoder: TransformerEncoder, block: torch.nn.Module) -> frozenset[str]:
    """Find the parameters of a block that write into the residual stream."""
    family = encoder.family
    names = frozenset(
        name
        for name, _ in block.named_parameters()
        if any(f".{path}." in f".{name}." for path in family.outputs)
    )
    if not names:
        raise InputError(
            f"the outputs of a block must be declared to be set to zero, but those of {family.title} are not."
        )
    return names
