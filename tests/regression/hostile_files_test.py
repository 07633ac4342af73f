#!/usr/bin/env python3
"""Files made to do harm do none: a deck, a model or a checkpoint opens no other file, takes no memory that is only
announced, and says nothing but one line that names it."""

import os
import resource
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import h5py  # noqa: E402 (the folder is put on the path first)
import numpy as np  # noqa: E402

from program import DECK, TRAIN_DECK, ProgramTest, ranks_of_case, together, with_attributes, with_value  # noqa: E402

AUTO = "--checkpoint.restart=auto"
CHECKPOINT = "out.checkpoint.h5"


class HostileTest(ProgramTest):
    def refuse(self, cases, experiment="evolve", how=lambda number: ["--validate"]):
        """(what is wrong, arguments, parts of the message); no file may appear but unfinished ones."""
        before = sorted(os.listdir(self.folder))
        ends = {}

        def run(claim, arguments, ranks, number):
            ends[claim, ranks] = self.run_program(experiment, *arguments, *how(number), ranks=ranks)

        together([lambda c=claim, a=arguments, r=ranks, n=number: run(c, a, r, f"{n}on{r}")
                  for number, (claim, arguments, _) in enumerate(cases) for ranks in ranks_of_case(number)])
        for number, (claim, _, parts) in enumerate(cases):
            for ranks in ranks_of_case(number):
                with self.subTest(claim, ranks=ranks):
                    self.assert_refused(ends[claim, ranks], *parts)
        self.assertEqual(sorted(name for name in os.listdir(self.folder) if not name.endswith(".part")), before)

    def refuse_to_continue(self, files, *settings, experiment="evolve"):
        """(what is wrong, checkpoint, part of the message)."""
        self.refuse([(claim, [*settings, "--quiet", "--checkpoint.restart=" + name], ["checkpoint " + name, part])
                     for claim, name, part in files], experiment, lambda number: [f"--output.file=result{number}.h5"])

    def changed(self, source, change):
        """A copy of a file, changed by h5py."""
        name = f"changed{len(os.listdir(self.folder))}.h5"
        shutil.copy(self.path(source), self.path(name))
        with h5py.File(self.path(name), "r+") as file:
            change(file)
        return name


def forged(change):
    """A change of a checkpoint's /state by somebody who removes the digest too."""
    def forge(file):
        del file["state"].attrs["digest"]
        change(file)
    return forge


def say(**attributes):
    return forged(with_attributes("state", **attributes))


