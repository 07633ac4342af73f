// Every operator, in all its settings, as a case of the conformance suite.

#include <optional>

#include "base/random.hpp"
#include "docs/examples/own_term/token_drift.hpp"
#include "operators/attention/attention.hpp"
#include "operators/depth_terms.hpp"
#include "operators/dropout.hpp"
#include "operators/reaction/reaction.hpp"
#include "operators/token_diffusion.hpp"
#include "operators/token_transport.hpp"
#include "tests/support/attention_layout.hpp"
#include "tests/support/cell_term.hpp"
#include "tests/support/conformance.hpp"
#include "tests/support/cubic_term.hpp"
#include "tests/support/reference_terms.hpp"

namespace fluxformer::test {
namespace {

constexpr double norm_eps = 3e-3;  // another than the default

/// A slab term times a factor, passed as the `scale` of its calls.
template <class T>
class Scaled final : public SlabTerm<T> {
 public:
  Scaled(std::shared_ptr<SlabTerm<T>> term, double scale) : term_(std::move(term)), scale_(scale) {}
  std::unique_ptr<TermTape> make_tape(Order upto) const override { return term_->make_tape(upto); }
  void apply(const LayerWeights<const T>& theta, const double* u, Sum out, TermTape* tape) override {
    term_->apply(theta, u, scaled(out), tape);
  }
  void push(const LayerWeights<const T>& theta, const LayerWeights<const T>* theta_dot, fluxformer::Point at,
            Sum out, TermTape* tape) override {
    term_->push(theta, theta_dot, at, scaled(out), tape);
  }
  void pull(const LayerWeights<const T>& theta, const double* u, const double* w, Sum u_bar,
            const LayerWeights<double>* gradient, TermTape* tape) override {
    term_->pull(theta, u, w, scaled(u_bar), gradient, tape);
  }
  void pull_along(const LayerWeights<const T>& theta, const LayerWeights<const T>& theta_dot,
                  fluxformer::Point at, Cotangent w, Sum u_bar_dot, const LayerWeights<double>& gradient_dot,
                  TermTape* tape) override {
    term_->pull_along(theta, theta_dot, at, w, scaled(u_bar_dot), gradient_dot, tape);
  }

 private:
  Sum scaled(Sum sum) const { return {sum.scale * scale_, sum.base, sum.out}; }
  std::shared_ptr<SlabTerm<T>> term_;
  double scale_;
};

/// A slab term on all cells: its context, and its parameters (all cells in order) in T and in double.
template <class T>
struct Owned {
  SlabContext context;
  State coefficients;
  std::vector<T> weights;
  std::shared_ptr<SlabTerm<T>> term;
};

/// How a case calls its slab term.
struct Calls {
  double scale = 1;
  std::optional<Order> tapes = {};  ///< nothing: it keeps none
};

/// `make`.operator()<T>(context) makes the slab term, shared; `views`(base, coefficients) lays out the
/// parameters of one cell.
template <class T, class Make, class Views>
TermCase::Build builder(Make make, Views views, std::size_t per_cell, Calls calls) {
  return [=](const Mesh&, const SlabContext& context, const State& parameters) -> BuiltTerm {
    auto owned = std::make_shared<Owned<T>>();
    owned->context = context;
    owned->coefficients = parameters;
    owned->weights.assign(parameters.begin(), parameters.end());
    const auto made = make.template operator()<T>(owned->context);
    owned->term = made;
    if (calls.scale != 1) owned->term = std::make_shared<Scaled<T>>(made, calls.scale);
    const CellWeights<T> weights = cell_weights(owned->weights, owned->coefficients, views, per_cell);
    auto term = std::make_unique<CellTerm<T>>(*owned->term, weights, calls.tapes);
    return {std::move(owned), std::move(term)};
  };
}

/// A slab term with the parameters of all cells, and those of a direction.
template <class T, class Make, class Views>
struct Varied {
  Varied(Make make, Views views, std::size_t per_cell, const SlabContext& context, const Point& at,
         const Point& along)
      : numbers(at.parameters.begin(), at.parameters.end()),
        numbers_dot(along.parameters.begin(), along.parameters.end()),
        term(make.template operator()<T>(context)),
        weights(cell_weights(numbers, at.parameters, views, per_cell)),
        weights_dot(cell_weights(numbers_dot, along.parameters, views, per_cell)) {}

