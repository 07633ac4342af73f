#!/usr/bin/env python3
"""The program from Python: fluxformer.run, .sweep, .keys, .experiments, .build_info, and completion in IPython.

What is run is compared with runs by hand, what is told of keys with --describe=json, and Ctrl-C stops a run at a chosen moment."""

import contextlib
import fcntl
import importlib.util
import io
import json
import os
import pickle
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))

try:
    import xarray
except ImportError as failure:
    print(f"NOT RUN: {failure}", file=sys.stderr)
    sys.exit(77)

import numpy as np  # noqa: E402
from held_back import HeldBackTest  # noqa: E402
from program import BINARY, FULL_TIER, ROOT, TIMEOUT, TRAIN_DECK, ProgramTest  # noqa: E402
from processes import members  # noqa: E402
from python_package import ENVIRONMENT  # noqa: E402

import fluxformer  # noqa: E402
from fluxformer.solver.completion import candidates  # noqa: E402
from fluxformer.solver.launcher import environment, launched  # noqa: E402
from fluxformer.solver.program import value_text  # noqa: E402
from fluxformer.solver.progress import Display  # noqa: E402
from fluxformer.solver.sweeps import _name  # noqa: E402

os.environ.pop("OPENBLAS_CORETYPE", None)  # the program warns about it; what it prints is compared


