#include "model/model_file.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "io/layout.hpp"
#include "model/model_variables.hpp"

namespace fluxformer {
namespace {

std::string dataset(const ParameterView& view) {
  return names::in(model_file::group, view.path());
}

constexpr int most = 1'000'000'000;

int whole(const io::ArchiveReader& archive, const io::Attribute& name, int fallback, int least) {
  const long value =
      archive.has_attribute(name, model_file::group) ? archive.integer(name, model_file::group) : fallback;
  if (value < least || value > most)
    throw BadInput(archive.path() + ": /model@" + name.name + " = " + std::to_string(value) +
                   ": must be at least " + std::to_string(least) + " and at most " + std::to_string(most));
  return static_cast<int>(value);
}

/// Rows (axis 0) or columns (axis 1) of a matrix; 0 if it is not there.
int extent(const io::ArchiveReader& archive, const char* matrix, std::size_t axis) {
  if (!archive.has(matrix)) return 0;
  const auto shape = archive.shape(matrix);
  if (shape.size() != 2 || shape[axis] < 1 || shape[axis] > most)
    throw BadInput(archive.path() + ": " + matrix + " is not a matrix of 1 to " + std::to_string(most) +
                   (axis == 0 ? " rows" : " columns"));
  return static_cast<int>(shape[axis]);
}

template <class E>
E word(const io::ArchiveReader& archive, const io::Attribute& name, E fallback) {
  if (!archive.has_attribute(name, model_file::group)) return fallback;
  const auto text = archive.text(name, model_file::group);
  try {
    return from_word<E>(text);
  } catch (const BadInput& e) {
    throw BadInput(archive.path() + ": /model@" + name.name + ": " + e.what());
  }
}

ModelSpec read_spec(const io::ArchiveReader& archive) {
  if (!archive.has(model_file::group)) throw BadInput(archive.path() + ": holds no model (no group /model)");
  ModelSpec spec;
  spec.kind = word(archive, model_file::kind, ModelKind::transformer);
  spec.variation = word(archive, model_file::weights,
                        spec.kind == ModelKind::pde ? DepthVariation::linear : DepthVariation::constant);
  spec.layers = whole(archive, model_file::layers, 0, 1);
  spec.knots = whole(archive, model_file::knots, spec.layers, 1);
  spec.width = whole(archive, model_file::width, 0, 1);
  spec.ffn = whole(archive, model_file::ffn, 0, 1);
  spec.attention.heads = whole(archive, model_file::heads, 0, 1);
  spec.attention.kernel = word(archive, model_file::kernel, Kernel::dot);
  spec.attention.normalisation = word(archive, model_file::normalisation, Normalisation::softmax);
  spec.attention.sinkhorn_iterations = whole(archive, model_file::iterations, 1, 1);
  spec.activation = word(archive, model_file::activation, Activation::gelu_erf);
  spec.norm = word(archive, model_file::norm, Norm::pre);
  spec.attention.layer_norm = spec.norm == Norm::pre;
  spec.order = word(archive, model_file::order, Order::sequential);
  spec.subflow = word(archive, model_file::subflow, Subflow::euler);
  spec.residual = !archive.has_attribute(model_file::residual, model_file::group) ||
                  archive.text(model_file::residual, model_file::group) != "off";
  spec.cells = whole(archive, model_file::cells, 0, 0);
  spec.causal = archive.has_attribute(model_file::causal, model_file::group) &&
                archive.text(model_file::causal, model_file::group) == "on";
  spec.own_halves = spec.order == Order::macaron && archive.has(names::in(model_file::layer(1), "half_W_1"));
  const auto kappa = names::in(model_file::layer(1), model_file::kappa);
  spec.kappa_per_channel = archive.has(kappa) && archive.shape(kappa) != std::vector<std::size_t>{1};
  spec.features = extent(archive, model_file::embedding_W, 1);
  spec.vocabulary = extent(archive, model_file::embedding_words, 0);
  spec.tokens = extent(archive, model_file::embedding_position, 0);
  spec.classes = extent(archive, model_file::head_W, 0);
  try {
    spec.validate();
  } catch (const BadInput& e) {
    throw BadInput(archive.path() + ": " + e.what());
  }
  // Before memory is taken for the sizes announced: the last layer must be there and have them.
  archive.array(names::in(model_file::layer(spec.knots), "W_1"),
                {static_cast<std::size_t>(spec.ffn), static_cast<std::size_t>(spec.width)});
  return spec;
}

}  // namespace

void write_model(io::ArchiveWriter& archive, const Parameters& parameters) {
  const auto& spec = parameters.spec;
  const std::pair<io::Attribute, io::AttributeValue> attributes[] = {
      {model_file::kind, to_word(spec.kind)},
      {model_file::weights, to_word(spec.variation)},
      {model_file::layers, static_cast<long>(spec.layers)},
      {model_file::knots, static_cast<long>(spec.knots)},
      {model_file::cells, static_cast<long>(spec.cells)},
      {model_file::width, static_cast<long>(spec.width)},
      {model_file::ffn, static_cast<long>(spec.ffn)},
      {model_file::heads, static_cast<long>(spec.attention.heads)},
      {model_file::kernel, to_word(spec.attention.kernel)},
      {model_file::normalisation, to_word(spec.attention.normalisation)},
      {model_file::iterations, static_cast<long>(spec.attention.sinkhorn_iterations)},
      {model_file::activation, to_word(spec.activation)},
      {model_file::norm, to_word(spec.norm)},
      {model_file::order, to_word(spec.order)},
      {model_file::subflow, to_word(spec.subflow)},
      {model_file::residual, std::string(spec.residual ? "on" : "off")},
      {model_file::causal, std::string(spec.causal ? "on" : "off")},
  };
  for (const auto& [name, value] : attributes) archive.attribute(name, value, model_file::group);
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
    const bool optional = view.name == model_file::kappa || view.group == "equation";
    if (optional && !archive.has(dataset(view))) {
      std::fill(values.begin(), values.end(), view.name == model_file::kappa ? 0.0 : 1.0);
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
