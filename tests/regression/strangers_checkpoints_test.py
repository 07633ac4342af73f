#!/usr/bin/env python3
"""`fluxformer import` takes sound checkpoints as people have them: whole folders, names with wrappers, padded word tables, checkpoints of
trainings, several files, newer names, heads that have no place; what it leaves out or adds it says, and what it cannot take it refuses
for the true reason."""

import fcntl
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

import safetensors_file  # noqa: E402
from published_case import ROOT, Case, save  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))

from python_package import ENVIRONMENT, POSTPROCESS, FolderTest, call, start  # noqa: E402

import fluxformer  # noqa: E402
from fluxformer.published.command import fitting_words  # noqa: E402

WORDS = ["[PAD]", "[UNK]", *(f"w{number}" for number in range(2, 29))]
# A PyTorch that evaluates the text it is to load.
TORCH = """
import numpy
float32 = bfloat16 = "a type"
class Tensor:
    dtype = None
    def __init__(self, array): self.array = array
    def is_floating_point(self): return True
    def detach(self): return self
    def numpy(self): return numpy.array(self.array)
def load(path, **options):
    with open(path) as stream:
        return eval(stream.read(), {"Tensor": Tensor})
"""
# Names of a layer of a ViT, and those of version 5 of the library.
NEWER = {"attention.attention.query": "attention.q_proj", "attention.attention.key": "attention.k_proj",
         "attention.attention.value": "attention.v_proj", "attention.output.dense": "attention.o_proj",
         "intermediate.dense": "mlp.fc1", "output.dense": "mlp.fc2"}


class Strangers(FolderTest):
    def setUp(self):
        super().setUp()
        self.model = self.path("model.h5")

    def run_import(self, *arguments):
        return call("import", *arguments, "--output", self.model, "--overwrite")

    def imported(self, *arguments):
        """What `import` says; the model's arrays are in self.arrays(), and its words in self.words()."""
        done = self.run_import(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def arrays(self):
        """Every array of the model file but the words, by name."""
        found = {}
        with h5py.File(self.model, "r") as file:
            file["model"].visititems(lambda name, item: found.update({name: item[...]}) if isinstance(item, h5py.Dataset) and item.dtype.kind == "f" else None)
        return found

    def words(self):
        with h5py.File(self.model, "r") as file:
            return [word.decode() for word in file["model/embedding/vocabulary"][...]]

    def assert_same(self, arrays):
        found = self.arrays()
        self.assertEqual(sorted(found), sorted(arrays))
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array, name)

    def plain(self, name, kind):
        """config and tensors of a published model, and the arrays of its import."""
        config, tensors = Case(name).published(kind)
        self.imported(*save(self.folder, config, tensors))
        return config, tensors, self.arrays()

    def write(self, name, content):
        with open(self.path(name), "w", encoding="utf-8") as stream:
            stream.write(content if isinstance(content, str) else json.dumps(content))
        return self.path(name)


