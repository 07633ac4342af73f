#include "model/model_file.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"
#include "io/digest.hpp"
#include "io/layout.hpp"

namespace fluxformer::model_file {

std::string layer(int l) {
  return std::string(layers_group) + "/" + std::to_string(l);
}

namespace {

void describe_attributes(io::Description& description) {
  description.attributes(group, {kind,
                                 weights,
                                 layers,
                                 knots,
                                 cells,
                                 width,
                                 heads,
                                 ffn,
                                 activation,
                                 gated,
                                 biases,
                                 norm,
                                 norm_map,
                                 norm_eps,
                                 first_norm,
                                 groups,
                                 head_width,
                                 rotary_layout,
                                 rotary_scale,
                                 longest,
                                 longer_refused,
                                 word_head_there,
                                 order,
                                 residual,
                                 causal,
                                 subflow,
                                 kernel,
                                 normalisation,
                                 iterations,
                                 pooling,
                                 pad_word,
                                 head_activation,
                                 word_head_activation});
}

void describe_layers(io::Description& description) {
  description.variables(
      "/model/layers/<l>",
      {{"W_Q", {"H c", "d"}, "", "query weights of H heads of c channels; l counts layers (or knots) from 1"},
       {"b_Q", {"H c"}, "", "query bias"},
       {"W_K", {"G c", "d"}, "", "key weights of G groups"},
       {"b_K", {"G c"}, "", "key bias"},
       {"W_V", {"G c", "d"}, "", "value weights"},
       {"b_V", {"G c"}, "", "value bias"},
       {"W_O", {"d", "H c"}, "", "output weights"},
       {"b_O", {"d"}, "", "output bias"},
       {"q_gain", {"c"}, "", "gain of the RMSNorm of each head's queries"},
       {"k_gain", {"c"}, "", "gain of the RMSNorm of each head's keys"},
       {"W_G", {"ffn", "d"}, "", "feed-forward weights, gate"},
       {"b_G", {"ffn"}, "", "feed-forward bias, gate"},
       {"W_1", {"ffn", "d"}, "", "feed-forward weights, first"},
       {"b_1", {"ffn"}, "", "feed-forward bias, first"},
       {"W_2", {"d", "ffn"}, "", "feed-forward weights, second"},
       {"b_2", {"d"}, "", "feed-forward bias, second"},
       {"norm1_gain", {"d"}, "", "gain of the norm of attention"},
       {"norm1_bias", {"d"}, "", "bias of the norm of attention"},
       {"norm2_gain", {"d"}, "", "gain of the norm of the reaction"},
       {"norm2_bias", {"d"}, "", "bias of the norm of the reaction"},
       {"half_<name>", {}, "", "macaron: the same for the first reaction half step, if it has its own"},
       {kappa, {"1 or d"}, "", "token diffusion"},
       {nu, {"1 or d"}, "", "token transport, where the model has it"}});
}

}  // namespace

void describe(io::Description& description) {
  describe_attributes(description);
  description.variables(
      group,
      {{"edges", {"M + 1"}, "layers", "edges of the depth cells of the training; missing: equal cells"},
       {"window",
        {"S"},
        "tokens",
        "tokens that attention of each layer hears: causal itself and those before it, else on each side; 0: "
        "all"}});
  description.variables("/model/rotary",
                        {{"theta",
                          {"tables", "r/2"},
                          "1",
                          "angle per token by which rotary positions turn each pair of channels"},
                         {"table", {"S"}, "", "the row of theta of each layer, counted from 0"}});
  describe_layers(description);
  description.variables(
      "/model/embedding",
      {{"W", {"d", "inputs"}, "", "embedding weights"},
       {"b", {"d"}, "", "embedding bias"},
       {"words", {"V", "d"}, "", "word vectors, for tokens that are words"},
       {"vocabulary", {"V"}, "", vocabulary_meaning},
       {"segment", {"segments", "d"}, "", "segment vectors, added to those of the words"},
       {"class_token",
        {"d"},
        "",
        "what stands for the first token, before its position is added; several rows: for the first tokens"},
       {"position", {"n", "d"}, "", "learned positions"},
       {"norm_gain", {"d"}, "", "gain of the norm of the embedded tokens"},
       {"norm_bias", {"d"}, "", "bias of the norm of the embedded tokens"}});
  description.variables("/model/final_norm", {{"gain", {"d"}, "", "gain of the final norm"},
                                              {"bias", {"d"}, "", "bias of the final norm"}});
  const auto transform = [](const std::string& what) {
    return std::vector<io::Variable>{
        {"transform_W", {"d", "d"}, "", "weights of the dense map before the " + what},
        {"transform_b", {"d"}, "", "bias of the dense map before the " + what},
        {"norm_gain", {"d"}, "", "gain of the norm before the " + what},
        {"norm_bias", {"d"}, "", "bias of the norm before the " + what}};
  };
  description.variables("/model/head", transform("classifier"));
  description.variables("/model/word_head", transform("word matrix"));
  description.variables("/model/word_head", {{"W", {"V", "d"}, "", "word matrix; missing: embedding/words"},
                                             {"b", {"V"}, "", "bias of the logits of words"}});
  description.variables(
      "/model/head",
      {{"W", {"classes", "d"}, "", "weights of the classifier; pooling = front: d for each class token"},
       {"b", {"classes"}, "", "bias of the classifier"}});
  description.variables("/model/equation", {{"alpha", {"1"}, "1/time", "strength of attention"},
                                            {"rho", {"1"}, "1/time", "strength of the reaction"}});
}

}  // namespace fluxformer::model_file

