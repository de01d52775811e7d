"""The program starts quickly, says what is wrong in one sentence, and ends with the promised code."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import microtome
from microtome.cli import TRACEBACK, main

SOURCE = Path(microtome.__file__).parents[1]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", **more}


def type_in(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "microtome", *words],
        capture_output=True,
        text=True,
        env=environment(**more),
        timeout=120,
        check=False,
    )


@pytest.fixture
def layers(tmp_path: Path) -> str:
    path = tmp_path / "three layers.npy"
    np.save(path, np.random.default_rng(1).normal(size=(3, 40, 5)))
    return str(path)


def test_help_names_the_verbs_and_the_exit_codes() -> None:
    done = type_in("--help")
    for word in ("similarity", "ls", "demo", "--version", "130"):
        assert word in done.stdout
    assert done.stderr == ""


def test_the_help_of_a_verb_names_its_options() -> None:
    said = type_in("similarity", "-h", COLUMNS="200").stdout
    for option in (
        *("--measures", "--clusters", "--certainty", "--level", "--halves", "--permutations", "--sample"),
        *("--leave-out", "--zscore", "--remove-top", "--precision", "--memory", "--device", "--threads"),
        *("--seed", "--dry-run", "--out", "--json", "--quiet"),
    ):
        assert option in said


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"microtome {microtome.__version__}\n"


def test_the_verb_without_words_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["similarity"], ["ls"]):
        assert main(words) == 2
        said = capsys.readouterr()
        assert "Usage: microtome" in said.out + said.err


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["simlarity"], "microtome: No such command 'simlarity'. Did you mean 'similarity'?\n"),
        (
            ["ls", "measure"],
            "microtome: table must be one of claims, corpora, experiments, families, layouts, measures, "
            "recipes, studies, targets, tasks, zoo, but got 'measure'. "
            "Did you mean measures?\n",
        ),
        (
            ["similarity", "a", "b", "c"],
            "microtome: similarity takes A and B only, but also got c; several values of one option are ",
        ),
        (["similarity", "nowhere.npy"], "microtome: path must be a file or a folder that exists, but got "),
        (
            ["similarity", "a.npy", "--bogus"],
            "microtome: similarity has no option --bogus, see microtome similarity --help.",
        ),
        (
            ["similarity", "a.npy", "--sample", "many"],
            "microtome: --sample must be a whole number of at least 4, but got 'many'.",
        ),
        (
            ["similarity", "a.npy", "--seed", "-1"],
            "microtome: --seed must be a whole number of at least 0, but got -1.",
        ),
    ],
)
def test_a_wrong_request_is_answered_with_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(sentence)
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    "more, words",
    [
        (["-m", "svca"], "Did you mean svcca?"),
        (["-m", "svcca:threshold=3"], "option threshold must be at least 0.01 and at most 1, but got '3'."),
        (["-m", "attention_js"], "attention_js must be given attention maps"),
        (["--level", "2"], "--level must be between 0 and 1, but got 2.0."),
        (["--sample", "2"], "--sample must be a whole number of at least 4, but got 2."),
        (["--remove-top", "5"], "below the narrowest layer's 5 features, but got 5."),
        (["--memory", "lots"], "memory must be an amount such as '2GB'"),
        (["--device", "abacus"], "device must be a torch device such as 'cpu' or 'cuda', but got 'abacus'."),
        (["--precision", "half"], "precision must be one of exact, fast, but got 'half'."),
        (["--threads", "0"], "threads must be a whole number above 0, but got 0."),
        (["--threads", "100000"], "threads must be at most 1024, but got 100000."),
        (["--clusters", "nowhere.npy"], "clusters must be a readable .npy file, but got nowhere.npy"),
        (["--leave-out", "nowhere.npy"], "--leave-out must be a readable .npy file, but got nowhere.npy"),
        (["--out", __file__], f"must be one that can be made, but got {__file__}: it is a file."),
    ],
)
def test_options_are_checked_before_the_work(
    layers: str, more: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["similarity", layers, *more]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


@pytest.mark.parametrize("option", [[], ["--clusters"], ["--leave-out"]])
def test_a_pipe_is_refused_and_not_waited_for(
    layers: str, option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe.npy"
    os.mkfifo(pipe)
    assert main(["similarity", *([layers, *option] if option else []), str(pipe)]) == 2
    assert f"{pipe} must be a plain file, but it is a pipe or a device." in capsys.readouterr().err


def test_a_name_that_is_not_utf8_is_refused_before_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["similarity", os.fsdecode(b"caf\xe9.npy")]) == 2
    said = capsys.readouterr().err
    assert said == "microtome: names of files must be UTF-8; rename it, but got b'caf\\xe9.npy'.\n"


def closing(closed: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        f"{shlex.join([sys.executable, '-m', 'microtome', *words])} {closed}",
        shell=True,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
        check=False,
    )


def test_streams_that_are_closed_are_no_error(layers: str, tmp_path: Path) -> None:
    done = closing(">&-", "ls", "recipes")
    assert (done.returncode, done.stderr) == (0, "")
    assert closing("<&- >&- 2>&-", "similarity", layers, "--out", str(tmp_path / "out")).returncode == 0
    assert microtome.open(tmp_path / "out")["debiased_cka"].shape == (3, 3)
    assert closing("2>&-", "similarity", "nowhere.npy").returncode == 2


def test_values_that_are_no_numbers_are_found_by_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    array = np.ones((2, 9, 3))
    array[1, 4, 2] = np.nan
    np.save(tmp_path / "a.npy", array)
    assert main(["similarity", str(tmp_path / "a.npy"), "--quiet"]) == 2
    assert "layer a/1 is NaN at row 4, feature 2" in capsys.readouterr().err


def test_what_stands_where_a_figure_would_be_written_stays(
    layers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out" / "figures" / "debiased_cka.png").mkdir(parents=True)
    assert main(["similarity", layers, "--out", str(tmp_path / "out")]) == 0
    assert "debiased_cka.png was not drawn by microtome and stays" in capsys.readouterr().err
    assert (tmp_path / "out" / "figures" / "debiased_cka.png").is_dir()
    assert (tmp_path / "out" / "figures" / "debiased_cka.svg").is_file()


def test_a_traceback_is_shown_on_request_only(layers: str) -> None:
    assert "Traceback" not in type_in("similarity", layers, "-m", "svca").stderr
    said = type_in("similarity", layers, "-m", "svca", **{TRACEBACK: "1"}).stderr
    assert "Traceback (most recent call last)" in said
    assert "Did you mean svcca?" in said.splitlines()[-1]


def test_an_interrupted_command_ends_with_130(layers: str) -> None:
    running = subprocess.Popen(
        [sys.executable, "-m", "microtome", "similarity", layers, "--permutations", "1000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        # A job started in the background of some shells ignores the signal, and hands that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert running.stderr is not None
        assert "3 x 3 layers, 40 rows" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        out, said = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 130
    assert out == ""
    assert said.startswith("microtome: interrupted")
    assert "Traceback" not in said


def test_a_reader_that_leaves_is_no_error_worth_a_traceback(layers: str) -> None:
    done = subprocess.run(
        f"'{sys.executable}' -m microtome ls measures --json | head -c 1",
        shell=True,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    assert done.stdout == "{"
    assert not re.search("Traceback|Exception|BrokenPipe", done.stderr)


def test_a_name_that_the_encoding_lacks_is_escaped(tmp_path: Path) -> None:
    path = tmp_path / "\u5c42.npy"
    np.save(path, np.random.default_rng(1).normal(size=(2, 20, 3)))
    done = type_in("similarity", str(path), "--certainty", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert "\\u5c42/0" in done.stdout


def test_a_reader_that_leaves_does_not_cost_the_files(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(3, 60, 5)))
    done = subprocess.run(
        f"'{sys.executable}' -m microtome similarity x.npy --out result | head -c 1",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert len(done.stdout) == 1
    assert (tmp_path / "result" / "result.json").stat().st_size > 0


@pytest.mark.parametrize("words", [["ls", "measures"], ["ls", "measures", "--json"], ["--help"]])
def test_a_reader_that_leaves_is_no_failure(words: list[str]) -> None:
    """As in `microtome ls measures | head`: the output is larger than what was read of it."""
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "microtome", *words],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            check=False,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    "words",
    [
        "finetune nowhere --task polarity",
        "skip nowhere --task polarity",
        "extract nowhere --on lines.txt",
        "compare nowhere --on lines.txt",
        "finetune zoo:masked --task wnli",
        "extract zoo:masked --on hub:nowhere/nothing",
    ],
)
def test_a_hub_that_cannot_be_reached_is_failed_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    import huggingface_hub.constants

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    Path("lines.txt").write_text("a line\n")
    assert main([*words.split(), "--quiet", "--store", "store"]) == 1
    error = capsys.readouterr().err
    pattern = (
        r"microtome: a (model|dataset) must be a folder that exists or one on the hub, but there is no "
        r"folder '.+', and the hub cannot be reached\.\n"
    )
    assert re.fullmatch(pattern, error)
