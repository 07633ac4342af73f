#pragma once

// What the training of a network of attention paths stores: /analysis/paths/network/... over seeds.

#include "io/axes.hpp"

namespace fluxformer::paths::variables {

inline constexpr const char *network_group = "network", *network_path = "/analysis/paths/network/";

inline const io::Variable judged_step =
                              io::index("judged_step", "steps of the training after which it was judged"),
                          projection = io::index("projection", "0 queries, 1 keys"),
                          query_unit = io::index("query_unit", "component of queries and keys"),
                          input_unit = io::index("input", "component of an input token"),
                          unit = io::index("unit", "unit of a layer"),
                          other_unit = io::index("other_unit", "the same, of outputs"),
                          judged_set = io::index("judged_set", "examples, by the order of `judged_sets`");

inline const io::Variable learned_loss{
    "loss", {"judged_step"}, "", "mean of (f - y)^2 over the batches since the row before"},
    validation_loss{"validation_loss", {"judged_step"}, "", "mean of (f - y)^2 over validation examples"},
    validation_accuracy{
        "validation_accuracy", {"judged_step"}, "", "share of validation examples whose sign is right"},
    judged_accuracy{
        "judged_accuracy", {"judged_set"}, "", "share of right signs by the weights that are stored"},
    best_step{"best_step", {}, "", "steps after which validation loss was least: those of the weights"},
    input_weights{"input_weights", {"unit", "input"}, "", "V_0 / sqrt(D)"},
    projections{"projections",
                {"layer", "projection", "head", "query_unit", "input"},
                "",
                "queries Q and keys K of each head"},
    values{"values", {"layer", "head", "unit", "other_unit"}, "", "V_{l,h} / sqrt(N), transposed"},
    readout_weights{"readout_weights", {"unit"}, "", "a / sqrt(N)"};

inline const io::Attribute images{"images", "images that the network was trained on: paths.images"},
    judged_sets{"judged_sets", "names of the sets of examples, a line each"};

}  // namespace fluxformer::paths::variables