class Decks(HostileTest):
    PETSC = ("log_view = :stolen", "ts_monitor = ascii:stolen", "ts_view = :stolen", "ts_save_trajectory =", "history = stolen",
             "options_file = stolen", "ksp_view_mat = binary:stolen", "ts_monitor_solution_vtk = stolen", "citations = stolen",
             "on_error_attach_debugger = stolen", "pc_type = python", "pc_asm_print_subdomains = stolen", "info = stolen",
             "ts_monitor_lg_solution =", "pf_string = stolen", "library_preload = ./stolen.so")

    def test_hold_no_options_that_open_files_or_start_programs(self):
        cases = []
        for number, option in enumerate(self.PETSC):
            name = self.write(f"deck{number}.ini", DECK + "[petsc]\n" + option + "\n")
            cases.append((option, [name], [name, "petsc." + option.split(" ")[0], "command line"]))
        self.refuse(cases)

    def test_ask_petsc_for_nothing_that_it_crashes_with_or_cannot_do(self):
        cases, implicit = [], "ts_type = beuler\n"
        for number, (options, parts) in enumerate((
                ("ts_type = alpha2", ["ts_type = alpha2: must be one of", "bdf"]), ("ts_type = mimex", ["ts_type = mimex"]),
                ("ts_type = discgrad", ["ts_type = discgrad"]), (implicit + "snes_type = fas", ["snes_type = fas", "newtonls"]),
                (implicit + "pc_type = kaczmarz", ["pc_type = kaczmarz", "jacobi"]), ("sub_pc_type = redistribute", ["sub_pc_type"]),
                ("ts_max_steps = many", ["[petsc] ts_max_steps", "many"]), ("ts_type = rk\nts_rk_type = x", ["[petsc] ts_type, ts_rk_type"]),
                (implicit + "pc_type = jacobi", ["[petsc]", "pc_type", "shell"]),  # found by the first step
                (implicit + "ksp_type = lsqr", ["[petsc]", "ksp_type", "transpose"]))):
            name = self.write(f"deck{number}.ini", DECK + "[petsc]\n" + options + "\n")
            cases.append((options, [name], parts))
        self.refuse(cases, how=lambda number: [f"--output.file=result{number}.h5", "--quiet"])

    def test_that_are_no_decks_of_this_experiment_say_what_they_are(self):
        self.evolve("--checkpoint.every=2")
        self.refuse([("of evolve", ["out.h5"], ["deck out.h5: is the output of evolve"])], "train")
        self.refuse([("a checkpoint", [CHECKPOINT], ["deck " + CHECKPOINT + ": holds no settings"])])

    def test_choose_methods_and_print(self):
        self.write("small.ini", DECK + "[petsc]\nts_max_reject = 7\nts_monitor =\n")
        end = self.evolve()
        self.assertIn("TS dt", end.out)
        end = self.evolve("--output.file=again.h5", "--petsc.ts_monitor=ascii:profile.txt")  # the command line may name files
        self.assertIn("profile.txt", os.listdir(self.folder))

    def test_that_are_output_files_lose_such_options_and_the_leave_to_overwrite(self):
        self.evolve("--petsc.ts_max_reject=7")

        def add(file):
            settings = file.attrs["settings"] + "".join(line + "\n" for line in self.PETSC)
            file.attrs["settings"] = settings.replace("overwrite = false", "overwrite = true").replace(
                "file = out.h5", "file = precious.h5")

        deck = self.changed("out.h5", add)
        self.write("precious.h5", "do not touch")
        before = sorted(os.listdir(self.folder))
        end = self.run_program("evolve", deck, "--validate")
        self.assertEqual(end.code, 0, end)
        self.assertIn("left out of the settings in " + deck, end.err)
        for option in self.PETSC:
            self.assertIn("petsc." + option.split(" ")[0], end.err)
        self.assertNotIn("ts_max_reject", end.err)
        end = self.run_program("evolve", deck, "--quiet")
        self.assertEqual(end.code, 2, end)
        self.assertIn("precious.h5 exists", end.err)
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        with open(self.path("precious.h5")) as stream:
            self.assertEqual(stream.read(), "do not touch")
        again = self.evolve("--output.file=again.h5", deck=deck)
        self.assertIn("left out", again.err)
        self.assertIn("ts_max_reject = 7", self.open("again.h5").attrs["settings"])

    def test_that_are_no_files_are_not_waited_for(self):
        os.mkfifo(self.path("pipe.ini"))
        with open(self.path("long.ini"), "w") as stream:
            stream.truncate(1 << 33)
        self.refuse([("a pipe", ["pipe.ini"], ["pipe.ini: cannot be read as a file"]),
                     ("zeros", ["/dev/zero"], ["/dev/zero: cannot be read as a file"]),
                     ("a folder", [self.folder], [self.folder, "cannot be read as a file"]),
                     ("8 GB", ["long.ini"], ["long.ini: is longer than"]), ("nothing", ["none.ini"], ["none.ini: no such file"])])

    def test_that_are_large_files_are_not_read_whole(self):
        self.evolve("--output.every=0")

        def grow(file):
            ballast = file.create_dataset("ballast", (1 << 28,), "f8", chunks=(1 << 20,))  # 2 GiB, 512 MiB of them written
            for block in range(64):
                ballast[block << 20:(block + 1) << 20] = 1.5

        deck = self.changed("out.h5", grow)
        self.assertGreater(os.path.getsize(self.path(deck)), 1 << 29)
        end = self.evolve("--output.file=again.h5", deck=deck, ranks=2)
        self.assertEqual(end.code, 0)
        # The largest process so far, in kilobytes: of all programs that this script has run.
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 400_000)


class Links(HostileTest):
    """Bytes of other files land nowhere."""

    def test_in_a_model_a_deck_or_a_checkpoint_are_refused(self):
        self.evolve("--checkpoint.every=2")
        self.write("secret", b"s" * 512)

        def external_link(path):
            def change(file):
                del file[path]
                file[path] = h5py.ExternalLink("out.h5", path)
            return change

        def external_storage(path):
            def change(file):
                shape = file[path].shape
                del file[path]
                space = h5py.h5s.create_simple(shape)
                create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                create.set_external(self.path("secret").encode(), 0, 8 * int(np.prod(shape)))
                h5py.h5d.create(file.id, path.encode(), h5py.h5t.IEEE_F64LE, space, create)
            return change

        def virtual(path):
            def change(file):
                shape = file[path].shape
                del file[path]
                layout = h5py.VirtualLayout(shape, "f8")
                layout[...] = h5py.VirtualSource("out.h5", path, shape)
                file.create_virtual_dataset(path, layout)
            return change

        weights, history = "/model/layers/2/W_K", "/state/history"
        kinds = ((external_link, "is a link (external)"), (external_storage, "external storage"), (virtual, "virtual dataset"))
        models = [self.changed("out.h5", kind(weights)) for kind, _ in kinds]
        self.refuse([(name, ["small.ini", "--model.file=" + name], ["model.file = " + name, weights, part])
                     for name, (_, part) in zip(models, kinds)])
        whole = self.changed("out.h5", external_link("/model"))
        self.refuse([("the group", ["small.ini", "--model.file=" + whole], [whole, "/model is a link"])])
        states = [self.changed(CHECKPOINT, kind(history)) for kind, _ in kinds]
        self.refuse_to_continue([(name, name, history + " " + part if part[0] == "i" else part)
                                 for name, (_, part) in zip(states, kinds)], "small.ini", "--evolve.time=6")


