"""Which models, texts and tables do the golden cases read? All are drawn here, so that no test can move them.

Everything is written into one folder, under names that the commands of `golden_cases` use as they are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

NOUNS = ("cat", "tea", "mat", "reader", "book", "dog", "river", "letter")
VERBS = ("sleeps", "reads", "likes", "knows", "sees", "runs")
ADJECTIVES = ("long", "short", "old", "green", "quiet")
DETERMINERS = ("the", "a", "every", "some")
NAMES = ("anna", "bruno", "oslo", "lima")
OTHERS = ("who", "and", "on", "it", "of", "well", ".", ",")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PIECES = ("##s", "##er", "##ly")
VOCABULARY = (*SPECIAL, *NOUNS, *VERBS, *ADJECTIVES, *DETERMINERS, *NAMES, *OTHERS, *PIECES)
FILTERS = ((1, 3), (2, 4), (3, 5))


def make(folder: Path) -> None:
    """Write everything that the cases read."""
    _bert(folder / "base", seed=1, blocks=4)
    _gpt(folder / "causal", seed=2)
    _elmo(folder / "elmo")
    _arrays(folder)
    _texts(folder)
    _tasks(folder)
    _treebank(folder)
    _entities(folder)


def sentences(count: int, seed: int, nouns: tuple[str, ...] = NOUNS) -> list[list[tuple[str, str]]]:
    """Words with their parts of speech, in sentences of 4 to 12 words."""
    rng = np.random.default_rng([seed, 7])

    def pick(words: tuple[str, ...]) -> str:
        return words[int(rng.integers(len(words)))]

    def phrase() -> list[tuple[str, str]]:
        if rng.random() < 0.25:
            return [(pick(NAMES), "PROPN")]
        words = [(pick(DETERMINERS), "DET")]
        if rng.random() < 0.5:
            words.append((pick(ADJECTIVES), "ADJ"))
        # Endings make words of two pieces.
        noun = pick(nouns) + ("s" if rng.random() < 0.3 else "")
        return [*words, (noun, "NOUN")]

    out = []
    for _ in range(count):
        words = [*phrase(), (pick(VERBS), "VERB"), *phrase()]
        if rng.random() < 0.4:
            words += [("and", "CCONJ"), *phrase()]
        out.append([*words, (".", "PUNCT")])
    return out


def _weights(model: Any, seed: int) -> None:
    """Draw every weight by the order of names, so that no library decides."""
    import torch

    rng = np.random.default_rng(seed)
    for name, parameter in sorted(model.named_parameters()):
        drawn = rng.standard_normal(tuple(parameter.shape)).astype(np.float32)
        norm = parameter.ndim == 1 and name.endswith("weight")
        spread = 0.1 if parameter.ndim == 1 else 0.15
        parameter.data = torch.from_numpy(spread * drawn + np.float32(norm))


def _bert(folder: Path, seed: int, blocks: int) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import AutoModel, BertConfig

    sizes: dict[str, Any] = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 40}
    positions: dict[str, Any] = {"max_position_embeddings": 64, "vocab_size": len(VOCABULARY)}
    model = AutoModel.from_config(BertConfig(num_hidden_layers=blocks, **sizes, **positions))
    _weights(model, seed)
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    _save_tokenizer(tokenizer, folder)


def _gpt(folder: Path, seed: int) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import AutoModel, GPT2Config

    sizes: dict[str, Any] = {"n_positions": 96, "n_embd": 24, "n_layer": 3, "n_head": 3}
    model = AutoModel.from_config(GPT2Config(vocab_size=256, **sizes))
    _weights(model, seed)
    model.save_pretrained(folder)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    _save_tokenizer(tokenizer, folder)


def _save_tokenizer(tokenizer: Any, folder: Path) -> None:
    tokenizer.save(str(folder / "tokenizer.json"))
    names = ["input_ids", "token_type_ids", "attention_mask"]
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": names}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def _elmo(folder: Path) -> None:
    """An ELMo of two LSTM layers, in the files of bilm-tf."""
    import h5py

    cells, width, letters = 7, 5, 4
    options = {
        "lstm": {
            "dim": cells,
            "projection_dim": width,
            "n_layers": 2,
            "cell_clip": 0.6,
            "proj_clip": 0.4,
            "use_skip_connections": True,
        },
        "char_cnn": {
            "embedding": {"dim": letters},
            "filters": FILTERS,
            "n_highway": 1,
            "n_characters": 262,
            "max_characters_per_token": 50,
            "activation": "relu",
        },
    }
    filters = sum(number for _, number in FILTERS)
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (261, letters)}
    for place, (span, number) in enumerate(FILTERS):
        shapes |= {f"CNN/W_cnn_{place}": (1, span, letters, number), f"CNN/b_cnn_{place}": (number,)}
    for gate in ("carry", "transform"):
        shapes |= {f"CNN_high_0/W_{gate}": (filters, filters), f"CNN_high_0/b_{gate}": (filters,)}
    shapes |= {"CNN_proj/W_proj": (filters, width), "CNN_proj/b_proj": (width,)}
    for direction in (0, 1):
        for layer in (0, 1):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes |= {f"{cell}/W_0": (2 * width, 4 * cells), f"{cell}/B": (4 * cells,)}
            shapes |= {f"{cell}/W_P_0": (cells, width)}
    rng = np.random.default_rng(3)
    folder.mkdir(parents=True)
    (folder / "options.json").write_text(json.dumps(options))
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, shape in shapes.items():
            file[name] = rng.normal(0, 0.7, shape).astype(np.float32)


def stack(layers: int, rows: int, features: int, seed: int) -> np.ndarray:
    """Layers that wander: each keeps most of the one before it. Neurons have different spreads."""
    rng = np.random.default_rng([seed, 5])
    out = [rng.standard_normal((rows, features)) * np.linspace(0.3, 2, features)]
    for _ in range(layers - 1):
        turn = rng.standard_normal((features, features)) / np.sqrt(features)
        noise = rng.standard_normal((rows, features))
        out.append(0.8 * out[-1] + 0.4 * np.tanh(out[-1]) @ turn + 0.3 * noise)
    return np.stack(out).astype(np.float32)


def _arrays(folder: Path) -> None:
    tall = stack(4, 240, 12, seed=1)
    np.save(folder / "tall.npy", tall)
    rng = np.random.default_rng(4)
    np.save(folder / "after.npy", (tall[:3] + rng.standard_normal(tall[:3].shape)).astype(np.float32))
    np.save(folder / "sentence.npy", np.repeat(np.arange(48), 5))
    np.save(folder / "leave.npy", rng.random(240) < 0.1)
    # Larger than what may be held.
    np.save(folder / "large.npy", stack(3, 2400, 40, seed=9))
    np.save(folder / "document.npy", np.repeat(np.arange(120), 20))
    # Fewer rows than neurons: Gram matrices are smaller than moments.
    np.save(folder / "wide.npy", stack(4, 48, 160, seed=2))
    np.save(folder / "blocks.npy", blocks())


def blocks() -> np.ndarray:
    """Eight layers of which the upper four share what the lower ones lack."""
    rng = np.random.default_rng(6)
    low, high = rng.standard_normal((2, 300, 16))
    layers = [part + 0.5 * rng.standard_normal((300, 16)) for part in [low] * 4 + [high + 0.5 * low] * 4]
    return np.stack(layers).astype(np.float32)


def _texts(folder: Path) -> None:
    def line(words: list[tuple[str, str]]) -> str:
        return " ".join(word for word, _ in words)

    drawn = [line(words) for words in sentences(80, seed=1)]
    (folder / "lines.txt").write_text("\n".join(drawn) + "\n")
    documents = ["\n".join(drawn[start : start + 4]) for start in range(0, 80, 4)]
    (folder / "documents.txt").write_text("\n\n".join(documents) + "\n")
    others = [line(words) for words in sentences(80, seed=2, nouns=("river", "letter"))]
    (folder / "others.txt").write_text("\n".join(others) + "\n")
    (folder / "corpus.txt").write_text("\n".join(line(words) for words in sentences(400, seed=3)) + "\n")


def _tasks(folder: Path) -> None:
    """Two tables of one's own: whether a text speaks of cats or of tea."""
    for name, seed in (("cats", 1), ("dogs", 2)):
        rng = np.random.default_rng([seed, 8])
        (folder / name).mkdir()
        for split, size in (("train", 128), ("validation", 80), ("test", 80)):
            rows = ["text,label"]
            for _ in range(size):
                words = [
                    (*VERBS, *ADJECTIVES, *DETERMINERS)[int(i)]
                    for i in rng.integers(15, size=int(rng.integers(4, 8)))
                ]
                label = int(rng.integers(2))
                words[int(rng.integers(len(words)))] = "cat" if label else "tea"
                # Some labels are wrong, so that no model is perfect.
                shown = label if rng.random() > 0.05 else 1 - label
                rows.append(f"{' '.join(words)},{('no', 'yes')[shown]}")
            (folder / name / f"{split}.csv").write_text("\n".join(rows) + "\n")


