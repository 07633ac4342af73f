#pragma once

// The group /model of a file: the weights of a model and what kind of model they belong to.

#include <string>

#include "io/variable.hpp"

namespace fluxformer::model_file {

inline constexpr const char* group = "/model";

inline const io::Attribute kind{"kind", "transformer or pde"},
    weights{"weights", "constant (one set per layer) or linear (between depth knots)"},
    layers{"layers", "number of layers S"}, knots{"knots", "number of parameter sets: S, or depth knots K"},
    cells{"cells", "depth cells the weights were trained on; 0: not known"}, width{"width", "channels d"},
    heads{"heads", "attention heads"}, ffn{"ffn", "hidden width of the feed-forward network"},
    activation{"activation", "gelu_erf, gelu_tanh or relu"}, norm{"norm", "pre, post, sphere or none"},
    norm_eps{"norm_eps", "eps of every LayerNorm"}, order{"order", "sequential, parallel or macaron"},
    residual{"residual", "on or off"},
    causal{"causal", "on: a token attends only to itself and earlier ones; or off"},
    subflow{"subflow", "euler or midpoint"}, kernel{"kernel", "dot or l2"},
    normalisation{"normalisation", "softmax, sinkhorn or linear"},
    iterations{"iterations", "Sinkhorn half-steps"},
    pooling{"pooling", "mean, first or last: the real tokens that the classifier sees"},
    head_activation{"head_activation", "none, tanh, relu, gelu_erf or gelu_tanh: behind head/transform_W"},
    word_head_activation{"word_head_activation", "the same behind word_head/transform_W"};

inline constexpr const char* layers_group = "/model/layers";
/// The group of layer (or knot) `l`, counted from 1.
std::string layer(int l);
inline constexpr const char* kappa = "kappa";

inline constexpr const char *embedding_W = "/model/embedding/W", *embedding_words = "/model/embedding/words",
                            *embedding_vocabulary = "/model/embedding/vocabulary",
                            *embedding_segment = "/model/embedding/segment",
                            *embedding_position = "/model/embedding/position", *head_W = "/model/head/W";
inline constexpr const char *embedding = "/model/embedding", *final_norm = "/model/final_norm",
                            *head = "/model/head", *word_head = "/model/word_head";
/// The step from pixels to the numbers of an imported model of images: (pixel * factor - mean) / deviation,
/// with mean and deviation of each channel. Beside /model; only in imported files.
inline constexpr const char *preprocessor = "/preprocessor", *pixel_mean = "/preprocessor/mean",
                            *pixel_deviation = "/preprocessor/deviation", *pixel_factor = "factor";
/// The long_name of embedding_vocabulary.
inline constexpr const char* vocabulary_meaning = "the words, in the order of their vectors";

/// Describes everything in /model.
void describe(io::Description& description);

}  // namespace fluxformer::model_file
