#include "drivers/paths/chain_points.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <utility>

#include "analysis/paths/path_kernels.hpp"
#include "analysis/paths/path_posterior.hpp"
#include "analysis/paths/path_variables.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"

namespace fluxformer {

namespace stored = paths::variables;
using namespace paths;

namespace {

const std::string weights_sampler = "hmc", order_sampler = "wishart";

// Means over the draws of a chain, kept for what all chains say together.
const io::Variable kept_readout = stored::at_width("chain_readout", "mean u_a of the chain", {"chain"}),
                   kept_order = stored::at_width("chain_order", "mean U_l of the chain, NaN beyond n_l",
                                                 {"chain", "layer", "path", "other_path"}),
                   kept_virials =
                       stored::at_width("chain_virial", "virials of the chain", {"chain", "block"});
/// Mean input weights of a chain, D numbers for each path.
io::Variable kept_weights(int dimension) {
  return stored::at_width("chain_weights", "mean input weights of the chain",
                          {"chain", "path", "extent_" + std::to_string(dimension)});
}

std::vector<double> list(const auto& numbers) {
  return {numbers.data(), numbers.data() + numbers.size()};
}

/// The chain of a place, as `ChainPoints::measure` puts it.
PosteriorChain chain_of(const Findings& found, std::size_t place, const PathNetwork& network, int dimension) {
  PosteriorChain chain;
  chain.acceptance = found.at(place, stored::acceptance).front();
  chain.step = found.at(place, stored::step_size).front();
  chain.divergent = found.at(place, stored::divergent).front();
  chain.virials = found.at(place, kept_virials);
  const auto& traces = found.at(place, stored::trace);
  const auto draws = std::ssize(traces) / static_cast<Index>(drawn_quantities);
  auto trace = traces.begin();
  for (auto& one : chain.traces) {
    one.assign(trace, trace + draws);
    trace += draws;
  }
  chain.order.readout = found.at(place, kept_readout).front();
  const auto* order = found.at(place, kept_order).data();
  const Index paths = network.paths();
  for (int l = 1; l <= network.layers(); ++l, order += paths * paths)
    chain.order.u.emplace_back(Eigen::Map<const Eigen::MatrixXd>(order, paths, paths)
                                   .topLeftCorner(network.order_size(l), network.order_size(l)));
  chain.input_weights =
      Eigen::Map<const RowMatrix>(found.at(place, kept_weights(dimension)).data(), paths, dimension);
  return chain;
}

}  // namespace

SamplerPlan sampler_plan_of(const Settings& settings) {
  return {.samplers = settings.words("paths.samplers"),
          .widths = settings.reals("paths.sampled_widths"),
          .chains = settings.count("paths.chains"),
          .chain = {.warm_up = settings.count("paths.warm_up"), .draws = settings.count("paths.samples")},
          .leapfrog = settings.count("paths.leapfrog"),
          .walk = settings.count("paths.walk")};
}

ChainPoints::ChainPoints(SamplerPlan plan, PathTasks& tasks, const TheoryPoints& theory)
    : plan_(std::move(plan)), tasks_(tasks), theory_(theory) {
  const auto& asked = plan_.widths;
  for (std::size_t w = 0; w + 1 < theory.widths().size(); ++w)
    if (asked.empty() || std::ranges::count(asked, theory.widths()[w]) > 0) sampled_.push_back(w);
  if (sampled_.size() < asked.size())
    throw BadInput("paths.sampled_widths = " + value_text(asked) + ": each must be one of paths.widths");
  for (const auto w : sampled_) {  // a width that cannot be drawn is refused here, not after an hour
    const auto network = network_of_width(tasks.heads(), theory.widths()[w]);
    for (const auto& sampler : plan_.samplers)
      if (sampler == order_sampler)
        NestedWishart{network};
      else
        check_whole_widths(network);
  }
}

std::vector<Place> ChainPoints::places() const {
  std::vector<Place> all;
  for (std::size_t t = 0; t < theory_.temperatures().size(); ++t)
    for (std::size_t w = 0; w < sampled_.size(); ++w)
      for (std::size_t s = 0; s < tasks_.seeds().size(); ++s)
        for (const auto& sampler : plan_.samplers)
          for (std::size_t chain = 0; chain < chain_count(); ++chain) {
            std::ostringstream name;
            name << sampler << ", T = " << theory_.temperatures()[t] << ", N = " << width(w) << ", seed "
                 << tasks_.seeds()[s] << ", chain " << chain + 1;
            all.push_back({.group = sampler,
                           .name = name.str(),
                           .index = {{stored::temperature.name, t},
                                     {stored::width.name, sampled_[w]},
                                     {axes::seed.name, s},
                                     {stored::chain.name, chain}}});
          }
  return all;
}

std::size_t ChainPoints::first_of(const Kind& kind) const {
  const std::size_t of_theory =
      theory_.temperatures().size() * theory_.widths().size() * tasks_.seeds().size();
  return of_theory +
         (((kind.temperature * sampled_.size() + kind.width) * tasks_.seeds().size() + kind.seed) *
              plan_.samplers.size() +
          kind.sampler) *
             chain_count();
}

ChainPlan ChainPoints::chain_plan(const Place& place) const {
  auto plan = plan_.chain;
  plan.steps = place.group == weights_sampler ? plan_.leapfrog : plan_.walk;
  // The seed depends on the values, not on their places in the lists: a chain is the same in any deck that
  // asks for it.
  const double temperature = theory_.temperatures()[place.along(stored::temperature)],
               width = theory_.widths()[place.along(stored::width)];
  const auto seed = static_cast<std::uint64_t>(tasks_.seeds()[place.along(axes::seed)]);
  const auto words = RandomStream(seed, "chain of a posterior")
                         .item(std::bit_cast<std::uint64_t>(temperature))
                         .item(std::bit_cast<std::uint64_t>(width))
                         .bits(place.along(stored::chain));
  plan.seed = (std::uint64_t{words[0]} << 32) | words[1];
  return plan;
}

void ChainPoints::measure(const Place& place, Results& to) {
  const auto& theory = tasks_.of(tasks_.seeds()[place.along(axes::seed)]);
  const auto network = network_of_width(tasks_.heads(), theory_.widths()[place.along(stored::width)]);
  const PosteriorTarget posterior{network, theory.task().train, theory.kernels(),
                                  theory_.temperatures()[place.along(stored::temperature)]};
  const auto chain = place.group == weights_sampler ? weight_chain(posterior, chain_plan(place))
                                                    : order_chain(posterior, chain_plan(place));
  std::vector<double> traces;
  for (const auto& trace : chain.traces) traces.insert(traces.end(), trace.begin(), trace.end());
  to.put(stored::trace, std::move(traces));
  to.put(stored::acceptance, {chain.acceptance});
  to.put(stored::step_size, {chain.step});
  to.put(stored::divergent, {chain.divergent});
  to.put(kept_readout, {chain.order.readout});
  to.put(kept_order, padded_orders(chain.order));
  to.put(kept_weights(tasks_.dimension()), list(chain.input_weights));
  to.put(kept_virials, chain.virials);
}

std::vector<io::Variable> ChainPoints::kept() const {
  return {kept_readout, kept_order, kept_weights(tasks_.dimension()), kept_virials};
}

double ChainPoints::bytes() const {
  // Traces, U_l and input weights of all chains; the few other numbers do not count.
  const double of_chain = drawn_quantities * static_cast<double>(plan_.chain.draws) +
                          static_cast<double>(tasks_.heads().size()) * tasks_.paths() * tasks_.paths() +
                          static_cast<double>(tasks_.paths()) * tasks_.dimension();
  double all = of_chain * static_cast<double>(places().size());
  if (std::ranges::count(plan_.samplers, weights_sampler) > 0) {
    const double n = width(sampled_.size() - 1);
    double weights = n * (tasks_.dimension() + 1.0);
    for (const int heads : tasks_.heads()) weights += heads * n * n;
    // Two points of the phase space, of three vectors each, the start, and a gradient.
    all += 8 * weights;
  }
  return sizeof(double) * all;
}

std::string ChainPoints::describe() const {
  std::ostringstream text;
  text << "; " << chain_count() << " chain(s) of " << plan_.chain.draws << " draws with each of ";
  for (std::size_t s = 0; s < plan_.samplers.size(); ++s) text << (s > 0 ? ", " : "") << plan_.samplers[s];
  text << " at N =";
  for (std::size_t w = 0; w < sampled_.size(); ++w) text << (w > 0 ? ", " : " ") << width(w);
  return text.str();
}

std::vector<PosteriorChain> ChainPoints::chains(const Kind& kind, const Findings& found) const {
  const auto network = network_of_width(tasks_.heads(), width(kind.width));
  std::vector<PosteriorChain> all;
  all.reserve(chain_count());
  for (std::size_t chain = 0; chain < chain_count(); ++chain)
    all.push_back(chain_of(found, first_of(kind) + chain, network, tasks_.dimension()));
  return all;
}

std::string ChainPoints::summary(const Findings& found) const {
  std::ostringstream text;
  for (std::size_t s = 0; s < plan_.samplers.size(); ++s) {
    double worst = 0;
    text << "\n  " << plan_.samplers[s] << ':';
    for (std::size_t t = 0; t < theory_.temperatures().size(); ++t)
      for (std::size_t w = 0; w < sampled_.size(); ++w) {
        std::vector<double> accuracies;
        accuracies.reserve(tasks_.seeds().size());
        for (std::size_t seed = 0; seed < tasks_.seeds().size(); ++seed) {
          const auto& test = tasks_.task_of(tasks_.seeds()[seed]).test;
          const auto all = sampled_posterior(
              chains({.temperature = t, .width = w, .seed = seed, .sampler = s}, found), test.inputs);
          accuracies.push_back(accuracy(all.mean, test.targets));
          for (const double r_hat : all.r_hat) worst = std::max(worst, r_hat);
        }
        text << (t + w > 0 ? ", " : " ") << std::round(1000 * mean(accuracies)) / 10
             << " % (N = " << width(w);
        if (theory_.temperatures().size() > 1) text << ", T = " << theory_.temperatures()[t];
        text << ')';
      }
    text << "; largest split R-hat " << std::round(1000 * worst) / 1000;
  }
  return text.str();
}

void ChainPoints::begin(StudyRecord& record) const {
  record.axis(stored::chain, 1, static_cast<long>(chain_count()));
  record.axis(stored::quantity, 0, static_cast<long>(drawn_quantities) - 1);
  record.axis(stored::draw, 1, plan_.chain.draws);
  record.axis(stored::block, 0, static_cast<long>(tasks_.heads().size()) + 1);
  record.note("", stored::quantities, "u_a\ntr U_1\nE\ndata virial\n-ln density\n");
}

void ChainPoints::add(const Kind& kind, const Findings& found, StudyRecord& record) const {
  const auto drawn = chains(kind, found);
  const auto& test = tasks_.task_of(tasks_.seeds()[kind.seed]).test;
  const std::size_t w = sampled_[kind.width];
  const auto theory = theory_.result_of(found, theory_.point(kind.temperature, w, kind.seed)),
             limit = theory_.result_of(
                 found, theory_.point(kind.temperature, theory_.widths().size() - 1, kind.seed));
  const auto all = sampled_posterior(drawn, test.inputs);
  const auto error = theory_error(all, theory.u, theory.mean, width(kind.width));
  const double right = accuracy(all.mean, test.targets);
  std::vector<double> virials(drawn.front().virials.size());  // means over chains
  for (const auto& chain : drawn)
    for (std::size_t k = 0; k < virials.size(); ++k)
      virials[k] += chain.virials[k] / static_cast<double>(drawn.size());
  const Place place{.group = plan_.samplers[kind.sampler],
                    .index = {{stored::temperature.name, kind.temperature},
                              {stored::width.name, w},
                              {axes::seed.name, kind.seed}}};
  const auto put = [&](const io::Variable& variable, const std::vector<double>& values) {
    record.add(place, variable, values);
  };
  put(stored::accuracy, {right});
  put(stored::accuracy_gain, {right - theory.accuracy});
  put(stored::readout, {all.order.readout});
  put(stored::order_error, {all.order_error});
  put(stored::order_difference, {error.order});
  put(stored::order_excess, {error.excess});
  put(stored::mean_error, {all.mean_error});
  put(stored::mean_difference, {error.mean});
  put(stored::mean_correlation, {error.correlation});
  put(stored::limit_difference, {(all.mean - limit.mean).cwiseAbs().mean()});
  put(stored::order, padded_orders(all.order));
  put(stored::mean, list(all.mean));
  put(stored::r_hat, list(all.r_hat));
  put(stored::effective_draws, list(all.effective_draws));
  put(stored::block_virial, virials);
}

void ChainPoints::conclude(const Findings& found, StudyRecord& record) const {
  for (std::size_t t = 0; t < theory_.temperatures().size(); ++t)
    for (std::size_t w = 0; w < sampled_.size(); ++w)
      for (std::size_t seed = 0; seed < tasks_.seeds().size(); ++seed)
        for (std::size_t s = 0; s < plan_.samplers.size(); ++s)
          add({.temperature = t, .width = w, .seed = seed, .sampler = s}, found, record);
}

std::vector<io::Variable> chain_variables() {
  return {stored::accuracy,
          stored::accuracy_gain,
          stored::readout,
          stored::order_error,
          stored::order_difference,
          stored::order_excess,
          stored::mean_error,
          stored::mean_difference,
          stored::mean_correlation,
          stored::limit_difference,
          stored::order,
          stored::mean,
          stored::trace,
          stored::r_hat,
          stored::effective_draws,
          stored::acceptance,
          stored::step_size,
          stored::divergent,
          stored::block_virial};
}

std::vector<io::Variable> chain_coordinates() {
  return {stored::chain, stored::quantity, stored::draw, stored::block};
}

}  // namespace fluxformer