def _treebank(folder: Path) -> None:
    """Parts of speech and trees: determiners and adjectives hang on nouns, nouns on the verb."""
    (folder / "treebank").mkdir()
    for split, size, seed in (("train", 60, 4), ("dev", 40, 5), ("test", 40, 6)):
        lines: list[str] = []
        for number, words in enumerate(sentences(size, seed=seed)):
            if number % 4 == 0:
                lines.append(f"# newdoc id = {split}-{number // 4}")
            lines.append(f"# sent_id = {split}-{number}")
            lines.append(f"# text = {' '.join(word for word, _ in words)}")
            verb = next(place for place, (_, part) in enumerate(words) if part == "VERB")
            for place, (word, part) in enumerate(words):
                head, relation = _head(words, place, verb)
                fields = (place + 1, word, word, part, part, "_", head, relation, "_", "_")
                lines.append("\t".join(map(str, fields)))
            lines.append("")
        (folder / "treebank" / f"en-ud-{split}.conllu").write_text("\n".join(lines) + "\n")


def _head(words: list[tuple[str, str]], place: int, verb: int) -> tuple[int, str]:
    part = words[place][1]
    if place == verb:
        return 0, "root"
    if part in ("DET", "ADJ"):
        noun = next(after for after in range(place + 1, len(words)) if words[after][1] == "NOUN")
        return noun + 1, "det" if part == "DET" else "amod"
    if part == "PUNCT":
        return verb + 1, "punct"
    if part == "CCONJ":
        return verb + 1, "cc"
    return verb + 1, "nsubj" if place < verb else "obj"


def _entities(folder: Path) -> None:
    """Names of people and places, in the form of CoNLL-2003."""
    (folder / "names").mkdir()
    for split, size, seed in (("train", 60, 14), ("dev", 40, 15), ("test", 40, 16)):
        lines: list[str] = []
        for number, words in enumerate(sentences(size, seed=seed)):
            if number % 4 == 0:
                lines += ["-DOCSTART- -X- -X- O", ""]
            for word, part in words:
                tag = "O" if part != "PROPN" else "B-PER" if word in ("anna", "bruno") else "B-LOC"
                lines.append(f"{word} {part} _ {tag}")
            lines.append("")
        (folder / "names" / f"eng.{split}.iob2").write_text("\n".join(lines) + "\n")
