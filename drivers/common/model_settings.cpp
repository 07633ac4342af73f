#include "drivers/common/model_settings.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "drivers/common/data_options.hpp"
#include "io/archive_reader.hpp"
#include "model/initialise.hpp"
#include "model/model_file.hpp"
#include "operators/kernels/bfloat16_product.hpp"

namespace fluxformer {
namespace {

/// Converts a word of the deck to the enum E.
template <class E>
E choice(const Settings& settings, const char* key) {
  return from_word<E>(settings.word(key));
}

ModelSpec spec_of(const Settings& settings, const InputShape& input) {
  ModelSpec spec;
  spec.kind = choice<ModelKind>(settings, "model.kind");
  spec.layers = settings.count("mesh.layers");
  const std::string& weights = settings.word("depth.weights");
  const bool linear = weights == "linear" || (weights == "auto" && spec.kind == ModelKind::pde);
  spec.variation = linear ? DepthVariation::linear : DepthVariation::constant;
  const int knots = settings.count("model.knots");
  spec.knots = knots > 0 ? knots : spec.layers;
  spec.width = settings.count("model.width");
  spec.ffn = settings.count("model.ffn");
  spec.attention.heads = settings.count("attention.heads");
  spec.attention.kernel = choice<Kernel>(settings, "attention.kernel");
  spec.attention.normalisation = choice<Normalisation>(settings, "attention.normalisation");
  spec.attention.sinkhorn_iterations = settings.count("attention.iterations");
  spec.activation = choice<Activation>(settings, "model.activation");
  spec.norm = choice<Norm>(settings, "depth.norm");
  spec.attention.layer_norm = spec.norm == Norm::pre;
  spec.residual = settings.flag("depth.residual");
  spec.causal = settings.flag("attention.causal");
  spec.order = choice<SubLayerOrder>(settings, "depth.order");
  spec.subflow = choice<SubLayerIntegrator>(settings, "depth.subflow");
  spec.own_halves = settings.word("depth.halves") == "own";
  spec.kappa_per_channel = settings.word("model.kappa") == "channel";
  spec.features = input.features;
  spec.vocabulary = input.vocabulary;
  spec.segments = input.segments;
  spec.tokens = input.any() ? input.tokens : 0;
  spec.classes = input.classes;
  spec.word_head = {.present = input.word_head, .own_matrix = input.own_word_matrix};
  spec.validate();
  return spec;
}

/// Checks the keys that the model file sets: where the deck gives them too, both must agree.
void require_same(const Settings& settings, const ModelSpec& spec, const std::string& file) {
  for (const auto& [key, there] : settings_of(spec)) {
    if (!settings.given(key) || settings.value(key) == there) continue;
    if (key == "depth.weights" && settings.word(key) == "auto") continue;
    const auto* flag = std::get_if<bool>(&there);
    throw BadInput(key +
                   (flag != nullptr ? ": the model in " + file + " has it " + (*flag ? "on" : "off")
                                    : " = " + value_text(settings.value(key)) + ": the model in " + file +
                                          " has " + value_text(there)) +
                   "; leave the key out or give that value");
  }
}

void override_coefficients(const Settings& settings, Parameters& parameters) {
  const auto& layout = parameters.layout;
  if (settings.given("equation.alpha")) parameters.values[layout.alpha()] = settings.real("equation.alpha");
  if (settings.given("equation.rho")) parameters.values[layout.rho()] = settings.real("equation.rho");
  if (!settings.given("equation.kappa")) return;
  for (const auto& view : layout.views())
    if (view.name == "kappa")
      std::ranges::fill(parameters.view(view.path()), settings.real("equation.kappa"));
}

Parameters read_parameters(const Settings& settings, const InputShape& input, MPI_Comm comm,
                           const ShareOf& share) {
  const auto& file = settings.word("model.file");
  auto parameters = read_model(io::ArchiveReader(comm, file, "model.file = "), share);
  const auto& spec = parameters.spec;
  require_same(settings, spec, file);
  if (input.features > 0 && spec.features != input.features)
    throw BadInput(
        "data.set: its tokens have " + std::to_string(input.features) + " numbers, the model in " + file +
        (spec.features == 0 ? std::string(" has no embedding") : " embeds " + std::to_string(spec.features)));
  if (input.vocabulary > 0 && spec.vocabulary != input.vocabulary)
    throw BadInput("data.set: its vocabulary has " + std::to_string(input.vocabulary) +
                   " words, the model in " + file +
                   (spec.vocabulary == 0 ? " embeds none" : " embeds " + std::to_string(spec.vocabulary)));
  if (input.vocabulary > 0 && spec.segments != input.segments)
    throw BadInput("data.set: its tokens are of " + std::to_string(input.segments) +
                   " segments, the model in " + file + " has a table of " + std::to_string(spec.segments));
  if (input.any() && spec.tokens > 0 && spec.tokens != input.tokens &&
      (spec.tokens < input.tokens || !takes_first_positions(settings)))
    throw BadInput("data.tokens: the data has " + std::to_string(input.tokens) + " tokens, the model in " +
                   file + " has positions for " + std::to_string(spec.tokens));
  override_coefficients(settings, parameters);
  return parameters;
}

}  // namespace

Parameters make_parameters(const Settings& settings, const InputShape& input, MPI_Comm comm,
                           const ShareOf& share_of) {
  if (!settings.word("model.file").empty()) return read_parameters(settings, input, comm, share_of);
  const auto spec = spec_of(settings, input);
  const auto share = share_that_fits(
      comm, spec, share_of,
      "model.width = " + std::to_string(spec.width) + ", model.ffn = " + std::to_string(spec.ffn) + ", " +
          std::to_string(spec.knots) + " sets of weights, " + std::to_string(spec.tokens) + " positions");
  Parameters parameters(spec, share);
  if (settings.word("model.initial") == "standard") {
    initialise_standard(parameters, static_cast<std::uint64_t>(settings.integer("model.seed")),
                        settings.real("equation.kappa"), settings.real("equation.alpha"),
                        settings.real("equation.rho"));
  } else {
    const double head_width = static_cast<double>(parameters.spec.width) / parameters.spec.attention.heads;
    initialise_scaled_identity(parameters,
                               std::sqrt(settings.real("model.beta")) * std::pow(head_width, 0.25),
                               settings.real("model.value"));
    override_coefficients(settings, parameters);
  }
  return parameters;
}

std::vector<std::pair<std::string, OptionValue>> settings_of(const ModelSpec& spec) {
  std::vector<std::pair<std::string, OptionValue>> list{
      {"model.kind", to_word(spec.kind)},
      {"mesh.layers", long{spec.layers}},
      {"model.knots", long{spec.knots}},
      {"model.width", long{spec.width}},
      {"model.ffn", long{spec.ffn}},
      {"model.activation", to_word(spec.activation)},
      {"attention.heads", long{spec.attention.heads}},
      {"attention.kernel", to_word(spec.attention.kernel)},
      {"attention.normalisation", to_word(spec.attention.normalisation)},
      {"depth.norm", to_word(spec.norm)},
      {"depth.order", to_word(spec.order)},
      {"depth.subflow", to_word(spec.subflow)},
      {"depth.halves", std::string(spec.own_halves ? "own" : "shared")},
      {"depth.weights", to_word(spec.variation)},
      {"depth.residual", spec.residual},
      {"attention.causal", spec.causal},
      {"model.kappa", std::string(spec.kappa_per_channel ? "channel" : "scalar")}};
  if (spec.attention.normalisation == Normalisation::sinkhorn)
    list.emplace_back("attention.iterations", long{spec.attention.sinkhorn_iterations});
  return list;
}

EquationSpec equation_spec(const Settings& settings, const ModelSpec& model) {
  EquationSpec spec;
  const int cells = settings.count("mesh.cells");
  spec.depth = {model.layers, cells > 0 ? cells : model.cells > 0 ? model.cells : model.layers};
  spec.speed = settings.real("equation.c");
  spec.epsilon = settings.real("equation.epsilon");
  const auto& scheme = settings.word("depth.scheme");
  spec.scheme = scheme == "shift"    ? DepthScheme::shift
                : scheme == "upwind" ? DepthScheme::upwind
                                     : DepthScheme::upwind2;
  return spec;
}

Precision precision_of(const Settings& settings) {
  const auto& word = settings.word("run.precision");
  if (word == "mixed" && !has_bfloat16_products())
    throw BadInput(
        "run.precision = mixed: this processor has no products of bfloat16 numbers (avx512_bf16), or the "
        "program was built "
        "without libxsmm, which makes kernels of them; mixed_emulated rounds the same way, but is slow");
  return word == "double"   ? Precision::float64
         : word == "single" ? Precision::float32
         : word == "mixed"  ? Precision::mixed
                            : Precision::mixed_emulated;
}

}  // namespace fluxformer
