#include "model/model_file.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "io/schema.hpp"

namespace fluxformer {
namespace {

std::string dataset(const ParameterView& view) {
  return names::in(names::model, view.path());
}

int whole(const io::ArchiveReader& archive, const char* name, int fallback, int least) {
  const long value =
      archive.has_attribute(name, names::model) ? archive.integer(name, names::model) : fallback;
  if (value < least || value > 1'000'000'000)
    throw BadInput(archive.path() + ": /model@" + name + " = " + std::to_string(value) +
                   ": must be at least " + std::to_string(least));
  return static_cast<int>(value);
}

template <class E>
E word(const io::ArchiveReader& archive, const char* name, E fallback) {
  if (!archive.has_attribute(name, names::model)) return fallback;
  try {
    return from_word<E>(archive.text(name, names::model));
  } catch (const BadInput& e) {
    throw BadInput(archive.path() + ": /model@" + name + ": " + e.what());
  }
}

ModelSpec read_spec(const io::ArchiveReader& archive) {
  if (!archive.has(names::model)) throw BadInput(archive.path() + ": holds no model (no group /model)");
  ModelSpec spec;
  spec.kind = word(archive, names::kind, ModelKind::transformer);
  spec.variation = word(archive, names::weights,
                        spec.kind == ModelKind::pde ? DepthVariation::linear : DepthVariation::constant);
  spec.layers = whole(archive, names::layers, 0, 1);
  spec.knots = whole(archive, names::knots, spec.layers, 1);
  spec.width = whole(archive, names::width, 0, 1);
  spec.ffn = whole(archive, names::ffn, 0, 1);
  spec.attention.heads = whole(archive, names::heads, 0, 1);
  spec.attention.kernel = word(archive, names::kernel, Kernel::dot);
  spec.attention.normalisation = word(archive, names::normalisation, Normalisation::softmax);
  spec.attention.sinkhorn_iterations = whole(archive, names::iterations, 1, 1);
  spec.activation = word(archive, names::activation, Activation::gelu_erf);
  spec.norm = word(archive, names::norm, Norm::pre);
  spec.attention.layer_norm = spec.norm == Norm::pre;
  spec.order = word(archive, names::order, Order::sequential);
  spec.subflow = word(archive, names::subflow, Subflow::euler);
  spec.residual = !archive.has_attribute(names::residual, names::model) ||
                  archive.text(names::residual, names::model) != "off";
  spec.cells = whole(archive, names::cells, 0, 0);
  spec.causal =
      archive.has_attribute(names::causal, names::model) && archive.text(names::causal, names::model) == "on";
  spec.own_halves = spec.order == Order::macaron && archive.has(names::in(names::model_layer(1), "half_W_1"));
  const auto kappa = names::in(names::model_layer(1), names::kappa);
  spec.kappa_per_channel = archive.has(kappa) && archive.shape(kappa) != std::vector<std::size_t>{1};
  if (archive.has(names::embedding_W))
    spec.features = static_cast<int>(archive.shape(names::embedding_W).at(1));
  if (archive.has(names::embedding_words))
    spec.vocabulary = static_cast<int>(archive.shape(names::embedding_words).at(0));
  if (archive.has(names::embedding_position))
    spec.tokens = static_cast<int>(archive.shape(names::embedding_position).at(0));
  if (archive.has(names::head_W)) spec.classes = static_cast<int>(archive.shape(names::head_W).at(0));
  try {
    spec.validate();
  } catch (const BadInput& e) {
    throw BadInput(archive.path() + ": " + e.what());
  }
  return spec;
}

}  // namespace

void write_model(io::ArchiveWriter& archive, const Parameters& parameters) {
  const auto& spec = parameters.spec;
  const std::pair<const char*, io::AttributeValue> attributes[] = {
      {names::kind, to_word(spec.kind)},
      {names::weights, to_word(spec.variation)},
      {names::layers, static_cast<long>(spec.layers)},
      {names::knots, static_cast<long>(spec.knots)},
      {names::cells, static_cast<long>(spec.cells)},
      {names::width, static_cast<long>(spec.width)},
      {names::ffn, static_cast<long>(spec.ffn)},
      {names::heads, static_cast<long>(spec.attention.heads)},
      {names::kernel, to_word(spec.attention.kernel)},
      {names::normalisation, to_word(spec.attention.normalisation)},
      {names::iterations, static_cast<long>(spec.attention.sinkhorn_iterations)},
      {names::activation, to_word(spec.activation)},
      {names::norm, to_word(spec.norm)},
      {names::order, to_word(spec.order)},
      {names::subflow, to_word(spec.subflow)},
      {names::residual, std::string(spec.residual ? "on" : "off")},
      {names::causal, std::string(spec.causal ? "on" : "off")},
  };
  for (const auto& [name, value] : attributes) archive.attribute(name, value, names::model);
  std::vector<io::SmallArray> arrays;
  for (const auto& view : parameters.layout.views())
    arrays.push_back({.path = dataset(view),
                      .shape = {view.shape.begin(), view.shape.end()},
                      .data = parameters.values.data() + view.offset});
  archive.arrays(arrays);
}

Parameters read_model(const io::ArchiveReader& archive) {
  Parameters parameters(read_spec(archive));
  for (const auto& view : parameters.layout.views()) {
    const auto values = parameters.view(view.path());
    const bool optional = view.name == names::kappa || view.group == "equation";
    if (optional && !archive.has(dataset(view))) {
      std::fill(values.begin(), values.end(), view.name == names::kappa ? 0.0 : 1.0);
      continue;
    }
    const std::vector<std::size_t> shape(view.shape.begin(), view.shape.end());
    const auto array = archive.array(dataset(view), shape);
    if (!std::all_of(array.values.begin(), array.values.end(), [](double x) { return std::isfinite(x); }))
      throw BadInput(archive.path() + ": " + dataset(view) + " holds numbers that are not finite");
    std::copy(array.values.begin(), array.values.end(), values.begin());
  }
  return parameters;
}

}  // namespace fluxformer
