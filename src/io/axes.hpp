#pragma once

// Coordinates that more than one family of experiments uses, stored at the root of a file. The coordinates of
// a single family are defined with its measures.

#include "io/variable.hpp"

namespace fluxformer::axes {

inline const io::Variable depth = io::coordinate("depth", "layer", "depth of the cells");
inline const io::Variable stored_depth =
    io::coordinate("stored_depth", "layer", "depth of the stored rows, if not all are stored");
inline const io::Variable token = io::index("token", "token index, y * tokens_x + x");
inline const io::Variable token_x{"token_x", {"token"}, "", "column of each token in the lattice"};
inline const io::Variable token_y{"token_y", {"token"}, "", "row of each token in the lattice"};
inline const io::Variable time = io::coordinate("time", "time", "propagation time of the stored states");
inline const io::Variable step = io::index("step", "time step, or step of a training");
inline const io::Variable feature = io::index("feature", "number that a token has in the data");
inline const io::Variable epoch = io::index("epoch", "epoch of a training, counted from 1");
inline const io::Variable sample = io::index("sample", "sample of the batch");
inline const io::Variable channel = io::index("channel", "channel of the hidden state");
inline const io::Variable layer = io::index("layer", "layer, counted from 1");
inline const io::Variable head = io::index("head", "attention head");
inline const io::Variable query = io::index("query", "query token");
inline const io::Variable key = io::index("key", "key token");
inline const io::Variable seed = io::index("seed", "seed of the models that are compared");
inline const io::Variable layer_end{
    "layer_end", {"layer_end"}, "layer", "depth at which layers end; 0 is the embedded input", true};
/// Depth coordinate of one model of a comparison; <model> is its name.
inline const io::Variable model_depth =
    io::coordinate("<model>_depth", "layer", "depth of the states of a model; 0 is the embedded input");
inline const io::Variable copied_epoch =
    io::index("copied_epoch", "epoch of the training after which the weights were copied");
/// The samples of a comparison. Files of a state that evolves use `sample` above instead.
inline const io::Variable test_sample = io::index("sample", "index of the sample in the test split");

}  // namespace fluxformer::axes

namespace fluxformer::io {

/// A measure of single samples from which `of` is made: <name>_by_sample over samples and then `further`
/// axes.
inline Variable by_sample(const Variable& of, std::vector<std::string> further, std::string long_name) {
  auto each = variant(of, "by_sample", std::move(long_name));
  each.axes = std::move(further);
  each.axes.insert(each.axes.begin(), axes::test_sample.name);
  return each;
}

}  // namespace fluxformer::io
