"""Fine-tuning recipes: hyperparameters, with the values of published papers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Literal

from ..checks import is_countable, is_finite
from ..errors import InputError, must, unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """
    All hyperparameters of a fine-tuning. Its result is the model after the last update.

    Parameters
    ----------
    name : str
    batch : int
        Number of examples per update.
    accumulate : int
        Number of parts in which the examples of an update go through the model, one after the other; the
        gradient is that of all of them together.
    rate : float
        Peak learning rate.
    epochs : float, optional
        Passes over the training split; None where only `steps` applies.
    steps : int, optional
        Maximum number of updates.
    warmup_steps : int, optional
        Number of updates over which the learning rate rises from 0.
    warmup : float
        The same as a fraction of all updates, where `warmup_steps` is absent.
    schedule : {"linear", "constant"}
        Learning rate after the warm-up: linear decay to 0, or constant.
    betas : tuple of float
    epsilon : float
    bias_correction : bool
        Of Adam's averages.
    decay : float
        Decoupled weight decay, which is not applied to biases and norms.
    clip : float, optional
        Maximum norm of the gradient.
    longest : int
        Maximum number of tokens per example.
    longest_span, stride : int
        The same for tasks with spans, and the overlap of windows.
    dropout : float, optional
        Of the head; the model's own when absent.
    head : str
        The kind of head, one of `HEADS`.
    bucket : bool
        Whether examples of similar length share an update, which saves padding. Papers shuffle at random.
    notes : mapping of str to str
        Sources of values that a reader may question.
    citation : str
    """

    name: str
    batch: int
    accumulate: int = 1
    rate: float
    epochs: float | None = None
    steps: int | None = None
    warmup_steps: int | None = None
    warmup: float = 0.0
    schedule: Literal["linear", "constant"] = "linear"
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    bias_correction: bool = True
    decay: float = 0.0
    clip: float | None = 1.0
    longest: int = 128
    longest_span: int = 384
    stride: int = 128
    dropout: float | None = None
    head: str = "stock"
    bucket: bool = False
    notes: Mapping[str, str] = field(default_factory=dict)
    citation: str = ""

    def __post_init__(self) -> None:
        for names, optional, words, holds in _RULES:
            for name in names:
                value = getattr(self, name)
                if not (holds(value) or (optional and value is None)):
                    raise must(name, words, value)
        if self.batch % self.accumulate:
            raise must("accumulate", f"a divisor of the batch of {self.batch}", self.accumulate)
        if self.epochs is None and self.steps is None:
            raise InputError("a recipe must have epochs or steps, but it has neither.")

    def specification(self) -> dict[str, Any]:
        """All values that can change a result, from which an address is computed."""
        values = asdict(self)
        return {**{name: values[name] for name in changeable()}, "betas": list(self.betas)}

    def updates(self, examples: int) -> int:
        """Number of updates for a training split with the given number of examples."""
        per_epoch = -(-examples // self.batch)
        limits = []
        if self.epochs is not None:
            limits.append(max(1, round(per_epoch * self.epochs)))
        if self.steps is not None:
            limits.append(self.steps)
        return min(limits)

    def rising(self, updates: int) -> int:
        """Number of warm-up updates; raise an error if there are fewer updates than that."""
        if self.warmup_steps is not None:
            if self.warmup_steps > updates:
                raise InputError(
                    f"warmup_steps must be at most the {updates:,} updates of the training, but got "
                    f"{self.warmup_steps:,}; give fewer, or a share of the updates as warmup=0.1."
                )
            return self.warmup_steps
        return int(self.warmup * updates)

    def factor(self, update: int, updates: int) -> float:
        """Fraction of the peak learning rate at an update, counted from 0."""
        rising = self.rising(updates)
        if update < rising:
            return update / max(1, rising)
        if self.schedule == "constant":
            return 1.0
        return max(0.0, (updates - update) / max(1, updates - rising))


_COUNTS = ("batch", "accumulate", "longest", "longest_span", "stride")
_WARMUP = "a share of the updates between 0 and 1 (a number of updates is given as warmup_steps)"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and is_finite(value)


def _is_whole(value: Any, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least and is_countable(value)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value < 1


def _are_betas(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(map(_is_share, value))


# What must hold of the values of a recipe: whether they may be absent, the words, and the test.
_RULES: tuple[tuple[tuple[str, ...], bool, str, Callable[[Any], bool]], ...] = (
    (_COUNTS, False, "a whole number above 0", _is_whole),
    (("rate", "epsilon"), False, "a number above 0", _is_positive),
    (("epochs", "clip"), True, "a number above 0, or none", _is_positive),
    (("steps",), True, "a whole number of at least 1, or none", _is_whole),
    (("warmup_steps",), True, "a whole number of at least 0, or none", lambda n: _is_whole(n, 0)),
    (("warmup",), False, _WARMUP, lambda share: _is_share(share) or share == 1),
    (("decay",), False, "a number of at least 0", lambda decay: _is_number(decay) and decay >= 0),
    (("dropout",), True, "a number of at least 0 and below 1, or none", _is_share),
    (("betas",), False, "two numbers of at least 0 and below 1", _are_betas),
    (("bias_correction", "bucket"), False, "true or false", lambda value: isinstance(value, bool)),
    (("schedule",), False, "'linear' or 'constant'", lambda name: name in ("linear", "constant")),
)


_ALL = (
    Recipe(
        name="phang2021",
        batch=4,
        rate=1e-5,
        steps=10_000,
        warmup_steps=1_000,
        decay=0.01,
        longest=256,
        head="jiant",
        notes={
            "steps": "the paper says up to 10,000",
            "warm-up": "10 % of the updates, also where another number of them is given",
            "decay": "the library's default; the paper says Adam",
            "longest": "the library's default; the paper does not say",
        },
        citation="Phang et al. 2021",
    ),
    Recipe(
        name="wu2020",
        batch=8,
        rate=5e-5,
        epochs=3,
        notes={
            "warmup": "the script's default",
            "decay": "the script's default",
            "longest": "the script's default",
        },
        citation="Wu et al. 2020",
    ),
    Recipe(
        name="tamkin2020",
        batch=8,
        rate=2e-5,
        epochs=3,
        notes={"all": "read in the published scripts"},
        citation="Tamkin et al. 2020",
    ),
    Recipe(
        name="merchant2020",
        batch=32,
        rate=3e-5,
        epochs=3,
        warmup=0.1,
        decay=0.01,
        notes={"all": "not verified: the paper follows Devlin et al.; the rate is one of theirs"},
        citation="Merchant et al. 2020",
    ),
    Recipe(
        name="devlin2019",
        batch=32,
        rate=3e-5,
        epochs=3,
        warmup=0.1,
        epsilon=1e-6,
        bias_correction=False,
        decay=0.01,
        notes={
            "dropout": "0.1, which is the models' own",
            "rate": "one of 5e-5, 4e-5, 3e-5, 2e-5, chosen on the validation split",
            "batch": "16 or 32",
            "epochs": "2 to 4",
        },
        citation="Devlin et al. 2019",
    ),
)
RECIPES: Mapping[str, Recipe] = MappingProxyType({recipe.name: recipe for recipe in _ALL})


def changeable() -> list[str]:
    """Names of the values of a recipe that can be overridden."""
    names = [declared.name for declared in fields(Recipe)]
    return [name for name in names if name not in ("name", "notes", "citation")]


def find_recipe(recipe: str | Recipe, **changes: Any) -> Recipe:
    """
    Look up a recipe, with some values overridden.

    Parameters
    ----------
    recipe : str or Recipe
    **changes
        Values of `Recipe` by name. `epochs` alone replaces `steps`, and vice versa; `warmup_steps` then
        keep their fraction of the updates.

    Returns
    -------
    Recipe
    """
    if isinstance(recipe, str) and recipe not in RECIPES:
        raise unknown("recipe", recipe, RECIPES)
    base = RECIPES[recipe] if isinstance(recipe, str) else recipe
    if not isinstance(base, Recipe):
        raise must("recipe", "a name or a Recipe", recipe)
    for name in changes:
        if name not in changeable():
            raise unknown("value of a recipe", name, changeable())
    new_length = {"epochs", "steps"} & changes.keys() and not {"warmup", "warmup_steps"} & changes.keys()
    if new_length and base.warmup_steps and base.steps:
        # With another length of training the warm-up keeps its fraction of the updates.
        changes |= {"warmup": base.warmup_steps / base.steps, "warmup_steps": None}
    if "epochs" in changes and "steps" not in changes:
        changes["steps"] = None
    if "steps" in changes and "epochs" not in changes:
        changes["epochs"] = None
    if "warmup" in changes and "warmup_steps" not in changes:
        changes["warmup_steps"] = None
    return replace(base, **changes) if changes else base
