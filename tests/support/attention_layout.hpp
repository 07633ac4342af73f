#pragma once

// The arrays of an attention one after the other in a flat vector, as tests and slow references read them.

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "operators/attention/attention.hpp"

namespace fluxformer::test {

/// The arrays that a layer has, its norms and its window.
struct AttentionArrays {
  bool norm = true, norm_bias = true, qkv_biases = true, output_bias = true;
  NormSettings norm_settings = {};
  int window = 0;
};

/// Sizes and places of gain, bias, W_QKV, b_QKV, W_O, b_O, q_gain, k_gain and, at the end, alpha. Arrays that
/// are absent have no numbers, and their views are null.
struct AttentionLayout {
  /// One part of the flat vector; W_QKV and b_QKV are three.
  struct Part {
    std::string name;
    std::size_t begin, end;
  };

  AttentionLayout(int model_width, const AttentionSettings& settings, const AttentionArrays& which = {})
      : arrays(which),
        width(static_cast<std::size_t>(model_width)),
        channels(static_cast<std::size_t>(settings.channels(model_width))),
        heads(static_cast<std::size_t>(settings.heads)),
        groups(static_cast<std::size_t>(settings.key_groups())) {
    const auto add = [&](const char* name, bool has, std::size_t count) {
      parts.push_back({name, size, size + (has ? count : 0)});
      size = parts.back().end;
    };
    const std::size_t q = heads * channels, kv = groups * channels;
    const bool biased = which.norm && which.norm_bias;
    add("gain", which.norm, width), add("bias", biased, width);
    add("W_Q", true, q * width), add("W_K", true, kv * width), add("W_V", true, kv * width);
    add("b_Q", which.qkv_biases, q), add("b_K", which.qkv_biases, kv), add("b_V", which.qkv_biases, kv);
    add("W_O", true, width * q), add("b_O", which.output_bias, width);
    add("q_gain", settings.qk_norm, channels), add("k_gain", settings.qk_norm, channels);
    add("alpha", true, 1);
    // Wavelengths of 6 tokens and more, so that short lines turn far.
    for (int j = 0; 2 * j < settings.rotary.channels; ++j)
      theta.push_back(std::pow(20.0, -2.0 * j / settings.rotary.channels));
  }

  const Part& part(const std::string& name) const {
    for (const Part& one : parts)
      if (one.name == name) return one;
    throw std::out_of_range(name);
  }
  /// The weights in a flat vector that begins at `begin`. The layout is borrowed.
  template <class P>
  LayerWeights<P> view(P* begin, Coefficient<P>* alpha) const {
    const auto at = [&](const char* name) {
      const Part& one = part(name);
      return one.end > one.begin ? begin + one.begin : nullptr;
    };
    LayerWeights<P> weights;
    weights.attention = {.gain = at("gain"),
                         .bias = at("bias"),
                         .w_qkv = at("W_Q"),
                         .b_qkv = at("b_Q"),
                         .w_o = at("W_O"),
                         .b_o = at("b_O"),
                         .q_gain = at("q_gain"),
                         .k_gain = at("k_gain"),
                         .alpha = alpha,
                         .norm = arrays.norm_settings,
                         .theta = theta.empty() ? nullptr : theta.data(),
                         .window = arrays.window};
    return weights;
  }

  AttentionArrays arrays;
  std::size_t width, channels, heads, groups, size = 0;
  std::vector<Part> parts;
  std::vector<double> theta;
};

}  // namespace fluxformer::test