class PythonTest(ProgramTest):
    """The tests run in the folder of the decks, with the program under test and no job around them."""

    def setUp(self):
        super().setUp()
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(self.folder)
        outside = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "FLUXFORMER_LAUNCHER"))}
        patch = unittest.mock.patch.dict(os.environ, {**outside, "FLUXFORMER_BIN": BINARY}, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def said(self, call):
        """What a call returns, what it writes on the standard output and on the standard error."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            found = call()
        return found, out.getvalue(), err.getvalue()

    def fails(self, *parts, code, call):
        """The call raises with this code and message, of which nothing is printed."""
        out, err = io.StringIO(), io.StringIO()
        with self.assertRaises(fluxformer.ProgramError) as raised, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            call()
        self.assertEqual((raised.exception.code, out.getvalue(), err.getvalue()), (code, "", ""))
        for part in parts:
            self.assertIn(part, str(raised.exception))
        return raised.exception

    def quiet(self, *arguments, **more):
        return fluxformer.run(*arguments, progress=False, **more)


class Run(PythonTest):
    def test_is_the_run_by_hand(self):
        for ranks in (1, 3):
            self.evolve("--output.file=hand.h5", "--output.overwrite=true", "--mesh.layers=3", "--inflow.every=0.5", ranks=ranks)
            with self.quiet("evolve", "small.ini", {"mesh.layers": 3, "inflow.every": 0.5}, ranks=ranks, overwrite=True) as data:
                self.assertEqual(data.attrs["ranks"], ranks)
                with fluxformer.open("hand.h5") as other:
                    np.testing.assert_array_equal(data["field/u"], other["field/u"])

    def test_writes_the_file_of_its_argument_its_settings_its_deck_or_the_default(self):
        self.write("other.ini", "[output]\nfile = new/deck.h5   # a folder that is made\n[mesh]\nlayers = 1\n[model]\nwidth = 8\n[evolve]\ntime = 1\n")
        small = {"mesh.layers": 1, "model.width": 8, "evolve.time": 1}
        for file, arguments, more in (("new/deck.h5", ("evolve", "other.ini"), {}),
                                      ("again.h5", ("evolve", "new/deck.h5"), {"output": "again.h5"}),
                                      ("set.h5", ("evolve", "other.ini", {"output.file": "set.h5"}), {}),
                                      ("a/b/given.h5", ("evolve", "other.ini", {"output.file": "set.h5"}), {"output": "a/b/given.h5"}),
                                      ("evolve.h5", ("evolve", None, small), {})):
            with self.quiet(*arguments, **more) as data:
                self.assertEqual(os.path.realpath(data.encoding.get("source", self.path(file))), os.path.realpath(self.path(file)))
            self.assertTrue(os.path.exists(file), file)
        # A deck that is an output file names that file itself.
        self.fails("new/deck.h5 exists", code=2, call=lambda: self.quiet("evolve", "new/deck.h5"))

    def test_raises_with_the_message_and_the_code_of_the_program(self):
        self.fails("mesh.layer: unknown key", "did you mean mesh.layers", code=2, call=lambda: self.quiet("evolve", "small.ini", {"mesh.layer": 3}))
        self.fails(f"{os.path.abspath('none.ini')}: no such file", code=2, call=lambda: fluxformer.run("evolve", "none.ini", ranks=np.int64(2)))
        self.fails("evolv: no such experiment", code=2, call=lambda: self.quiet("evolv", "small.ini", output="x.h5"))
        unstable = {"evolve.method": "euler", "evolve.cfl": 1, "evolve.time": 40, "equation.alpha": 1e30}
        failure = self.fails("evolve.max_norm", code=3, call=lambda: self.quiet("evolve", "small.ini", {**unstable, "front.threshold": 0}, ranks=2))
        with self.assertRaisesRegex(fluxformer.RunError, r"\(unfinished=True reads it all the same\)$"):
            fluxformer.open(failure.output)
        with fluxformer.open(failure.output, unfinished=True) as data:
            self.assertEqual(data.attrs["status"], "failed")
        stopped = self.fails("run.time_limit", 'settings {"checkpoint.restart": "auto"}', code=4,
                             call=lambda: self.quiet("evolve", "small.ini", {"run.time_limit": 1e-6}, output="limit.h5"))
        self.fails("limit.checkpoint.h5", 'continue it with settings {"checkpoint.restart": "auto"}, or remove', code=2,
                   call=lambda: self.quiet("evolve", "small.ini", output="limit.h5", overwrite=True))
        self.write("there.h5", "")
        self.fails("choose another name or set overwrite=True", code=2, call=lambda: self.quiet("evolve", "small.ini", output="there.h5"))
        self.assertIn("--run.time_limit=1e-06", stopped.command)
        self.write("text", "no program")
        os.chmod("text", 0o755)
        with unittest.mock.patch.dict(os.environ, {"FLUXFORMER_BIN": self.path("text")}):
            self.fails("text: Exec format error", code=1, call=lambda: self.quiet("evolve", "small.ini", output="x.h5"))
        again = pickle.loads(pickle.dumps(stopped))  # as from another process
        self.assertEqual((str(again), again.code, again.command), (str(stopped), 4, stopped.command))

    def test_shows_what_the_program_prints_unless_it_is_to_be_quiet(self):
        self.write("train.ini", TRAIN_DECK)
        for ranks in (1, 2):
            data, out, err = self.said(lambda ranks=ranks: fluxformer.run("train", "train.ini", ranks=ranks, overwrite=True))
            data.close()
            self.assertIn("test accuracy", out)
            self.assertIn("epoch 2: loss", err)
            self.assertIn("train 18 of 18 steps", err)
        data, out, err = self.said(lambda: self.quiet("train", "train.ini", overwrite=True))
        data.close()
        self.assertEqual((out, err), ("", ""))

    def test_what_cannot_be_started_is_refused_here(self):
        for part, more, variables in (("ranks = 0", {"ranks": 0}, {}), ("ranks = '2'", {"ranks": "2"}, {}),
                                      ("~ is not replaced", {"output": "~/x.h5"}, {}), ("/proc/none", {"output": "/proc/none/x.h5"}, {}),
                                      ("no such launcher", {"ranks": 2, "launcher": "mpilaunch -v"}, {}),
                                      ("mesh.layers = None: a setting is a flag", {"settings": {"mesh.layers": None}}, {}),
                                      ("settings = 'mesh.layers=3'", {"settings": "mesh.layers=3"}, {}),
                                      ("deck = {'mesh.layers': 3}", {"deck": {"mesh.layers": 3}}, {}),
                                      ("no program there", {}, {"FLUXFORMER_BIN": "./nothing"}),
                                      ("4 copies of this script", {}, {"OMPI_COMM_WORLD_SIZE": "4"})):
            with unittest.mock.patch.dict(os.environ, variables), self.assertRaises(fluxformer.RunError) as raised:
                self.quiet("evolve", **{"deck": "small.ini", **more})
            self.assertIn(part, str(raised.exception))
        self.assertEqual(os.listdir(self.folder), ["small.ini"])


class Interrupt(HeldBackTest):
    """A script that gets Ctrl-C while its run is held back at the third checkpoint."""

    SCRIPT = textwrap.dedent("""
        import sys, fluxformer
        settings = {"evolve.method": "ssp", "evolve.cfl": 0.25, "evolve.time": 64, "inflow.every": 0.75, "checkpoint.every": 4, "output.every": 8}
        hold = dict(one.split("=", 1) for one in sys.argv[2:])
        try:
            fluxformer.run("evolve", "small.ini", settings, ranks=int(sys.argv[1]), progress=False, variables=hold)
        except KeyboardInterrupt as stopped:
            print("stopped:", stopped)
            if "killed" in str(stopped):
                sys.exit()
            data = fluxformer.run("evolve", "small.ini", {**settings, "checkpoint.restart": "auto"}, ranks=int(sys.argv[1]), progress=False)
            print("status:", data.attrs["status"])
        """)

    OF_SWEEP = textwrap.dedent("""
        import os, sys, fluxformer
        settings = {"evolve.method": "ssp", "evolve.cfl": 0.25, "evolve.time": 64, "inflow.every": 0.75, "checkpoint.every": 4, "output.every": 8}
        over, hold = {"run.seed": [1, 2, 3]}, dict(one.split("=", 1) for one in sys.argv[2:])
        how = {"folder": "sweep", "settings": settings, "at_once": 2, "progress": False}
        try:
            fluxformer.sweep("evolve", "small.ini", over, **how, variables=hold)
        except KeyboardInterrupt:
            print("stopped:", sorted(name for name in os.listdir("sweep") if name.endswith(".checkpoint.h5")))
            for file in fluxformer.sweep("evolve", "small.ini", over, **how).values():
                print("status:", fluxformer.open(file).attrs["status"])
        """)

    def held(self, ranks, script=SCRIPT, name="out.checkpoint.h5", runs=1):
        hold = self.hold("rename", name, 3)
        words = [f"{name}={value}" for name, value in hold.environment.items()]
        process = subprocess.Popen([sys.executable, "-c", script, str(ranks), *words], cwd=self.folder, text=True, start_new_session=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**ENVIRONMENT, "FLUXFORMER_BIN": BINARY})
        self.addCleanup(self.stop, process)
        return process, hold, hold.wait_for("held", process, runs)

    def until(self, happened, fault):
        deadline = time.monotonic() + TIMEOUT
        while not happened():
            self.assertLess(time.monotonic(), deadline, fault)
            time.sleep(0.01)

    def until_gone(self, sessions):
        self.until(lambda: not any(members(session) for session in sessions), "its processes are still there")

    def killed(self, process, pids):
        """How the script ends after a second Ctrl-C, when these processes are gone, and those of their sessions."""
        sessions = {os.getsid(pid) for pid in pids}
        os.kill(process.pid, signal.SIGINT)
        end = self.ended(process)
        self.until_gone(sessions)
        return end

    def clean(self):
        for name in os.listdir(self.folder):
            if name != "small.ini":
                os.remove(self.path(name))

    def test_stops_the_run_with_its_checkpoint_and_it_goes_on_as_if_nothing_had_happened(self):
        for ranks in (1, 2):
            process, hold, _ = self.held(ranks)
            os.kill(process.pid, signal.SIGINT)
            hold.wait_for("woken", process)
            hold.let_go()
            end = self.ended(process)
            self.assertEqual(end.code, 0, end)
            self.assertIn("stopped: stopped by signal", end.out)
            self.assertIn('continue with settings {"checkpoint.restart": "auto"}', end.out)
            self.assertIn("status: done", end.out)
            whole = self.run_program("evolve", "small.ini", "--quiet", "--evolve.method=ssp", "--evolve.cfl=0.25", "--evolve.time=64", "--inflow.every=0.75",
                                     "--output.every=8", "--output.file=whole.h5", "--output.overwrite=true", ranks=ranks)
            self.assertEqual(whole.code, 0, whole)
            self.assert_same_bits("out.h5", "whole.h5")
            self.clean()

    def test_stops_all_runs_of_a_sweep_that_are_under_way_and_starts_no_other(self):
        process, hold, _ = self.held(1, self.OF_SWEEP, ".checkpoint.h5", 2)
        os.kill(process.pid, signal.SIGINT)
        hold.wait_for("woken", process, 2)
        hold.let_go()
        end = self.ended(process)
        self.assertEqual(end.code, 0, end)
        self.assertIn("stopped: ['run.seed=1.checkpoint.h5', 'run.seed=2.checkpoint.h5']", end.out)
        self.assertEqual(end.out.count("status: done"), 3)

    def test_a_second_one_kills_all_runs_of_a_sweep(self):
        process, hold, pids = self.held(1, self.OF_SWEEP.replace("print(\"stopped:\"", "sys.exit(\"killed\")\n    print(\"stopped:\""), ".checkpoint.h5", 2)
        os.kill(process.pid, signal.SIGINT)
        hold.wait_for("woken", process, 2)
        self.killed(process, pids)

    def test_when_the_script_itself_is_killed_the_run_stops_with_its_checkpoint_too(self):
        for ranks, number in ((1, signal.SIGKILL), (2, signal.SIGTERM)):
            process, hold, pids = self.held(ranks)
            sessions = {os.getsid(pid) for pid in pids}
            os.kill(process.pid, number)
            self.assertEqual(self.ended(process).code, -number)
            self.until(lambda hold=hold: hold.seen("woken"), "the run got no signal")
            hold.let_go()
            self.until_gone(sessions)
            with fluxformer.open(self.path("out.h5"), unfinished=True) as data:
                self.assertEqual(data.attrs["status"], "interrupted")
            self.assertTrue(os.path.exists(self.path("out.checkpoint.h5")))
            self.clean()

    def test_a_second_one_kills_it(self):
        for ranks in (1, 2) if FULL_TIER else (2,):
            process, hold, pids = self.held(ranks)
            os.kill(process.pid, signal.SIGINT)
            hold.wait_for("woken", process)
            self.assertIn("stopped: the run was killed", self.killed(process, pids).out)
            self.clean()


class Sweeps(PythonTest):
    OVER = {"mesh.layers": [1, 2], "evolve.cfl": [0.5, 1.0]}

    def sweep(self, over=None, folder="sweep", **more):
        return fluxformer.sweep("evolve", "small.ini", over or self.OVER, folder=folder, progress=False, **{"settings": {"model.width": 4}, **more})

    def test_runs_every_combination_once_and_goes_on_where_it_stopped(self):
        runs = self.sweep()
        self.assertEqual(list(runs), [(1, 0.5), (1, 1.0), (2, 0.5), (2, 1.0)])
        self.assertEqual(runs[2, 0.5], os.path.realpath(os.path.join("sweep", "mesh.layers=2_evolve.cfl=0.5.h5")))
        for (layers, cfl), file in runs.items():
            self.evolve("--model.width=4", f"--mesh.layers={layers}", f"--evolve.cfl={cfl}", "--output.overwrite=true")
            with fluxformer.open(file) as data, fluxformer.open("out.h5") as hand:
                np.testing.assert_array_equal(data["field/u"], hand["field/u"])
        before = {file: os.stat(file).st_mtime_ns for file in runs.values()}
        os.remove(runs[1, 1.0])
        again = self.sweep({**self.OVER, "mesh.layers": [1, 2, 3]}, at_once=2)
        after = {file: os.stat(file).st_mtime_ns for file in again.values()}
        self.assertEqual([point for point, file in again.items() if after[file] != before.get(file)], [(1, 1.0), (3, 0.5), (3, 1.0)])

    def test_collects_numbers_along_its_keys(self):
        runs = self.sweep()
        norms = runs.collect(lambda data: data["field/u"][-1].mean(["token", "sample", "channel"])[0])
        self.assertEqual(norms.dims, ("mesh.layers", "evolve.cfl"))
        for (layers, cfl), file in runs.items():
            with fluxformer.open(file) as data:
                self.assertEqual(float(norms.sel({"mesh.layers": layers, "evolve.cfl": cfl})), float(data["field/u"][-1, 0].mean()))
        with self.assertRaisesRegex(ValueError, "different shapes"):
            runs.collect(lambda data: data["depth"].values)

    def test_a_run_that_fails_does_not_hold_up_the_others(self):
        for at_once in (1, 3):
            folder = f"sweep{at_once}"
            failure = self.fails("attention.heads=3.h5", code=2,
                                 call=lambda at_once=at_once, folder=folder: self.sweep({"attention.heads": [1, 3, 2]}, folder, at_once=at_once))
            self.assertTrue(failure.output.endswith("heads=3.h5"))
            self.assertEqual(sorted(name for name in os.listdir(folder) if name.endswith(".h5")), ["attention.heads=1.h5", "attention.heads=2.h5"])

    def test_another_sweep_needs_another_folder(self):
        self.sweep({"mesh.layers": [1]})
        for what, more in (("settings", {"settings": {}}), ("deck", {})):
            if what == "deck":
                self.write("small.ini", "[mesh]\nlayers = 1\n")
            with self.assertRaisesRegex(fluxformer.RunError, f"another .*{what}"):
                self.sweep({"mesh.layers": [1]}, **more)
        # Of another key whose last word is the same, or of a value with the same letters, nothing is taken for finished.
        values = {}
        for key in ("run.seed", "model.seed"):
            files = self.sweep({key: [np.int64(7)]}, "seeds", settings={})
            self.assertEqual(files.collect(lambda data: 0).sel({key: 7}).item(), 0)
            with fluxformer.open(files[7]) as data:
                values[key] = data["field/u"].values.tobytes()
        self.assertNotEqual(*values.values())
        self.assertNotEqual(*(_name({"a.b": [one]}, (one,)) for one in ("m/a", "m_a")))
        for part, over in (("has no values", {"mesh.layers": []}), ("is there twice", {"mesh.layers": [1, 1]}), ("in over and in settings", {"model.width": [4]}),
                           ("set by the sweep", {"output.file": ["a"]}), (r"such as \[2\]", {"mesh.layers": 2}),
                           (r"such as \['ssp'\]", {"evolve.method": "ssp"}), ("did you mean mesh.layers", {"mesh.layer": [2]}),
                           ("is there twice", {"evolve.cfl": [1, 1.0]}), ("keys and lists of values", ["mesh.layers"])):
            with self.assertRaisesRegex(fluxformer.RunError, part):
                self.sweep(over, "other")


class Guide(PythonTest):
    def test_its_lines_do_what_they_say(self):
        with open(os.path.join(ROOT, "docs", "guide", "python.md"), encoding="utf-8") as file:
            blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", file.read(), re.MULTILINE)
        lines = "\n".join(textwrap.dedent(block) for block in blocks if "fluxformer." in block)
        os.symlink(os.path.join(ROOT, "input"), "input")
        _, out, _ = self.said(lambda: exec(lines, {}))
        arrival, refused, late = [line for line in out.splitlines() if not line.startswith("done")]
        with fluxformer.open("out/python/evolve.h5") as data:
            self.assertEqual(arrival, str(data["analysis/evolve/arrival_time"].values))
        self.assertIn("# " + refused, lines)
        self.assertEqual(len(late.strip("[]").split()), 2, late)


class Description(PythonTest):
    def test_keys_and_experiments_are_those_of_the_program(self):
        told = json.loads(self.run_program("--describe=json").out)["experiments"]
        self.assertEqual(dict(fluxformer.experiments()), {one["name"]: one["sentence"] for one in told})
        for one in told:
            keys = fluxformer.keys(one["name"])
            self.assertEqual([(key.name, key.default, key.sentence) for key in keys.values()],
                             [(key["name"], key["default"], key["sentence"]) for key in one["keys"]])
            self.assertEqual(len(keys._repr_html_().split("<tr>")), len(one["keys"]) + 2)
        evolve = fluxformer.keys("evolve")
        self.assertEqual(list(evolve.mesh), [name for name in evolve if name.startswith("mesh.")])
        self.assertIn("mesh", dir(evolve))
        self.assertIn("number of layers", repr(evolve.mesh))
        self.assertEqual((evolve["evolve.cfl"].type, evolve["mesh.layers"].allowed), ("number", ">= 1"))
        with self.assertRaisesRegex(KeyError, "did you mean mesh.layers"):
            evolve["mesh.layer"]
        with self.assertRaisesRegex(AttributeError, "did you mean mesh"):
            evolve.meshh
        with self.assertRaisesRegex(KeyError, "did you mean evolve"):
            fluxformer.experiments()["evolv"]
        with self.assertRaisesRegex(fluxformer.RunError, "did you mean evolve"):
            fluxformer.keys("evolv")

    def test_every_default_is_a_setting_that_the_program_takes(self):
        """Texts of all kinds of values: flags, numbers, lists."""
        for key in fluxformer.keys("evolve").values():
            self.assertIsInstance(value_text(key.default), str)
        for value, text in ((True, "true"), (np.bool_(False), "false"), (3, "3"), (np.int64(3), "3"), (1e-9, "1e-09"), (np.float64(0.1), "0.1"), ([1, 2], "1,2"),
                            ((0.5, "a"), "0.5,a"), (np.array([1.5, 2]), "1.5,2.0"), (np.array(2.5), "2.5"), (xarray.DataArray(True), "true"), ("w", "w")):
            self.assertEqual(value_text(value), text)
        for value in (None, {"a": 1}, 1j):
            with self.assertRaisesRegex(fluxformer.RunError, "a setting is a flag"):
                value_text(value)
        flags = {"output.attention": True, "mesh.periodic": np.bool_(False), "output.fields": ["u"]}
        known = {name: value for name, value in flags.items() if name in fluxformer.keys("evolve")}
        with self.quiet("evolve", "small.ini", {**known, "mesh.layers": np.int64(1)}) as data:
            self.assertIn("attention = true", data.attrs["settings"])

    def test_build_info_is_that_of_the_program(self):
        lines = self.run_program("--version").out.splitlines()
        self.assertEqual(fluxformer.build_info(), {"program": BINARY, **dict(line.split(" = ", 1) for line in lines)})


class Package(PythonTest):
    def python(self, *words, **variables):
        return subprocess.run([sys.executable, *words], cwd=self.folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                              env={**ENVIRONMENT, "FLUXFORMER_BIN": BINARY, **variables})

    def test_shows_the_tab_key_nothing_but_its_names(self):
        self.assertEqual([name for name in dir(fluxformer) if not name.startswith("__")], sorted(fluxformer.__all__))

    def test_says_which_library_is_missing_and_how_to_get_it(self):
        calls = ("open('out.h5')", "run('evolve')", "sweep('evolve', folder='x')")
        for library in ("h5py", "xarray"):
            said = "".join(f"try:\n    fluxformer.{call}\nexcept Exception as missing:\n    print(missing)\n" for call in calls[1:])
            end = self.python("-c", f"import sys\nsys.modules['{library}'] = None\nimport fluxformer\n{said}fluxformer.{calls[0]}")
            message = f"{library} is missing for {sys.executable}. On Debian: apt-get install python3-{library}"
            self.assertEqual(end.stdout.count(message), 2, end.stdout)
            self.assertIn(message, end.stderr.splitlines()[-1])

    def test_tells_a_command_from_a_function(self):
        with self.assertRaisesRegex(AttributeError, "it is a command for the shell, fluxformer tokens FILE"):
            fluxformer.__getattr__("tokens")
        with self.assertRaisesRegex(AttributeError, "no attribute 'nothing'$"):
            fluxformer.nothing

    def test_refuses_in_ipython_without_a_line_of_its_own(self):
        if importlib.util.find_spec("IPython") is None:
            self.skipTest("no IPython")
        for call, message in (("run('evolve', 'small.ini', {'mesh.layer': 3})", "did you mean mesh.layers"), ("open('none.h5')", "none.h5: no such file")):
            end = self.python("-m", "IPython", "--colors=NoColor", "-c", f"import fluxformer\ndef called():\n    fluxformer.{call}\ncalled()",
                              IPYTHONDIR=self.path("ipython"))
            said = end.stdout + end.stderr
            self.assertIn(message, said)
            self.assertIn("in called()", said)
            self.assertNotIn(os.path.dirname(fluxformer.__file__), said)


class Launchers(unittest.TestCase):
    def launched(self, ranks, launcher=None, **variables):
        """With an srun that has PMIx."""
        with unittest.mock.patch.dict(os.environ, variables, clear=True), \
                unittest.mock.patch("shutil.which", lambda name: "/usr/bin/" + name), \
                unittest.mock.patch("fluxformer.solver.launcher._srun_starts_open_mpi", lambda: True):
            return launched(["fluxformer", "evolve"], ranks, launcher)

    def test_are_mpiexec_srun_in_a_job_and_what_a_site_names(self):
        program = ["fluxformer", "evolve"]
        self.assertEqual(self.launched(1), program)
        self.assertEqual(self.launched(3), ["mpiexec", "-n", "3", *program])
        srun = ["srun", "--mpi=pmix", "--kill-on-bad-exit=1"]
        self.assertEqual(self.launched(3, SLURM_JOB_ID="7"), [*srun, "-n", "3", *program])
        self.assertEqual(self.launched(3, SLURM_JOB_ID="7", SLURM_STEP_ID="0"), [*srun, "--overlap", "-n", "3", *program])
        self.assertEqual(self.launched(2, FLUXFORMER_LAUNCHER="mpirun --map-by node"), ["mpirun", "--map-by", "node", "-n", "2", *program])
        self.assertEqual(self.launched(1, "aprun -N {ranks}"), ["aprun", "-N", "1", *program])

    def test_open_mpi_gets_what_it_needs_for_root_and_for_more_ranks_than_cores(self):
        common = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "FLUXFORMER_PROGRESS": "0.5", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                  "OMPI_MCA_hwloc_base_binding_policy": "none", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
                  "PRTE_MCA_hwloc_default_binding_policy": "none"}
        root = {f"{mpi}_ALLOW_RUN_AS_ROOT{more}": "1" for mpi in ("OMPI", "PRTE") for more in ("", "_CONFIRM")}
        idle = {"OMPI_MCA_mpi_yield_when_idle": "1"}
        for user, ranks, at_once, expected in ((0, 2, 1, {**common, **root}), (1000, 2, 1, common), (1000, 3, 1, {**common, **idle}), (1000, 2, 2, {**common, **idle})):
            with unittest.mock.patch.dict(os.environ, {}, clear=True), unittest.mock.patch("os.geteuid", lambda user=user: user), \
                    unittest.mock.patch("os.sched_getaffinity", lambda _: {0, 1}):
                self.assertEqual(environment(ranks, at_once, {}), expected)

    def test_leave_their_marks_out_of_the_environment_of_the_program(self):
        marks = {"OMPI_COMM_WORLD_RANK": "1", "PMIX_RANK": "1", "SLURM_PROCID": "3"}
        with unittest.mock.patch.dict(os.environ, {**marks, "OMP_NUM_THREADS": "4", "HOME": "/"}, clear=True):
            found = environment(2, 1, {"MORE": "1"})
        self.assertEqual({*marks} & {*found}, set())
        for ranks in (1, 2):  # a single rank is not of the step that Python may be in; srun needs to know it
            with unittest.mock.patch.dict(os.environ, {"SLURM_STEP_ID": "0", "SLURM_JOB_ID": "1"}, clear=True):
                self.assertEqual([name in environment(ranks, 1, {}) for name in ("SLURM_STEP_ID", "SLURM_JOB_ID")], [ranks > 1, True])
        self.assertEqual([found[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "HOME", "MORE", "OMPI_MCA_rmaps_base_oversubscribe")],
                         ["4", "1", "/", "1", "1"])


class Progress(unittest.TestCase):
    LINE = "train 12 of 48 steps, 6.48 a second, 9:59 left, loss 5.5"

    def test_in_a_notebook_is_a_bar_that_is_drawn_anew(self):
        drawn = []

        class Handle:
            def update(self, shown):
                drawn.append(shown.data)

        def show(shown, display_id):
            drawn.append(shown.data)
            return Handle()

        with unittest.mock.patch("fluxformer.solver.progress.notebook", lambda: True), unittest.mock.patch("IPython.display.display", show):
            display = Display(True)
            display.take(self.LINE, True)
            display.take(self.LINE.replace("12", "24"), True)
            with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
                display.take("epoch 1: loss 2", True)
                display.take("", True)
                display.take("fluxformer: a warning", True)
                display.release()
        self.assertEqual((out.getvalue(), err.getvalue()), ("epoch 1: loss 2\n", "fluxformer: a warning\n"))
        self.assertEqual(len(drawn), 2)
        self.assertIn('value="12" max="48"', drawn[0])
        self.assertIn('value="24" max="48"', drawn[1])

    def on_screen(self, columns, lines):
        """The rows that a terminal so wide (0: it does not say) shows after these lines of the program, and all that was written to it."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        display = Display(True)
        with open(slave, "w", encoding="utf-8") as terminal, contextlib.redirect_stderr(terminal):
            for line in lines:
                display.take(line, True)
            display.close()
            terminal.write("the end")
            terminal.flush()
            written = b""
            while not written.endswith(b"the end"):
                written += os.read(master, 4096)
        rows, place = [""], 0
        for letter in written.decode():
            if letter == "\n":
                rows.append("")
            elif letter == "\r":
                place = 0
            else:
                rows[-1] = rows[-1][:place] + letter + rows[-1][place + 1:]
                place += 1
        return rows, written.decode()

    def test_in_a_terminal_is_a_line_that_is_written_over(self):
        long, short = self.LINE.replace("12", "24"), "train 36 of 48 steps, 6 a second, 0:02 left"
        bars = {done: f"[{'#' * (5 * done // 12):.<20}] " for done in (12, 24, 36, 48)}
        rows, written = self.on_screen(100, [self.LINE, long, short, "epoch 1: loss 2", self.LINE.replace("12", "48"), "evolve 3 steps, 2 a second"])
        self.assertEqual([row.rstrip() for row in rows], [bars[36] + short, "epoch 1: loss 2", "evolve 3 steps, 2 a second", "the end"])
        for text in (bars[12] + self.LINE, bars[24] + long, bars[48] + self.LINE.replace("12", "48")):  # they were there
            self.assertIn("\r" + text, written)
        # It never fills the last column, after which a terminal would begin another row.
        for columns, width in ((50, 49), (0, 79)):
            rows, _ = self.on_screen(columns, [long, self.LINE, short])
            self.assertEqual(rows, [(bars[36] + short)[:width].ljust(width), "the end"])

    def test_errors_are_held_back_until_the_run_goes_on(self):
        display, err, out = Display(True), io.StringIO(), io.StringIO()
        with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out):
            display.take("fluxformer: a warning", True)
            self.assertEqual(err.getvalue(), "")
            display.take("epoch 1: loss 2", False)
            self.assertEqual((err.getvalue(), out.getvalue()), ("fluxformer: a warning\n", "epoch 1: loss 2\n"))
            display.take("fluxformer: the end", True)
            display.take("---- what a launcher says of it", True)
            self.assertEqual((display.failure(2), err.getvalue()), ("the end", "fluxformer: a warning\n"))
            # Of a crash a warning is not the reason.
            display = Display(False)
            display.take("fluxformer: a second warning", True)
            display.take("mpiexec noticed that rank 1 was killed", True)
            self.assertEqual((display.failure(137), err.getvalue()), ("mpiexec noticed that rank 1 was killed", "fluxformer: a warning\nfluxformer: a second warning\n"))