  std::vector<T> numbers, numbers_dot;
  std::shared_ptr<SlabTerm<T>> term;
  CellWeights<T> weights, weights_dot;
};

/// A term with tapes of this order.
template <class T, class Make, class Views>
TermCase::SecondOrderCalls products(Make make, Views views, std::size_t per_cell, Order upto) {
  return [=](const SlabContext& context, int first_cell, const Point& at, const Point& along, double scale,
             Base base) {
    const Varied<T, Make, Views> of(make, views, per_cell, context, at, along);
    return ProductCalls<T>(*of.term, of.weights, first_cell, context.size(), at, scale, base)
        .along(of.weights_dot, along, upto);
  };
}

/// The tangent of a term in state and weights.
template <class Make, class Views>
TermCase::TangentCalls tangent_in_weights(Make make, Views views, std::size_t per_cell) {
  return [=](const SlabContext& context, int first_cell, const Point& at, const Point& along,
             std::optional<Order> tapes) {
    const Varied<double, Make, Views> of(make, views, per_cell, context, at, along);
    return ProductCalls<double>(*of.term, of.weights, first_cell, context.size(), at, 1, Base::zero)
        .tangent(of.weights_dot, along, tapes);
  };
}

naive::Tokens tokens_of(const TermCase& c) {
  return {c.lattice.tokens_x, c.lattice.tokens_y, c.lattice.samples,
          c.lattice.width,    c.lattice.periodic, c.mask};
}

std::vector<naive::Slab> slabs_of(const State& u, std::size_t slab) {
  std::vector<naive::Slab> slabs;
  for (std::size_t i = 0; i < u.size(); i += slab)
    slabs.emplace_back(u.begin() + static_cast<std::ptrdiff_t>(i),
                       u.begin() + static_cast<std::ptrdiff_t>(i + slab));
  return slabs;
}

State joined(const std::vector<naive::Slab>& slabs) {
  State u;
  for (const auto& slab : slabs) u.insert(u.end(), slab.begin(), slab.end());
  return u;
}

/// Completes a case of a slab term; `reference`(tokens, weights, slab) acts on one cell.
template <class Make, class Views, class Reference>
TermCase slab_case(TermCase c, std::size_t per_cell, Make make, Views views, Reference reference) {
  const RandomStream stream(11, c.name);
  for (std::size_t i = 0; i < per_cell * static_cast<std::size_t>(c.lattice.cells); ++i)
    c.parameters.push_back(
        stream.uniform(i, 0.1, 0.9) *
        (c.name.starts_with("diffusion") || c.name.starts_with("token_transport") || i % 3 != 0 ? 1 : -1));
  c.build = builder<double>(make, views, per_cell, {});
  c.build_scaled = builder<double>(make, views, per_cell, {.scale = conformance_scale});
  c.build_single = builder<float>(make, views, per_cell, {});
  c.build_keeping = builder<double>(make, views, per_cell, {.tapes = Order::first});
  if (c.second_derivatives)
    c.build_keeping_second = builder<double>(make, views, per_cell, {.tapes = Order::second});
  c.tangent_in_weights = tangent_in_weights(make, views, per_cell);
  c.first_order = products<double>(make, views, per_cell, Order::first);
  c.second_order = products<double>(make, views, per_cell, Order::second);
  c.second_order_single = products<float>(make, views, per_cell, Order::second);
  c.reference = [=, tokens = tokens_of(c), slab = c.slab()](const State& p, const State& u) {
    std::vector<naive::Slab> slabs = slabs_of(u, slab);
    for (std::size_t cell = 1; cell < slabs.size(); ++cell) {
      const double* base = p.data() + (cell - 1) * per_cell;
      const LayerWeights<const double> weights = views(base, base);
      slabs[cell] = reference(tokens, weights, slabs[cell]);
    }
    std::fill(slabs[0].begin(), slabs[0].end(), 0.0);
    return joined(slabs);
  };
  return c;
}

/// The 4 x 4 tokens of most cases; six cells, so that six ranks hold one each.
MeshSpec lattice(int x = 4, int y = 4, bool periodic = false) {
  return {.cells = 6, .tokens_x = x, .tokens_y = y, .samples = 2, .width = 6, .periodic = periodic};
}

TermCase diffusion(std::string name, MeshSpec mesh, bool per_channel, std::vector<int> length = {}) {
  TermCase c{.name = "diffusion_" + std::move(name), .lattice = mesh};
  c.mask.length = std::move(length);
  return slab_case(
      c, per_channel ? static_cast<std::size_t>(mesh.width) : 1,
      []<class T>(const SlabContext& context) { return std::make_shared<TokenDiffusion<T>>(context); },
      [per_channel]<class P, class C>(P*, C* coefficients) {
        LayerWeights<P> weights;
        weights.diffusion = {coefficients, per_channel};
        return weights;
      },
      naive::token_diffusion);
}

TermCase token_transport(std::string name, MeshSpec mesh, bool per_channel, TokenMask mask = {}) {
  TermCase c{.name = "token_transport_" + std::move(name), .lattice = mesh};
  c.mask = std::move(mask);
  return slab_case(
      c, per_channel ? static_cast<std::size_t>(mesh.width) : 1,
      []<class T>(const SlabContext& context) { return std::make_shared<TokenTransport<T>>(context); },
      [per_channel]<class P, class C>(P*, C* coefficients) {
        LayerWeights<P> weights;
        weights.transport = {coefficients, per_channel};
        return weights;
      },
      naive::token_transport);
}

/// The toy term.
TermCase cubic() {
  return slab_case(
      {.name = "cubic", .lattice = lattice(5, 3)}, 1,
      []<class T>(const SlabContext& context) { return std::make_shared<CubicTerm<T>>(context); },
      []<class P, class C>(P*, C* coefficients) {
        LayerWeights<P> weights;
        weights.diffusion = {coefficients, false};
        return weights;
      },
      [](const naive::Tokens&, const naive::Weights& weights, naive::Slab u) {
        for (double& value : u) value *= weights.diffusion.kappa[0] * value * value;
        return u;
      });
}

/// An attention; `make` makes it, possibly wrapped in dropout; `reference` is its value.
template <class Make, class Reference>
TermCase attention_case(TermCase c, const AttentionSettings& settings, AttentionArrays arrays, Make make,
                        Reference reference) {
  // Sinkhorn balances rows and columns of real tokens; padded rows are unspecified.
  c.compare_padding = settings.normalisation != Normalisation::sinkhorn;
  c.second_derivatives = settings.normalisation != Normalisation::sinkhorn && settings.kernel == Kernel::dot;
  arrays.norm_settings.eps = norm_eps;
  const auto layout = std::make_shared<const AttentionLayout>(c.lattice.width, settings, arrays);
  return slab_case(
      std::move(c), layout->size, make,
      [layout]<class P, class C>(P* p, C* coefficients) {
        return layout->view(p, coefficients + (layout->size - 1));
      },
      reference);
}

TermCase attention(std::string name, AttentionSettings settings, TokenMask mask = {},
                   MeshSpec mesh = lattice(), const AttentionArrays& arrays = {}) {
  TermCase c{.name = "attention_" + std::move(name), .lattice = mesh};
  c.mask = std::move(mask);
  return attention_case(
      c, settings, arrays,
      [settings]<class T>(const SlabContext& context) {
        return std::make_shared<Attention<T>>(context, settings);
      },
      [settings](const naive::Tokens& tokens, const naive::Weights& weights, const naive::Slab& u) {
        return naive::attention(tokens, settings, weights, u);
      });
}

/// The arrays of a reaction beside its settings: all, or those of a model without biases, and its norm.
struct ReactionArrays {
  bool biases = true;
  NormMap norm_map = NormMap::layer;
};

/// A reaction with hidden width 5; `make` makes it, possibly wrapped in dropout; `reference` is its value.
template <class Make, class Reference>
TermCase reaction_case(TermCase c, const ReactionSettings& settings, const ReactionArrays& arrays, Make make,
                       Reference reference) {
  const std::size_t d = static_cast<std::size_t>(c.lattice.width), f = 5;
  const std::size_t inner = settings.gated ? 2 : 1;  // maps from N(u) to hidden values
  const std::size_t biases = arrays.biases ? 2 * d + inner * f : 0;
  const std::size_t rho = d + (inner + 1) * d * f + biases;
  return slab_case(
      std::move(c), rho + 1, make,
      [=]<class P, class C>(P* p, C* coefficients) {
        P* next = p;
        const auto array = [&next](bool held, std::size_t size) -> P* {
          P* const begin = next;
          if (held) next += size;
          return held ? begin : nullptr;
        };
        LayerWeights<P> weights;
        // In this order in memory.
        (settings.first_half ? weights.first_reaction : weights.reaction) =
            ReactionWeights<P>{.gain = array(true, d),
                               .bias = array(arrays.biases, d),
                               .w_g = array(settings.gated, f * d),
                               .b_g = array(settings.gated && arrays.biases, f),
                               .w_1 = array(true, f * d),
                               .b_1 = array(arrays.biases, f),
                               .w_2 = array(true, d * f),
                               .b_2 = array(arrays.biases, d),
                               .rho = coefficients + rho,
                               .norm = {arrays.norm_map, norm_eps}};
        return weights;
      },
      reference);
}

TermCase reaction(std::string name, ReactionSettings settings, const ReactionArrays& arrays = {}) {
  settings.hidden = 5;
  return reaction_case(
      {.name = "reaction_" + std::move(name), .lattice = lattice()}, settings, arrays,
      [settings]<class T>(const SlabContext& context) {
        return std::make_shared<Reaction<T>>(context, settings);
      },
      [settings](const naive::Tokens& tokens, const naive::Weights& weights, const naive::Slab& u) {
        return naive::reaction(tokens, settings, weights, u);
      });
}

/// A term whose value passes through dropout, in layer 2.
template <class T, class Inner>
struct Dropped {
  template <class Settings>
  Dropped(const SlabContext& shared, const Dropout& dropout, const Settings& settings, int which)
      : context(shared), inner(context, settings), term(inner, context, layer, which) {
    context.dropout = &dropout;
  }
  SlabContext context;
  int layer = 2;
  Inner inner;
  DroppedTerm<T> term;
};

constexpr int attention_mask = 0, reaction_mask = 1;

std::shared_ptr<Dropout> dropout_of_two_samples() {
  const auto dropout = std::make_shared<Dropout>(0.3, 7);
  dropout->set_keys({31, 32});
  return dropout;
}

naive::Slab dropped(const naive::Tokens& tokens, const Dropout& dropout, int which, naive::Slab value) {
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, tokens.x, tokens.y);
  dropout.apply({.line = &line, .samples = tokens.samples, .width = tokens.width}, 4 * 2 + which,
                value.data());
  return value;
}

TermCase dropped_reaction() {
  const ReactionSettings settings{.hidden = 5};
  const auto dropout = dropout_of_two_samples();
  return reaction_case(
      {.name = "reaction_under_dropout", .lattice = lattice()}, settings, {},
      [=]<class T>(const SlabContext& context) {
        const auto owner =
            std::make_shared<Dropped<T, Reaction<T>>>(context, *dropout, settings, reaction_mask);
        return std::shared_ptr<DroppedTerm<T>>(owner, &owner->term);
      },
      [=](const naive::Tokens& tokens, const naive::Weights& weights, const naive::Slab& u) {
        return dropped(tokens, *dropout, reaction_mask, naive::reaction(tokens, settings, weights, u));
      });
}

TermCase dropped_attention() {
  const AttentionSettings settings{.heads = 2};
  const auto dropout = dropout_of_two_samples();
  return attention_case(
      {.name = "attention_under_dropout", .lattice = lattice()}, settings, {},
      [=]<class T>(const SlabContext& context) {
        const auto owner =
            std::make_shared<Dropped<T, Attention<T>>>(context, *dropout, settings, attention_mask);
        return std::shared_ptr<DroppedTerm<T>>(owner, &owner->term);
      },
      [=](const naive::Tokens& tokens, const naive::Weights& weights, const naive::Slab& u) {
        return dropped(tokens, *dropout, attention_mask, naive::attention(tokens, settings, weights, u));
      });
}

/// A depth term; `reference` acts on the slabs of all cells.
template <class T, class Reference>
TermCase depth_case(std::string name, MeshSpec mesh, const T& term, Reference reference) {
  TermCase c{.name = std::move(name), .lattice = mesh};
  c.build = [term](const Mesh&, const SlabContext&, const State&) -> BuiltTerm {
    return {nullptr, std::make_unique<T>(term)};
  };
  c.reference = [reference, slab = c.slab()](const State&, const State& u) {
    return joined(reference(slabs_of(u, slab)));
  };
  return c;
}

TermCase transport(std::string name, int order, MeshSpec mesh = lattice()) {
  return depth_case(
      "transport_" + std::move(name), mesh, DepthTransport(1.5, 0.25, order),
      [order](const std::vector<naive::Slab>& u) { return naive::depth_transport(1.5, 0.25, order, u); });
}

TermCase depth_diffusion(std::string name, MeshSpec mesh = lattice()) {
  return depth_case("depth_diffusion_" + std::move(name), mesh, DepthDiffusion(0.3, 0.5, mesh.cells),
                    [](const std::vector<naive::Slab>& u) { return naive::depth_diffusion(0.3, 0.5, u); });
}

/// The term that docs/examples adds from outside.
TermCase drift(std::string name, MeshSpec mesh, std::vector<int> length = {}) {
  TermCase c{.name = "drift_" + std::move(name), .lattice = mesh};
  c.mask.length = std::move(length);
  c.build = [](const Mesh&, const SlabContext& context, const State&) -> BuiltTerm {
    const auto owned = std::make_shared<SlabContext>(context);
    return {owned, std::make_unique<own::TokenDrift>(*owned, 0.75)};
  };
  c.reference = [tokens = tokens_of(c), slab = c.slab()](const State&, const State& u) {
    auto slabs = slabs_of(u, slab);
    const double speed = 0.75;
    naive::Weights weights;
    weights.transport = {&speed, false};
    for (auto& cell : slabs)
      cell = &cell == &slabs[0] ? naive::Slab(slab, 0.0) : naive::token_transport(tokens, weights, cell);
    return joined(slabs);
  };
  return c;
}

MeshSpec cells(MeshSpec mesh, int count) {
  mesh.cells = count;
  return mesh;
}

}  // namespace