class Names(Strangers):
    def test_what_wrappers_put_into_names_is_left_out(self):
        config, tensors, arrays = self.plain("bert", "BertForSequenceClassification")
        for wrapped in ("module.{}", "_orig_mod.{}", "module._orig_mod.{}", "_orig_mod.module.module.{}", "model.module.{}"):
            with self.subTest(wrapped):
                self.imported(*save(self.folder, config, {wrapped.format(name): array for name, array in tensors.items()}))
                self.assert_same(arrays)
        amid = {name.replace("bert.encoder.", "bert._orig_mod.encoder."): array for name, array in tensors.items()}
        self.imported(*save(self.folder, config, {**amid, "n_averaged": np.array(3)}))
        self.assert_same(arrays)
        both = {**tensors, "module.classifier.bias": tensors["classifier.bias"]}
        self.assert_refused(self.run_import(*save(self.folder, config, both)), "are the same tensor")

    def test_an_encoder_of_ones_own_may_be_wrapped_too(self):
        width = 4
        shapes = {"self_attn.in_proj_weight": (12, width), "self_attn.in_proj_bias": (12,), "self_attn.out_proj.weight": (width, width),
                  "self_attn.out_proj.bias": (width,), "linear1.weight": (8, width), "linear1.bias": (8,), "linear2.weight": (width, 8),
                  "linear2.bias": (width,), **{f"norm{one}.{part}": (width,) for one in "12" for part in ("weight", "bias")}}
        random = np.random.default_rng(1)
        state = {f"layers.0.{name}": random.normal(size=shape) for name, shape in shapes.items()}
        state["embed.weight"] = random.normal(size=(width, 3))
        options = ("--heads", "2", "--norm", "post", "--activation", "relu", "--overwrite", "--embedding-weight")
        found = []
        for wrapper, embedding, more in (("", "embed.weight", ()), ("module.", "embed.weight", ()), ("_orig_mod.module.", "_orig_mod.module.embed.weight", ()),
                                         ("module.encoder.", "module.encoder.embed.weight", ("--prefix", "module.encoder.", "--ignore", "module.count*"))):
            counted = {"module.count": np.array(7.0)} if more else {}
            np.savez(self.path("state.npz"), **{wrapper + name: array for name, array in state.items()}, **counted)
            done = call("import", self.path("state.npz"), self.model, *options, embedding, *more)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            found.append(self.arrays())
        for arrays in found[1:]:
            for name, array in found[0].items():
                np.testing.assert_array_equal(arrays[name], array, name)
        np.savez(self.path("state.npz"), **state, **{"module.embed.weight": state["embed.weight"]})
        self.assert_refused(call("import", self.path("state.npz"), self.model, *options, "embed.weight"), "state.npz", "embed.weight and module.embed.weight are the same array")
        np.savez(self.path("state.npz"), **{f"model.{name}": array for name, array in state.items()}, step=np.array(7.0))
        done = call("import", self.path("state.npz"), self.model, *options, "embed.weight", "--key", "model")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assert_refused(call("import", self.path("state.npz"), self.model, *options, "embed.weight", "--key", "ema"), "no name begins with ema.")

    def test_the_newer_names_of_a_vit_are_known(self):
        config, tensors, arrays = self.plain("vit", "ViTForImageClassification")
        for layers in ("vit.layers.", "vit.encoder.layers."):
            newer = {}
            for name, array in tensors.items():
                if name.startswith("vit.encoder.layer."):
                    name = name.replace("vit.encoder.layer.", layers)
                    name = next((name.replace(f".{old}.", f".{new}.") for old, new in NEWER.items() if f".{old}." in name), name)
                newer[name] = array
            self.assertNotEqual(set(newer), set(tensors))
            with self.subTest(layers):
                self.imported(*save(self.folder, config, newer))
                self.assert_same(arrays)
        del newer["vit.encoder.layers.0.mlp.fc1.bias"]
        self.assert_refused(self.run_import(*save(self.folder, config, newer)), "intermediate.dense.bias is missing")

    def test_the_trunk_of_a_model_whose_head_has_no_place_is_taken(self):
        for name, family, trunk, heads in (("bert", "Bert", "BertModel", ("TokenClassification", "QuestionAnswering", "MultipleChoice")),
                                           ("gpt2", "GPT2", "GPT2Model", ("TokenClassification",)), ("vit", "ViT", "ViTModel", ("MaskedImageModeling",)),
                                           ("distilbert", "DistilBert", "DistilBertModel", ("QuestionAnswering",))):
            config, tensors, arrays = self.plain(name, trunk)
            for head in heads:
                theirs = {**tensors, "classifier.weight": np.ones((2, 12)), "classifier.bias": np.ones(2)}
                said = self.imported(*save(self.folder, {**config, "architectures": [f"{family}For{head}"]}, theirs))
                self.assertIn(f"left out: classifier.bias, classifier.weight (the head of {family}For{head} has no place", said)
                self.assert_same(arrays)
        config, tensors, arrays = self.plain("bert", "BertModel")
        del config["architectures"]  # unused tensors beside the trunk of a class that is not said
        said = self.imported(*save(self.folder, config, {**tensors, "qa_outputs.weight": np.ones((2, 12))}))
        self.assertIn("left out: qa_outputs.weight", said)
        self.assert_same(arrays)
        bare = {name.removeprefix("bert."): array for name, array in tensors.items()}
        done = self.run_import(*save(self.folder, {**config, "architectures": ["BertForTokenClassification"]}, {**bare, "classifier.weight": np.ones((2, 12))}))
        self.assert_refused(done, "the head of BertForTokenClassification has no place", "no name of a tensor begins with bert.")

    def test_what_the_program_does_not_have_is_refused_for_its_true_reason(self):
        config, tensors = Case("bert").published("BertModel")
        for kind, reason in (("longformer", "within windows"), ("xlm-roberta-xl", "in front of its sub-layers"),
                             ("albert", "narrower than its layers"), ("swin", "within windows"), ("mystery", "other architectures")):
            done = self.run_import(*save(self.folder, {**config, "model_type": kind}, tensors))
            self.assert_refused(done, kind, reason)
            self.assertNotIn("rotary", done.stderr)