class Completion(PythonTest):
    def test_of_experiments_then_of_their_keys(self):
        for text in ('fluxformer.run("ev', 'keys("', 'run(\n  experiment = "', 'run("evolve")\nrun("', 'run("evolve", deck=name("'):
            self.assertEqual(candidates(text), list(fluxformer.experiments() if "name" not in text else fluxformer.keys("evolve")), text)
        for text in ('fluxformer.run("evolve", settings={"mesh.la', 'run("train")\nrun("evolve",\n  settings={\n    "a": float("1"),\n    "',
                     "sweep('evolve', over={'"):
            self.assertEqual(candidates(text), list(fluxformer.keys("evolve")), text)
        for text in ('print("mesh.la', 'run("evolve", mesh.la', 'run("none", {"mesh.la', 'data = run("evolve")\ndata["mesh.la', 'run(name, {"mesh.la'):
            self.assertEqual(candidates(text), [], text)

    def test_in_ipython(self):
        try:
            from IPython.core import completer
            from IPython.core.interactiveshell import InteractiveShell
        except ImportError as missing:
            self.skipTest(str(missing))
        shell = InteractiveShell()
        fluxformer.load_ipython_extension(shell)
        cells = [('fluxformer.run("evo', "evolve"), ('fluxformer.run("evolve", settings={"mesh.lay', "mesh.layers"),
                 ('d = fluxformer.sweep("train", over={"attention.win', "attention.window"), ('data = 1\nfluxformer.run("evo', "evolve")]
        if hasattr(completer, "context_matcher"):  # IPython 8.6
            cells += [('fluxformer.run("evolve",\n               settings={"mesh.lay', "mesh.layers"),
                      ('d = fluxformer.sweep("train", over={\n    "run.seed": [1],\n    "attention.win', "attention.window")]
        for cell, expected in cells:
            with completer.provisionalcompleter():
                self.assertEqual([one.text for one in shell.Completer.completions(cell + "\nprint(1)", len(cell))], [expected], cell)


if __name__ == "__main__":
    unittest.main()