std::vector<TermCase> every_term() {
  constexpr auto sinkhorn = Normalisation::sinkhorn, linear = Normalisation::linear;
  constexpr ReactionArrays no_biases{.biases = false};
  const std::vector<double> weight = {1, 2, 0.5, 1, 3, 1, 0.25, 1, 1, 2, 1, 1, 0.5, 1, 1, 4};
  const AttentionArrays bare{
      .norm_bias = false, .qkv_biases = false, .output_bias = false, .norm_settings = {.map = NormMap::rms}};
  std::vector<TermCase> cases = {
      transport("first_order", 1),
      transport("second_order", 2),
      transport("second_order_13_cells", 2, cells(lattice(3, 2), 13)),
      transport("one_cell", 2, cells(lattice(), 1)),
      depth_diffusion("six_cells"),
      depth_diffusion("seven_cells", cells(lattice(3, 2), 7)),
      depth_diffusion("one_cell", cells(lattice(), 1)),
      diffusion("scalar", lattice(), false),
      diffusion("per_channel", lattice(), true),
      diffusion("line", lattice(7, 1), true),
      diffusion("column", lattice(1, 5), false),
      diffusion("uneven_grid", lattice(5, 3), true),
      diffusion("padded", lattice(), true, {16, 10}),
      diffusion("periodic", lattice(4, 4, true), true),
      diffusion("periodic_two_columns", lattice(2, 5, true), true),
      diffusion("periodic_line", lattice(5, 1, true), false),
      diffusion("periodic_padded", lattice(4, 4, true), false, {16, 9}),
      token_transport("line", lattice(7, 1), false),
      token_transport("causal_padded", lattice(13, 1), true,
                      {.length = {13, 6}, .causal = true, .weight = {}}),
      token_transport("grid", lattice(5, 3), true),
      token_transport("periodic", lattice(4, 4, true), true),
      token_transport("periodic_padded", lattice(7, 1, true), false,
                      {.length = {7, 4}, .causal = false, .weight = {}}),
      drift("line", lattice(7, 1)),
      drift("grid", lattice(5, 3)),
      drift("periodic", lattice(4, 4, true)),
      drift("periodic_padded", lattice(7, 1, true), {7, 4}),
      attention("dot", {.heads = 2}),
      attention("one_head_no_norm", {.heads = 1, .layer_norm = false}),
      attention("l2", {.heads = 3, .kernel = Kernel::l2}),
      attention("causal", {.heads = 2}, {.length = {}, .causal = true, .weight = {}}),
      attention("padded", {.heads = 2}, {.length = {16, 7}, .causal = false, .weight = {}}),
      attention("causal_padded", {.heads = 2}, {.length = {5, 16}, .causal = true, .weight = {}}),
      attention("weighted", {.heads = 2}, {.length = {}, .causal = false, .weight = weight}),
      attention("line_of_7", {.heads = 6}, {}, lattice(7, 1)),
      attention("linear", {.heads = 2, .normalisation = linear}),
      attention("linear_causal_padded_weighted", {.heads = 2, .normalisation = linear, .layer_norm = false},
                {.length = {5, 16}, .causal = true, .weight = weight}),
      // Padding far behind the last real token sees nothing.
      attention("window_causal_padded", {.heads = 2}, {.length = {5, 16}, .causal = true, .weight = {}},
                lattice(), {.window = 3}),
      attention("window_padded", {.heads = 2}, {.length = {14, 7}, .causal = false, .weight = {}},
                lattice(7, 2), {.window = 2}),
      attention("window_l2_causal", {.heads = 3, .kernel = Kernel::l2},
                {.length = {3, 13}, .causal = true, .weight = {}}, lattice(13, 1), {.window = 4}),
      attention("window_linear_causal_padded_weighted",
                {.heads = 2, .normalisation = linear, .layer_norm = false},
                {.length = {5, 16}, .causal = true, .weight = weight}, lattice(16, 1), {.window = 5}),
      attention("sinkhorn", {.heads = 2, .normalisation = sinkhorn, .sinkhorn_iterations = 4}),
      attention("sinkhorn_odd_l2",
                {.heads = 2, .kernel = Kernel::l2, .normalisation = sinkhorn, .sinkhorn_iterations = 5}),
      attention("sinkhorn_padded", {.heads = 2, .normalisation = sinkhorn, .sinkhorn_iterations = 3},
                {.length = {16, 7}, .causal = false, .weight = {}}),
      attention("groups", {.heads = 6, .groups = 2}, {.length = {16, 7}, .causal = false, .weight = {}}),
      attention("groups_linear", {.heads = 4, .groups = 1, .head_width = 2, .normalisation = linear}),
      attention("groups_l2", {.heads = 6, .groups = 3, .kernel = Kernel::l2}),
      attention("groups_sinkhorn_l2", {.heads = 4,
                                       .groups = 2,
                                       .head_width = 2,
                                       .kernel = Kernel::l2,
                                       .normalisation = sinkhorn,
                                       .sinkhorn_iterations = 4}),
      attention("wide_heads", {.heads = 2, .head_width = 5}),
      attention("rms_no_biases", {.heads = 2}, {}, lattice(), bare),
      attention("no_norm_in_this_layer", {.heads = 2}, {}, lattice(), {.norm = false}),
      attention("norm_without_bias", {.heads = 2}, {}, lattice(), {.norm_bias = false, .output_bias = false}),
      attention("qk_norm", {.heads = 2, .qk_norm = true}),
      attention("rotary_half", {.heads = 3, .head_width = 4, .rotary = {RotaryLayout::half, 4}}, {},
                lattice(7, 1)),
      attention("rotary_interleaved",
                {.heads = 2, .head_width = 5, .rotary = {RotaryLayout::interleaved, 4, 1.3}}, {},
                lattice(7, 1)),
      attention(
          "all_terms",
          {.heads = 6, .groups = 2, .head_width = 4, .qk_norm = true, .rotary = {RotaryLayout::half, 2, 1.2}},
          {.length = {11, 4}, .causal = true, .weight = {}}, lattice(11, 1), bare),
      reaction("gelu_erf", {}),
      reaction("gelu_tanh", {.activation = Activation::gelu_tanh}),
      reaction("relu", {.activation = Activation::relu}),
      reaction("silu", {.activation = Activation::silu}),
      reaction("no_norm", {.layer_norm = false}),
      reaction("no_biases", {}, no_biases),
      reaction("rms_norm", {}, {.norm_map = NormMap::rms}),
      reaction("gated_silu", {.activation = Activation::silu, .gated = true}),
      reaction("gated_silu_rms_norm_no_biases", {.activation = Activation::silu, .gated = true},
               {.biases = false, .norm_map = NormMap::rms}),
      reaction("gated_gelu_erf_no_biases", {.gated = true}, no_biases),
      reaction("gated_gelu_tanh_no_norm",
               {.activation = Activation::gelu_tanh, .layer_norm = false, .gated = true}),
      reaction("gated_first_half", {.first_half = true, .gated = true}),
      reaction("gated_relu", {.activation = Activation::relu, .gated = true}),
      reaction("first_half", {.first_half = true}),
      dropped_reaction(),
      dropped_attention(),
      cubic(),
  };
  return cases;
}

}  // namespace fluxformer::test
