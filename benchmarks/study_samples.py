"""
Write the generated samples of the small studies: two tasks of sentences, one of pairs, and a treebank.

    python benchmarks/study_samples.py

The files lie in src/microtome/studies/papers/_samples and are the same at every run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

from microtome.tasks.generated.agreement import DID as MET
from microtome.tasks.generated.agreement import DOES, LOOKS, OFTEN, PEOPLE, PLACES, STATES, WHERE
from microtome.tasks.generated.grammar import Draws, chance, draws, pick, sentence, several, with_s
from microtome.tasks.generated.polarity import BLAME, PRAISE, STRENGTHS, SUBJECTS

FOLDER = Path(__file__).resolve().parents[1] / "src/microtome/studies/papers/_samples"
SIZES = {"train": 800, "validation": 200}
TREES = {"train": 300, "dev": 100}
ASPECTS = tuple(aspect for aspects in SUBJECTS.values() for aspect in aspects)

Row = tuple[str, ...]
# A word with its part of speech, the place of its head and its relation; 0 is the root.
Word = tuple[str, str, int, str]


def opinion(label: bool, numbers: Draws) -> Row:
    """One opinion of one thing."""
    very = f"{pick(STRENGTHS, numbers)} " if chance(0.3, numbers) else ""
    return (sentence(f"the {pick(ASPECTS, numbers)} was {very}{pick(PRAISE if label else BLAME, numbers)}"),)


def number(label: bool, numbers: Draws) -> Row:
    """Somebody, or several people; the place has a number of its own."""
    head, verb = pick(PEOPLE, numbers), pick(DOES, numbers)
    look = f"{pick(LOOKS, numbers)} " if chance(0.5, numbers) else ""
    who, does = (with_s(head), verb) if label else (head, with_s(verb))
    where = pick(PLACES, numbers)
    place = f"{pick(WHERE, numbers)} the {with_s(where) if chance(0.5, numbers) else where}"
    return (sentence(f"the {look}{who} {does} {place}"),)


def denial(label: bool, numbers: Draws) -> Row:
    """A statement, and the same in other words or denied."""
    people, did = several(PEOPLE, 2, numbers), pick(MET, numbers)
    often = pick(("never", "hardly", "rarely") if label else ("often", "always", "really"), numbers)
    where = f" {pick(WHERE, numbers)} the {pick(PLACES, numbers)}" if chance(0.5, numbers) else ""
    return (
        sentence(f"the {people[0]} {did} the {people[1]}{where}"),
        sentence(f"the {people[0]} {often} {did} the {people[1]}"),
    )


TASKS: dict[str, tuple[Callable[[bool, Draws], Row], Row]] = {
    "opinions": (opinion, ("negative", "positive")),
    "numbers": (number, ("one", "several")),
    "denials": (denial, ("entailment", "contradiction")),
}


def table(name: str, split: str) -> str:
    """Rows of a split; no text is in two rows or splits."""
    draw, labels = TASKS[name]
    numbers, rows = draws(0, "samples", name), []
    while len(rows) < sum(SIZES.values()):
        label = len(rows) % 2
        row = draw(bool(label), numbers)
        if row not in [texts for texts, _ in rows]:
            rows.append((row, labels[label]))
    rows = rows[: SIZES["train"]] if split == "train" else rows[SIZES["train"] :]
    head = ("text", "pair")[: len(rows[0][0])]
    return "".join("\t".join(line) + "\n" for line in [(*head, "label"), *((*t, y) for t, y in rows)])


def phrase(head: int, relation: str, start: int, numbers: Draws) -> list[Word]:
    """A noun with its article, perhaps with an adjective and with a place; the words start behind a place."""
    words: list[Word] = [("the", "DET", 0, "det")]
    if chance(0.4, numbers):
        words.append((pick(LOOKS, numbers), "ADJ", 0, "amod"))
    noun = start + len(words) + 1
    words = [(text, tag, noun, how) for text, tag, _, how in words]
    words.append((pick(PEOPLE, numbers), "NOUN", head, relation))
    if chance(0.25, numbers):
        words += place(noun, "nmod", start + len(words), numbers)
    return words


def place(head: int, relation: str, start: int, numbers: Draws) -> list[Word]:
    """A preposition and a noun."""
    return [
        (pick(WHERE, numbers), "ADP", start + 3, "case"),
        ("the", "DET", start + 3, "det"),
        (pick(PLACES, numbers), "NOUN", head, relation),
    ]


def clause(head: int, relation: str, start: int, numbers: Draws) -> list[Word]:
    """A subject with a verb and an object, a verb alone, or an adjective."""
    words = phrase(-1, "nsubj", start, numbers)
    form = next(numbers)
    if chance(0.3, numbers):
        words.append((pick(OFTEN, numbers), "ADV", -1, "advmod"))
    if form < 0.3:
        words.append(("was", "AUX", -1, "cop"))
    top = start + len(words) + 1
    if form < 0.3:
        words.append((pick(STATES, numbers), "ADJ", head, relation))
    elif form < 0.5:
        words.append((f"{pick(DOES, numbers)}", "VERB", head, relation))
    else:
        words.append((pick(MET, numbers), "VERB", head, relation))
        words += phrase(top, "obj", start + len(words), numbers)
    if chance(0.3, numbers):
        words += place(top, "obl", start + len(words), numbers)
    return [(text, tag, top if at == -1 else at, how) for text, tag, at, how in words]


def tree(numbers: Draws) -> list[Word]:
    """A sentence of one or two clauses."""
    words = clause(0, "root", 0, numbers)
    root = next(at for at, word in enumerate(words, start=1) if word[3] == "root")
    if chance(0.3, numbers):
        joint = len(words)
        second = clause(root, "conj", joint + 1, numbers)
        conj = next(at for at, word in enumerate(second, start=joint + 2) if word[3] == "conj")
        words += [(pick(("and", "but"), numbers), "CCONJ", conj, "cc"), *second]
    return [*words, (".", "PUNCT", root, "punct")]


def treebank(split: str) -> str:
    """Sentences of a split of the treebank, as a file of Universal Dependencies."""
    return "\n".join(_sentences(split))


def _sentences(split: str) -> Iterator[str]:
    numbers = draws(0, "samples", "trees", split)
    for sent in range(TREES[split]):
        words = tree(numbers)
        text = " ".join(word for word, _, _, _ in words[:-1]) + "."
        lines = [f"# sent_id = {split}-{sent + 1}", f"# text = {text}"]
        for at, (word, tag, head, relation) in enumerate(words, start=1):
            space = "SpaceAfter=No" if at == len(words) - 1 else "_"
            lines.append("\t".join((str(at), word, word, tag, "_", "_", str(head), relation, "_", space)))
        yield "\n".join(lines) + "\n"


def files() -> dict[str, str]:
    """All files by their names."""
    tables = {f"{name}/{split}.tsv": table(name, split) for name in TASKS for split in SIZES}
    return tables | {f"trees/en_generated-ud-{split}.conllu": treebank(split) + "\n" for split in TREES}


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    folder = parser.parse_args().folder
    for name, text in files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
