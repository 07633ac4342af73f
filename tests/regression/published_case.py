"""The checkpoints of published_reference.h5 and language_models_reference.h5 (tests/support), as whoever publishes a model saves them."""

import contextlib
import json
import os

import h5py
import numpy as np

import safetensors_file

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REFERENCES = tuple(os.path.join(ROOT, "tests", "support", f"{name}_reference.h5") for name in ("published", "language_models"))
# Published once, as the word embeddings.
TIED = ("cls.predictions.decoder.weight", "lm_head.decoder.weight", "generator_lm_head.weight", "vocab_projector.weight", "lm_head.weight")
DECODERS = {"Llama": "model.", "Mistral": "model.", "Qwen2": "model.", "Qwen3": "model.", "GPTNeoX": "gpt_neox.", "GPTJ": "transformer."}
# What a published checkpoint of each class has of all that the reference models have.
CLASSES = {
    "BertModel": ("bert.",), "BertForMaskedLM": ("bert.embeddings.", "bert.encoder.", "cls.predictions."),
    "BertForPreTraining": ("bert.", "cls."), "BertForSequenceClassification": ("bert.", "classifier."),
    "RobertaModel": ("roberta.",), "RobertaForMaskedLM": ("roberta.embeddings.", "roberta.encoder.", "lm_head."),
    "RobertaForSequenceClassification": ("roberta.embeddings.", "roberta.encoder.", "classifier."),
    "ElectraModel": ("electra.",), "ElectraForMaskedLM": ("electra.", "generator_"), "ElectraForSequenceClassification": ("electra.", "classifier."),
    "DistilBertModel": ("distilbert.",), "DistilBertForMaskedLM": ("distilbert.", "vocab_"),
    "DistilBertForSequenceClassification": ("distilbert.", "pre_classifier.", "classifier."),
    "GPT2Model": ("transformer.",), "GPT2LMHeadModel": ("transformer.", "lm_head."), "GPT2ForSequenceClassification": ("transformer.", "score."),
    "OPTModel": ("model.",), "OPTForCausalLM": ("model.", "lm_head."), "OPTForSequenceClassification": ("model.", "score."),
    "ViTModel": ("vit.",), "ViTForImageClassification": ("vit.embeddings.", "vit.encoder.", "vit.layernorm.", "classifier."),
    **{f"{family}Model": (trunk,) for family, trunk in DECODERS.items()},
    **{f"{family}ForCausalLM": (trunk, "lm_head.", "embed_out.") for family, trunk in DECODERS.items()},
    **{f"{family}ForSequenceClassification": (trunk, "score.") for family, trunk in DECODERS.items()},
    "ModernBertModel": ("model.",), "ModernBertForMaskedLM": ("model.", "head.", "decoder."),
    "ModernBertForSequenceClassification": ("model.", "head.", "classifier."),
    "DeiTModel": ("deit.",),
    "DeiTForImageClassificationWithTeacher": ("deit.embeddings.", "deit.encoder.", "deit.layernorm.", "cls_classifier.", "distillation_classifier."),
}


class Case:
    """One reference model: its config, tensors, inputs and outputs."""

    def __init__(self, name):
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(h5py.File(path, "r")) for path in REFERENCES]
            case = next(file[name] for file in files if name in file)
            self.config = json.loads(case.attrs["config"])
            self.tensors, start = {}, 0
            for tensor, shape in json.loads(case.attrs["shapes"]):
                self.tensors[tensor] = case["tensors"][start:start + int(np.prod(shape))].reshape(shape).astype(np.float64)
                start += int(np.prod(shape))
            assert start == len(case["tensors"])
            self.arrays = {key: item[...] for key, item in case.items() if key != "tensors"}
        self.tied = self.config.get("tie_word_embeddings", True)

    def __getitem__(self, name):
        return self.arrays[name]

    def __contains__(self, name):
        return name in self.arrays

    @property
    def lengths(self):
        """Real tokens of each sample."""
        return self["lengths"] if "lengths" in self else np.full(len(self["images"]), self["hidden"].shape[2])

    @property
    def front(self):
        """Tokens in front of the patches."""
        return sum(name.endswith(("cls_token", "distillation_token")) for name in self.tensors)

    @property
    def real(self):
        """[sample, token]: whether the token is one."""
        return np.arange(self["hidden"].shape[2]) < self.lengths[:, None]

    def published(self, kind):
        """(config, tensors) of a checkpoint of the class `kind`."""
        tensors = {name: array for name, array in self.tensors.items()
                   if name.startswith(CLASSES[kind]) and not (self.tied and name in TIED)}
        config = {**self.config, "architectures": [kind]}
        if "Classification" in kind:
            config["id2label"] = {str(number): f"class {number}" for number in range(self["classes"].shape[1])}
        return config, tensors

    def patches(self):
        """The images as tokens: placeholders in front, then each patch by channel, row and column."""
        (rows, columns), images = self.config["patch_size"], self["images"]
        found = [np.zeros((len(images), images.shape[1] * rows * columns))] * self.front
        for y in range(0, images.shape[2], rows):
            for x in range(0, images.shape[3], columns):
                found.append(images[:, :, y:y + rows, x:x + columns].reshape(len(images), -1))
        return np.stack(found, axis=1)


def save(folder, config, tensors, kinds=None):
    """Writes model.safetensors and config.json; their paths."""
    paths = os.path.join(folder, "model.safetensors"), os.path.join(folder, "config.json")
    safetensors_file.save(paths[0], tensors, kinds)
    with open(paths[1], "w", encoding="utf-8") as stream:
        json.dump(config, stream)
    return paths