class HandMade(HostileTest):
    """Every attribute and array of /model and /state has its type, shape and range."""

    def test_models(self):
        self.evolve("--output.file=good.h5")

        def nameless(file):
            del file["model"].attrs["width"]

        def damaged(file):
            file["model/layers/1/W_Q"][0, 0] += 1e-9

        def unallocated(file):
            del file["model/layers/2/W_1"]
            file.create_dataset("model/layers/2/W_1", (1 << 31, 8), "f8")

        self.refuse([(claim, ["small.ini", "--model.file=" + self.changed("good.h5", change)], ["model.file = ", part])
                     for claim, change, part in (
                         ("causal = true", with_attributes("model", causal="true"),
                          "/model@causal: 'true' is not one of: on, off"),
                         ("residual = yes", with_attributes("model", residual="yes"), "/model@residual: 'yes'"),
                         ("causal = 1", with_attributes("model", causal=1), "causal of /model is not a text"),
                         ("another norm", with_attributes("model", norm="batch"),
                          "/model@norm: 'batch' is not one of: pre, post, sphere, none"),
                         ("no heads", with_attributes("model", heads=0), "/model@heads = 0: must be at least 1"),
                         ("half a head", with_attributes("model", heads=0.5), "heads of /model is not a whole number"),
                         ("-1 cells", with_attributes("model", cells=-1),
                          "/model@cells = -1"), ("no width", nameless, "no attribute width"),
                         ("a billion layers", with_attributes("model", layers=10**9, knots=10**9), "no /model/layers/1000000000"),
                         ("a layer too many", lambda file: file.create_group("model/layers/3"), "has 3 members, expected 2"),
                         ("another shape", with_value("model/layers/1/b_Q", np.ones((8, 1))),
                          "/model/layers/1/b_Q is 8 x 1, expected 8"),
                         ("a gain that is no number", with_value("model/layers/1/norm1_gain", np.full(8, np.nan)),
                          "not finite"),
                         ("a changed weight", damaged, "/model/layers/1/W_Q is damaged"),
                         ("2^31 rows, none written", unallocated, "announces"))])

    def test_checkpoints(self):
        self.evolve("--checkpoint.every=2")

        def put(name, value):
            return forged(with_value("state/" + name, value))

        def changed_number(file):
            file["state/u"][0, 0, 0, 0] += 1e-9

        def no_such(file):
            del file["state/u"]

        self.refuse_to_continue([(claim, self.changed(CHECKPOINT, change), part)
                     for claim, change, part in (
                         ("step -1", say(step=-1), "step = -1 is out of range"), ("no time", say(time=np.nan), "time = nan"),
                         ("time is a word", say(time="now"), "time of /state is not a number"),
                         ("a step of half", say(step=0.5), "step of /state is not a whole number"),
                         ("-1 fields", say(fields=-1), "fields = -1"),
                         ("no arrival times", put("arrival", np.ones(0)), "/state/arrival is 0, expected 2"),
                         ("half a line", put("history", np.ones(7)), "history is not a list of rows"),
                         ("a history of 2 dimensions", put("history", np.ones((2, 2))), "history is not a list of rows"),
                         ("a state of another shape", put("u", np.ones((2, 6, 2, 7))), "/state/u is 2 x 6 x 2 x 7"),
                         ("a state that is no number", put("u", np.full((2, 6, 2, 8), np.inf)), "u holds inf"),
                         ("settings of a stranger", say(settings="[evolve]\nmethod = ssp\n"), "was made with"),
                         ("a changed state", changed_number, "/state/u is damaged"),
                         ("a changed step", with_attributes("state", step=3), "/state is damaged"),
                         ("no state", no_such, "/state is damaged"))],
                    "small.ini", "--evolve.time=6")

    def test_checkpoints_of_a_training(self):
        self.write("train.ini", TRAIN_DECK)
        self.assertEqual(self.run_program("train", "train.ini", "--quiet", "--checkpoint.every=9").code, 0)

        def turn(name, become):
            """These numbers made from those that are there."""
            return forged(lambda file: with_value("state/" + name, become(file["state/" + name][...]))(file))

        def shorter(values):
            return values[:-1]

        cases = [(say(steps=-1), "steps = -1"), (say(steps=17), "/state/course_of_steps"), (say(best_epoch=9), "best epoch 9"),
                 (say(best=2.0), "best = 2"), (turn("raw", shorter), "/state/raw"),
                 (turn("first_moment", shorter), "/state/first_moment"), (turn("course_of_epochs", shorter), "/state/course_of_epochs"),
                 (turn("second_moment", lambda values: -1 - values), "second_moment holds -1"),
                 (turn("raw", lambda values: np.nan * values), "raw holds")]
        self.refuse_to_continue([(part, self.changed(CHECKPOINT, change), part) for change, part in cases], "train.ini", experiment="train")

    def test_the_output_that_is_continued(self):
        self.evolve("--checkpoint.every=2")

        def scalar_time(file):
            del file["time"]
            file["time"] = 1.0

        shutil.move(self.path(self.changed("out.h5", scalar_time)), self.path("out.h5"))
        for ranks in (1, 3):
            end = self.run_program("evolve", "small.ini", "--quiet", "--evolve.time=6", "--output.overwrite=true", AUTO, ranks=ranks)
            self.assertEqual(end.code, 0, end)


