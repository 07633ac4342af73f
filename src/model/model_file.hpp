#pragma once

// The group /model of a file (docs/output-format.md): the weights of a model and what kind of model they
// belong to.

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/archive_reader.hpp"
#include "io/archive_writer.hpp"
#include "io/variable.hpp"
#include "model/parameters.hpp"

namespace fluxformer::model_file {

inline constexpr const char* group = "/model";

inline const io::Attribute kind{"kind", "transformer or pde"},
    weights{"weights", "constant (one set per layer) or linear (between depth knots)"},
    layers{"layers", "number of layers S"}, knots{"knots", "number of parameter sets: S, or depth knots K"},
    cells{"cells", "depth cells the weights were trained on; 0: not known"}, width{"width", "channels d"},
    heads{"heads", "attention heads"}, ffn{"ffn", "hidden width of the feed-forward network"},
    activation{"activation", "gelu_erf, gelu_tanh, relu or silu"},
    gated{"gated", "on: the feed-forward network multiplies g(W_G x + b_G) and W_1 x + b_1; missing: off"},
    biases{"biases",
           "linear maps of a layer with biases: all, qkv, attention (qkv and W_O), reaction or none (and "
           "none of "
           "norms); missing: all"},
    norm{"norm", "pre, post, sphere or none"},
    norm_map{"norm_map", "layer (LayerNorm) or rms (RMSNorm, which subtracts no mean); missing: layer"},
    norm_eps{"norm_eps", "eps of every norm"},
    first_norm{"first_norm", "off: attention of the first layer has no norm; missing: on"},
    groups{"groups", "groups of keys and values; missing: one for each head"},
    head_width{"head_width", "channels of a head; missing: width / heads"},
    rotary_layout{
        "rotary_layout",
        "channels that rotary positions turn together: half (j, j + r/2) or interleaved (2j, 2j + 1); "
        "missing: none"},
    rotary_scale{"rotary_scale", "factor of the channels that are turned; missing: 1"},
    longest{"longest", "tokens of the longest line of the training, where positions do not say it"},
    longer_refused{"longer_refused",
                   "on: longer lines would have other rotary angles, and are refused; missing: off"},
    word_head_there{"word_head", "on: words are guessed by embedding/words alone, without a bias"},
    order{"order", "sequential, parallel or macaron"}, residual{"residual", "on or off"},
    causal{"causal", "on: a token attends only to itself and earlier ones; or off"},
    subflow{"subflow", "euler or midpoint"}, kernel{"kernel", "dot or l2"},
    normalisation{"normalisation", "softmax, sinkhorn or linear"},
    iterations{"iterations", "Sinkhorn half-steps"},
    pooling{"pooling",
            "mean, first or last: the real tokens that the classifier sees; front: the class tokens"},
    pad_word{"pad_word", "a word that must not be a real token: the published model numbers positions by it"},
    head_activation{"head_activation", "none, tanh, relu, gelu_erf or gelu_tanh: behind head/transform_W"},
    word_head_activation{"word_head_activation", "the same behind word_head/transform_W"};

/// The edges of the depth cells of the training; only where these are of unequal length.
inline constexpr const char* edges = "/model/edges";
/// Angles of rotary positions, the table of each layer, and the window of each layer; where there are some.
inline constexpr const char *rotary_theta = "/model/rotary/theta", *rotary_table = "/model/rotary/table",
                            *window = "/model/window";
inline constexpr const char* layers_group = "/model/layers";
/// The group of layer (or knot) `l`, counted from 1.
std::string layer(int l);
inline constexpr const char *kappa = "kappa", *nu = "nu";

inline constexpr const char *embedding_W = "/model/embedding/W", *embedding_words = "/model/embedding/words",
                            *embedding_vocabulary = "/model/embedding/vocabulary",
                            *embedding_segment = "/model/embedding/segment",
                            *embedding_position = "/model/embedding/position",
                            *embedding_class_token = "/model/embedding/class_token",
                            *head_W = "/model/head/W";
inline constexpr const char *embedding = "/model/embedding", *final_norm = "/model/final_norm",
                            *head = "/model/head", *word_head = "/model/word_head";
/// The step from pixels to the numbers of an imported model of images: (pixel * factor - mean) / deviation,
/// with mean and deviation of each channel. Beside /model; only in imported files.
inline constexpr const char *preprocessor = "/preprocessor", *pixel_mean = "/preprocessor/mean",
                            *pixel_deviation = "/preprocessor/deviation", *pixel_factor = "factor";
/// The group of a training that wrote the file, and the convergence in depth that it found there.
inline constexpr const char* training = "/training";
inline const io::Attribute depth_converged{
    "depth_converged",
    "yes if the loss changes by less than 0.1 on finer depth cells and "
    "in their limit; no if it changes by more; unknown if that cannot "
    "be told, or from fewer than 32 samples"},
    depth_report{"depth_report", "the loss on finer depth cells in a sentence, or why nothing was measured"};
/// The long_name of embedding_vocabulary.
inline constexpr const char* vocabulary_meaning = "the words, in the order of their vectors";

/// Describes everything in /model.
void describe(io::Description& description);

}  // namespace fluxformer::model_file

namespace fluxformer {

/// Writes /model in parts: the attributes and the edges of unequal cells, then any arrays of the model, whose
/// `values` rank 0 has (at the views' offsets; null on other ranks). Collective.
void write_model_attributes(io::ArchiveWriter& archive, const ModelSpec& spec);
void write_model_arrays(io::ArchiveWriter& archive, const std::vector<ParameterView>& views,
                        const double* values);

/// Digest of the attributes and edges of /model (io/digest.hpp). Pure.
std::uint64_t digest_of(const ModelSpec& spec);

/// The sentence of the training that wrote a model file about its convergence in depth; "" if it has none.
/// Collective over the reader's communicator.
std::string depth_report_in(const io::ArchiveReader& file);

/// The share of the parameters of a model that a rank needs. An empty function means all.
using ShareOf = std::function<ParameterShare(const ModelSpec&)>;

/// The share of this rank in a model by `share`, if the shares of all ranks fit into the memory; else throws
/// BadInput "<what>: needs about ...". A model that fits on no number of these ranks is refused before
/// `share` is asked. Collective.
ParameterShare share_that_fits(MPI_Comm comm, const ModelSpec& spec, const ShareOf& share,
                               const std::string& what);

/// Transport over tokens that a model is given when it is read: one nu for all channels, or one per channel.
enum class AddedTransport { none, scalar, channel };

/// Reads this rank's share of the model in a file. Throws BadInput naming file and object if something is
/// missing, has the wrong shape or is not a number, and for a share that does not fit into the memory.
/// Without kappa, alpha and rho (imported weights) they are 0, 1 and 1, as in PyTorch. A model without transport
/// gets what `added` says, nu = 0. Collective.
Parameters read_model(const io::ArchiveReader& archive, const ShareOf& share = {},
                      AddedTransport added = AddedTransport::none);

}  // namespace fluxformer
