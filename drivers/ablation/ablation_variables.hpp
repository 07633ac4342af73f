#pragma once

// Variables of `ablation`, stored for each variant in /analysis/ablation/<model>, over seeds. <model> joins
// kind, norm and residual.

#include "io/axes.hpp"

namespace fluxformer::ablation {

inline const io::Attribute loss_limit{"loss_limit",
                                      "a training has diverged if more than half of the losses exceed this "
                                      "limit in every epoch from some epoch to the end"},
    kind{"kind", "transformer or pde"}, residual{"residual", "on or off"},
    diverged{"diverged", "number of seeds for which the training diverged"};

inline const io::Variable loss{
    "loss", {"step"}, "", "mean loss of the batch, before the step; NaN from the first non-finite step on"},
    diverged_step{"diverged_step",
                  {},
                  "",
                  "step with a non-finite loss or gradient, or first step of the epochs above the limit; "
                  "NaN: did not diverge"},
    diverged_epoch{"diverged_epoch", {}, "", "epoch of that step, counted from 1; NaN: did not diverge"},
    test_accuracy{"test_accuracy",
                  {},
                  "",
                  "fraction of the test samples classified correctly with the last finite weights"},
    norm{"norm", {"depth"}, "", "norm of the hidden state (root mean square), with the last finite weights"},
    drift{
        "drift", {"depth"}, "", "1 - cosine of the hidden state with the embedded input, mean over samples"},
    test_accuracy_by_sample =
        io::by_sample(test_accuracy, {}, "1 if classified correctly with the last finite weights, else 0"),
    norm_by_sample =
        io::by_sample(norm, {"depth"},
                      "norm of the hidden state of that sample (root mean square), with the last "
                      "finite weights"),
    drift_by_sample = io::by_sample(drift, {"depth"},
                                    "1 - cosine of the hidden state of that sample with its embedded input"),
    step_change{
        "step_change",
        {"depth"},
        "",
        "norm of the change over the preceding layer relative to the norm before it, mean over samples"};

}  // namespace fluxformer::ablation
