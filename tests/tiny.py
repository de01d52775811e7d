"""Tiny models of every family, with weights drawn and saved as checkpoints in the library's own form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

_SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
}
_RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 20}
_CONVOLVED = {
    "conv_kernel_size": 3,
    "conv_act": "gelu",
    "position_buckets": 8,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
}
_GPT = {"n_positions": 64, "n_embd": 32, "n_layer": 3, "n_head": 4}
_GROUPED = _SIZES | {"num_key_value_heads": 2, "pad_token_id": 0}

# Class of the configuration and its settings, by model type.
CONFIGS: Mapping[str, tuple[str, dict[str, Any]]] = MappingProxyType(
    {
        "bert": ("BertConfig", _SIZES),
        "roberta": ("RobertaConfig", _SIZES),
        "xlm-roberta": ("XLMRobertaConfig", _SIZES),
        "camembert": ("CamembertConfig", _SIZES),
        "electra": ("ElectraConfig", _SIZES | {"embedding_size": 16}),
        "albert": ("AlbertConfig", _SIZES | {"embedding_size": 16}),
        "distilbert": (
            "DistilBertConfig",
            {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 37, "max_position_embeddings": 64},
        ),
        "deberta": ("DebertaConfig", _SIZES | _RELATIVE),
        "deberta-v2": ("DebertaV2Config", _SIZES | _RELATIVE | _CONVOLVED),
        "mpnet": ("MPNetConfig", _SIZES),
        "xlnet": ("XLNetConfig", {"d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 37}),
        "openai-gpt": ("OpenAIGPTConfig", _GPT),
        "gpt2": ("GPT2Config", _GPT),
        "modernbert": (
            "ModernBertConfig",
            _SIZES | {"pad_token_id": 0, "global_attn_every_n_layers": 2, "local_attention": 4},
        ),
        "llama": ("LlamaConfig", _GROUPED),
        "mistral": ("MistralConfig", _GROUPED),
        "qwen2": ("Qwen2Config", _GROUPED),
        "qwen3": ("Qwen3Config", _GROUPED | {"head_dim": 8}),
        "smollm3": ("SmolLM3Config", _GROUPED),
        "olmo2": ("Olmo2Config", _GROUPED),
        "gemma": ("GemmaConfig", _GROUPED | {"head_dim": 8}),
        "gemma2": ("Gemma2Config", _GROUPED | {"head_dim": 8}),
        "phi3": ("Phi3Config", _GROUPED),
        "granite": ("GraniteConfig", _GROUPED),
        "starcoder2": ("Starcoder2Config", _GROUPED),
        "stablelm": ("StableLmConfig", _GROUPED),
    }
)

# The same for model types that also come as decoders, whose families are others.
DECODERS: Mapping[str, tuple[str, dict[str, Any]]] = MappingProxyType(
    {
        "roberta-decoder": ("RobertaConfig", _SIZES | {"is_decoder": True}),
        "xlm-roberta-decoder": ("XLMRobertaConfig", _SIZES | {"is_decoder": True}),
        "camembert-decoder": ("CamembertConfig", _SIZES | {"is_decoder": True}),
    }
)

TEXT = [
    "The cat doesn't sit on the mat, it sleeps.",
    "Every reader who likes long books knows a short one.",
    "Naïve cafés in 日本 sell 😀 tea for $3.50!",
    "Stop.",
]


def wordpiece() -> Any:
    """A tokenizer as BERT has it, trained on a few sentences."""
    from microtome.zoo.text import train_wordpiece

    made = train_wordpiece(TEXT, 150)
    return _framed(made, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ("[CLS]", "[SEP]"))


def bytes_bpe() -> Any:
    """A tokenizer as RoBERTa and GPT-2 have it."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=340, special_tokens=special, initial_alphabet=alphabet)
    made.train_from_iterator(TEXT, trainer)
    return _framed(made, "<s> $A </s>", "<s> $A </s> </s> $B </s>", ("<s>", "</s>"))


def unigram(last: bool = False) -> Any:
    """A tokenizer as ALBERT and XLM-R have it, or, with the token for the whole text at the end, XLNet."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("\u200b", "")])
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    special = ["<pad>", "<unk>", "<sep>", "<cls>"]
    trainer = trainers.UnigramTrainer(vocab_size=110, special_tokens=special, unk_token="<unk>")
    made.train_from_iterator(TEXT, trainer)
    forms = ("$A <sep> <cls>:2", "$A <sep> $B:1 <sep>:1 <cls>:2")
    if not last:
        forms = ("<cls> $A <sep>", "<cls> $A <sep> $B:1 <sep>:1")
    return _framed(made, *forms, ("<sep>", "<cls>"))


def bare_bpe() -> Any:
    """A byte-level tokenizer that adds nothing, behind a pattern of its own, as Llama 3 and Qwen have it."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    pattern = Regex(r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+")
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(pattern, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=340, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet)
    made.train_from_iterator(TEXT, trainer)
    return made


def _framed(made: Any, single: str, pair: str, names: tuple[str, ...]) -> Any:
    from tokenizers import processors

    ids = [(name, made.token_to_id(name)) for name in names]
    made.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=ids)
    return made


TOKENIZERS: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {
        "wordpiece": wordpiece,
        "bytes": bytes_bpe,
        "unigram": unigram,
        "unigram, read last": lambda: unigram(last=True),
        "bare": bare_bpe,
    }
)
_KINDS = {
    "roberta": "bytes",
    "camembert": "unigram",
    "xlm-roberta": "unigram",
    "albert": "unigram",
    "xlnet": "unigram, read last",
    "deberta": "bytes",
    "deberta-v2": "unigram",
    "gpt2": "bytes",
    "modernbert": "bytes",
}


def tokenizer_of(model_type: str) -> Any:
    """The kind of tokenizer that a real model of this type has."""
    from microtome.encoders.table import family_of

    model_type = model_type.removesuffix("-decoder")
    return TOKENIZERS[_KINDS.get(model_type, "bare" if family_of(model_type).causal else "wordpiece")]()


def save_checkpoint(folder: Path, model_type: str, *, head: str = "", seed: int = 0, **settings: Any) -> Path:
    """
    Save a tiny model with its tokenizer.

    Parameters
    ----------
    folder : Path
    model_type : str
        Of `CONFIGS` or `DECODERS`.
    head : str
        Such as "SequenceClassification"; the bare encoder when empty.
    seed : int
    **settings
        Of the configuration.
    """
    import torch
    import transformers

    kind, sizes = {**CONFIGS, **DECODERS}[model_type]
    tokenizer = tokenizer_of(model_type)
    config = getattr(transformers, kind)(**{"vocab_size": tokenizer.get_vocab_size(), **sizes, **settings})
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        maker = getattr(transformers, f"AutoModelFor{head}" if head else "AutoModel")
        model = maker.from_config(config)
        for parameter in model.parameters():
            # Norms and biases begin at 0 and 1, where mistakes with them would not show.
            parameter.data += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": '
        '["input_ids", "token_type_ids", "attention_mask"]}'
    )
    return folder
