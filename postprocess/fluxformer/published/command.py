"""A published checkpoint and its config.json become a model file.

    fluxformer import FOLDER --output MODEL.h5
    fluxformer import model.safetensors config.json --output MODEL.h5
    fluxformer import model.safetensors config.json --output MODEL.h5 --words vocab.txt

CHECKPOINT is a file of weights as models are published: model.safetensors, pytorch_model.bin (or .pt; needs python3-torch here), .npz, or
the index of a checkpoint in several files (model.safetensors.index.json). config.json lies beside it, where it is found if it is not named,
and tells the architecture (model_type) and every size. FOLDER is a folder with these files; its vocabulary (vocab.txt, vocab.json,
tokenizer.json) and preprocessor_config.json are taken too. --key names the part of CHECKPOINT that is the model, if it holds more than that
(a checkpoint of a training: --key model). Known are

    bert          BertModel, BertForMaskedLM, BertForPreTraining, BertForSequenceClassification
    roberta       RobertaModel, RobertaForMaskedLM, RobertaForSequenceClassification; also xlm-roberta (XLMRoberta...), camembert (Camembert...)
    electra       ElectraModel, ElectraForMaskedLM, ElectraForSequenceClassification
    distilbert    DistilBertModel, DistilBertForMaskedLM, DistilBertForSequenceClassification
    gpt2          GPT2Model, GPT2LMHeadModel, GPT2ForSequenceClassification
    opt           OPTModel, OPTForCausalLM, OPTForSequenceClassification
    llama         LlamaModel, LlamaForCausalLM, LlamaForSequenceClassification (Llama 2 and 3, TinyLlama, SmolLM)
    mistral, qwen2, qwen3     the same of Mistral, Qwen2 (also 2.5) and Qwen3
    gpt_neox      GPTNeoXModel, GPTNeoXForCausalLM, GPTNeoXForSequenceClassification (Pythia)
    gptj          GPTJModel, GPTJForCausalLM, GPTJForSequenceClassification
    modernbert    ModernBertModel, ModernBertForMaskedLM, ModernBertForSequenceClassification
    vit           ViTModel, ViTForImageClassification
    deit          DeiTModel, DeiTForImageClassification, DeiTForImageClassificationWithTeacher

The model file computes the same hidden states, attention and logits. Words and class heads become /model/word_head and /model/head.
Of other models of these families (BertForTokenClassification, ElectraForPreTraining) the trunk is taken; a note names what is left out. What
wrappers put into names (module., _orig_mod.) is left out. The pad word of RoBERTa's family shifts the positions behind it: token files with it
among the real tokens are refused. Token files for DeiT have two tokens in front of the patches, whose numbers are not read.
--words names the vocabulary of a text model, one word per line in the order of its numbers (vocab.txt), or as JSON, word: number
(vocab.json), or tokenizer.json; figures show its words. Rows behind the last word, which only pad the table, get names of their own.
--preprocessor names the preprocessor_config.json of a ViT or DeiT: mean and deviation of its pixels go into the model file.
Everything is compared with config.json: each tensor must be there, with its shape and finite real numbers (F64, F32, F16 or BF16), and each
must be used. What the program would compute in another way (relative positions, experts, capped logits,
cross attention, other activations) is refused by name.

Of rotary positions the model file has the numbers: rope_scaling, or rope_parameters, may be of the kinds default, linear, dynamic (whose lines
may not be longer than max_position_embeddings), llama3 and yarn.

Tokens for the model: `fluxformer tokens --help`. Numbers are stored in float64, one tensor at a time: a model of 110 million
parameters takes 0.9 GB on the disk and far less memory. --store float32 halves that, and loses nothing of numbers in F32, F16 or BF16. Ends with
status 2 and one message if something does not fit, with status 1 if the disk is full.
"""

from __future__ import annotations

import argparse

# Before h5py: it sets a variable that HDF5 reads when it is loaded.
from fluxformer.model_file import write_model
from fluxformer.part_file import refuse_place
from fluxformer.published.bert import BERT
from fluxformer.published.building import MOST_PADDING, Architecture, Model
from fluxformer.published.checkpoint import Checkpoint
from fluxformer.published.config import Config
from fluxformer.published.deit import DEIT
from fluxformer.published.distilbert import DISTILBERT
from fluxformer.published.electra import ELECTRA
from fluxformer.published.files import PREPROCESSOR, USAGE, WORDS, config_beside, in_folder, weights_in
from fluxformer.published.gpt2 import GPT2
from fluxformer.published.gpt_neox import GPT_NEOX
from fluxformer.published.gptj import GPTJ
from fluxformer.published.llama import LLAMA, MISTRAL, QWEN2, QWEN3
from fluxformer.published.modernbert import MODERNBERT
from fluxformer.published.opt import OPT
from fluxformer.published.preprocessor import Preprocessor, read_preprocessor
from fluxformer.published.roberta import CAMEMBERT, ROBERTA, XLM_ROBERTA
from fluxformer.published.vit import VIT
from fluxformer.tensors import Unfit
from fluxformer.words import read_words

