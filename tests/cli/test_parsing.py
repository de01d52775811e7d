"""Help fits a terminal, nothing typed is dropped without a word, and refusals say what to type instead."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from microtome.cli import main
from microtome.cli.app import command
from microtome.errors import InputError

Capture = pytest.CaptureFixture[str]


APP: Any = command()


def verbs() -> dict[str, Any]:
    """Every command, those of `store` too, by the words that call it."""
    found = dict(APP.commands)
    groups = {group: found.pop(group).commands for group in ("store", "study")}
    return found | {
        f"{group} {name}": verb for group, tools in groups.items() for name, verb in tools.items()
    }


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
    assert main(["evaluate", "bert", "--task", "rte", "--task", "mrpc"]) == 2
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


# What a reader of the command line does not type: types and keywords of Python.
PYTHON = re.compile(
    r"\b(?:None|True|False|tuples?|dicts?|mappings?|callables?|floats?|ints?|bools?|str|kwargs?)\b"
    r"|[Ii]n Python|<\w+(?:\[\w+\])?>|Experiment\.|\b[a-z]+_[a-z_]+=|…"
)


@pytest.mark.parametrize("words", ["", *verbs(), "store"])
def test_help_fits_80_columns_and_speaks_of_the_command_line(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setitem(os.environ, "COLUMNS", "80")
    assert main([*words.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    flags = re.findall(r"^  .*?(--[a-z][a-z-]*)", text, flags=re.MULTILINE)
    verb = command() if not words else verbs().get(words, APP.commands.get("store"))
    assert {max(p.opts, key=len) for p in verb.params if p.param_type_name == "option"} <= set(flags)
    assert not PYTHON.findall(text.replace("warmup_steps=40", ""))


def test_an_option_of_a_verb_is_told_with_its_limits_and_default(capsys: Capture) -> None:
    assert main(["freeze", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Usage: microtome freeze [OPTIONS] MODEL" in text
    assert (
        "--at-once N Number of models that train in parallel processes. [at least 1; at most 256; default: 1]"
        in (text)
    )
    assert "--embeddings, --no-embeddings" in text


def test_a_verb_without_words_shows_its_help_and_no_error(capsys: Capture) -> None:
    assert main(["compare"]) == 2
    printed = capsys.readouterr()
    assert printed.out.startswith("Usage: microtome compare [OPTIONS] MODEL...\n\n  Compare all layers")
    assert printed.err == ""


TASK = "finetune zoo:masked --task polarity"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (f"{TASK} --trainsize 64", "finetune has no option --trainsize. Did you mean --train-size?"),
        (f"{TASK} --train_size 64", "finetune has no option --train_size. Did you mean --train-size?"),
        ("--verison", "microtome has no option --verison. Did you mean --version?"),
        ("store gc --dryrun", "store gc has no option --dryrun. Did you mean --dry-run?"),
        (
            f"{TASK} --lr 1e-5",
            "finetune has no option --lr, see microtome finetune --help; --set: Change a value of the "
            "recipe, such as rate=2e-5 or warmup_steps=40. May be repeated.",
        ),
        (
            f"{TASK} --seeds 1 2",
            "MODEL must be a hub id, a folder or zoo:NAME, but got 2; several values of one option are typed "
            "with commas between them.",
        ),
        (f"{TASK} --set warmup", "--set must be name=value, such as warmup_steps=40, but got 'warmup'."),
        (f"{TASK} --set epochs=one", "epochs must be a number above 0, or none, but got 'one'."),
        (
            f"{TASK} --seeds 3-1",
            "--seeds must be from low to high, as 1-3, but got '3-1'.",
        ),
        (f"{TASK} --threads many", "--threads must be a whole number, but got 'many'."),
        (f"{TASK} --level 95%", "--level must be a number, but got '95%'."),
        (
            "tuning-methods zoo:masked --task polarity --rates 1e-4",
            "--rates must be name=value, such as lora=1e-4,3e-4, but got '1e-4'.",
        ),
        (
            "finetune zoo:masked --task films.csv",
            "--task must be a file that exists, or a name of `microtome ls tasks`, but got 'films.csv'.",
        ),
        (
            "evaluate zoo:masked --task polarity",
            "masked must be fine-tuned for classification (RobertaForSequenceClassification), but it is a "
            "RobertaForMaskedLM; fine-tune it first, with finetune (truncate and skip do so themselves when "
            "seeds are given).",
        ),
        (
            "probe zoo:masked --target task:polarity --on x.conllu",
            "--on must be left out for a task, but the target is task:polarity; it is for annotated text "
            "(as upos).",
        ),
        (
            "probe zoo:masked --on x.conllu --control-draws 3",
            "--control-draws must be given with --control-task, and not with mdl.",
        ),
    ],
)
def test_a_refusal_says_what_to_type_instead(words: str, sentence: str, capsys: Capture) -> None:
    assert main(words.split()) == 2
    assert capsys.readouterr().err == f"microtome: {sentence}\n"


def test_layers_are_named_on_the_command_line(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("layers.npy", np.random.default_rng(0).normal(size=(2, 40, 5)))
    assert main(["similarity", "layers.npy", "--names", "lower,upper", "--json", "--quiet"]) == 0
    assert '"lower"' in capsys.readouterr().out
