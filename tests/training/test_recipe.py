"""Do recipes hold what the papers give, and refuse what cannot be trained?"""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch

from microtome.errors import InputError, UnknownNameError
from microtome.training.recipe import RECIPES, Recipe, find_recipe


def test_values_of_the_papers() -> None:
    told = {name: (r.batch, r.rate, r.epochs, r.steps, r.decay, r.head) for name, r in RECIPES.items()}
    assert told == {
        "phang2021": (4, 1e-5, None, 10_000, 0.01, "jiant"),
        "wu2020": (8, 5e-5, 3, None, 0.0, "stock"),
        "tamkin2020": (8, 2e-5, 3, None, 0.0, "stock"),
        "merchant2020": (32, 3e-5, 3, None, 0.01, "stock"),
        "devlin2019": (32, 3e-5, 3, None, 0.01, "stock"),
    }
    assert RECIPES["phang2021"].rising(10_000) == 1_000
    assert RECIPES["devlin2019"].rising(1_000) == 100
    assert not RECIPES["devlin2019"].bias_correction


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_can_be_sent_to_another_process(name: str) -> None:
    assert pickle.loads(pickle.dumps(RECIPES[name])) == RECIPES[name]


@pytest.mark.parametrize("name", RECIPES)
def test_the_rate_is_that_of_the_librarys_schedule(name: str) -> None:
    from transformers import get_linear_schedule_with_warmup

    updates = 120
    recipe = find_recipe(name, steps=updates)
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    schedule = get_linear_schedule_with_warmup(optimizer, recipe.rising(updates), updates)
    for update in range(updates):
        assert recipe.factor(update, updates) == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()


def test_updates_are_counted_in_whole_passes_and_cut_at_the_limit() -> None:
    assert RECIPES["wu2020"].updates(2_490) == 3 * 312
    assert RECIPES["phang2021"].updates(277) == 10_000
    assert find_recipe("wu2020", epochs=0.5).updates(800) == 50
    both = find_recipe("wu2020", epochs=3, steps=20)
    assert both.updates(80) == 20
    assert both.updates(8) == 3


def test_one_length_takes_the_place_of_the_other() -> None:
    assert find_recipe("phang2021", epochs=2).steps is None
    assert find_recipe("wu2020", steps=7).epochs is None
    assert find_recipe("phang2021", warmup=0.5).rising(100) == 50


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch": 0}, "batch must be a whole number above 0, but got 0."),
        ({"rate": 10**400}, f"rate must be a number above 0, but got 1{199 * '0'}...."),
        ({"batch": 10**400}, f"batch must be a whole number above 0, but got 1{199 * '0'}...."),
        ({"rate": -1.0}, "rate must be a number above 0, but got -1.0."),
        ({"batch": 8, "accumulate": 3}, "accumulate must be a divisor of the batch of 8, but got 3."),
        ({"epochs": None, "steps": None}, "a recipe must have epochs or steps, but it has neither."),
        (
            {"warmup": 2},
            "warmup must be a share of the updates between 0 and 1 (a number of updates is given as "
            "warmup_steps), but got 2.",
        ),
        ({"schedule": "cosine"}, "schedule must be 'linear' or 'constant', but got 'cosine'."),
    ],
)
def test_bad_values_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        find_recipe("wu2020", **changes)
    assert str(caught.value) == words


def test_unknown_names_are_told() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean wu2020"):
        find_recipe("wu2021")
    with pytest.raises(UnknownNameError, match="Did you mean rate"):
        find_recipe("wu2020", rat=1)
    with pytest.raises(InputError, match="recipe must be a name or a Recipe"):
        find_recipe(3)  # type: ignore[arg-type]


def test_an_own_recipe_is_taken_as_it_is() -> None:
    mine = Recipe(name="mine", batch=2, rate=1e-3, steps=5)
    assert find_recipe(mine) is mine
    assert "name" not in mine.specification()
    assert mine.specification() != find_recipe(mine, rate=2e-3).specification()


def test_a_warm_up_is_no_longer_than_the_training() -> None:
    paper = RECIPES["phang2021"]
    # Given another length, the warm-up keeps its share.
    assert [find_recipe("phang2021", steps=steps).rising(steps) for steps in (40, 200)] == [4, 20]
    assert find_recipe("phang2021", epochs=1).rising(623) == 62
    assert find_recipe("phang2021", steps=200, warmup_steps=50).rising(200) == 50
    assert find_recipe("phang2021", rate=1e-4).warmup_steps == paper.warmup_steps
    with pytest.raises(InputError, match="warmup_steps must be at most the 40 updates of the training"):
        find_recipe("phang2021", steps=40, warmup_steps=41).rising(40)
    assert find_recipe("phang2021", steps=40, warmup_steps=40).factor(20, 40) == 0.5
    with pytest.raises(InputError, match="a number of updates is given as warmup_steps"):
        find_recipe("devlin2019", warmup=40)
