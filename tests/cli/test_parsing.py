"""Is nothing that a user typed dropped without a word? An option of one value is taken once."""

from __future__ import annotations

from typing import Any

import pytest

from microtome.cli import main
from microtome.cli.app import command
from microtome.errors import InputError

Capture = pytest.CaptureFixture[str]


APP: Any = command()


def verbs() -> dict[str, Any]:
    """Every command, those of `store` too, by the words that call it."""
    found = dict(APP.commands)
    return found | {f"store {name}": verb for name, verb in found.pop("store").commands.items()}


def test_no_verb_takes_a_second_value_of_an_option() -> None:
    checked = 0
    for name, verb in verbs().items():
        for param in verb.params:
            if param.param_type_name != "option" or param.is_flag or param.multiple:
                continue
            option = max(param.opts, key=len)
            with pytest.raises(InputError, match=f"{option} must be given once, but it was given 2 times"):
                APP.main([*name.split(), option, "1", option, "2"], standalone_mode=False)
            checked += 1
    assert checked > 200


def test_the_last_of_two_tasks_is_not_taken_for_both(capsys: Capture) -> None:
    assert main(["finetune", "bert", "--task", "rte", "--task", "mrpc"]) == 2
    said = capsys.readouterr()
    assert said.err == (
        "microtome: --task must be given once, but it was given 2 times; leave one of them, or run the "
        "command once for each.\n"
    )
    assert said.out == ""


def test_another_name_of_the_option_is_the_same_option(capsys: Capture) -> None:
    assert main(["similarity", "x.npy", "-m", "rsa", "--measures", "svcca"]) == 2
    assert "--measures must be given once" in capsys.readouterr().err


def test_a_switch_can_be_given_again_but_not_taken_back(capsys: Capture) -> None:
    assert main(["ls", "measures", "--json", "--json"]) == 0
    capsys.readouterr()
    assert main(["compare", "bert", "--on", "text", "--keep", "--no-keep"]) == 2
    assert "--keep must be given once" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "finetune bert --task rte --set rate=1e-5 --set rate=2e-5",
            "--set must give rate once, but got '1e-5' and '2e-5'.",
        ),
        (
            "finetune bert --task rte --column text=a --column text=b",
            "--column must give text once, but got 'a' and 'b'.",
        ),
        (
            "compare bert --on text --read header=1 --read header=2",
            "--read must give header once, but got '1' and '2'.",
        ),
        (
            "finetune bert --task rte --head reads=cls,reads=mean",
            "--head must give reads once, but got 'cls' and 'mean'.",
        ),
    ],
)
def test_a_named_value_is_given_once(words: str, sentence: str, capsys: Capture) -> None:
    assert main(words.split()) == 2
    assert capsys.readouterr().err == f"microtome: {sentence}\n"
