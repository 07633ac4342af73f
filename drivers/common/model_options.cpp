#include "drivers/common/model_options.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "drivers/common/data_options.hpp"
#include "drivers/common/run_options.hpp"
#include "io/archive_reader.hpp"
#include "io/layout.hpp"
#include "model/initialise.hpp"
#include "operators/kernels/product.hpp"

namespace fluxformer {
namespace {

void declare_mesh(Options& options) {
  options.declare("mesh.layers", 12L, "number of layers, which is also the depth S of the domain",
                  {.minimum = 1, .role = Role::model});
  options.declare("mesh.cells", 0L,
                  "number of depth cells M, a multiple of mesh.layers if weights are constant in each layer; "
                  "0: as in the training of model.file, otherwise one per layer",
                  {.minimum = 0});
  options.declare(
      "mesh.edges", "",
      "edges of unequal depth cells in layers, 0 first and mesh.layers last, separated by commas, or "
      "a file of this program whose cells are to be used; in place of mesh.cells",
      {.unit = "layers"});
  options.declare("mesh.tokens_x", 0L,
                  "number of token columns if the data do not set it; 0: as in the data, otherwise 1",
                  {.minimum = 0});
  options.declare(
      "mesh.tokens_y", 0L,
      "number of token rows (1: a line) if the data do not set it; 0: as in the data, otherwise 1",
      {.minimum = 0});
  options.declare("mesh.ranks_depth", 0L,
                  "MPI ranks along depth; 0: evolve chooses for the least communication, train takes 1",
                  {.minimum = 0, .role = Role::free});
  options.declare("mesh.ranks_token", 0L,
                  "MPI ranks over tokens; 0: evolve chooses for the least communication, train takes 1",
                  {.minimum = 0, .role = Role::free});
  options.declare("mesh.periodic", false,
                  "make the token lattice periodic; otherwise there is no flux across its boundary");
}

void declare_equation(Options& options) {
  options.declare("equation.c", 1.0, "speed of transport through depth",
                  {.unit = "layers/time", .minimum = 0});
  options.declare("equation.epsilon", 0.0, "diffusion in depth", {.unit = "layers^2/time", .minimum = 0});
  options.declare("equation.kappa", 0.0, "diffusion over tokens; if given, it overrides model.file",
                  {.unit = "token spacings^2/time", .minimum = 0, .role = Role::model});
  options.declare(
      "equation.nu", 0.0,
      "one-sided transport over tokens, from each to the next, which causal models may have; if given, "
      "it overrides model.file",
      {.unit = "tokens/time", .minimum = 0, .role = Role::model});
  options.declare("equation.alpha", 1.0, "strength of attention; if given, it overrides model.file",
                  {.unit = "1/time", .role = Role::model});
  options.declare("equation.rho", 1.0,
                  "strength of the reaction (feed-forward network); if given, it overrides model.file",
                  {.unit = "1/time", .role = Role::model});
}

void declare_depth(Options& options) {
  options.declare("depth.scheme", "shift",
                  "how depth is discretised: shift applies the layer map of a Transformer to the cell "
                  "upstream, upwind and upwind2 are one-sided differences of order 1 and 2",
                  {.choices = {"shift", "upwind", "upwind2"}});
  options.declare("depth.order", "sequential",
                  "order of the sub-layers of a layer: attention then reaction, both at once, or half a "
                  "reaction before and after attention",
                  {.choices = {"sequential", "parallel", "macaron"}, .role = Role::model});
  options.declare("depth.norm", "pre",
                  "normalisation: a norm before each sub-layer, a norm after it, projection to the "
                  "unit sphere after it, or none",
                  {.choices = {"pre", "post", "sphere", "none"}, .role = Role::model});
  options.declare(
      "depth.norm_map", "layer",
      "the norm: LayerNorm, or RMSNorm, which divides by the root mean square and subtracts no mean",
      {.choices = {"layer", "rms"}, .when = When{"depth.norm", {"pre", "post"}}, .role = Role::model});
  options.declare("depth.residual", true,
                  "each sub-layer adds to the state; false: it replaces the state (an ablation)",
                  {.role = Role::model});
  options.declare("depth.weights", "auto",
                  "weights over depth: one set per layer, or linear between knots; auto: constant for a "
                  "transformer, linear for a pde",
                  {.choices = {"auto", "constant", "linear"}, .role = Role::model});
  options.declare(
      "depth.halves", "shared", "macaron: the two half steps of the reaction share weights or have their own",
      {.choices = {"shared", "own"}, .when = When{"depth.order", "macaron"}, .role = Role::model});
  options.declare("depth.subflow", "euler",
                  "how a sub-layer advances over its step: forward Euler as in a Transformer, or the "
                  "explicit midpoint rule",
                  {.choices = {"euler", "midpoint"}, .role = Role::model});
}

void declare_attention_term(Options& options) {
  options.declare("attention.heads", 4L,
                  "attention heads; must divide model.width unless attention.head_width is given",
                  {.minimum = 1, .role = Role::model});
  options.declare("attention.groups", 0L,
                  "groups of keys and values, each of which serves as many heads as every other; must divide "
                  "attention.heads; 0: one for each head",
                  {.minimum = 0, .role = Role::model});
  options.declare("attention.head_width", 0L, "channels of a head; 0: model.width divided by attention.heads",
                  {.unit = "channels", .minimum = 0, .role = Role::model});
  options.declare("attention.qk_norm", false,
                  "RMSNorm of the queries and keys of each head, with gains that all heads of a layer share",
                  {.role = Role::model});
  options.declare("attention.kernel", "dot",
                  "attention kernel: scaled dot product of query and key, or a Gaussian of their distance",
                  {.choices = {"dot", "l2"}, .role = Role::model});
  options.declare("attention.normalisation", "softmax",
                  "attention weights sum to 1 over each row, or over each row and column (doubly "
                  "stochastic); linear: they are the logits themselves (kernel dot)",
                  {.choices = {"softmax", "sinkhorn", "linear"}, .role = Role::model});
  options.declare("attention.iterations", 20L,
                  "sinkhorn: number of half-steps; odd ones normalise rows, even ones columns",
                  {.minimum = 1, .when = When{"attention.normalisation", "sinkhorn"}, .role = Role::model});
  options.declare(
      "attention.rotary", "none",
      "rotary positions: queries and keys are turned by angles that grow with the position of their "
      "token; half turns channel j with j + r/2, interleaved 2j with 2j + 1 of the first r",
      {.choices = {"none", "half", "interleaved"}, .role = Role::model});
  options.declare("attention.rotary_share", 1.0,
                  "share of the channels of a head that are turned (r, an even number)",
                  {.minimum = 0,
                   .maximum = 1,
                   .when = When{"attention.rotary", {"half", "interleaved"}},
                   .role = Role::model});
  options.declare(
      "attention.rotary_base", 10000.0, "base of the angles: pair j turns by base^(-2j/r) for each token",
      {.minimum = 1, .when = When{"attention.rotary", {"half", "interleaved"}}, .role = Role::model});
  options.declare(
      "attention.window", 0L,
      "how far attention hears: itself and the tokens before it, so many together, with attention.causal; "
      "otherwise so many on each side; 0: all tokens",
      {.unit = "tokens", .minimum = 0, .role = Role::model});
  options.declare("attention.causal", false, "causal mask: a token attends only to itself and earlier tokens",
                  {.role = Role::model});
}

void declare_model_sizes(Options& options) {
  options.declare(
      "model.kind", "transformer",
      "transformer: each layer has its own weights; pde: weights are linear in depth between knots",
      {.choices = {"transformer", "pde"}, .role = Role::model});
  options.declare("model.width", 64L, "width d of the hidden state",
                  {.unit = "channels", .minimum = 1, .role = Role::model});
  options.declare("model.ffn", 256L, "hidden width of the feed-forward network",
                  {.unit = "channels", .minimum = 1, .role = Role::model});
  options.declare("model.activation", "gelu_erf", "activation of the feed-forward network",
                  {.choices = {"gelu_erf", "gelu_tanh", "relu", "silu"}, .role = Role::model});
  options.declare("model.gated", false,
                  "the activation multiplies a second linear map of its input (silu: SwiGLU; gelu: GeGLU)",
                  {.role = Role::model});
  options.declare(
      "model.biases", "all",
      "linear maps of a layer that have biases: all, those of queries, keys and values, all of attention, "
      "those of the feed-forward network, or none (and none of norms)",
      {.choices = {"all", "qkv", "attention", "reaction", "none"}, .role = Role::model});
  options.declare("model.positions", "learned",
                  "learned positions, a vector for each token that is added to its embedding, or none",
                  {.choices = {"learned", "none"}, .role = Role::model});
  options.declare("model.knots", 0L, "number K of depth knots of linear weights; 0: one per layer",
                  {.minimum = 0, .role = Role::model});
  options.declare("model.kappa", "scalar", "token diffusion: one kappa for all channels, or one per channel",
                  {.choices = {"scalar", "channel"}, .role = Role::model});
  options.declare("model.nu", "scalar", "token transport: one nu for all channels, or one per channel",
                  {.choices = {"scalar", "channel"}, .role = Role::model});
}

void declare_initial_weights(Options& options) {
  options.declare("model.file", "",
                  "HDF5 file to read the weights from, written by the import command or by an earlier run; "
                  "empty: initialise");
  options.declare("model.initial", "standard",
                  "weights without model.file: Xavier-uniform, or scaled identities (interacting particles)",
                  {.choices = {"standard", "identity"}});
  options.declare("model.beta", 1.0, "identity weights: inverse temperature, the logits are beta q.k",
                  {.minimum = 0, .when = When{"model.initial", "identity"}});
  options.declare("model.value", 1.0, "identity weights: factor of the identity in W_V",
                  {.when = When{"model.initial", "identity"}});
  options.declare("model.seed", 1L, "seed of the initial weights", {.minimum = 0});
}

}  // namespace

void declare_model_options(Options& options) {
  declare_mesh(options);
  declare_equation(options);
  declare_depth(options);
  declare_attention_term(options);
  declare_model_sizes(options);
  declare_initial_weights(options);
  options.declare(precision_option());
}

void leave_model_to_file(Settings& settings) {
  if (settings.options()->find("model.file") == nullptr || settings.word("model.file").empty()) return;
  for (const Option& option : settings.options()->all())
    if (option.role == Role::model) settings.leave_to_file(option.name);
}

namespace {

/// Converts a word of the deck to the enum E.
template <class E>
E choice(const Settings& settings, const char* key) {
  return from_word<E>(settings.word(key));
}

/// The angles of all layers: theta_j = base^(-2j/r).
void set_rotary(const Settings& settings, ModelSpec& spec) {
  auto& rotary = spec.attention.rotary;
  rotary.layout = choice<RotaryLayout>(settings, "attention.rotary");
  if (rotary.layout == RotaryLayout::none) return;
  const double share = settings.real("attention.rotary_share"), base = settings.real("attention.rotary_base");
  const int channels = spec.attention.channels(spec.width);
  const double turned = share * channels;
  rotary.channels = static_cast<int>(std::lround(turned));
  if (std::abs(turned - rotary.channels) > 1e-9 * channels || rotary.channels % 2 != 0 ||
      rotary.channels == 0)
    throw BadInput("attention.rotary_share = " + value_text(share) + ": of " + std::to_string(channels) +
                   " channels of a head these are " + value_text(turned) + "; it must be an even number");
  for (int j = 0; 2 * j < rotary.channels; ++j)
    spec.rotary.theta.push_back(std::pow(base, -2.0 * j / rotary.channels));
  spec.rotary.table.assign(spec.layers, 0);
}

/// The model that the keys describe, without the sizes of its input.
ModelSpec spec_of(const Settings& settings) {
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
  spec.attention.groups = settings.count("attention.groups");
  spec.attention.head_width = settings.count("attention.head_width");
  spec.attention.qk_norm = settings.flag("attention.qk_norm");
  set_rotary(settings, spec);
  if (const int window = settings.count("attention.window"); window > 0)
    spec.windows.assign(spec.layers, window);
  spec.attention.kernel = choice<Kernel>(settings, "attention.kernel");
  spec.attention.normalisation = choice<Normalisation>(settings, "attention.normalisation");
  spec.attention.sinkhorn_iterations = settings.count("attention.iterations");
  spec.activation = choice<Activation>(settings, "model.activation");
  spec.gated = settings.flag("model.gated");
  spec.biases = choice<Biases>(settings, "model.biases");
  spec.norm = choice<Norm>(settings, "depth.norm");
  spec.norm_map = choice<NormMap>(settings, "depth.norm_map");
  spec.attention.layer_norm = spec.norm == Norm::pre;
  spec.residual = settings.flag("depth.residual");
  spec.causal = settings.flag("attention.causal");
  spec.order = choice<SubLayerOrder>(settings, "depth.order");
  spec.subflow = choice<SubLayerIntegrator>(settings, "depth.subflow");
  spec.own_halves = settings.word("depth.halves") == "own";
  spec.kappa_per_channel = settings.word("model.kappa") == "channel";
  spec.transport = settings.real("equation.nu") > 0;
  spec.nu_per_channel = settings.word("model.nu") == "channel";
  return spec;
}

ModelSpec with_input(ModelSpec spec, const InputShape& input, bool positions) {
  spec.features = input.features;
  spec.vocabulary = input.vocabulary;
  spec.segments = input.segments;
  spec.tokens = input.any() && positions ? input.tokens : 0;
  spec.classes = input.classes;
  spec.word_head = {
      .present = input.word_head, .own_matrix = input.own_word_matrix, .bias = spec.biases != Biases::none};
  spec.validate();
  return spec;
}

/// The value of a key that was given; null if it was not.
const OptionValue* given_value(const ModelPlan& plan, const std::string& key) {
  const auto at = std::ranges::find(plan.given, key, &std::pair<std::string, OptionValue>::first);
  return at == plan.given.end() ? nullptr : &at->second;
}

/// Checks the keys that the model file sets: where the deck gives them too, both must agree.
void require_same(const ModelPlan& plan, const ModelSpec& spec) {
  const auto& file = plan.file;
  for (const auto& [key, there] : settings_of(spec)) {
    const auto* const given = given_value(plan, key);
    if (given == nullptr || *given == there) continue;
    if (key == "depth.weights" && std::get<std::string>(*given) == "auto") continue;
    const auto* flag = std::get_if<bool>(&there);
    throw BadInput(key +
                   (flag != nullptr ? ": the model in " + file + " has it " + (*flag ? "on" : "off")
                                    : " = " + value_text(*given) + ": the model in " + file + " has " +
                                          value_text(there)) +
                   "; leave the key out or give that value");
  }
}

/// The angles of rotary positions follow from two keys, but not these from them.
void require_same_angles(const ModelPlan& plan, const ModelSpec& spec) {
  for (const char* key : {"attention.rotary_base", "attention.rotary_share"})
    if (given_value(plan, key) != nullptr && plan.spec.rotary.theta != spec.rotary.theta)
      throw BadInput(std::string(key) + ": the model in " + plan.file +
                     " turns by other angles; leave the key out or give the value of the file");
}

/// The key is the window of all layers, and those of a file may differ.
void require_same_windows(const ModelPlan& plan, const ModelSpec& spec) {
  const auto* const given = given_value(plan, "attention.window");
  if (given == nullptr) return;
  for (int layer = 1; layer <= spec.layers; ++layer)
    if (const long there = spec.window(layer); there != std::get<long>(*given))
      throw BadInput("attention.window = " + value_text(*given) + ": layer " + std::to_string(layer) +
                     " of the model in " + plan.file + " has " + std::to_string(there) +
                     "; leave the key out or give that value");
}

void override_coefficients(const ModelPlan& plan, Parameters& parameters) {
  const auto& layout = parameters.layout;
  if (plan.alpha.given) parameters.values[layout.alpha()] = plan.alpha.value;
  if (plan.rho.given) parameters.values[layout.rho()] = plan.rho.value;
  for (const auto& view : layout.views()) {
    if (view.name == "kappa" && plan.kappa.given)
      std::ranges::fill(parameters.view(view.path()), plan.kappa.value);
    if (view.name == "nu" && plan.nu.given) std::ranges::fill(parameters.view(view.path()), plan.nu.value);
  }
}

AddedTransport added_transport(const ModelPlan& plan) {
  if (!(plan.nu.value > 0)) return AddedTransport::none;
  return plan.spec.nu_per_channel ? AddedTransport::channel : AddedTransport::scalar;
}

/// Throws BadInput for one nu per channel of a model without transport.
void require_transport(const ModelPlan& plan, const ModelSpec& spec) {
  if (!spec.transport && plan.spec.nu_per_channel)
    throw BadInput("model.nu = channel: the model has no transport over tokens; give equation.nu > 0");
}

Parameters read_parameters(const ModelPlan& plan, const InputShape& input, MPI_Comm comm,
                           const ShareOf& share) {
  const auto& file = plan.file;
  auto parameters = read_model(io::ArchiveReader(comm, file, "model.file = "), share, added_transport(plan));
  const auto& spec = parameters.spec;
  require_transport(plan, spec);
  require_same(plan, spec);
  require_same_angles(plan, spec);
  require_same_windows(plan, spec);
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
      (spec.tokens < input.tokens || !plan.first_positions))
    throw BadInput("data.tokens: the data has " + std::to_string(input.tokens) + " tokens, the model in " +
                   file + " has positions for " + std::to_string(spec.tokens));
  if (input.any()) require_length(spec, input.tokens, "data.tokens", "the model in " + file, comm);
  override_coefficients(plan, parameters);
  return parameters;
}

}  // namespace

