#!/usr/bin/python3
"""Three training steps from an independent implementation: PyTorch's layers, losses, optimisers and schedules, float64.

    /usr/bin/python3 tests/support/make_torch_training_reference.py [FILE]
                                                         default: torch_training_reference.h5 beside this script

Needs python3-torch (1.13 was used), python3-h5py and python3-numpy; the tests only need the file. Width 6, 2 heads,
ffn 10, 2 layers, 5 tokens, 7 samples of different lengths, 3 classes; nn.TransformerEncoderLayer with GELU in its erf
form and no dropout, learned positions, mean over the real tokens, linear head. With norm = pre a LayerNorm stands
before the mean. Every gain, bias and matrix is random.

One group per case:
    attributes          features, vocabulary, norm, and the settings of loss, optimiser, clipping and schedule
    input               [sample, token, feature]   word indices where vocabulary > 0 (features = 1)
    lengths, labels     [sample]
    losses              [step]   mean over the samples, before the step
    correct             [step]   fraction of the samples, before the step
    gradient_norms      [step]   before clipping
    rates               [step]   learning rates
    parameters/<path>   [state, ...]   the array called <path> in a model file; states: at first, its gradient at
                                       first (before clipping), after step 1, 2, 3
"""

import os
import sys

import h5py
import numpy as np
import torch

WIDTH, HEADS, FFN, LAYERS, TOKENS, CLASSES, FEATURES, WORDS, STEPS = 6, 2, 10, 2, 5, 3, 4, 8, 3
LENGTHS = [5, 3, 5, 1, 4, 5, 2]
SCHEMA_VERSION = 1

# Adam's epsilon: the gradient of b_K is 0 in exact arithmetic, and its round-off, 1e-17, moves b_K by rate * 1e-17 /
# epsilon; with 1e-6 that is nothing, with 1e-8 it is 1e-10 of b_K.
COMMON = dict(norm="pre", features=FEATURES, vocabulary=0, loss="cross_entropy", smoothing=0.1, optimiser="adamw",
              momentum=0.9, beta1=0.9, beta2=0.999, epsilon=1e-6, decay=0.05, clip=0.0, schedule="cosine", peak=2e-2,
              warm_up=0, steps=5, last=1e-3, factor=0.3, at=[0.25, 0.5])
CASES = {
    "adamw": dict(clip=0.4, warm_up=2),
    "sgd": dict(optimiser="sgd", smoothing=0.0, schedule="steps", steps=4, peak=0.1),
    "adam": dict(optimiser="adam", loss="mean_squared_error", beta1=0.8, beta2=0.99, epsilon=1e-5),
    "words": dict(features=0, vocabulary=WORDS, clip=0.3, schedule="constant", warm_up=3),
    "post": dict(norm="post"),
}


class Classifier(torch.nn.Module):
    def __init__(self, case):
        super().__init__()
        double = dict(dtype=torch.float64)
        if case["vocabulary"] > 0:
            self.embedding = torch.nn.Embedding(case["vocabulary"], WIDTH, **double)
        else:
            self.embedding = torch.nn.Linear(FEATURES, WIDTH, **double)
        self.position = torch.nn.Parameter(torch.zeros(TOKENS, WIDTH, **double))
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(WIDTH, HEADS, FFN, dropout=0.0, activation="gelu", layer_norm_eps=1e-5,
                                             batch_first=True, norm_first=case["norm"] == "pre", **double)
            for _ in range(LAYERS))
        self.final_norm = torch.nn.LayerNorm(WIDTH, **double) if case["norm"] == "pre" else None
        self.head = torch.nn.Linear(WIDTH, CLASSES, **double)

    def forward(self, x, padding):
        u = self.embedding(x) + self.position
        for layer in self.layers:
            u = layer(u, src_key_padding_mask=padding)
        if self.final_norm is not None:
            u = self.final_norm(u)
        real = (~padding).to(u.dtype)
        return self.head((u * real[:, :, None]).sum(1) / real.sum(1, keepdim=True))


def randomise(model, random):
    """Matrices that keep activations of order one; gains around 1; biases and positions around 0."""
    with torch.no_grad():
        for name, array in model.named_parameters():
            draw = random.standard_normal(tuple(array.shape))
            if name == "position" or array.dim() == 1:
                draw *= 0.3
            elif name != "embedding.weight" or isinstance(model.embedding, torch.nn.Linear):
                draw /= np.sqrt(array.shape[1])
            if "norm" in name and name.endswith("weight"):
                draw += 1
            array.copy_(torch.from_numpy(draw))


def arrays(model, of):
    """{our path: of(parameter) as a numpy array}; PyTorch stacks W_Q, W_K, W_V and their biases."""
    def get(array):
        return of(array).detach().numpy().copy()

    found = {"embedding/position": get(model.position), "head/W": get(model.head.weight),
             "head/b": get(model.head.bias)}
    if isinstance(model.embedding, torch.nn.Embedding):
        found["embedding/words"] = get(model.embedding.weight)
    else:
        found.update({"embedding/W": get(model.embedding.weight), "embedding/b": get(model.embedding.bias)})
    if model.final_norm is not None:
        found.update({"final_norm/gain": get(model.final_norm.weight), "final_norm/bias": get(model.final_norm.bias)})
    for number, layer in enumerate(model.layers, start=1):
        ours = {"W_O": layer.self_attn.out_proj.weight, "b_O": layer.self_attn.out_proj.bias,
                "W_1": layer.linear1.weight, "b_1": layer.linear1.bias,
                "W_2": layer.linear2.weight, "b_2": layer.linear2.bias,
                "norm1_gain": layer.norm1.weight, "norm1_bias": layer.norm1.bias,
                "norm2_gain": layer.norm2.weight, "norm2_bias": layer.norm2.bias}
        found.update({f"layers/{number}/{name}": get(array) for name, array in ours.items()})
        for kind, stacked in (("W", layer.self_attn.in_proj_weight), ("b", layer.self_attn.in_proj_bias)):
            for name, part in zip("QKV", np.split(get(stacked), 3)):
                found[f"layers/{number}/{kind}_{name}"] = part
    return found