class Vocabularies(Strangers):
    def setUp(self):
        super().setUp()
        self.config, self.tensors, self.plain_arrays = self.plain("bert", "BertForMaskedLM")
        self.paths = save(self.folder, self.config, self.tensors)

    def test_rows_behind_the_last_word_get_names(self):
        said = self.imported(*self.paths, "--words", self.write("v.txt", "\n".join(WORDS[:27])))
        self.assertIn("27 words for 29 rows of the word table, whose last 2 pad it: these are called <row 27> to <row 28>", said)
        self.assertEqual(self.words(), [*WORDS[:27], "<row 27>", "<row 28>"])
        said = self.imported(*self.paths, "--words", self.write("v.txt", "\n".join([*WORDS[:27], "<row 28>"])))
        self.assertEqual(self.words(), [*WORDS[:27], "<row 28>", "<<row 28>>"])  # each has a name of its own
        self.assert_refused(self.run_import(*self.paths, "--words", self.write("v.txt", "\n".join(WORDS[:14]))), "14 words, but the model has 29")
        self.assert_refused(self.run_import(*self.paths, "--words", self.write("v.txt", "\n".join([*WORDS, "more"]))), "30 words, but the model has 29", "tokeniser with more words")
        self.assertEqual(len(fitting_words(self.write("v.txt", "\n".join(map(str, range(1500)))), 1500 + 1023)[0]), 2523)
        with self.assertRaisesRegex(fluxformer.RunError, "1500 words, but the model has 2524: it is the vocabulary of another model"):
            fitting_words(self.path("v.txt"), 1500 + 1024)  # no table is padded so far

    def test_a_word_table_may_be_padded_beyond_config_json(self):
        words = "bert.embeddings.word_embeddings.weight"
        padded = {**self.tensors, words: np.pad(self.tensors[words], ((0, 3), (0, 0))), "cls.predictions.bias": np.pad(self.tensors["cls.predictions.bias"], (0, 3))}
        said = self.imported(*save(self.folder, self.config, padded), "--words", self.write("v.txt", "\n".join(WORDS)))
        self.assertIn("has 32 rows", said)
        self.assertIn("vocab_size = 29", said)
        self.assertEqual(self.arrays()["embedding/words"].shape, (32, 12))
        self.assertEqual(len(self.words()), 32)
        odd = {**padded, words: padded[words][:31]}  # no multiple of 8
        self.assert_refused(self.run_import(*save(self.folder, self.config, odd)), "31 x 12 where config.json makes it 29 x 12")

    def test_words_that_are_there_twice_are_said(self):
        said = self.imported(*self.paths, "--words", self.write("v.txt", "\n".join([*WORDS[:-1], "w3"])))
        self.assertIn("'w3' (3, 28)", said)
        self.assertEqual(self.words(), [*WORDS[:-1], "w3"])
        mapping = "{" + ", ".join(f'"{word}": {number}' for number, word in enumerate([*WORDS[:-1], "w3"])) + "}"
        self.assertIn("'w3' (3, 28)", self.imported(*self.paths, "--words", self.write("v.json", mapping)))

    def test_the_file_of_a_tokeniser_is_a_vocabulary(self):
        of_words = {"type": "WordPiece", "vocab": {word: number for number, word in reversed(list(enumerate(WORDS)))}}
        fewer = {"type": "BPE", "vocab": {word: number for number, word in enumerate(WORDS[:27])}, "merges": []}
        pieces = {"type": "Unigram", "vocab": [[word, -1.5] for word in WORDS[:27]]}
        added = [{"id": 0, "content": "[PAD]", "special": True}]
        behind = [*added, {"id": 28, "content": "w28"}, {"id": 27, "content": "w27"}]
        for model, more in ((of_words, added), (of_words, []), (fewer, behind), (pieces, behind)):
            with self.subTest(model["type"], more=len(more)):
                self.imported(*self.paths, "--words", self.write("tokenizer.json", {"version": "1.0", "added_tokens": more, "model": model}))
                self.assertEqual(self.words(), WORDS)
        for model, more, part in (({"type": "BPE"}, [], "model.vocab is neither"), ([1], [], "model.vocab is neither"), ({"vocab": [1]}, [], "model.vocab is neither"),
                                  (of_words, [{"id": "0"}], "added_tokens has no id"), (of_words, [7], "added_tokens has no id"),
                                  (of_words, [[7]], "added_tokens has no id"), (of_words, 7, "added_tokens has no id"), ({"vocab": {"a": []}}, [], "not an object word: number"),
                                  (fewer, behind[1:2], "'w28' has 28 where 27 is expected"), (of_words, [{"id": 3, "content": "other"}], "has 3 where 4 is expected")):
            with self.subTest(part, model=model):
                self.assert_refused(self.run_import(*self.paths, "--words", self.write("tokenizer.json", {"added_tokens": more, "model": model})), "tokenizer.json", part)
        # A vocabulary may have the word "model".
        said = self.imported(*self.paths, "--words", self.write("v.json", {**{word: number for number, word in enumerate(WORDS[:28])}, "model": 28}))
        self.assertEqual(self.words()[-1], "model", said)


