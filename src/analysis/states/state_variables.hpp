#pragma once

// Variables of hidden states in output files: of models in a comparison (model_states.hpp,
// state_spectrum.hpp), and of a state that evolves (depth_measures.hpp).

#include "io/axes.hpp"

namespace fluxformer::states::variables {

inline const io::Variable example = io::index("example", "index of the example in the test split");
inline const io::Attribute example_labels{"example_labels", "class of each example"};

inline const io::Variable norm{"norm", {"<model>_depth"}, "", "norm of the hidden state (root mean square)"},
    token_variance{"token_variance", {"<model>_depth"}, "", "mean square distance to the token mean"},
    dirichlet_energy{"dirichlet_energy", {"<model>_depth"}, "", "Dirichlet energy over the tokens"},
    correlation{"correlation",
                {"layer_end"},
                "",
                "Pearson correlation of the state with that one layer before, mean over samples"},
    drift{"drift", {"layer_end"}, "", "1 - cos of the state and the embedded input, mean over samples"},
    step_change{"step_change",
                {"layer_end"},
                "",
                "norm of the change over a layer relative to the norm before it, mean over samples"},
    example_norm{"example_norm",
                 {"example", "<model>_depth", "token"},
                 "",
                 "norm of the state of each token (root mean square over channels); NaN for padding"},
    accuracy{
        "accuracy", {}, "", "fraction of the samples classified correctly, or of the words guessed right"},
    cka{"cka",
        {"transformer_depth", "<model>_depth"},
        "",
        "linear CKA of the Transformer's states with those of the PDE model"},
    cka_unrelated = io::variant(cka, "unrelated", "the same for samples paired at random"),
    cka_ceiling = io::variant(cka, "ceiling", "the same of the Transformer of the next seed with this one");

inline const io::Variable mode = io::index("mode", "singular value, counted from 1, the largest first");
inline const io::Variable singular_value{
    "singular_value",
    {"<model>_depth", "mode"},
    "",
    "singular value of a sample's token-by-channel state matrix over the "
    "matrix's Frobenius norm, mean over samples"},
    effective_rank{
        "effective_rank",
        {"<model>_depth"},
        "",
        "exponential of the entropy of a sample's singular values over their sum, mean over samples"};

// State on the depth x token mesh, step by step.
namespace history {

inline const io::Variable norm{"norm", {"step", "depth"}, "", "norm of the hidden state (root mean square)"},
    rate{"rate", {"step", "depth"}, "1/time", "norm of its rate of change (root mean square)"},
    distance{"distance", {"step", "depth"}, "", "distance to the steady state relative to its norm"},
    token_variance{"token_variance", {"step", "depth"}, "", "mean square distance to the token mean"},
    dirichlet_energy{"dirichlet_energy", {"step", "depth"}, "", "Dirichlet energy over the tokens"},
    flux{"flux", {"step", "depth"}, "1/time", "flux through depth, c <u> - epsilon d<u>/ds"};

}  // namespace history
}  // namespace fluxformer::states::variables