void require_length(const ModelSpec& spec, int tokens, const std::string& what, const std::string& where,
                    MPI_Comm comm) {
  if (spec.longest == 0 || tokens <= spec.longest) return;
  const auto longer = what + ": lines of " + std::to_string(tokens) + " tokens, " + where +
                      " was made for lines of up to " + std::to_string(spec.longest);
  if (spec.longer_refused) throw BadInput(longer + ", beyond which its rotary positions are others");
  if (mpi::rank(comm) == 0) std::cerr << "fluxformer: " << longer << '\n';
}

ModelPlan model_plan(const Settings& settings) {
  const auto coefficient = [&](const char* key) {
    return ModelPlan::Coefficient{settings.real(key), settings.given(key)};
  };
  ModelPlan plan{.file = settings.word("model.file"),
                 .spec = spec_of(settings),
                 .kappa = coefficient("equation.kappa"),
                 .alpha = coefficient("equation.alpha"),
                 .rho = coefficient("equation.rho"),
                 .nu = coefficient("equation.nu"),
                 .seed = static_cast<std::uint64_t>(settings.integer("model.seed")),
                 .positions = settings.word("model.positions") == "learned",
                 .standard = settings.word("model.initial") == "standard",
                 .beta = settings.real("model.beta"),
                 .value = settings.real("model.value"),
                 .given = {},
                 .first_positions = takes_first_positions(settings)};
  for (const auto& option : settings.options()->all())
    if (option.role == Role::model && settings.given(option.name))
      plan.given.emplace_back(option.name, settings.value(option.name));
  return plan;
}

