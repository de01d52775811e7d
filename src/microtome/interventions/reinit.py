"""What did training put into some blocks? Draw their weights anew, and see what is missed."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..encoders.cutting import check_numbers
from ..errors import InputError, must, unknown
from ..randomness import generator
from .choosing import at_most_depth, check_whole_groups, named, names_of, numbers, one_of, whole
from .declare import Change
from .schemes import SCHEMES, Scheme

if TYPE_CHECKING:
    import torch

    from ..encoders.encoder import TransformerEncoder

Part = Literal["matrix", "bias", "norm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reinit:
    """
    Draw the weights of blocks anew.

    What a tensor gets depends on the seed, its block and its name, and on no other block that is drawn:
    blocks that two calls have in common get the same weights in both. Embeddings, what lies beside the
    blocks, poolers and heads stay.

    Parameters
    ----------
    blocks : tuple of int, optional
        These blocks, numbered from 1.
    past : int, optional
        All blocks above this one: `past=8` draws 9, 10 and so on, `past=0` all.
    keep : tuple of int, optional
        All blocks but these.
    seed : int
    scheme : str
        How matrices (all tensors of two or more dimensions) are drawn, one of `SCHEMES`:

        - library: as for a new model of this configuration.
        - trunc_normal: normal, with the standard deviation of the configuration, cut at two of them.
        - tamkin_code: as the code of Tamkin et al. (2020) drew them, which mistook the units of the cut:
          with a standard deviation of 0.02 all draws lie within 0.0008 of zero, and theirs is 0.00046.
        - moment_matched: normal, with the mean and standard deviation that the matrix had.
        - shuffled: the entries that the matrix had, in random order.
        - near_identity: as in library, but what attention and the feed-forward layers write into the
          residual path is zero. The block then passes on what it reads, or the norm of it in families
          that norm after adding (BERT and its like), where two norms in a row stay.
    bias : {"keep", "zero"}, optional
        What becomes of one-dimensional tensors outside norms. When absent: as in a new model (library,
        near_identity), kept (tamkin_code), zero (the rest). Those of the outputs that near_identity
        silences are always zero.
    layernorm : {"reset", "keep"}
        Whether norms get the values that they have in a new model.
    """

    blocks: tuple[int, ...] | None = None
    past: int | None = None
    keep: tuple[int, ...] | None = None
    seed: int = 0
    scheme: str = "library"
    bias: Literal["keep", "zero"] | None = None
    layernorm: Literal["reset", "keep"] = "reset"

    def __post_init__(self) -> None:
        given = one_of({"blocks": self.blocks, "past": self.past, "keep": self.keep}, "Reinit")
        if given == "past":
            object.__setattr__(self, "past", whole("past", self.past))
        else:
            object.__setattr__(self, given, numbers(given, getattr(self, given)))
        object.__setattr__(self, "seed", whole("seed", self.seed))
        if self.scheme not in SCHEMES:
            raise unknown("scheme", self.scheme, SCHEMES)
        if self.bias not in (None, "keep", "zero"):
            raise must("bias", "'keep', 'zero' or None", self.bias)
        if self.layernorm not in ("reset", "keep"):
            raise must("layernorm", "'reset' or 'keep'", self.layernorm)

    def blocks_of(self, encoder: TransformerEncoder) -> tuple[int, ...]:
        """Tell which blocks of an encoder are drawn."""
        every = range(1, encoder.depth + 1)
        if self.past is not None:
            at_most_depth("past", self.past, encoder)
            return tuple(every[self.past :])
        if self.keep is not None:
            check_numbers("keep", self.keep, encoder.depth)
            return tuple(block for block in every if block not in self.keep)
        assert self.blocks is not None
        check_numbers("blocks", self.blocks, encoder.depth)
        return tuple(sorted(self.blocks))

    def edit(self, encoder: TransformerEncoder) -> Change:
        """Draw the weights in place."""
        import torch

        blocks = self.blocks_of(encoder)
        check_whole_groups(encoder, blocks, "drawn")
        scheme = SCHEMES[self.scheme]
        bias = self.bias or scheme.bias
        # The draws of a shared block carry the number of its first layer.
        found = {id(encoder.blocks[block - 1]): block for block in reversed(blocks)}
        fresh = _fresh_blocks(encoder, self.seed) if found else []
        touched: list[Any] = []
        redrawn: list[Any] = []
        with torch.no_grad():
            for block in sorted(found.values()):
                old = encoder.blocks[block - 1]
                new = dict(fresh[block - 1].named_parameters())
                silent = _outputs(encoder, old) if scheme.zero_outputs else frozenset[str]()
                for name, parameter, part in parts_of(old):
                    if name in silent:
                        drawn = torch.zeros_like(parameter)
                    elif part == "matrix":
                        drawn = _matrix(scheme, encoder, parameter, new[name], (self.seed, block, name))
                    elif part == "norm":
                        drawn = new[name] if self.layernorm == "reset" else parameter
                    else:
                        drawn = {"keep": parameter, "zero": torch.zeros_like(parameter)}.get(bias, new[name])
                    # Only zeros, and what was drawn from this seed before, may come out as they were.
                    certain = part == "matrix" and not torch.equal(drawn.to(parameter), parameter)
                    (redrawn if certain else touched).append(parameter)
                    parameter.copy_(drawn)
        biases = {"library": "biases as in a new model", "keep": "biases kept", "zero": "biases zero"}[bias]
        how = f"{self.scheme}, seed {self.seed}, {biases}, norms {self._norms}"
        return Change(
            said=f"re-initialized {named(blocks)} ({how})",
            redrawn=names_of(encoder, redrawn),
            touched=names_of(encoder, touched),
        )

    @property
    def _norms(self) -> str:
        return "kept" if self.layernorm == "keep" else "reset"


def parts_of(block: torch.nn.Module) -> Iterator[tuple[str, Any, Part]]:
    """Tell the parameters of a block apart: matrices, biases, and gains and biases of norms."""
    for name, parameter in block.named_parameters():
        owner = block.get_submodule(name.rpartition(".")[0])
        if "norm" in type(owner).__name__.lower():
            yield name, parameter, "norm"
        else:
            yield name, parameter, "matrix" if parameter.ndim >= 2 else "bias"


def _fresh_blocks(encoder: TransformerEncoder, seed: int) -> list[torch.nn.Module]:
    """Let the library draw a whole new model, so that each block's weights depend on no choice of blocks."""
    import torch

    kind: Any = type(encoder.base)
    draw = int(generator(seed, "reinit", "library").integers(2**62))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw)
        fresh = kind(copy.deepcopy(encoder.config))
    return encoder.family.blocks_of(fresh)


def _matrix(
    scheme: Scheme, encoder: TransformerEncoder, old: Any, new: Any, names: tuple[int, int, str]
) -> torch.Tensor:
    import torch

    if scheme.draw is None:
        return new
    seed, block, name = names
    noise = generator(seed, "reinit", block, name)
    sd = float(getattr(encoder.config, "initializer_range", 0.02))
    drawn = scheme.draw(old.detach().float().cpu().numpy(), sd, noise)
    return torch.from_numpy(drawn).to(device=old.device, dtype=old.dtype)


def _outputs(encoder: TransformerEncoder, block: torch.nn.Module) -> frozenset[str]:
    """Find what writes into the residual path of a block."""
    family = encoder.family
    found = frozenset(
        name
        for name, _ in block.named_parameters()
        if any(f".{path}." in f".{name}." for path in family.outputs)
    )
    if not found:
        raise InputError(
            f"the outputs of a block must be declared to be set to zero, but those of {family.title} are not."
        )
    return found
