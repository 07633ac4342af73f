#include "tests/support/conformance_model_cases.hpp"

#include "model/depth_model.hpp"
#include "tests/support/manufactured.hpp"
#include "tests/support/reference_model.hpp"
#include "tests/support/small_problem.hpp"

namespace fluxformer::test {
namespace {

constexpr double speed = 1.6;

/// The objects a model term borrows from.
struct OwnedModel {
  OwnedModel(const ModelSpec& spec, const SlabContext& mesh_context, const State& values)
      : parameters(spec), context(mesh_context) {
    parameters.values = values;
  }
  Parameters parameters;
  SlabContext context;
  std::unique_ptr<DepthModel> model;
};

/// `make`(model, depth) makes the term; `reference`(tokens, parameters, depth, cell, below, here) is its
/// value.
template <class Make, class Reference>
TermCase model_case(std::string name, ProblemSpec spec, Make make, Reference reference) {
  TermCase c{.name = std::move(name), .lattice = spec.mesh};
  c.lattice.width = spec.model.width;
  c.parameters = random_parameters(spec).values;
  c.mask = spec.mask;
  const DepthCells depth{spec.model.layers, spec.mesh.cells, spec.edges};
  const auto builder = [=](Precision precision) -> TermCase::Build {
    return [=](const Mesh&, const SlabContext& context, const State& parameters) -> BuiltTerm {
      auto owned = std::make_shared<OwnedModel>(spec.model, context, parameters);
      owned->model = make_depth_model(owned->parameters, owned->context, precision);
      auto term = make(*owned->model, depth);
      return {std::move(owned), std::move(term)};
    };
  };
  c.build = builder(Precision::float64);
  c.build_single = builder(Precision::float32);
  c.reference = [=, slab = c.slab(), lattice = c.lattice](const State& p, const State& u) {
    const naive::Tokens tokens{lattice.tokens_x, lattice.tokens_y, lattice.samples, lattice.width, false,
                               spec.mask};
    Parameters parameters(spec.model);
    parameters.values = p;
    State out(slab, 0.0);
    for (int cell = 1; cell <= depth.cells; ++cell) {
      const auto at = [&](int i) {
        const auto first = u.begin() + static_cast<std::ptrdiff_t>(slab) * i;
        return naive::Slab(first, first + static_cast<std::ptrdiff_t>(slab));
      };
      const auto row = reference(tokens, parameters, depth, cell, at(cell - 1), at(cell));
      out.insert(out.end(), row.begin(), row.end());
    }
    return out;
  };
  return c;
}

TermCase layer_map(std::string name, const ProblemSpec& spec) {
  return model_case(
      "layer_map_" + std::move(name), spec,
      [](DepthModel& model, const DepthCells& depth) {
        return std::make_unique<LayerTerm>(model, depth, speed);
      },
      [](const auto& tokens, const auto& parameters, const DepthCells& depth, int cell,
         const naive::Slab& below, const naive::Slab& here) {
        const double h = depth.length(cell);
        auto row = naive::layer_map(tokens, parameters, depth.entry(cell), h / speed, below);
        for (std::size_t j = 0; j < row.size(); ++j) row[j] = speed / h * (row[j] - here[j]);
        return row;
      });
}

template <class FieldPart>
TermCase field(std::string name, const ProblemSpec& spec, FieldTermKind part) {
  return model_case(
      "field_" + std::move(name), spec,
      [](DepthModel& model, const DepthCells& depth) { return std::make_unique<FieldPart>(model, depth); },
      [part](const auto& tokens, const auto& parameters, const DepthCells& depth, int cell,
             const naive::Slab&, const naive::Slab& here) {
        return naive::field(tokens, parameters, depth.exit(cell), part, here);
      });
}

/// Six cells on three layers, so that six ranks hold one each and h is not 1.
ProblemSpec base() {
  ProblemSpec spec;
  spec.model = small_model(3);
  spec.mesh = {.cells = 6, .tokens_x = 3, .tokens_y = 2, .samples = 2};
  spec.kappa = 0.3;
  spec.alpha = 0.8;
  return spec;
}

ProblemSpec knotted(Norm norm) {
  auto spec = base();
  spec.model.variation = DepthVariation::linear;
  spec.model.knots = 2;
  spec.model.kappa_per_channel = true;
  spec.model.norm = norm;
  spec.model.attention.layer_norm = norm == Norm::pre;
  return spec;
}

/// The source of a manufactured solution: independent of the state; the reference values are those of one
/// rank.
TermCase source() {
  auto spec = base();
  spec.scheme = DepthScheme::upwind;
  spec.mesh.width = spec.model.width;
  TermCase c{.name = "source", .lattice = spec.mesh};
  const auto weights = random_parameters(spec).values;
  const EquationSpec equation{{spec.model.layers, spec.mesh.cells}, speed, 0.2, spec.scheme};
  c.build = [=](const Mesh& mesh, const SlabContext& context, const State&) -> BuiltTerm {
    auto owned = std::make_shared<OwnedModel>(spec.model, context, weights);
    owned->model = make_depth_model(owned->parameters, owned->context, Precision::float64);
    const Manufactured exact(*owned->model, equation, {.omega = 0.7, .waves_x = 1, .waves_y = 1});
    auto term = std::make_unique<SourceTerm>(exact, mesh.slab_size(), mesh.first_cell(), mesh.cells());
    return {std::move(owned), std::move(term)};
  };
  c.reference = [=, size = c.size(), lattice = c.lattice](const State& p, const State&) mutable {
    lattice.ranks_depth = lattice.ranks_token = 1;
    const TermCase alone{.name = "source", .lattice = lattice};
    return Harness(MPI_COMM_SELF, alone, lattice, c.build).rhs(p, State(size, 0.0));
  };
  return c;
}

}  // namespace

std::vector<TermCase> every_model_term() {
  auto macaron = knotted(Norm::pre);
  macaron.model.order = SubLayerOrder::macaron;
  macaron.model.own_halves = true;
  macaron.model.subflow = SubLayerIntegrator::midpoint;
  auto unequal = knotted(Norm::pre);
  unequal.edges = {0, 0.25, 0.5, 1, 1.5, 1.75, 3};
  // The feed-forward network of today's decoders.
  auto swiglu = knotted(Norm::pre);
  swiglu.model.gated = true;
  swiglu.model.activation = Activation::silu;
  swiglu.model.norm_map = NormMap::rms;
  swiglu.model.biases = Biases::none;
  swiglu.model.order = SubLayerOrder::macaron;
  swiglu.model.own_halves = true;
  auto behind = base();
  behind.model.norm = Norm::post;
  behind.model.attention.layer_norm = false;
  behind.model.norm_map = NormMap::rms;
  auto drifting = knotted(Norm::pre);
  drifting.nu = 0.4;
  drifting.model.transport = drifting.model.nu_per_channel = true;
  return {
      layer_map("with_transport", drifting),
      field<TokenTransportTerm>("transport", drifting, FieldTermKind::transport),
      layer_map("transformer", base()),
      layer_map("with_gates", swiglu),
      layer_map("with_rms_norm_behind", behind),
      layer_map("macaron", macaron),
      layer_map("on_unequal_cells", unequal),
      layer_map("sphere", knotted(Norm::sphere)),
      source(),
      field<TokenDiffusionTerm>("diffusion", knotted(Norm::pre), FieldTermKind::diffusion),
      field<AttentionTerm>("attention", base(), FieldTermKind::attention),
      field<AttentionTerm>("attention_on_the_sphere", knotted(Norm::sphere), FieldTermKind::attention),
      field<ReactionTerm>("reaction", knotted(Norm::none), FieldTermKind::reaction),
      field<ReactionTerm>("gated_reaction", swiglu, FieldTermKind::reaction),
  };
}

}  // namespace fluxformer::test