namespace fluxformer {
namespace {

std::string dataset(const ParameterView& view) {
  return names::in(model_file::group, view.path());
}

/// The allowed values of a whole number: from `least` on. Files from other programs may lack the attribute
/// unless `needed`.
struct Whole {
  int least;
  bool needed = false;
  static constexpr int most = 1'000'000'000;
};

/// The allowed values of a real number: greater than 0.
struct Positive {};
/// The same, or 0.
struct NotNegative {};

/// A value that most models have: it is no attribute of their files.
template <class V>
struct Unless {
  V usual;
};
template <class V>
Unless(V) -> Unless<V>;

/// Visits the attributes of /model, for writing and for reading: visit(name, member) for words and flags,
/// visit(name, member, allowed) for numbers.
template <class Spec, class Visit>
void each_attribute(Spec& spec, const Visit& visit) {
  using namespace model_file;
  visit(kind, spec.kind);
  visit(weights, spec.variation);
  visit(layers, spec.layers, Whole{.least = 1, .needed = true});
  visit(knots, spec.knots, Whole{.least = 1});
  visit(cells, spec.cells, Whole{.least = 0});
  visit(width, spec.width, Whole{.least = 1, .needed = true});
  visit(ffn, spec.ffn, Whole{.least = 1, .needed = true});
  visit(heads, spec.attention.heads, Whole{.least = 1, .needed = true});
  visit(groups, spec.attention.groups, Unless{0});
  visit(head_width, spec.attention.head_width, Unless{0});
  visit(rotary_layout, spec.attention.rotary.layout, Unless{RotaryLayout::none});
  visit(rotary_scale, spec.attention.rotary.scale, Unless{1.0});
  visit(kernel, spec.attention.kernel);
  visit(normalisation, spec.attention.normalisation);
  visit(iterations, spec.attention.sinkhorn_iterations, Whole{.least = 1});
  visit(activation, spec.activation);
  visit(gated, spec.gated, Unless{false});
  visit(biases, spec.biases, Unless{Biases::all});
  visit(norm, spec.norm);
  visit(norm_map, spec.norm_map, Unless{NormMap::layer});
  visit(norm_eps, spec.norm_eps, NotNegative{});
  visit(first_norm, spec.first_norm, Unless{true});
  visit(order, spec.order);
  visit(subflow, spec.subflow);
  visit(residual, spec.residual);
  visit(causal, spec.causal);
  visit(pooling, spec.pooling);
  visit(pad_word, spec.pad_word, Unless{-1});
  visit(longest, spec.longest, Unless{0});
  visit(longer_refused, spec.longer_refused, Unless{false});
  visit(head_activation, spec.head_transform.activation);
  visit(word_head_activation, spec.word_head.transform.activation);
}

/// True if no array says that the model guesses words.
bool words_are_guessed_by_table_alone(const ModelSpec& spec) {
  return spec.word_head.present && !spec.word_head.own_matrix && !spec.word_head.bias;
}

/// Calls put(name, value) with each attribute as files hold it.
template <class Put>
struct AsInFiles {
  Put put;
  template <class E>
  void operator()(const io::Attribute& name, E value) const {
    put(name, io::AttributeValue(std::string(to_word(value))));
  }
  void operator()(const io::Attribute& name, bool value) const {
    put(name, io::AttributeValue(std::string(value ? "on" : "off")));
  }
  void operator()(const io::Attribute& name, int value, Whole) const {
    put(name, io::AttributeValue(long{value}));
  }
  void operator()(const io::Attribute& name, double value, NotNegative) const {
    put(name, io::AttributeValue(value));
  }
  template <class V>
  void operator()(const io::Attribute& name, V value, Unless<V> unless) const {
    if (value == unless.usual) return;
    if constexpr (std::is_same_v<V, int>)
      put(name, io::AttributeValue(long{value}));
    else if constexpr (std::is_same_v<V, double>)
      put(name, io::AttributeValue(value));
    else
      (*this)(name, value);
  }
};
template <class Put>
AsInFiles(Put) -> AsInFiles<Put>;

/// Reads attributes into members. A missing attribute leaves its member as it is.
struct ReadAttribute {
  const io::ArchiveReader& archive;
  bool has(const io::Attribute& name) const { return archive.has_attribute(name, model_file::group); }
  [[noreturn]] void refuse(const io::Attribute& name, const std::string& why) const {
    throw BadInput(archive.called() + ": /model@" + name.name + why);
  }
  template <class E>
  void operator()(const io::Attribute& name, E& value) const {
    if (!has(name)) return;
    const auto text = archive.text(name, model_file::group);
    try {
      value = from_word<E>(text);
    } catch (const BadInput& e) {
      refuse(name, std::string(": ") + e.what());
    }
  }
  void operator()(const io::Attribute& name, bool& value) const {
    if (!has(name)) return;
    const auto text = archive.text(name, model_file::group);
    if (text != "on" && text != "off") refuse(name, ": '" + text + "' is not one of: on, off");
    value = text == "on";
  }
  void operator()(const io::Attribute& name, int& value, Whole allowed) const {
    if (!allowed.needed && !has(name)) return;
    const long found = archive.integer(name, model_file::group);
    if (found < allowed.least || found > Whole::most)
      refuse(name, " = " + std::to_string(found) + ": must be at least " + std::to_string(allowed.least) +
                       " and at most " + std::to_string(Whole::most));
    value = static_cast<int>(found);
  }
  void operator()(const io::Attribute& name, double& value, NotNegative) const {
    if (!has(name)) return;
    value = archive.real(name, model_file::group);
    if (!(value >= 0) || std::isinf(value))
      refuse(name, " = " + std::to_string(value) + ": must be a number, 0 or greater");
  }
  template <class V>
  void operator()(const io::Attribute& name, V& value, Unless<V>) const {
    if (!has(name)) return;
    if constexpr (std::is_same_v<V, int>)
      (*this)(name, value, Whole{.least = 0});
    else if constexpr (std::is_same_v<V, double>)
      (*this)(name, value, NotNegative{});
    else
      (*this)(name, value);
  }
};

/// Number of rows (axis 0) or columns (axis 1) of a matrix; 0 if it is not in the file.
int extent(const io::ArchiveReader& archive, const char* matrix, std::size_t axis) {
  if (!archive.has(matrix)) return 0;
  const auto shape = archive.shape(matrix);
  if (shape.size() != 2 || shape[axis] < 1 || shape[axis] > Whole::most)
    throw BadInput(archive.called() + ": " + matrix + " is not a matrix of 1 to " +
                   std::to_string(Whole::most) + (axis == 0 ? " rows" : " columns"));
  return static_cast<int>(shape[axis]);
}

/// Number of class tokens: one is a vector, several are the rows of a matrix.
int class_tokens_in(const io::ArchiveReader& archive) {
  const char* const name = model_file::embedding_class_token;
  if (!archive.has(name)) return 0;
  return archive.shape(name).size() == 1 ? 1 : extent(archive, name, 0);
}

/// Whole numbers from 0 on.
std::vector<int> whole_numbers_in(const io::ArchiveReader& archive, const char* name) {
  std::vector<int> numbers;
  for (const double value : archive.array(name).values) {
    if (!(value >= 0 && value <= Whole::most) || value != std::floor(value))
      throw BadInput(archive.called() + ": " + name + " holds " + std::to_string(value) +
                     ": must be whole numbers, 0 or more");
    numbers.push_back(static_cast<int>(value));
  }
  return numbers;
}

/// The attribute that says it where no array does.
bool words_by_table_in(const io::ArchiveReader& archive) {
  bool there = false;
  ReadAttribute{archive}(model_file::word_head_there, there);
  return there;
}

ModelSpec read_spec(const io::ArchiveReader& archive) {
  if (!archive.has(model_file::group))
    throw BadInput(archive.called() + ": holds no model (no group /model)");
  ModelSpec spec;
  const ReadAttribute read{archive};
  each_attribute(spec, read);
  if (!read.has(model_file::weights) && spec.kind == ModelKind::pde) spec.variation = DepthVariation::linear;
  if (!read.has(model_file::knots)) spec.knots = spec.layers;
  if (archive.has(model_file::edges)) {
    const auto edges = archive.array(model_file::edges).values;
    try {
      const auto depth = DepthCells::between(spec.layers, edges);
      if (spec.cells != depth.cells)
        throw BadInput("has " + std::to_string(depth.cells) +
                       " cells, /model@cells = " + std::to_string(spec.cells));
      spec.edges = depth.edges;
    } catch (const BadInput& e) {
      throw BadInput(archive.called() + ": " + model_file::edges + ": " + e.what());
    }
  }
  spec.attention.layer_norm = spec.norm == Norm::pre;
  spec.attention.qk_norm = archive.has(names::in(model_file::layer(1), "q_gain"));
  if (archive.has(model_file::window)) spec.windows = whole_numbers_in(archive, model_file::window);
  if (archive.has(model_file::rotary_theta)) {
    spec.attention.rotary.channels = 2 * extent(archive, model_file::rotary_theta, 1);
    spec.rotary.theta = archive.array(model_file::rotary_theta).values;
    spec.rotary.table = whole_numbers_in(archive, model_file::rotary_table);
  }
  spec.own_halves =
      spec.order == SubLayerOrder::macaron && archive.has(names::in(model_file::layer(1), "half_W_1"));
  const auto per_channel = [&](const std::string& array) {
    return archive.has(array) && archive.shape(array) != std::vector<Index>{1};
  };
  spec.kappa_per_channel = per_channel(names::in(model_file::layer(1), model_file::kappa));
  // In one layer (or knot) is in all: a missing one is told like any array. The layers are those that are there,
  // not those announced, whose number is checked below.
  if (archive.has(model_file::layers_group))
    for (const auto& layer : archive.children(model_file::layers_group)) {
      const auto nu = names::in(names::in(model_file::layers_group, layer), model_file::nu);
      spec.transport = spec.transport || archive.has(nu);
      spec.nu_per_channel = spec.nu_per_channel || per_channel(nu);
    }
  spec.features = extent(archive, model_file::embedding_W, 1);
  spec.vocabulary = extent(archive, model_file::embedding_words, 0);
  spec.segments = extent(archive, model_file::embedding_segment, 0);
  spec.tokens = extent(archive, model_file::embedding_position, 0);
  const auto has = [&](const char* group, const char* name) { return archive.has(names::in(group, name)); };
  const auto transform = [&](const char* group, HeadTransform& to) {
    to.present = has(group, "transform_W");
    to.bias = !to.present || has(group, "transform_b");
    to.norm = has(group, "norm_gain");
  };
  spec.class_tokens = class_tokens_in(archive);
  spec.embedding_norm = has(model_file::embedding, "norm_gain");
  spec.final_norm = spec.norm == Norm::pre && has(model_file::final_norm, "gain");
  // A head that is not there yet will have biases.
  spec.classes = extent(archive, model_file::head_W, 0);
  spec.head_bias = spec.classes == 0 || has(model_file::head, "b");
  transform(model_file::head, spec.head_transform);
  spec.word_head.bias = has(model_file::word_head, "b");
  spec.word_head.own_matrix = has(model_file::word_head, "W");
  spec.word_head.present = spec.word_head.bias || spec.word_head.own_matrix || words_by_table_in(archive);
  spec.word_head.bias = spec.word_head.bias || !spec.word_head.present;
  transform(model_file::word_head, spec.word_head.transform);
  try {
    spec.validate();
  } catch (const BadInput& e) {
    throw BadInput(archive.called() + ": " + e.what());
  }
  // Before memory is taken for the sizes announced: all layers must be there, and the last must have them.
  const auto last = model_file::layer(spec.knots);
  if (!archive.has(last)) throw BadInput(archive.called() + ": no " + last);
  const auto layers = archive.children(model_file::layers_group).size();
  if (std::cmp_not_equal(layers, spec.knots))
    throw BadInput(archive.called() + ": " + model_file::layers_group + " has " + std::to_string(layers) +
                   " members, expected " + std::to_string(spec.knots));
  archive.array(names::in(last, "W_1"), {spec.ffn, spec.width});
  return spec;
}

/// Throws BadInput for arrays around the layers that would be ignored: a transform without its head, and so
/// on.
void require_places(const io::ArchiveReader& archive, const ParameterLayout& layout) {
  for (const char* group :
       {model_file::embedding, model_file::final_norm, model_file::head, model_file::word_head}) {
    if (!archive.has(group)) continue;
    for (const auto& name : archive.children(group)) {
      const auto path = names::in(group, name);
      if (path != model_file::embedding_vocabulary &&
          !layout.has(path.substr(names::in(model_file::group, "").size())))
        throw BadInput(archive.called() + ": " + path + " has no place in this model");
    }
  }
}

}  // namespace

namespace {

std::vector<double> as_numbers(const std::vector<int>& whole) {
  return {whole.begin(), whole.end()};
}

}  // namespace

void write_model_attributes(io::ArchiveWriter& archive, const ModelSpec& spec) {
  each_attribute(spec, AsInFiles{[&](const io::Attribute& name, const io::AttributeValue& value) {
                   archive.attribute(name, value, model_file::group);
                 }});
  if (words_are_guessed_by_table_alone(spec))
    archive.attribute(model_file::word_head_there, io::AttributeValue(std::string("on")), model_file::group);
  const auto write = [&](const char* name, const std::vector<Index>& shape, const char* unit,
                         const char* meaning, const std::vector<double>& values) {
    if (!values.empty())
      archive.write_with_digests(model_file::group,
                                 {{{name, names::anonymous_axes(shape), unit, meaning}, values.data()}});
  };
  write("edges", {std::ssize(spec.edges)}, "layers", "edges of the depth cells of the training", spec.edges);
  write("window", {std::ssize(spec.windows)}, "tokens", "tokens that attention of each layer hears; 0: all",
        as_numbers(spec.windows));
  if (spec.rotary.theta.empty()) return;
  const Index pairs = spec.attention.rotary.channels / 2;
  write("rotary/theta", {std::ssize(spec.rotary.theta) / pairs, pairs}, "1",
        "angle per token of each pair of channels", spec.rotary.theta);
  write("rotary/table", {std::ssize(spec.rotary.table)}, "", "the row of theta of each layer, counted from 0",
        as_numbers(spec.rotary.table));
}

std::uint64_t digest_of(const ModelSpec& spec) {
  std::uint64_t sum = 0;
  each_attribute(spec, AsInFiles{[&](const io::Attribute& name, const io::AttributeValue& value) {
                   sum += io::digest_of_item(name.name, value);
                 }});
  if (words_are_guessed_by_table_alone(spec))
    sum += io::digest_of_item(model_file::word_head_there.name, io::AttributeValue(std::string("on")));
  const auto of = [](const std::vector<double>& values) {
    return io::digest_of(values.data(), std::ssize(values));
  };
  return sum + of(spec.edges) + of(as_numbers(spec.windows)) + of(spec.rotary.theta) +
         of(as_numbers(spec.rotary.table));
}

void write_model_arrays(io::ArchiveWriter& archive, const std::vector<ParameterView>& views,
                        const double* values) {
  std::vector<std::pair<io::Variable, const double*>> arrays;
  arrays.reserve(views.size());
  for (const auto& view : views)
    arrays.push_back({{view.path(), names::anonymous_axes({view.shape.begin(), view.shape.end()})},
                      values == nullptr ? nullptr : values + view.offset});
  archive.write_with_digests(model_file::group, arrays);
}

ParameterShare share_that_fits(MPI_Comm comm, const ModelSpec& spec, const ShareOf& share_of,
                               const std::string& what) {
  const auto require = [&](double numbers) {
    double bytes = numbers * sizeof(double);
    largest_over_ranks({&bytes, 1}, comm);
    require_memory(comm, bytes, what);
  };
  // Some rank has the mean of all, or one layer.
  require(std::max(parameter_count(spec) / mpi::size(comm), parameter_count(spec, {.last_knot = 0})));
  const auto share = share_of ? share_of(spec) : ParameterShare{};
  require(parameter_count(spec, share));
  return share;
}

std::string depth_report_in(const io::ArchiveReader& file) {
  using namespace model_file;
  return file.has(training) && file.has_attribute(depth_report, training) ? file.text(depth_report, training)
                                                                          : "";
}

Parameters read_model(const io::ArchiveReader& archive, const ShareOf& share_of, AddedTransport added) {
  auto spec = read_spec(archive);
  const bool stored_transport = spec.transport;
  if (!stored_transport && added != AddedTransport::none) {
    spec.transport = true;
    spec.nu_per_channel = added == AddedTransport::channel;
  }
  Parameters parameters(spec, share_that_fits(archive.comm(), spec, share_of, archive.called()));
  const ParameterLayout whole(spec);
  require_places(archive, whole);
  auto mine = parameters.layout.views().begin();
  for (const auto& view : whole.views()) {
    std::span<double> values;  // empty where this rank has no share in it
    if (mine != parameters.layout.views().end() && mine->place == view.place)
      values = std::span(parameters.values).subspan(mine++->offset, view.size());
    const bool zero = view.name == model_file::kappa || (view.name == model_file::nu && !stored_transport);
    if ((zero || view.group == "equation") && !archive.has(dataset(view))) {
      std::fill(values.begin(), values.end(), zero ? 0.0 : 1.0);
      continue;
    }
    const std::vector<Index> shape(view.shape.begin(), view.shape.end());
    const auto array = archive.array(dataset(view), shape);
    if (!std::all_of(array.values.begin(), array.values.end(), [](double x) { return std::isfinite(x); }))
      throw BadInput(archive.called() + ": " + dataset(view) + " holds numbers that are not finite");
    if (!values.empty()) std::copy(array.values.begin(), array.values.end(), values.begin());
  }
  return parameters;
}

}  // namespace fluxformer
