#include "io/schema_scaling.hpp"

namespace fluxformer {
namespace {

constexpr SchemaEntry entries[] = {
    {"/repetition", "repetition", "", "repetition of the timed steps, counted from 1"},
    {"/message_bytes", "message_bytes", "B", "bytes of the message, or of the numbers summed over ranks"},
    {"/scaling@study", "", "", "name of the study"},
    {"/scaling@workload", "", "", "evolve or train"},
    {"/scaling@mode", "", "", "strong (the same problem on any number of ranks) or weak (grown with them)"},
    {"/scaling@over", "", "", "what the ranks share: depth, tokens or samples"},
    {"/scaling@precision", "", "", "arithmetic of the kernels, single or double"},
    {"/scaling@nodes", "", "", "machines that the ranks run on"},
    {"/scaling@ranks_depth", "", "", "ranks along depth"},
    {"/scaling@ranks_token", "", "", "ranks over tokens"},
    {"/scaling@groups", "", "", "groups of ranks that share the samples"},
    {"/scaling@layers", "", "", "number of layers"},
    {"/scaling@cells", "", "", "depth cells"},
    {"/scaling@tokens", "", "", "tokens of a sample"},
    {"/scaling@samples", "", "", "samples solved side by side, or of a training step"},
    {"/scaling@width", "", "", "channels"},
    {"/scaling@ffn", "", "", "hidden width of the feed-forward network"},
    {"/scaling@heads", "", "", "attention heads"},
    {"/scaling@parameters", "", "", "numbers in the model"},
    {"/scaling@steps", "", "", "steps of a repetition"},
    {"/scaling@flops", "", "",
     "additions and multiplications of the products in the layers of a step, all ranks: backward as twice "
     "forward"},
    {"/scaling@statistics", "", "", "what the three numbers over ranks are"},
    {"/scaling/step_seconds", "repetition", "s", "wall time of a step on the slowest rank"},
    {"/scaling/flop_rate", "repetition", "1/s", "flops of a step over its wall time and the number of ranks"},
    {"/scaling/peak_flop_rate", "extent_3", "1/s",
     "flops per second of a large product on a rank, while all ranks do one: least, median, greatest over "
     "ranks"},
    {"/scaling/memory", "extent_3", "B", "memory high-water mark: least, median, greatest over ranks"},
    {"/scaling/<phase>/seconds", "repetition, extent_3", "s",
     "wall time of a phase in a step (output: in a checkpoint): least, median, greatest over ranks"},
    {"/scaling/<phase>@messages", "", "",
     "messages that all ranks send for it in a step; a sum over ranks: one each"},
    {"/scaling/<phase>@bytes", "", "B", "bytes of these (output: of the checkpoint)"},
    {"/scaling/machine/message_seconds", "message_bytes", "s",
     "time of a message from the first rank to the last; NaN with one rank"},
    {"/scaling/machine/sum_seconds", "message_bytes", "s", "time of a sum over all ranks; NaN with one rank"},
};

}  // namespace

std::span<const SchemaEntry> scaling_schema() {
  return entries;
}

}  // namespace fluxformer
