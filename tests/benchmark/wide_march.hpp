#pragma once

// A march through all layers of models with the shapes of published ones, on one slab and with random weights.
// compare_with_pytorch.py compares it with the same networks in PyTorch and ONNX Runtime (wide_networks.py).

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "model/depth_march.hpp"
#include "tests/benchmark/network.hpp"

namespace fluxformer::bench {

/// BERT-base: post-norm, GELU.
inline Size bert_size() {
  return {.layers = 12, .columns = 128, .rows = 1, .batch = 8, .width = 768, .heads = 12, .ffn = 3072};
}
inline ModelSpec bert_spec() {
  auto spec = model_spec(bert_size());
  spec.norm = Norm::post;
  spec.norm_eps = 1e-12;
  spec.attention.layer_norm = false;
  return spec;
}

/// SmolLM-135M without its table of words: RMSNorm, rotary positions, groups of keys, a SiLU gate, no biases.
inline Size decoder_size() {
  return {.layers = 30,
          .columns = 256,
          .rows = 1,
          .batch = 4,
          .width = 576,
          .heads = 9,
          .ffn = 1536,
          .groups = 3,
          .gated = true,
          .causal = true};
}
inline ModelSpec decoder_spec() {
  constexpr int channels = 64;
  auto spec = model_spec(decoder_size());
  spec.norm_map = NormMap::rms;
  spec.norm_eps = 1e-5;
  spec.biases = Biases::none;
  spec.activation = Activation::silu;
  spec.attention.rotary = {.layout = RotaryLayout::half, .channels = channels};
  for (int j = 0; j < channels / 2; ++j) spec.rotary.theta.push_back(std::pow(1e4, -2.0 * j / channels));
  spec.rotary.table.assign(spec.layers, 0);
  return spec;
}

/// All layers of a model, one after the other, on one slab.
class WideMarch {
 public:
  WideMarch(const Size& size, const ModelSpec& spec, Precision precision)
      : parameters_(spec),
        line_(TokenLine::even(MPI_COMM_SELF, size.columns, size.rows, 1, 1)),
        context_{&line_, size.batch, size.width, {}},
        shape_{size.columns * size.rows, size.batch, size.width} {
    context_.mask.causal = size.causal;
    initialise_standard(parameters_, 1, 0, 1, 1);
    model_ = make_depth_model(parameters_, context_, precision);
    layers_ = std::make_unique<Backpropagation>(*model_, DepthCells{size.layers, size.layers}, 1);
    first_.resize(context_.size());
    for (std::size_t j = 0; j < first_.size(); ++j) first_[j] = std::sin(static_cast<double>(j * j % 10007));
    u_ = first_;
  }
  WideMarch(const WideMarch&) = delete;
  WideMarch& operator=(const WideMarch&) = delete;

  /// Marches from the same state each time.
  void run() {
    u_ = first_;
    layers_->forward(u_.data(), Keep::nothing, {});
  }

  /// Writes the states first and last, [token][sample][channel], and the weights, each as a file of doubles in
  /// `folder`, named by its path with points for slashes, and arrays.json with their shapes.
  void write(const std::filesystem::path& folder) {
    run();
    std::filesystem::create_directories(folder);
    std::ofstream list(folder / "arrays.json");
    std::string separator = "{";
    const auto add = [&](std::string path, const std::vector<int>& shape, const double* values,
                         std::size_t count) {
      list << separator << "\n\"" << path << "\": [";
      separator = ",";
      for (std::size_t k = 0; k < shape.size(); ++k) list << (k > 0 ? ", " : "") << shape[k];
      list << ']';
      std::replace(path.begin(), path.end(), '/', '.');
      std::ofstream(folder / path, std::ios::binary)
          .write(reinterpret_cast<const char*>(values), static_cast<std::streamsize>(count * sizeof(double)));
    };
    add("first", shape_, first_.data(), first_.size());
    add("last", shape_, u_.data(), u_.size());
    for (const auto& view : parameters_.layout.views())
      add(view.path(), view.shape, parameters_.values.data() + view.offset, view.size());
    list << "\n}\n";
  }

 private:
  Parameters parameters_;
  TokenLine line_;
  SlabContext context_;
  std::vector<int> shape_;
  std::unique_ptr<DepthModel> model_;
  std::unique_ptr<Backpropagation> layers_;
  std::vector<double> first_, u_;
};

}  // namespace fluxformer::bench
