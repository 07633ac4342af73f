#!/usr/bin/python3
"""Products with the Hessian and the Gauss-Newton matrix of whole classifiers, by PyTorch's double backward, float64.

    /usr/bin/python3 tests/support/make_torch_hessian_reference.py [FILE]
                                                         default: torch_hessian_reference.h5 beside this script

Needs python3-torch (1.13 was used), python3-h5py and python3-numpy; the tests only need the file. Models, losses, inputs and lengths
are those of make_torch_training_reference.py (two pre-norm or post-norm layers, erf GELU, learned positions, padding).

One group per case:
    attributes          as there
    input               [sample, token, feature]
    lengths, labels     [sample]
    loss                mean over the samples
    parameters/<path>   [what, ...]   of the array called <path> in a model file: its values, the gradient, a direction v, H v and H_o v,
                                      both for the direction of all arrays together
"""

import os
import sys

import h5py
import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import make_torch_training_reference as training  # noqa: E402 (the folder is put on the path first)

SCHEMA_VERSION = 1


def products(parameters, logits, loss_of, direction):
    """loss, gradient, H v and H_o v = J^T L J v as lists over the parameters."""
    def against(outputs, inputs, vectors, **more):
        return torch.autograd.grad(outputs, inputs, vectors, allow_unused=True, **more)

    loss = loss_of(logits)
    gradient = against(loss, parameters, None, create_graph=True)
    hessian = against(gradient, parameters, direction, retain_graph=True)
    # J v: the derivative with respect to w of J^T w, which is linear in w, along v.
    w = torch.zeros_like(logits, requires_grad=True)
    pulled = against(logits, parameters, w, create_graph=True)
    tangent = against(pulled, w, direction, retain_graph=True)[0]
    z = logits.detach().requires_grad_()
    slope = against(loss_of(z), z, None, create_graph=True)[0]
    curvature = against(slope, z, tangent)[0]
    gauss_newton = against(logits, parameters, curvature)
    return loss, gradient, hessian, gauss_newton


def example(case, random):
    torch.manual_seed(0)
    model = training.Classifier(case)
    training.randomise(model, random)
    if case["vocabulary"] > 0:
        x = random.randint(0, training.WORDS - 1, (len(training.LENGTHS), training.TOKENS))
    else:
        x = random.standard_normal((len(training.LENGTHS), training.TOKENS, training.FEATURES))
    labels = torch.from_numpy(random.randint(0, training.CLASSES, len(training.LENGTHS)))
    padding = torch.arange(training.TOKENS)[None, :] >= torch.tensor(training.LENGTHS)[:, None]
    direction = [torch.from_numpy(random.standard_normal(tuple(p.shape))) for p in model.parameters()]
    results = products(list(model.parameters()), model(torch.from_numpy(x), padding), training.make_loss(case, labels), direction)
    loss, lists = results[0], [list(model.parameters()), results[1], direction, *results[2:]]
    by_array = [dict(zip(model.parameters(), one)) for one in lists]
    states = [training.arrays(model, lambda p, values=values: values[p]) for values in by_array]
    data = dict(input=x.reshape(len(training.LENGTHS), training.TOKENS, -1), lengths=training.LENGTHS, labels=labels.numpy(),
                loss=[loss.item()])
    return data, states


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "torch_hessian_reference.h5")
    random = np.random.RandomState(20241110)
    with h5py.File(path, "w", libver="latest") as file:
        file.attrs["schema_version"] = SCHEMA_VERSION
        file.attrs["experiment"] = "torch_hessian_reference"
        file.attrs["status"] = "done"
        file.attrs["torch"] = str(torch.__version__)
        for name in ("adamw", "adam", "words", "post"):
            case = {**training.COMMON, **training.CASES[name]}
            group = file.create_group(name)
            for key in ("norm", "features", "vocabulary", "loss", "smoothing"):
                group.attrs[key] = case[key]
            for key in ("width", "heads", "ffn", "layers"):
                group.attrs[key] = getattr(training, key.upper())
            data, states = example(case, random)
            for key, value in data.items():
                group[key] = np.asarray(value, dtype=np.float64)
            for array in states[0]:
                group[f"parameters/{array}"] = np.stack([state[array] for state in states])
            print(name, data["loss"])
    print(f"{path}: {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
