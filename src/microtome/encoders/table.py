"""Table of the model families."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ..errors import unknown
from .families.albert import ALBERT
from .families.bert import BERT
from .families.deberta import DEBERTA, DEBERTA_V2
from .families.distilbert import DISTILBERT
from .families.electra import ELECTRA
from .families.elmo import ELMO, TRANSFORMER_ELMO
from .families.gpt2 import GPT2
from .families.llama import LLAMA
from .families.modernbert import MODERNBERT
from .families.mpnet import MPNET
from .families.openai_gpt import OPENAI_GPT
from .families.roberta import ROBERTA, ROBERTA_DECODER
from .families.xlnet import XLNET
from .family import Family

_ALL = (BERT, ROBERTA, ROBERTA_DECODER, ELECTRA, ALBERT, DISTILBERT, DEBERTA, DEBERTA_V2, MPNET, XLNET)
_ALL += (OPENAI_GPT, GPT2, MODERNBERT, LLAMA, ELMO, TRANSFORMER_ELMO)
FAMILIES: Mapping[str, Family] = MappingProxyType({family.name: family for family in _ALL})


def family_of(model_type: str, config: Any = None) -> Family:
    """
    Find the family of a model.

    Parameters
    ----------
    model_type : str
        The `model_type` of its configuration.
    config : transformers.PretrainedConfig, optional
        The configuration, which may distinguish families of the same type.

    Returns
    -------
    Family
    """
    of_type = [family for family in FAMILIES.values() if model_type in family.model_types]
    if not of_type:
        raise unknown(
            "model type", model_type, {kind for family in FAMILIES.values() for kind in family.model_types}
        )
    matching = [
        family
        for family in of_type
        if all(getattr(config, name, None) == value for name, value in family.where.items())
    ]
    # The family with more conditions is the more specific one.
    return max(matching, key=lambda family: len(family.where))