ARCHITECTURES = {"bert": BERT, "roberta": ROBERTA, "xlm-roberta": XLM_ROBERTA, "camembert": CAMEMBERT, "electra": ELECTRA,
                 "distilbert": DISTILBERT, "gpt2": GPT2, "opt": OPT, "llama": LLAMA, "mistral": MISTRAL, "qwen2": QWEN2, "qwen3": QWEN3,
                 "gpt_neox": GPT_NEOX, "gptj": GPTJ, "modernbert": MODERNBERT, "vit": VIT, "deit": DEIT}
RELATIVE, EXPERTS = "it has relative positions", "its networks are experts, of which each token chooses some"
STATES, LATENT = "its layers are state-space models", "its attention is latent: keys and values are compressed"
BIASED, SEVERAL_AXES = "its attention is biased by distance (ALiBi)", "its rotary positions have several axes (mrope)"
BEHIND = "its norms stand behind its sub-layers, in front of the sum"
PRE_NORM, WINDOWS = "it has RoBERTa's names, but its norms stand in front of its sub-layers", "its attention is within windows"
# What models that people bring have and a model file does not; the first true reason.
REASONS = {**dict.fromkeys(("mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "dbrx", "gpt_oss", "jetmoe", "phimoe"), EXPERTS),
           **dict.fromkeys(("mamba", "mamba2", "jamba", "rwkv", "falcon_mamba"), STATES), **dict.fromkeys(("deepseek_v2", "deepseek_v3"), LATENT),
           **dict.fromkeys(("bloom", "mpt"), BIASED), **dict.fromkeys(("olmo2", "olmo3"), BEHIND),
           **dict.fromkeys(("qwen2_vl", "qwen2_5_vl"), SEVERAL_AXES),
           "gemma": "its embeddings are scaled", "gemma2": "its logits are capped and its embeddings scaled", "gemma3": "its embeddings are scaled",
           "gemma3_text": "its embeddings are scaled", "falcon": "its attention is biased by distance (ALiBi), or one norm and one group of keys serve all",
           "olmo": "its norms have no gains", "phi3": "its rotary positions are of the kind longrope, or its projections are one matrix",
           **dict.fromkeys(("t5", "mt5", "deberta", "deberta-v2", "mpnet", "xlnet", "beit"), RELATIVE),
           **dict.fromkeys(("bart", "mbart", "marian", "pegasus", "whisper"), "it has an encoder and a decoder"),
           **dict.fromkeys(("xlm-roberta-xl", "roberta-prelayernorm"), PRE_NORM), **dict.fromkeys(("longformer", "swin"), WINDOWS),
           "albert": "its word vectors are narrower than its layers", "gpt_neo": "every other layer attends to near tokens only"}


def architecture_of(config: Config) -> tuple[Architecture, str]:
    """The architecture, and the class of the model ("" if config.json does not say it), which may be one whose head has no place. Unfit if
    the program has no such models."""
    config.must_be_empty("auto_map", "the model is computed by a program of its own")
    config.must_be_empty("quantization_config", "quantised numbers are not read")
    config.must_be_empty("pruned_heads", "all layers of a model file have the same heads")
    config.must_be_empty("is_encoder_decoder", "a model file has one encoder or one decoder")
    known = ", ".join(ARCHITECTURES)
    if not config.has("model_type"):
        raise config.refuse("model_type", f"write it into the file if you know it; there are {known}")
    word = config.word("model_type", "")
    if word not in ARCHITECTURES:
        raise config.refuse("model_type", f"the program has {known}; {REASONS.get(word, 'other architectures compute something else')}")
    architecture = ARCHITECTURES[word]
    kinds = config.names("architectures")
    family = architecture.classes[0].removesuffix("Model")
    for kind in kinds:
        if not kind.startswith(family):
            raise config.refuse("architectures", f"{kind} has no place in a model file; {', '.join(architecture.classes)} have")
    return architecture, kinds[0] if kinds else ""


def convert(checkpoint: str, config_path: str, key: str = "") -> Model:
    """The model that a checkpoint and its config.json describe; most of its numbers are not read yet.

    Parameters
    ----------
    checkpoint, config_path : str
        Paths of the files.
    key : str
        The part of the checkpoint that is the state dict; "": all of it.

    Raises
    ------
    RunError
        If a file cannot be read, or something does not fit together.
    """
    config = Config(config_path)
    architecture, kind = architecture_of(config)
    tensors = Checkpoint(checkpoint, key, architecture.prefix, architecture.ignored, architecture.renamed)
    if kind and kind not in architecture.classes:
        model = trunk(config, architecture, kind, tensors)
    else:
        model = architecture.build(config, tensors, kind)
        if not kind:
            model.leave_out(tensors.drop_left_beside_trunk(), "a head that has no place in a model file")
    tensors.refuse_left(architecture.classes)
    return model


def trunk(config: Config, architecture: Architecture, kind: str, tensors: Checkpoint) -> Model:
    """The model without its head, which has no place in a model file. Unfit if names do not tell which tensors are the head."""
    heads = tensors.drop_heads()
    if not heads and not tensors.has_prefix():
        raise config.refuse("architectures", f"the head of {kind} has no place in a model file, and no name of a tensor begins with "
                            f"{architecture.prefix}., which would tell the trunk from the head; {', '.join(architecture.classes)} have a place")
    model = architecture.build(config, tensors, architecture.classes[0])
    model.leave_out(heads, f"the head of {kind} has no place in a model file, which has the trunk only")
    return model


def fitting_words(path: str, rows: int) -> tuple[list[str], list[str]]:
    """The words of a vocabulary for a model with so many word vectors, and notes on them. Rows behind the last word pad the table: they get
    names of their own. Unfit if there are more words than rows, fewer than half as many, or more rows than padding adds."""
    words, notes = read_words(path), []
    if len(words) > rows or 2 * len(words) < rows or rows - len(words) >= MOST_PADDING:
        raise Unfit(f"{path}: {len(words)} words, but the model has {rows}: it is the vocabulary of another model"
                    + (", or of a tokeniser with more words than the model knows" if rows and len(words) > rows else ""))
    if len(words) < rows:
        known, first = set(words), len(words)
        for number in range(first, rows):
            name = f"<row {number}>"
            while name in known:
                name = f"<{name}>"
            words.append(name)
        notes.append(f"{path}: {first} words for {rows} rows of the word table, whose last {rows - first} pad it: these are called "
                     f"{words[first]}{f' to {words[-1]}' if rows - first > 1 else ''}")
    return words, notes


def parse(arguments: list[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="fluxformer import", usage=USAGE, description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="folder of a published model, or weights: .safetensors, .npz, .bin, .pt, .pth or .index.json")
    parser.add_argument("config", nargs="?", help="config.json of the checkpoint (default: the one beside it)")
    parser.add_argument("--output", metavar="MODEL.h5", required=True, help="model file to write")
    parser.add_argument("--words", metavar="FILE", help="vocabulary: vocab.txt, vocab.json or tokenizer.json (default: that of FOLDER)")
    parser.add_argument("--preprocessor", metavar="FILE", help="preprocessor_config.json of a model of images (default: that of FOLDER)")
    parser.add_argument("--store", choices=("float64", "float32"), default="float64",
                        help="kind of numbers in the model file (default float64; float32: refused for numbers that it does not hold as they are)")
    parser.add_argument("--key", metavar="KEY", default="", help="the part of the checkpoint that is the model's state dict")
    parser.add_argument("--overwrite", action="store_true", help="replace MODEL.h5 if it is there")
    return parser.parse_args(arguments)


def preprocessor_of(path: str, model: Model) -> Preprocessor:
    """What turns pixels into the numbers of the model. Unfit for a model of words."""
    if model.channels == 0:
        raise Unfit(f"{path}: --preprocessor is for models of images, and this is a model of words")
    return read_preprocessor(path, model.channels)


def main(arguments: list[str]) -> None:
    """`fluxformer import` of a published checkpoint: writes the model file and prints what it holds."""
    options = parse(arguments)
    weights = weights_in(options.checkpoint)
    config = options.config or config_beside(weights)
    folder = options.checkpoint if weights != options.checkpoint else None
    vocabulary, preprocessor = options.words, options.preprocessor
    if folder is not None:
        vocabulary, preprocessor = vocabulary or in_folder(folder, *WORDS), preprocessor or in_folder(folder, PREPROCESSOR)
    refuse_place(options.output, tuple(filter(None, (weights, config, vocabulary, preprocessor))), options.overwrite)
    model = convert(weights, config, options.key)
    if folder is not None:
        vocabulary = vocabulary if options.words or model.words else None
        preprocessor = preprocessor if options.preprocessor or model.channels else None
        print(f"read: {', '.join(filter(None, (weights, config, vocabulary, preprocessor)))}")
    words, notes = fitting_words(vocabulary, model.words) if vocabulary else ([], [])
    pixels = preprocessor_of(preprocessor, model) if preprocessor else None
    write_model(options.output, model.attributes, model.arrays, words, pixels, store=options.store)
    for note in (*model.notes, *notes):
        print(note)
    heads = [text for there, text in (("head/W" in model.arrays, f"{model.attributes['classes']} classes"),
                                      (model.guesses_words, f"a head of {model.words} words")) if there]
    print(f"{options.output}: {model.attributes['layers']} layers, width {model.width}, {model.attributes['heads']} heads, "
          f"ffn {model.attributes['ffn']}, {', '.join([*heads, ''])}{model.weights} numbers")