Parameters make_parameters(const ModelPlan& plan, const InputShape& input, MPI_Comm comm,
                           const ShareOf& share_of) {
  if (!plan.file.empty()) return read_parameters(plan, input, comm, share_of);
  const auto spec = with_input(plan.spec, input, plan.positions);
  require_transport(plan, spec);
  const auto share = share_that_fits(
      comm, spec, share_of,
      "model.width = " + std::to_string(spec.width) + ", model.ffn = " + std::to_string(spec.ffn) + ", " +
          std::to_string(spec.knots) + " sets of weights, " + std::to_string(spec.tokens) + " positions");
  Parameters parameters(spec, share);
  if (plan.standard) {
    initialise_standard(parameters, plan.seed, plan.kappa.value, plan.alpha.value, plan.rho.value,
                        plan.nu.value);
  } else {
    const double head_width = static_cast<double>(parameters.spec.width) / parameters.spec.attention.heads;
    if (spec.query_width() != spec.width || spec.key_width() != spec.width)
      throw BadInput(
          "model.initial = identity: needs matrices of attention that are square, and so one group of keys "
          "for "
          "each head");
    initialise_scaled_identity(parameters, std::sqrt(plan.beta) * std::pow(head_width, 0.25), plan.value);
    override_coefficients(plan, parameters);
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
      {"model.gated", spec.gated},
      {"model.positions", std::string(spec.tokens > 0 ? "learned" : "none")},
      {"model.biases", to_word(spec.biases)},
      {"attention.heads", long{spec.attention.heads}},
      {"attention.groups", long{spec.attention.groups}},
      {"attention.head_width", long{spec.attention.head_width}},
      {"attention.qk_norm", spec.attention.qk_norm},
      {"attention.rotary", to_word(spec.attention.rotary.layout)},
      {"attention.kernel", to_word(spec.attention.kernel)},
      {"attention.normalisation", to_word(spec.attention.normalisation)},
      {"depth.norm", to_word(spec.norm)},
      {"depth.norm_map", to_word(spec.norm_map)},
      {"depth.order", to_word(spec.order)},
      {"depth.subflow", to_word(spec.subflow)},
      {"depth.halves", std::string(spec.own_halves ? "own" : "shared")},
      {"depth.weights", to_word(spec.variation)},
      {"depth.residual", spec.residual},
      {"attention.causal", spec.causal},
      {"model.kappa", std::string(spec.kappa_per_channel ? "channel" : "scalar")}};
  if (spec.transport) list.emplace_back("model.nu", std::string(spec.nu_per_channel ? "channel" : "scalar"));
  if (spec.attention.normalisation == Normalisation::sinkhorn)
    list.emplace_back("attention.iterations", long{spec.attention.sinkhorn_iterations});
  return list;
}

