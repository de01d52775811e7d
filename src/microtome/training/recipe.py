"""Fine-tuning recipes: hyperparameters, with the values of published papers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Literal

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
    notes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    citation: str = ""

    def __post_init__(self) -> None:
        _check(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping cannot be pickled.
        return _again, (
            {recipe_field.name: getattr(self, recipe_field.name) for recipe_field in fields(self)}
            | {"notes": dict(self.notes)},
        )

    def specification(self) -> dict[str, Any]:
        """All values that can change a result, from which an address is computed."""
        values = asdict(replace(self, notes={}))  # a read-only mapping cannot be copied
        for name in ("name", "notes", "citation"):
            values.pop(name)
        return {**values, "betas": list(self.betas)}

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


def _again(values: dict[str, Any]) -> Recipe:
    return Recipe(**values)


def _check(recipe: Recipe) -> None:
    for name in ("batch", "accumulate", "longest", "longest_span", "stride"):
        if not _whole(getattr(recipe, name), 1):
            raise must(name, "a whole number above 0", getattr(recipe, name))
    if recipe.batch % recipe.accumulate:
        raise must("accumulate", f"a divisor of the batch of {recipe.batch}", recipe.accumulate)
    for name in ("rate", "epsilon"):
        if not _number(getattr(recipe, name)) or not getattr(recipe, name) > 0:
            raise must(name, "above 0", getattr(recipe, name))
    if recipe.epochs is None and recipe.steps is None:
        raise InputError("a recipe must have epochs or steps, but it has neither.")
    for name in ("epochs", "clip"):
        value = getattr(recipe, name)
        if value is not None and not (_number(value) and value > 0):
            raise must(name, "above 0 or absent", value)
    for name, least in (("steps", 1), ("warmup_steps", 0)):
        value = getattr(recipe, name)
        if value is not None and not _whole(value, least):
            raise must(name, f"a whole number of at least {least}, or absent", value)
    if not _number(recipe.warmup) or not 0 <= recipe.warmup <= 1:
        raise InputError(
            f"warmup must be a share of the updates between 0 and 1, but got {recipe.warmup!r}; a number of "
            "updates is given as warmup_steps."
        )
    if not _number(recipe.decay) or recipe.decay < 0:
        raise must("decay", "at least 0", recipe.decay)
    if recipe.dropout is not None and not (_number(recipe.dropout) and 0 <= recipe.dropout < 1):
        raise must("dropout", "at least 0 and below 1, or absent", recipe.dropout)
    if not (
        isinstance(recipe.betas, tuple)
        and len(recipe.betas) == 2
        and all(_number(beta) and 0 <= beta < 1 for beta in recipe.betas)
    ):
        raise must("betas", "two numbers of at least 0 and below 1", recipe.betas)
    for name in ("bias_correction", "bucket"):
        if not isinstance(getattr(recipe, name), bool):
            raise must(name, "true or false", getattr(recipe, name))
    if recipe.schedule not in ("linear", "constant"):
        raise must("schedule", "'linear' or 'constant'", recipe.schedule)


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        recipe.name: recipe
        for recipe in (
            Recipe(
                name="phang2021",
                batch=4,
                rate=1e-5,
                steps=10_000,
                warmup_steps=1_000,
                decay=0.01,
                longest=256,
                head="jiant",
                notes=MappingProxyType(
                    {
                        "steps": "the paper says up to 10,000",
                        "warm-up": "10 % of the updates, also where another number of them is given",
                        "decay": "the library's default; the paper says Adam",
                        "longest": "the library's default; the paper does not say",
                    }
                ),
                citation="Phang et al. 2021",
            ),
            Recipe(
                name="wu2020",
                batch=8,
                rate=5e-5,
                epochs=3,
                notes=MappingProxyType(
                    {
                        "warmup": "the script's default",
                        "decay": "the script's default",
                        "longest": "the script's default",
                    }
                ),
                citation="Wu et al. 2020",
            ),
            Recipe(
                name="tamkin2020",
                batch=8,
                rate=2e-5,
                epochs=3,
                notes=MappingProxyType({"all": "read in the published scripts"}),
                citation="Tamkin et al. 2020",
            ),
            Recipe(
                name="merchant2020",
                batch=32,
                rate=3e-5,
                epochs=3,
                warmup=0.1,
                decay=0.01,
                notes=MappingProxyType(
                    {"all": "not verified: the paper follows Devlin et al.; the rate is one of theirs"}
                ),
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
                notes=MappingProxyType(
                    {
                        "dropout": "0.1, which is the models' own",
                        "rate": "one of 5e-5, 4e-5, 3e-5, 2e-5, chosen on the validation split",
                        "batch": "16 or 32",
                        "epochs": "2 to 4",
                    }
                ),
                citation="Devlin et al. 2019",
            ),
        )
    }
)


def changeable() -> list[str]:
    """Names of the values of a recipe that can be overridden."""
    return [
        recipe_field.name
        for recipe_field in fields(Recipe)
        if recipe_field.name not in ("name", "notes", "citation")
    ]


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
