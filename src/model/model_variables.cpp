#include "model/model_variables.hpp"

namespace fluxformer::model_file {

std::string layer(int l) {
  return std::string(layers_group) + "/" + std::to_string(l);
}

void describe(io::Description& description) {
  description.attributes(
      group,
      {kind,    weights,    layers,        knots,      cells,   width,           heads,
       ffn,     activation, norm,          norm_eps,   order,   residual,        causal,
       subflow, kernel,     normalisation, iterations, pooling, head_activation, word_head_activation});
  description.variables(
      "/model/layers/<l>",
      {{"W_Q", {"d", "d"}, "", "query weights; l counts layers (or knots) from 1"},
       {"b_Q", {"d"}, "", "query bias"},
       {"W_K", {"d", "d"}, "", "key weights"},
       {"b_K", {"d"}, "", "key bias"},
       {"W_V", {"d", "d"}, "", "value weights"},
       {"b_V", {"d"}, "", "value bias"},
       {"W_O", {"d", "d"}, "", "output weights"},
       {"b_O", {"d"}, "", "output bias"},
       {"W_1", {"ffn", "d"}, "", "feed-forward weights, first"},
       {"b_1", {"ffn"}, "", "feed-forward bias, first"},
       {"W_2", {"d", "ffn"}, "", "feed-forward weights, second"},
       {"b_2", {"d"}, "", "feed-forward bias, second"},
       {"norm1_gain", {"d"}, "", "gain of the LayerNorm of attention"},
       {"norm1_bias", {"d"}, "", "bias of the LayerNorm of attention"},
       {"norm2_gain", {"d"}, "", "gain of the LayerNorm of the reaction"},
       {"norm2_bias", {"d"}, "", "bias of the LayerNorm of the reaction"},
       {"half_<name>", {}, "", "macaron: the same for the first reaction half step, if it has its own"},
       {kappa, {"1 or d"}, "", "token diffusion"}});
  description.variables(
      "/model/embedding",
      {{"W", {"d", "inputs"}, "", "embedding weights"},
       {"b", {"d"}, "", "embedding bias"},
       {"words", {"V", "d"}, "", "word vectors, for tokens that are words"},
       {"vocabulary", {"V"}, "", vocabulary_meaning},
       {"segment", {"segments", "d"}, "", "segment vectors, added to those of the words"},
       {"class_token", {"d"}, "", "what stands for the first token, before its position is added"},
       {"position", {"n", "d"}, "", "learned positions"},
       {"norm_gain", {"d"}, "", "gain of the LayerNorm of the embedded tokens"},
       {"norm_bias", {"d"}, "", "bias of the LayerNorm of the embedded tokens"}});
  description.variables("/model/final_norm", {{"gain", {"d"}, "", "gain of the final LayerNorm"},
                                              {"bias", {"d"}, "", "bias of the final LayerNorm"}});
  const auto transform = [](const std::string& what) {
    return std::vector<io::Variable>{
        {"transform_W", {"d", "d"}, "", "weights of the dense map before the " + what},
        {"transform_b", {"d"}, "", "bias of the dense map before the " + what},
        {"norm_gain", {"d"}, "", "gain of the LayerNorm before the " + what},
        {"norm_bias", {"d"}, "", "bias of the LayerNorm before the " + what}};
  };
  description.variables("/model/head", transform("classifier"));
  description.variables("/model/word_head", transform("word matrix"));
  description.variables("/model/word_head", {{"W", {"V", "d"}, "", "word matrix; missing: embedding/words"},
                                             {"b", {"V"}, "", "bias of the logits of words"}});
  description.variables("/model/head", {{"W", {"classes", "d"}, "", "weights of the classifier"},
                                        {"b", {"classes"}, "", "bias of the classifier"}});
  description.variables("/model/equation", {{"alpha", {"1"}, "1/time", "strength of attention"},
                                            {"rho", {"1"}, "1/time", "strength of the reaction"}});
}

}  // namespace fluxformer::model_file