namespace {

/// True if mesh.edges is a list of depths, not a file.
bool lists_edges(const std::string& text) {
  return text.find(',') != std::string::npos;
}

/// The depths of mesh.edges; none if it is not given.
std::vector<double> edges_of(const Settings& settings) {
  const auto& text = settings.word("mesh.edges");
  if (text.empty()) return {};
  if (settings.integer("mesh.cells") != 0)
    throw BadInput("mesh.edges: says where the cells are; leave mesh.cells out");
  if (!lists_edges(text)) throw std::logic_error("mesh.edges: the file was not read");
  const Option list{.name = "mesh.edges", .fallback = std::vector<double>{}};
  return std::get<std::vector<double>>(parse_value(list, text));
}

}  // namespace

Settings with_edges_from_file(const Settings& settings, MPI_Comm comm) {
  if (settings.options()->find("mesh.edges") == nullptr) return settings;
  const auto& path = settings.word("mesh.edges");
  if (path.empty() || lists_edges(path)) return settings;
  if (path.find_first_of(" ;") != std::string::npos)
    throw BadInput("mesh.edges = " + path + ": commas separate depths");
  const io::ArchiveReader file(comm, path, "mesh.edges = ");
  for (const char* group : {names::mesh, model_file::group}) {
    const auto edges = names::in(group, "edges");
    if (!file.has(edges)) continue;
    file.require_digests(group);
    const auto depths = file.array(edges).values;
    if (depths.size() < 2) throw BadInput(file.called() + ": " + edges + " has fewer than two depths");
    return settings.with({{"mesh.edges", value_text(depths)}});
  }
  throw BadInput(
      file.called() + ": holds no edges of depth cells (no " + names::in(names::mesh, "edges") + ", no " +
      model_file::edges +
      "): the cells of its model are equal, so that mesh.cells says how many, or it placed cells for "
      "several models or seeds; refinement.adapt of one alone writes them");
}

EquationSpec equation_plan(const Settings& settings) {
  EquationSpec spec;
  spec.depth = {0, settings.count("mesh.cells"), edges_of(settings)};
  spec.speed = settings.real("equation.c");
  spec.epsilon = settings.real("equation.epsilon");
  spec.scheme = choice<DepthScheme>(settings, "depth.scheme");
  return spec;
}

EquationSpec equation_for(const EquationSpec& plan, const ModelSpec& model) {
  auto spec = plan;
  spec.depth.layers = model.layers;
  if (!spec.depth.equal())
    spec.depth = DepthCells::between(model.layers, plan.depth.edges);
  else if (spec.depth.cells == 0)
    spec.depth = model.cells > 0 ? model.depth() : DepthCells{model.layers, model.layers};
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
