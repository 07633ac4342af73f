"""A published checkpoint and its config.json become a model file.

    python3 -m fluxformer import model.safetensors config.json --output MODEL.h5
    python3 -m fluxformer import model.safetensors config.json --output MODEL.h5 --words vocab.txt

CHECKPOINT is a file of weights as models are published: model.safetensors, pytorch_model.bin (or .pt; needs python3-torch here), or .npz.
config.json lies beside it and tells the architecture (model_type) and every size. Known are

    bert          BertModel, BertForMaskedLM, BertForPreTraining, BertForSequenceClassification
    distilbert    DistilBertModel, DistilBertForMaskedLM, DistilBertForSequenceClassification
    gpt2          GPT2Model, GPT2LMHeadModel, GPT2ForSequenceClassification
    vit           ViTModel, ViTForImageClassification

The model file computes the same hidden states, attention and logits. Words and class heads become /model/word_head and /model/head.
--words names the vocabulary of a text model, one word per line in the order of its numbers (vocab.txt), or as JSON, word: number
(vocab.json); figures show its words. Everything is compared with config.json: each tensor must be there, with its shape and finite real
numbers (F64, F32, F16 or BF16), and each must be used. What the program would compute in another way (rotary or relative positions,
RMSNorm, cross attention, other activations) is refused by name.

Tokens for the model: `python3 -m fluxformer tokens --help`. Numbers are stored in float64, one tensor at a time: a model of 110 million
parameters takes 0.9 GB on the disk and far less memory. Ends with status 2 and one message if something does not fit, with status 1 if the
disk is full.
"""

from __future__ import annotations

import argparse

# Before h5py: it sets a variable that HDF5 reads when it is loaded.
from fluxformer.model_file import write_model
from fluxformer.part_file import refuse_place
from fluxformer.published.bert import BERT
from fluxformer.published.building import Architecture, Model
from fluxformer.published.checkpoint import Checkpoint
from fluxformer.published.config import Config
from fluxformer.published.distilbert import DISTILBERT
from fluxformer.published.gpt2 import GPT2
from fluxformer.published.vit import VIT
from fluxformer.tensors import Unfit
from fluxformer.words import read_words

ARCHITECTURES = {"bert": BERT, "distilbert": DISTILBERT, "gpt2": GPT2, "vit": VIT}


def architecture_of(config: Config) -> tuple[Architecture, str]:
    """The architecture, and the class of the model ("" if config.json does not say it). Unfit if the program
    has no such models."""
    config.must_be_empty("auto_map", "the model is computed by a program of its own")
    config.must_be_empty("quantization_config", "quantised numbers are not read")
    config.must_be_empty("pruned_heads", "all layers of a model file have the same heads")
    config.must_be_empty("is_encoder_decoder", "a model file has one encoder or one decoder")
    known = ", ".join(ARCHITECTURES)
    if not config.has("model_type"):
        raise config.refuse("model_type", f"write it into the file if you know it; there are {known}")
    word = config.word("model_type", "")
    if word not in ARCHITECTURES:
        raise config.refuse("model_type", f"the program has {known}; models with rotary or relative positions or RMSNorm are others")
    architecture = ARCHITECTURES[word]
    kinds = config.names("architectures")
    for kind in kinds:
        if kind not in architecture.classes:
            raise config.refuse("architectures", f"{kind} has no place in a model file; {', '.join(architecture.classes)} have")
    return architecture, kinds[0] if kinds else ""


def convert(checkpoint: str, config_path: str) -> Model:
    """The model that a checkpoint and its config.json describe; most of its numbers are not read yet.

    Raises
    ------
    RunError
        If a file cannot be read, or something does not fit together.
    """
    config = Config(config_path)
    architecture, kind = architecture_of(config)
    tensors = Checkpoint(checkpoint, architecture.prefix, architecture.ignored)
    model = architecture.build(config, tensors, kind)
    tensors.refuse_left(architecture.classes)
    return model


def parse(arguments: list[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="fluxformer import", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="weights: .safetensors, .npz, .bin, .pt or .pth")
    parser.add_argument("config", help="config.json of the checkpoint")
    parser.add_argument("--output", metavar="MODEL.h5", required=True, help="model file to write")
    parser.add_argument("--words", metavar="FILE", help="vocabulary: vocab.txt or vocab.json")
    parser.add_argument("--overwrite", action="store_true", help="replace MODEL.h5 if it is there")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """`fluxformer import` of a published checkpoint: writes the model file and prints what it holds."""
    options = parse(arguments)
    refuse_place(options.output, tuple(filter(None, (options.checkpoint, options.config, options.words))), options.overwrite)
    model = convert(options.checkpoint, options.config)
    words = read_words(options.words) if options.words else []
    rows = model.arrays["embedding/words"].shape[0] if "embedding/words" in model.arrays else 0
    if options.words and len(words) != rows:
        raise Unfit(f"{options.words}: {len(words)} words, but the model has {rows}")
    write_model(options.output, model.attributes, model.arrays, words)
    for note in model.notes:
        print(note)
    heads = [text for name, text in (("head/W", f"{model.attributes['classes']} classes"), ("word_head/b", f"a head of {rows} words"))
             if name in model.arrays]
    print(f"{options.output}: {model.attributes['layers']} layers, width {model.width}, {model.attributes['heads']} heads, "
          f"ffn {model.attributes['ffn']}, {', '.join([*heads, ''])}{sum(array.size for array in model.arrays.values())} numbers")
