#pragma once

// What `ablation` stores of each variant: /analysis/ablation/<model>, over seeds. <model> is kind, norm and residual.

#include "io/axes.hpp"

namespace fluxformer::ablation {

inline const io::Attribute loss_limit{
    "loss_limit",
    "a training has diverged when more than half of the losses of an epoch are above it, to the end"},
    kind{"kind", "transformer or pde"}, residual{"residual", "on or off"},
    diverged{"diverged", "number of seeds with which the training diverged"};

inline const io::Variable loss{
    "loss", {"step"}, "", "mean loss of the batch, before the step; NaN from the step that was not finite"},
    diverged_step{"diverged_step",
                  {},
                  "",
                  "step whose loss or gradient was not finite, or the first of the epochs above the limit; "
                  "NaN: none"},
    diverged_epoch{"diverged_epoch", {}, "", "epoch of that step, counted from 1; NaN: none"},
    test_accuracy{
        "test_accuracy", {}, "", "share of the test samples that the last finite weights classify correctly"},
    norm{"norm", {"depth"}, "", "norm of the hidden state (root mean square), with the last finite weights"},
    drift{
        "drift", {"depth"}, "", "1 - cosine of the hidden state with the embedded input, mean over samples"},
    step_change{"step_change",
                {"depth"},
                "",
                "distance to the state one layer before over that state's norm, mean over samples"};

}  // namespace fluxformer::ablation
