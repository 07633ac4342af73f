"""A small run of every kind of study, and the models that they measure: for tests that stop, kill and continue them."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "regression"))

from comparison import MODELS, PDE, SEEDS  # noqa: E402 (the folder is put on the path first)
from program import SCALING_DECK, TRAIN_DECK, TrainTest  # noqa: E402

# Places of two seeds and three models: a Transformer, a PDE model, and the Transformer on another mesh.
COMPARED = (*MODELS[:3], "--models.independent=models/independent_{seed}.h5", "--models.inherited=2", "--samples.batch=7", "--samples.count=30")
TRANSFORMERS = (*MODELS[:3], "--samples.batch=7")
LAYERS = ("--hessian.width=8", "--hessian.sequences=8", "--hessian.seeds=1,2", "--hessian.loss=squared_error")
TASK = ("--paths.task=one_shot", "--paths.images=digits", "--paths.seeds=1,2")
HEADS = ("--paths.examples=24", "--paths.test_examples=40", "--paths.widths=10", "--paths.temperatures=0.5")
NETWORK = (*TASK, "--paths.width=6", "--paths.heads=3", "--paths.key=4", "--paths.steps=20", "--paths.batch=12",
           "--paths.judge_every=5", "--paths.judged_examples=40", "--paths.rate=0.003")
MARKOV = ("--paths.examples=20", "--paths.test_examples=30", "--paths.seeds=1,2", "--paths.temperatures=0.01,0.1")
WORDS = ("--data.set=topics", "--data.length=24", "--train.objective=causal", "--attention.causal=true", "--train.epochs=1", "--train.samples=40",
         "--train.test_samples=20", "--train.batch=8", "--model.width=8", "--model.ffn=8", "--attention.heads=2", "--mesh.layers=2")
EMPTY = "empty.ini"  # job scripts ask for a deck
# Words of the command line.
STUDIES = {
    "information_flow": ("information_flow", EMPTY, *COMPARED),
    "spectrum_of_states": ("spectrum_of_states", EMPTY, *COMPARED),
    "attention": ("attention", EMPTY, *COMPARED, "--attention.matching=9"),
    "bottleneck": ("bottleneck", EMPTY, *COMPARED, "--bottleneck.epochs=0,2"),
    "gradient_flow": ("gradient_flow", EMPTY, *COMPARED, "--gradient.jacobian_samples=2", "--gradient.steps=5", "--gradient.epochs=1"),
    "perturbation": ("perturbation", EMPTY, *COMPARED, "--perturbation.pgd_steps=2"),
    "refinement": ("refinement", EMPTY, *COMPARED, "--refinement.cells=1,2,4"),
    "removal": ("removal", EMPTY, *COMPARED, "--removal.calibration=20"),
    "interventions": ("interventions", EMPTY, *TRANSFORMERS, "--samples.count=40", "--interventions.pairs=1", "--interventions.fit=20",
                      "--interventions.steered=2"),
    "influence": ("influence", EMPTY, *TRANSFORMERS, "--samples.count=5", "--influence.samples=20", "--influence.retrain=4", "--influence.removed=3",
                  "--influence.kept=10"),
    "influence, gram": ("influence", EMPTY, *TRANSFORMERS, "--samples.count=3", "--influence.samples=6", "--influence.solver=gram"),
    "ablation": ("ablation", "ablation.ini", "--ablation.models=pde", "--ablation.residual=on", "--ablation.norm=none,pre", "--ablation.seeds=1,2"),
    "identifiability": ("identifiability", EMPTY, *COMPARED, "--identifiability.fit=10", "--identifiability.maps=linear", "--identifiability.attributed=2",
                        "--identifiability.lengths=4"),
    "generate": ("generate", EMPTY, "--model.file=models/words.h5", "--data.set=topics", "--data.length=16", "--generate.tokens=4",
                 "--generate.prompts=12", "--generate.batch=2"),
    "clusters_growth": ("clusters_growth", EMPTY, "--clusters.tokens=16", "--clusters.betas=1,2,5,9", "--clusters.degrees=4"),
    "clusters_models": ("clusters_models", EMPTY, *COMPARED, "--clusters.betas=1,8", "--clusters.deltas=0.3"),
    "clusters_context": ("clusters_context", EMPTY, "--clusters.contexts=8,1e6", "--clusters.scalings=1,2,3", "--clusters.cosines=0,0.5"),
    "clusters_circle": ("clusters_circle", EMPTY, "--clusters.tokens=100", "--clusters.beta=5", "--clusters.time=60", "--clusters.every=4",
                        "--clusters.reduce=true", "--clusters.seeds=1,2,3,4"),
    "clusters_sphere": ("clusters_sphere", EMPTY, "--clusters.tokens=100", "--clusters.beta=5", "--clusters.time=4", "--clusters.seeds=1,2,3,4"),
    "clusters_noise": ("clusters_noise", EMPTY, "--clusters.tokens=100", "--clusters.noises=0.5,1.2", "--clusters.settle=5", "--clusters.time=20",
                       "--clusters.seeds=1,2,3,4"),
    "hessian_spectrum": ("hessian_spectrum", EMPTY, *TRANSFORMERS, "--data.split=train", "--samples.count=4", "--hessian.epochs=0,1,2", "--hessian.steps=4",
                          "--hessian.eigenvalues=1"),
    "hessian_blocks": ("hessian_blocks", EMPTY, *LAYERS),
    "hessian_scaling": ("hessian_scaling", EMPTY, *LAYERS),
    "paths_theory": ("paths_theory", EMPTY, *MARKOV, "--paths.widths=6,50"),
    "paths_theory by pairs of ranks": ("paths_theory", EMPTY, *MARKOV, "--paths.widths=6,50", "--paths.ranks_point=2"),
    "paths_sample": ("paths_sample", EMPTY, *MARKOV, "--paths.widths=6", "--paths.sampled_widths=6", "--paths.chains=3",
                      "--paths.samples=10", "--paths.warm_up=5", "--paths.leapfrog=10", "--paths.walk=4"),
    "paths_train": ("paths_train", EMPTY, *NETWORK),
    "paths_prune": ("paths_prune", EMPTY, *TASK, *HEADS, "--paths.attention=models/network.h5", "--paths.random_orders=3"),
    "pruning": ("pruning", EMPTY, *TRANSFORMERS, "--samples.count=20", "--pruning.examples=20", "--pruning.random_orders=3"),
    "scaling, evolve": ("scaling", "scaling.ini", "--scaling.repetitions=8"),
    "scaling, train": ("scaling", "train.ini", "--scaling.workload=train", "--scaling.over=samples", "--scaling.repetitions=8",
                       "--scaling.steps=2", "--scaling.warm_up=1", "--scaling.machine=false"),
}
PAIRS = "by pairs"  # in the name of those that need an even number of ranks


def write_decks(case):
    """The decks that the studies name, in the folder of a test."""
    case.write(EMPTY, "")
    case.write("train.ini", TRAIN_DECK)
    case.write("ablation.ini", TRAIN_DECK)
    case.write("scaling.ini", SCALING_DECK)


def make_models(folder):
    """The files that they measure."""
    maker = TrainTest()
    maker.folder = folder
    os.makedirs(folder, exist_ok=True)
    maker.write("train.ini", TRAIN_DECK)
    for seed in SEEDS:
        same = (f"--run.seed={seed}", "--output.snapshots=1")
        maker.train(*same, f"--model.seed={seed}", f"--output.file=transformer_{seed}.h5")
        maker.train(*same, *PDE, f"--model.seed={seed + 10}", f"--output.file=independent_{seed}.h5")
    for words in (("paths_train", *NETWORK, "--output.file=network.h5"), ("train", *WORDS, "--output.file=words.h5")):
        end = maker.run_program(*words, "--quiet")
        maker.assertEqual(end.code, 0, end)