def make_optimiser(model, case):
    """Weight decay acts on matrices, the word table among them; not on positions, biases and LayerNorms."""
    matrices = [p for name, p in model.named_parameters() if p.dim() == 2 and name != "position"]
    others = [p for name, p in model.named_parameters() if p.dim() == 1 or name == "position"]
    groups = [dict(params=matrices, weight_decay=case["decay"]), dict(params=others, weight_decay=0.0)]
    if case["optimiser"] == "sgd":
        return torch.optim.SGD(groups, lr=case["peak"], momentum=case["momentum"])
    kind = dict(adam=torch.optim.Adam, adamw=torch.optim.AdamW)[case["optimiser"]]
    return kind(groups, lr=case["peak"], betas=(case["beta1"], case["beta2"]), eps=case["epsilon"])


def make_schedule(optimiser, case):
    """A linear warm-up that reaches the peak with its last step, then the decay."""
    schedules = torch.optim.lr_scheduler
    warm_up = case["warm_up"]
    if case["schedule"] == "cosine":
        decay = schedules.CosineAnnealingLR(optimiser, T_max=case["steps"] - warm_up, eta_min=case["last"])
    elif case["schedule"] == "steps":
        decay = schedules.MultiStepLR(optimiser, [round(part * case["steps"]) for part in case["at"]], case["factor"])
    else:
        decay = schedules.ConstantLR(optimiser, factor=1.0)
    if warm_up == 0:
        return decay
    start = schedules.LinearLR(optimiser, start_factor=1 / warm_up, total_iters=warm_up - 1)
    return schedules.SequentialLR(optimiser, [start, decay], [warm_up])


def make_loss(case, labels):
    if case["loss"] == "cross_entropy":
        loss = torch.nn.CrossEntropyLoss(label_smoothing=case["smoothing"])
        return lambda logits: loss(logits, labels)
    onehot = torch.nn.functional.one_hot(labels, CLASSES).to(torch.float64)
    target = (1 - case["smoothing"]) * onehot + case["smoothing"] / CLASSES
    return lambda logits: torch.nn.functional.mse_loss(logits, target)


def clip(model, largest):
    """The norm of the gradient, and the gradient clipped to `largest` (0: no clipping)."""
    norm = torch.sqrt(sum((p.grad**2).sum() for p in model.parameters())).item()
    if 0 < largest < norm:
        # PyTorch divides by norm + 1e-6 to be safe from 0; this argument makes it divide by the norm.
        torch.nn.utils.clip_grad_norm_(model.parameters(), largest * (norm + 1e-6) / norm)
    return norm


def train(case, random):
    torch.manual_seed(0)
    model = Classifier(case)
    randomise(model, random)
    if case["vocabulary"] > 0:
        # Index 0 occurs in the padding and, like any other word, at real positions; the last word never
        # occurs.
        x = random.randint(0, WORDS - 1, (len(LENGTHS), TOKENS))
        x[np.arange(TOKENS)[None, :] >= np.array(LENGTHS)[:, None]] = 0
        x[0, 2] = x[4, 0] = 0
    else:
        x = random.standard_normal((len(LENGTHS), TOKENS, FEATURES))
    labels = torch.from_numpy(random.randint(0, CLASSES, len(LENGTHS)))
    padding = torch.arange(TOKENS)[None, :] >= torch.tensor(LENGTHS)[:, None]
    optimiser, loss_of = make_optimiser(model, case), make_loss(case, labels)
    schedule = make_schedule(optimiser, case)

    states = [arrays(model, lambda p: p)]
    history = dict(losses=[], correct=[], gradient_norms=[], rates=[])
    for step in range(STEPS):
        optimiser.zero_grad()
        logits = model(torch.from_numpy(x), padding)
        loss = loss_of(logits)
        loss.backward()
        if step == 0:
            states.append(arrays(model, lambda p: p.grad))
        history["losses"].append(loss.item())
        history["correct"].append((logits.argmax(1) == labels).double().mean().item())
        history["gradient_norms"].append(clip(model, case["clip"]))
        history["rates"].append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        schedule.step()
        states.append(arrays(model, lambda p: p))
    return dict(input=x.reshape(len(LENGTHS), TOKENS, -1), lengths=LENGTHS, labels=labels.numpy(), **history), states


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "torch_training_reference.h5")
    random = np.random.RandomState(20240711)
    with h5py.File(path, "w", libver="latest") as file:
        file.attrs["schema_version"] = SCHEMA_VERSION
        file.attrs["experiment"] = "torch_training_reference"
        file.attrs["status"] = "done"
        file.attrs["torch"] = str(torch.__version__)
        for name, differences in CASES.items():
            case = {**COMMON, **differences}
            group = file.create_group(name)
            for key, value in dict(case, width=WIDTH, heads=HEADS, ffn=FFN, layers=LAYERS).items():
                if key != "at":
                    group.attrs[key] = value
            group["at"] = case["at"]
            data, states = train(case, random)
            for key, value in data.items():
                group[key] = np.asarray(value, dtype=np.float64)
            for array in states[0]:
                group[f"parameters/{array}"] = np.stack([state[array] for state in states])
            print(name, *(f"{key} {value}" for key, value in data.items() if len(value) == STEPS), sep="\n    ")
    print(f"{path}: {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