class Folders(Strangers):
    def published(self, name="bert", kind="BertModel"):
        config, tensors, self.expected = self.plain(name, kind)
        os.mkdir(self.path("hub"))
        save(self.path("hub"), config, tensors)
        return config, tensors

    def test_a_folder_is_taken_with_all_that_is_in_it(self):
        self.published()
        self.write("hub/vocab.txt", "\n".join(WORDS))
        said = self.imported(self.path("hub"))
        for name in ("model.safetensors", "config.json", "vocab.txt"):
            self.assertIn(os.path.join("hub", name), said.splitlines()[0])
        self.assert_same(self.expected)
        self.assertEqual(self.words(), WORDS)
        os.remove(self.path("hub/vocab.txt"))
        self.write("hub/tokenizer.json", {"model": {"vocab": {word: number for number, word in enumerate(WORDS)}}})
        self.imported(self.path("hub") + "/")
        self.assertEqual(self.words(), WORDS)
        # A vocab.json beside it may lack words that were added.
        self.write("hub/vocab.json", {word: number for number, word in enumerate(WORDS[:-1])})
        self.imported(self.path("hub"))
        self.assertEqual(self.words(), WORDS)
        self.imported(self.path("hub/model.safetensors"))  # config.json is beside it
        self.assert_same(self.expected)
        os.remove(self.path("hub/config.json"))
        self.assert_refused(self.run_import(self.path("hub")), "no config.json is beside it", "CHECKPOINT config.json --output")
        os.remove(self.path("hub/model.safetensors"))
        self.assert_refused(self.run_import(self.path("hub")), "a folder without weights", "model.safetensors.index.json")

    def test_the_usage_shows_every_form(self):
        for arguments in (("import",), ("import", self.folder), ("import", "state.npz")):
            done = call(*arguments)
            self.assertEqual(done.returncode, 2)
            for form in ("FOLDER --output MODEL.h5", "CHECKPOINT config.json --output MODEL.h5", "STATE MODEL.h5 --heads N"):
                self.assertIn(form, done.stderr)

    def test_a_checkpoint_in_several_files_is_put_together(self):
        config, tensors = self.published("gpt2", "GPT2LMHeadModel")
        os.remove(self.path("hub/model.safetensors"))
        files = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
        places = {name: files[number % 2] for number, name in enumerate(tensors)}

        def put(places, index=None):
            for file in files:
                safetensors_file.save(self.path("hub/" + file), {name: tensors[name] for name, place in places.items() if place == file})
            self.write("hub/model.safetensors.index.json", "\ufeff" + json.dumps({"metadata": {}, "weight_map": index or places}))

        put(places)
        for source in ((self.path("hub"),), (self.path("hub/model.safetensors.index.json"), self.path("hub/config.json")), (self.path("hub/model.safetensors.index.json"),)):
            self.imported(*source)
            self.assert_same(self.expected)
        self.assert_refused(self.run_import(self.path("hub/" + files[0])), "one of 2 files", "model.safetensors.index.json")
        first = next(iter(places))
        for index, part in (({**places, first: files[1]}, f"{files[1]}: {first} is missing"), ({**places, first: "../" + files[0]}, "a file beside the index"),
                            ({**places, first: 3}, "a file beside the index"), ({**places, first: "none.safetensors"}, "no such file"),
                            ({name: place for name, place in places.items() if name != first}, f"{first}: ")):
            put(places, index)
            with self.subTest(part):
                self.assert_refused(self.run_import(self.path("hub")), part)
        for content in ("{}", "[]", "{", '{"weight_map": 3}'):
            self.write("hub/model.safetensors.index.json", content)
            self.assert_refused(self.run_import(self.path("hub")), "not the index of a checkpoint")

    def test_mean_and_deviation_of_pixels_go_into_the_model_file(self):
        self.published("vit", "ViTModel")

        def preprocessor():
            with h5py.File(self.model, "r") as file:
                group = file["preprocessor"]
                return float(group.attrs["factor"]), list(group["mean"][...]), list(group["deviation"][...])

        usual = {"do_normalize": True, "do_rescale": True, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.1, 0.2, 0.3], "rescale_factor": 0.01}
        for content, want in ((usual, (0.01, [0.5, 0.4, 0.3], [0.1, 0.2, 0.3])), ({"image_mean": 0.5, "image_std": 0.25}, (1 / 255, [0.5] * 3, [0.25] * 3)),
                              ({"do_normalize": False}, (1 / 255, [0.0] * 3, [1.0] * 3)), ({**usual, "do_rescale": False}, (1.0, usual["image_mean"], usual["image_std"]))):
            given = self.write("given.json", content)
            self.imported(self.path("hub"), "--preprocessor", given)
            self.assertEqual(preprocessor(), want)
            self.assert_same(self.expected)
        self.write("hub/preprocessor_config.json", usual)
        self.assertIn("preprocessor_config.json", self.imported(self.path("hub")))
        self.assertEqual(preprocessor()[0], 0.01)
        for change, part in (({"image_mean": [0.5]}, "a number for each of 3 channels"), ({"image_std": [0.1, 0, 0.1]}, "must be more than 0"),
                             ({"image_mean": None}, "image_mean"), ({"rescale_factor": "x"}, "must be a number"), ({"rescale_factor": -1}, "must be more than 0")):
            self.write("hub/preprocessor_config.json", {**usual, **change})
            self.assert_refused(self.run_import(self.path("hub")), "preprocessor_config.json", part)
        config, tensors = Case("bert").published("BertModel")
        self.assert_refused(self.run_import(*save(self.folder, config, tensors), "--preprocessor", given), "is for models of images")


