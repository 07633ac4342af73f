#include "io/schema_ablation.hpp"

namespace fluxformer {
namespace {

constexpr SchemaEntry entries[] = {
    {"/analysis/ablation@loss_limit", "", "",
     "a training has diverged when more than half of the losses of an epoch are above it, to the end"},
    {"/analysis/ablation/<model>@kind", "", "", "transformer or pde"},
    {"/analysis/ablation/<model>@residual", "", "", "on or off"},
    {"/analysis/ablation/<model>@diverged", "", "", "number of seeds with which the training diverged"},
    {"/analysis/ablation/<model>/loss", "seed, step", "",
     "mean loss of the batch, before the step; NaN from the step that was not finite"},
    {"/analysis/ablation/<model>/diverged_step", "seed", "",
     "step whose loss or gradient was not finite, or the first of the epochs above the limit; NaN: none"},
    {"/analysis/ablation/<model>/diverged_epoch", "seed", "",
     "epoch of that step, counted from 1; NaN: none"},
    {"/analysis/ablation/<model>/test_accuracy", "seed", "",
     "share of the test samples that the last finite weights classify correctly"},
    {"/analysis/ablation/<model>/norm", "seed, depth", "",
     "norm of the hidden state (root mean square), with the last finite weights"},
    {"/analysis/ablation/<model>/drift", "seed, depth", "",
     "1 - cosine of the hidden state with the embedded input, mean over samples"},
    {"/analysis/ablation/<model>/step_change", "seed, depth", "",
     "distance to the state one layer before over that state's norm, mean over samples"},
};

}  // namespace

std::span<const SchemaEntry> ablation_schema() {
  return entries;
}

}  // namespace fluxformer
