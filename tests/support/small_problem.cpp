#include "tests/support/small_problem.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/vector_arrays.hpp"
#include "model/depth_model.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::test {

ModelSpec small_model(int layers) {
  ModelSpec model;
  model.layers = model.knots = layers;
  model.width = 6;
  model.ffn = 7;
  model.attention.heads = 2;
  model.norm_eps = 1e-3;  // another than the default: it must reach every LayerNorm
  return model;
}

ModelSpec small_language_model(int layers) {
  ModelSpec model = small_model(layers);
  model.norm_map = NormMap::rms;
  model.norm_eps = 1e-3;
  model.gated = true;
  model.activation = Activation::silu;
  model.biases = Biases::none;
  model.attention.heads = 4;
  model.attention.groups = 2;
  model.attention.head_width = 4;
  model.attention.qk_norm = true;
  model.attention.rotary = {.layout = RotaryLayout::half, .channels = 4, .scale = 1.1};
  model.rotary.theta = {1.0, 0.3, 0.7, 0.01};  // two tables
  for (int layer = 0; layer < layers; ++layer) {
    model.rotary.table.push_back(layer % 2);
    model.windows.push_back(layer % 2 == 0 ? 4 : 0);
  }
  model.causal = true;
  return model;
}

MeshSpec small_mesh(int cells) {
  return {.cells = cells, .tokens_x = 4, .tokens_y = 3, .samples = 2, .width = 6};
}

Parameters on_cells(Parameters parameters, int cells) {
  parameters.spec.set_depth({parameters.spec.layers, cells});
  return parameters;
}

Parameters random_parameters(const ProblemSpec& spec) {
  Parameters p(spec.model);
  initialise_standard(p, spec.seed, spec.kappa, spec.alpha, spec.rho, spec.nu);
  const auto noise = random_vector(p.values.size(), static_cast<unsigned>(spec.seed) + 17, 0.1);
  for (const auto& view : p.layout.views()) {
    if (view.group == "equation" || view.name == "kappa" || view.name == "nu") continue;
    const bool gain = view.name.ends_with("gain");
    for (Index j = view.offset; j < view.offset + view.size(); ++j) {
      if (view.shape.size() == 1) p.values[j] += noise[j];
      if (!gain) p.values[j] *= spec.weight_scale;
    }
  }
  return p;
}

Problem::Problem(MPI_Comm comm, const ProblemSpec& spec, Parameters weights)
    : parameters(std::move(weights)),
      mesh(comm,
           [&] {
             auto m = spec.mesh;
             m.width = spec.model.width;
             return m;
           }()),
      context{&mesh.token_line(), spec.mesh.samples, spec.model.width, spec.mask},
      depth{spec.model.layers, spec.mesh.cells, spec.edges},
      model(make_depth_model(parameters, context, spec.precision)),
      equation(
          std::make_unique<Equation>(*model, EquationSpec{depth, spec.speed, spec.epsilon, spec.scheme})) {}

std::size_t Problem::whole_slab() const {
  return context.row() * static_cast<std::size_t>(mesh.token_line().tokens());
}

std::size_t Problem::token_offset(std::size_t number) const {
  const auto& line = mesh.token_line();
  const auto token = line.global_index(line.rank(), static_cast<int>(number / context.row()));
  return static_cast<std::size_t>(token) * context.row() + number % context.row();
}

std::vector<double> Problem::local(const Whole& slab) const {
  std::vector<double> mine(context.size());
  for (std::size_t j = 0; j < mine.size(); ++j) mine[j] = slab[token_offset(j)];
  return mine;
}

Whole Problem::whole(const double* local_slab) const {
  Whole all(whole_slab(), 0.0);
  for (Index j = 0; j < context.size(); ++j) all[token_offset(j)] = local_slab[j];
  return sum_over(mesh.token_line().comm(),
                  std::move(all));  // each number is on one rank only, so the sum is exact
}

void Problem::scatter(const Whole& state, Vec u) const {
  const WriteArray to(u);
  const std::size_t slab = context.size();
  for (std::size_t k = 0; k < static_cast<std::size_t>(mesh.cells()); ++k) {
    const std::size_t cell = static_cast<std::size_t>(mesh.first_cell()) - 1 + k;
    for (std::size_t j = 0; j < slab; ++j)
      to.values[k * slab + j] = state[cell * whole_slab() + token_offset(j)];
  }
}

Whole Problem::gather(Vec u) const {
  Whole all(whole_size(), 0.0);
  const ReadArray from(u);
  const std::size_t slab = context.size();
  for (std::size_t k = 0; k < static_cast<std::size_t>(mesh.cells()); ++k) {
    const std::size_t cell = static_cast<std::size_t>(mesh.first_cell()) - 1 + k;
    for (std::size_t j = 0; j < slab; ++j)
      all[cell * whole_slab() + token_offset(j)] = from.values[k * slab + j];
  }
  return sum_over(mesh.comm(), std::move(all));
}

InflowSource Problem::inflow(const Whole& slab) const {
  return [mine = local(slab)](long, double* to) { std::copy(mine.begin(), mine.end(), to); };
}

Whole march_rows(const Problem& problem, const Whole& inflow, const MarchSettings& settings) {
  March march(*problem.model, problem.depth, problem.equation->spec().speed, settings);
  Whole rows;
  march.run(problem.local(inflow).data(), [&](int, const double* slab) {
    const auto row = problem.whole(slab);
    rows.insert(rows.end(), row.begin(), row.end());
  });
  return rows;
}

Whole evolve(const Problem& problem, const EvolveSettings& settings, const Whole& start,
             const Whole& inflow) {
  Evolve solver(problem.mesh, *problem.equation, settings);
  solver.set_inflow(problem.inflow(inflow));
  problem.scatter(start, solver.state());
  solver.run([](const Step&) { return true; });
  return problem.gather(solver.state());
}

double largest_row_difference(const Whole& x, const Whole& y, std::size_t slab) {
  double largest = x.size() == y.size() ? 0 : INFINITY;
  for (std::size_t first = 0; first + slab <= std::min(x.size(), y.size()); first += slab) {
    const auto row = [&](const Whole& z) {
      return Whole(z.begin() + static_cast<std::ptrdiff_t>(first),
                   z.begin() + static_cast<std::ptrdiff_t>(first + slab));
    };
    largest = std::max(largest, relative_difference(row(x), row(y)));
  }
  return largest;
}

}  // namespace fluxformer::test
