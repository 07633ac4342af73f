#pragma once

// Variables of `evolve` beside the measures of states and attention: the hidden state and the time history.

#include <cstddef>
#include <numeric>
#include <vector>

#include "io/axes.hpp"

namespace fluxformer::evolution {

inline constexpr const char *history = "/history", *analysis = "/analysis/evolve", *attention = "/attention",
                            *prediction = "/prediction";

inline const io::Variable hidden_state{
    "u", {"time", "depth", "token", "sample", "channel"}, "", "hidden state"};

inline const io::Variable time{"time", {"step"}, "time", "propagation time at the end of the step"},
    step_size{"step_size", {"step"}, "time", "length of the step"},
    cfl{"cfl", {"step"}, "", "Courant number c dt/h"},
    wall_time{"wall_time", {"step"}, "s", "wall time since the program (or its restart) began"};

/// Axis of attention in `evolve`: attention has a layer axis as for models, and here the layers are the cells
/// of the mesh.
inline const io::Variable depth_cell = io::index(axes::layer.name, "depth cell");

inline const io::Variable class_index = io::index("class", "class that a classifier knows"),
                          word_index = io::index("word", "word of the model's table");
inline const io::Variable class_logits{"class_logits",
                                       {"sample", "class"},
                                       "",
                                       "logits of the classifier at the last depth, at the end of the run"},
    word_logits{"word_logits",
                {"token", "sample", "word"},
                "",
                "logits of the word head at the last depth, at the end of the run"};

/// The numbers 0 .. count - 1, values of an axis that only counts.
inline std::vector<double> indices(std::size_t count) {
  std::vector<double> list(count);
  std::iota(list.begin(), list.end(), 0.0);
  return list;
}

inline const io::Variable arrival_time{
    "arrival_time", {"depth"}, "time", "arrival of the front; NaN where it has not arrived"};

}  // namespace fluxformer::evolution
