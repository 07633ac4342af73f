#include "drivers/model_options.hpp"

#include <cmath>

#include "base/error.hpp"
#include "io/archive_reader.hpp"
#include "model/initialise.hpp"
#include "model/model_file.hpp"

namespace fluxformer {
namespace {

/// Reads a word of the deck as a value of E.
template <class E>
E choice(const Settings& settings, const char* key) {
  return from_word<E>(settings.word(key));
}

ModelSpec spec_of(const Settings& settings, const InputShape& input) {
  ModelSpec spec;
  spec.kind = choice<ModelKind>(settings, "model.kind");
  spec.layers = static_cast<int>(settings.integer("mesh.layers"));
  const std::string weights = settings.word("depth.weights");
  const bool linear = weights == "linear" || (weights == "auto" && spec.kind == ModelKind::pde);
  spec.variation = linear ? DepthVariation::linear : DepthVariation::constant;
  const long knots = settings.integer("model.knots");
  spec.knots = knots > 0 ? static_cast<int>(knots) : spec.layers;
  spec.width = static_cast<int>(settings.integer("model.width"));
  spec.ffn = static_cast<int>(settings.integer("model.ffn"));
  spec.attention.heads = static_cast<int>(settings.integer("attention.heads"));
  spec.attention.kernel = choice<Kernel>(settings, "attention.kernel");
  spec.attention.normalisation = choice<Normalisation>(settings, "attention.normalisation");
  spec.attention.sinkhorn_iterations = static_cast<int>(settings.integer("attention.iterations"));
  spec.activation = choice<Activation>(settings, "model.activation");
  spec.norm = choice<Norm>(settings, "depth.norm");
  spec.attention.layer_norm = spec.norm == Norm::pre;
  spec.residual = settings.flag("depth.residual");
  spec.order = choice<Order>(settings, "depth.order");
  spec.subflow = choice<Subflow>(settings, "depth.subflow");
  spec.own_halves = settings.word("depth.halves") == "own";
  spec.features = input.features;
  spec.tokens = input.features > 0 ? input.tokens : 0;
  spec.classes = input.classes;
  spec.validate();
  return spec;
}

/// A key that the file decides: if the deck gives it too, the two must agree.
void require_same(const Settings& settings, const std::string& key, const std::string& file,
                  const std::string& there) {
  if (!settings.given(key)) return;
  const auto& schema_says = settings.word(key);
  if (schema_says != there)
    throw BadInput(key + " = " + schema_says + ": the model in " + file + " has " + there +
                   "; leave the key out or give that value");
}
void require_same(const Settings& settings, const std::string& key, const std::string& file, long there) {
  if (settings.given(key) && settings.integer(key) != there)
    throw BadInput(key + " = " + std::to_string(settings.integer(key)) + ": the model in " + file + " has " +
                   std::to_string(there) + "; leave the key out or give that value");
}

void override_coefficients(const Settings& settings, Parameters& parameters) {
  const auto& layout = parameters.layout;
  if (settings.given("equation.alpha")) parameters.values[layout.alpha()] = settings.real("equation.alpha");
  if (settings.given("equation.rho")) parameters.values[layout.rho()] = settings.real("equation.rho");
  if (!settings.given("equation.kappa")) return;
  for (int knot = 1; knot <= parameters.spec.knots; ++knot)
    for (double& kappa : parameters.view("layers/" + std::to_string(knot) + "/kappa"))
      kappa = settings.real("equation.kappa");
}

Parameters read_parameters(const Settings& settings, const InputShape& input, MPI_Comm comm) {
  const auto& file = settings.word("model.file");
  auto parameters = read_model(ArchiveReader(comm, file));
  auto& spec = parameters.spec;
  require_same(settings, "model.kind", file, to_word(spec.kind));
  require_same(settings, "mesh.layers", file, spec.layers);
  require_same(settings, "model.knots", file, spec.knots);
  require_same(settings, "model.width", file, spec.width);
  require_same(settings, "model.ffn", file, spec.ffn);
  require_same(settings, "model.activation", file, to_word(spec.activation));
  require_same(settings, "attention.heads", file, spec.attention.heads);
  require_same(settings, "attention.kernel", file, to_word(spec.attention.kernel));
  require_same(settings, "depth.norm", file, to_word(spec.norm));
  require_same(settings, "depth.order", file, to_word(spec.order));
  if (input.features > 0 && spec.features != input.features)
    throw BadInput(
        "data.set: its tokens have " + std::to_string(input.features) + " numbers, the model in " + file +
        (spec.features == 0 ? std::string(" has no embedding") : " embeds " + std::to_string(spec.features)));
  if (input.features > 0 && spec.tokens > 0 && spec.tokens != input.tokens)
    throw BadInput("data.tokens: the data has " + std::to_string(input.tokens) + " tokens, the model in " +
                   file + " has positions for " + std::to_string(spec.tokens));
  override_coefficients(settings, parameters);
  return parameters;
}

}  // namespace

void declare_model_options(Schema& schema) {
  const auto declare = [&](Option option) { schema.declare(std::move(option)); };
  declare({.name = "mesh.layers",
           .fallback = 12L,
           .doc = "depth S of the domain: the number of layers",
           .minimum = 1});
  declare({.name = "mesh.cells", .fallback = 0L, .doc = "depth cells M; 0: one per layer", .minimum = 0});
  declare(
      {.name = "mesh.tokens_x", .fallback = 0L, .doc = "token columns; 0: as the data has", .minimum = 0});
  declare({.name = "mesh.tokens_y",
           .fallback = 0L,
           .doc = "token rows (1: a line); 0: as the data has",
           .minimum = 0});
  declare({.name = "mesh.ranks_depth",
           .fallback = 0L,
           .doc = "MPI ranks along depth; 0: chosen for least communication",
           .minimum = 0});
  declare(
      {.name = "mesh.ranks_token", .fallback = 0L, .doc = "MPI ranks along tokens; 0: chosen", .minimum = 0});
  declare({.name = "mesh.periodic",
           .fallback = false,
           .doc = "the token lattice closes on itself (else zero flux)"});

  declare({.name = "equation.c",
           .fallback = 1.0,
           .doc = "speed of transport through depth",
           .unit = "layers/time",
           .minimum = 0});
  declare({.name = "equation.epsilon",
           .fallback = 0.0,
           .doc = "diffusion in depth",
           .unit = "layers^2/time",
           .minimum = 0});
  declare({.name = "equation.kappa",
           .fallback = 0.0,
           .doc = "diffusion over tokens",
           .unit = "token spacings^2/time",
           .minimum = 0});
  declare({.name = "equation.alpha", .fallback = 1.0, .doc = "strength of attention", .unit = "1/time"});
  declare({.name = "equation.rho",
           .fallback = 1.0,
           .doc = "strength of the reaction (feed-forward network)",
           .unit = "1/time"});

  declare({.name = "depth.scheme",
           .fallback = std::string("shift"),
           .doc = "depth discretisation: the layer map of the cell upstream (a Transformer), or upwind "
                  "differences of order 1, 2",
           .choices = {"shift", "upwind", "upwind2"}});
  declare({.name = "depth.order",
           .fallback = std::string("sequential"),
           .doc = "order of the sub-layers in a layer",
           .choices = {"sequential", "parallel", "macaron"}});
  declare({.name = "depth.norm",
           .fallback = std::string("pre"),
           .doc = "place of the normalisation",
           .choices = {"pre", "post", "sphere", "none"}});
  declare({.name = "depth.residual", .fallback = true, .doc = "residual stream; off is an ablation"});
  declare({.name = "depth.weights",
           .fallback = std::string("auto"),
           .doc = "weights over depth: one set per layer, or linear between knots; auto: constant for a "
                  "transformer, linear for a pde",
           .choices = {"auto", "constant", "linear"}});
  declare({.name = "depth.halves",
           .fallback = std::string("shared"),
           .doc = "macaron: the two reaction half steps share their weights or have their own",
           .choices = {"shared", "own"}});
  declare({.name = "depth.subflow",
           .fallback = std::string("euler"),
           .doc = "how a sub-layer advances over its step",
           .choices = {"euler", "midpoint"}});

  declare({.name = "attention.heads", .fallback = 4L, .doc = "heads; must divide model.width", .minimum = 1});
  declare({.name = "attention.kernel",
           .fallback = std::string("dot"),
           .doc = "scaled dot product, or Gaussian of the distance",
           .choices = {"dot", "l2"}});
  declare({.name = "attention.normalisation",
           .fallback = std::string("softmax"),
           .doc = "rows to 1, or doubly stochastic",
           .choices = {"softmax", "sinkhorn"}});
  declare({.name = "attention.iterations",
           .fallback = 20L,
           .doc = "Sinkhorn half-steps (odd: rows normalised last)",
           .minimum = 1});
  declare(
      {.name = "attention.causal", .fallback = false, .doc = "a token sees itself and earlier tokens only"});

  declare({.name = "model.kind",
           .fallback = std::string("transformer"),
           .doc = "transformer, or pde (weights linear in depth)",
           .choices = {"transformer", "pde"}});
  declare({.name = "model.width",
           .fallback = 64L,
           .doc = "width d of the hidden state",
           .unit = "channels",
           .minimum = 1});
  declare({.name = "model.ffn",
           .fallback = 256L,
           .doc = "hidden width of the feed-forward network",
           .unit = "channels",
           .minimum = 1});
  declare({.name = "model.activation",
           .fallback = std::string("gelu_erf"),
           .doc = "of the feed-forward network",
           .choices = {"gelu_erf", "gelu_tanh", "relu"}});
  declare({.name = "model.knots",
           .fallback = 0L,
           .doc = "depth knots K of linear weights; 0: one per layer",
           .minimum = 0});
  declare({.name = "model.file",
           .fallback = std::string(),
           .doc = "read the weights from this HDF5 file; empty: initialise"});
  declare({.name = "model.initial",
           .fallback = std::string("standard"),
           .doc = "initial weights: Xavier-uniform, or scaled identities (interacting particles)",
           .choices = {"standard", "identity"}});
  declare(
      {.name = "model.beta",
       .fallback = 1.0,
       .doc = "identity weights: inverse temperature, logits beta q.k (W_Q = W_K = sqrt(beta) d_h^(1/4) I)",
       .minimum = 0});
  declare({.name = "model.value", .fallback = 1.0, .doc = "identity weights: W_V = value I"});
  declare({.name = "model.seed", .fallback = 1L, .doc = "of the initial weights", .minimum = 0});

  declare({.name = "run.precision",
           .fallback = std::string("double"),
           .doc = "arithmetic of the increments; the state is always double",
           .choices = {"double", "single"}});
}

Parameters make_parameters(const Settings& settings, const InputShape& input, MPI_Comm comm) {
  if (!settings.word("model.file").empty()) return read_parameters(settings, input, comm);
  Parameters parameters(spec_of(settings, input));
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

EquationSpec equation_spec(const Settings& settings, const ModelSpec& model) {
  EquationSpec spec;
  const long cells = settings.integer("mesh.cells");
  spec.depth = {model.layers, cells > 0 ? static_cast<int>(cells) : model.layers};
  spec.speed = settings.real("equation.c");
  spec.epsilon = settings.real("equation.epsilon");
  const auto& scheme = settings.word("depth.scheme");
  spec.scheme = scheme == "shift"    ? DepthScheme::shift
                : scheme == "upwind" ? DepthScheme::upwind
                                     : DepthScheme::upwind2;
  return spec;
}

Precision precision_of(const Settings& settings) {
  return settings.word("run.precision") == "single" ? Precision::single : Precision::dbl;
}

}  // namespace fluxformer