class Sizes(HostileTest):
    def test_that_cannot_fit_are_refused_with_an_estimate(self):
        self.write("train.ini", TRAIN_DECK)
        large = [("a width of 10^9", ["--model.width=1000000000"], "model.width = 1000000000"),
                 ("a hidden layer of 10^9", ["--model.width=1000", "--model.ffn=1000000000"], "model.ffn = 1000000000"),
                 ("10^9 layers", ["--mesh.layers=1000000000"], "1000000000 sets of weights")]
        for experiment, deck in (("evolve", "small.ini"), ("train", "train.ini")):
            self.refuse([(claim, [deck, *arguments], [part, "needs about", "GB on each rank"]) for claim, arguments, part in large],
                        experiment)
        self.refuse([("10^7 samples", ["small.ini", "--inflow.samples=10000000", "--mesh.layers=400", "--model.knots=1",
                                       "--depth.weights=linear"], ["mesh.cells"])])
        self.refuse([("10^9 words", ["train.ini", "--data.set=topics", "--data.length=1000000000", "--data.tokens=patches"],
                      ["1000000000 positions", "GB"]),
                     ("a batch of pixels", ["train.ini", "--data.tokens=pixels", "--train.batch=144", "--mesh.layers=20000"],
                      ["784 tokens", "mesh.layers = 20000", "GB"]),
                     ("2^31 - 2 depth cells", ["train.ini", "--mesh.cells=2147483646"], ["mesh.cells = 2147483646", "GB"])], "train")

    def test_of_a_training_without_end_take_no_memory_beforehand(self):
        self.write("train.ini", TRAIN_DECK)
        endless = ("--output.file=endless.h5", "--train.epochs=1000000000", "--output.snapshots=1", "--checkpoint.epochs=false")
        # Tests beside this one need the disk that the history of so many epochs would fill: files may have 1 GB.
        most = {resource.RLIMIT_DATA: 2 << 30, resource.RLIMIT_FSIZE: 1 << 30}
        before = {kind: resource.getrlimit(kind) for kind in most}
        try:
            for kind, limit in most.items():
                resource.setrlimit(kind, (limit, before[kind][1]))
            end = self.run_program("train", "train.ini", "--quiet", *endless, "--run.time_limit=1e-6")
        finally:
            for kind, limits in before.items():
                resource.setrlimit(kind, limits)
        self.assertIn(end.code, (1, 4), end)
        self.assertNotIn("memory", end.err)

    def test_memory_that_is_not_there_is_one_message(self):
        before = resource.getrlimit(resource.RLIMIT_AS)
        for ranks in (1, 3):
            resource.setrlimit(resource.RLIMIT_AS, (3 << 30, before[1]))  # the estimate asks the machine, not this limit
            try:
                process = self.start("evolve", "small.ini", "--model.width=8000", "--model.ffn=8000", "--validate", ranks=ranks)
            finally:
                resource.setrlimit(resource.RLIMIT_AS, before)
            end = self.ended(process)
            with self.subTest(ranks=ranks):
                self.assertEqual(end.code, 1, end)
                self.assertNotIn("MPI_ABORT", end.err)
                self.assertEqual(len(end.messages), 1, end)
                self.assertIn("out of memory", end.messages[0])


if __name__ == "__main__":
    unittest.main()
