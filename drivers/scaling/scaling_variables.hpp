#pragma once

// Variables of `scaling`, in /scaling.

#include "io/axes.hpp"
#include "io/variable.hpp"

namespace fluxformer::scaling {

inline constexpr const char* group = "/scaling";

inline const io::Variable repetition =
                              io::index("repetition", "repetition of the timed steps, counted from 1"),
                          message_bytes = [] {
                            auto axis = io::index(
                                "message_bytes", "bytes of the message, or of the numbers summed over ranks");
                            axis.unit = "B";
                            return axis;
                          }();

inline const io::Attribute study{"study", "name of the study"}, workload{"workload", "evolve or train"},
    mode{"mode", "strong (the same problem on any number of ranks) or weak (grown with them)"},
    over{"over", "what is split over the ranks: depth, tokens or samples"},
    precision{"precision", "arithmetic of the kernels: run.precision"}, nodes{"nodes", "number of nodes"},
    ranks_depth{"ranks_depth", "ranks along depth"}, ranks_token{"ranks_token", "ranks over tokens"},
    groups{"groups", "groups of ranks that share the samples"},
    micro_batches{"micro_batches", "parts of a group's batch that pass through the stages of depth (train)"},
    layers{"layers", "number of layers"}, cells{"cells", "depth cells"},
    tokens{"tokens", "tokens per sample"},
    samples{"samples", "samples solved simultaneously, or per training step"}, width{"width", "channels"},
    ffn{"ffn", "hidden width of the feed-forward network"}, heads{"heads", "attention heads"},
    parameters{"parameters", "number of parameters"}, steps{"steps", "timed steps per repetition"},
    flops{"flops",
          "additions and multiplications of the matrix products in the layers per step, all ranks; a "
          "backward pass counts as two forward passes"},
    statistics{"statistics", "what the three numbers over ranks are"};

inline const io::Variable step_seconds{
    "step_seconds", {"repetition"}, "s", "wall time of a step on the slowest rank"},
    flop_rate{
        "flop_rate", {"repetition"}, "1/s", "flops of a step over its wall time and the number of ranks"},
    peak_flop_rate{"peak_flop_rate",
                   {"extent_3"},
                   "1/s",
                   "flops per second of a large matrix product on a rank, with all ranks computing one at "
                   "the same time: least, median, greatest over ranks"},
    memory{"memory", {"extent_3"}, "B", "memory high-water mark: least, median, greatest over ranks"},
    message_seconds{"message_seconds",
                    {"message_bytes"},
                    "s",
                    "time of a message from the first rank to the last; NaN with one rank"},
    sum_seconds{"sum_seconds", {"message_bytes"}, "s", "time of a sum over all ranks; NaN with one rank"};

// Variables and attributes of each phase, in /scaling/<phase>.
inline const io::Variable phase_seconds{
    "seconds",
    {"repetition", "extent_3"},
    "s",
    "wall time of a phase in a step (output: in a checkpoint): least, median, greatest over ranks"};
inline const io::Attribute messages{
    "messages", "messages sent by all ranks in a step; a sum over ranks counts as one per rank"},
    bytes{"bytes", "bytes of these messages (output: of the checkpoint)", "B"};

}  // namespace fluxformer::scaling