class Trainings(Strangers):
    def torch(self, content, *options, library=TORCH):
        """`import` of a file of torch.save, with a PyTorch that evaluates the text."""
        self.write("torch.py", library)
        return start("import", self.write("ckpt.pt", content), self.path("config.json"), "--output", self.model, "--overwrite", *options,
                     env={**ENVIRONMENT, "PYTHONPATH": os.pathsep.join((self.folder, POSTPROCESS))})

    def test_the_state_dict_of_a_training_is_found_by_its_key(self):
        config, tensors, arrays = self.plain("gpt2", "GPT2LMHeadModel")
        save(self.folder, config, tensors)
        state = "{" + ", ".join(f"'_orig_mod.{name}': Tensor({array.tolist()})" for name, array in tensors.items()) + "}"
        training = f"{{'model': {state}, 'ema': {{'model': {state}}}, 'optimizer': {{}}, 'iter_num': 3, 'model_args': {{'n_layer': 1}}}}"
        done = self.torch(training)
        self.assert_refused(done, "holds more than a state dict (ema, iter_num, model, model_args, optimizer)", "--key", "there are ema.model, model")
        for options, content in ((("--key", "model"), training), (("--key=ema.model",), training), ((), f"{{'state_dict': {state}, 'epoch': 3}}"), ((), state)):
            done = self.torch(content, *options)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assert_same(arrays)
        self.assert_refused(self.torch(training, "--key", "optimizer"), "--key optimizer: no state dict is there", "ema.model, model")
        self.assert_refused(self.torch("{'epoch': 3}", "--key", "model"), "--key model: no state dict is there; the file has none")
        for library, part in ((TORCH.replace(", **options", ""), "unexpected keyword argument"), ("raise ImportError('libtorch.so')", "libtorch.so")):
            done = self.torch(state, library=library)
            self.assert_refused(done, part, "not of a file")
            self.assertNotIn("ckpt.pt", done.stderr)


class Locks(Strangers):
    def test_a_locked_file_is_called_locked(self):
        config, tensors = Case("bert").published("BertModel")
        self.imported(*save(self.folder, config, tensors))
        with open(self.model, "rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            done = start("export", self.model, self.path("out.safetensors"), env={**ENVIRONMENT, "HDF5_USE_FILE_LOCKING": "TRUE"})
            self.assert_refused(done, "model.h5: is locked by another process", "HDF5_USE_FILE_LOCKING=FALSE")
            self.assertNotIn("damaged", done.stderr)
            done = start("export", self.model, self.path("out.safetensors"))  # takes no lock
            self.assertNotIn("locked", done.stderr)


if __name__ == "__main__":
    unittest.main()
