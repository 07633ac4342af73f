"""RoBERTa, XLM-R and CamemBERT: BERT whose positions are numbered from behind the pad word on, with heads of their own.

The published position of a token is the pad word's number plus the number of other words up to it. Without pad words among them these are
consecutive, and the model file begins with the first. `pad_word` in the model file lets the program refuse texts in which one stands.
"""

from __future__ import annotations

from fluxformer.published.bert import BUFFERS, encoder, leave_out_pooler
from fluxformer.published.building import Architecture, MaskedWords, Model
from fluxformer.published.checkpoint import Checkpoint
from fluxformer.published.config import Config

PAD = 1  # pad_token_id, if config.json does not say it
WORDS = MaskedWords(dense="lm_head.dense", norm="lm_head.layer_norm", matrix="lm_head.decoder.weight", biases=("lm_head.bias", "lm_head.decoder.bias"))


def build(config: Config, tensors: Checkpoint, kind: str) -> Model:
    """Builds the model; `kind` is its class (RobertaForMaskedLM), "" if config.json does not say it."""
    pad = config.whole("pad_token_id", PAD, least=0)
    model = encoder(config, tensors, first_position=pad + 1)
    if pad >= model.words:
        raise config.refuse("pad_token_id", f"the model has {model.words} words")
    model.attributes["pad_word"] = pad
    if tensors.any("classifier.dense.") or kind.endswith("ForSequenceClassification"):
        model.dense_classifier(config, tensors, "classifier.dense", "tanh", "classifier.out_proj")
    if tensors.any("lm_head.") or kind.endswith("ForMaskedLM"):
        model.masked_words(config, tensors, WORDS, "gelu_erf")  # whatever hidden_act says
    leave_out_pooler(tensors, model)
    return model


def architecture(family: str) -> Architecture:
    """The architecture whose classes begin with `family`; the names of all their tensors are those of RoBERTa."""
    return Architecture(prefix="roberta", ignored=BUFFERS, build=build,
                        classes=tuple(family + kind for kind in ("Model", "ForMaskedLM", "ForSequenceClassification")))


ROBERTA, XLM_ROBERTA, CAMEMBERT = architecture("Roberta"), architecture("XLMRoberta"), architecture("Camembert")
