#include "drivers/paths/chain_points.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <sstream>

#include "analysis/paths/path_kernels.hpp"
#include "analysis/paths/path_posterior.hpp"
#include "analysis/paths/path_variables.hpp"
#include "analysis/paths/posterior_chain.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"
#include "drivers/compare/compare_variables.hpp"
#include "drivers/paths/chain_measures.hpp"

namespace fluxformer {

namespace stored = paths::variables;
using namespace paths;

namespace {

const std::string weights_sampler = "hmc", order_sampler = "wishart";

/// Converts a chain to numbers, and back.
std::vector<double> packed(const PosteriorChain& chain) {
  std::vector<double> all = {chain.acceptance, chain.step, chain.divergent, chain.order.readout};
  const auto append = [&](const auto& numbers) {
    all.insert(all.end(), numbers.data(), numbers.data() + numbers.size());
  };
  for (const auto& trace : chain.traces) append(trace);
  for (const auto& u : chain.order.u) append(u);
  append(chain.input_weights);
  append(chain.virials);
  return all;
}

PosteriorChain unpacked(const std::vector<double>& numbers, const PathNetwork& network, int draws) {
  auto at = numbers.begin();
  PosteriorChain chain;
  for (double* one : {&chain.acceptance, &chain.step, &chain.divergent, &chain.order.readout}) *one = *at++;
  const auto take = [&](auto& into) {
    std::copy_n(at, into.size(), into.data());
    at += static_cast<std::ptrdiff_t>(into.size());
  };
  for (auto& trace : chain.traces) {
    trace.resize(draws);
    take(trace);
  }
  for (int l = 1; l <= network.layers(); ++l) {
    Eigen::MatrixXd u(network.order_size(l), network.order_size(l));
    take(u);
    chain.order.u.push_back(std::move(u));
  }
  chain.virials.resize(static_cast<std::size_t>(network.layers()) + 2);
  const auto left = (numbers.end() - at) - static_cast<std::ptrdiff_t>(chain.virials.size());
  chain.input_weights.resize(network.paths(), left / network.paths());
  take(chain.input_weights);
  take(chain.virials);
  return chain;
}

}  // namespace

ChainPoints::ChainPoints(const Settings& settings, PathTasks& tasks, const TheoryPoints& theory)
    : tasks_(tasks),
      theory_(theory),
      samplers_(settings.words("paths.samplers")),
      chains_(static_cast<std::size_t>(settings.count("paths.chains"))),
      plan_{.warm_up = settings.count("paths.warm_up"), .draws = settings.count("paths.samples")},
      leapfrog_(settings.count("paths.leapfrog")),
      walk_(settings.count("paths.walk")) {
  const auto& asked = settings.reals("paths.sampled_widths");
  for (std::size_t w = 0; w + 1 < theory.widths().size(); ++w)
    if (asked.empty() || std::ranges::count(asked, theory.widths()[w]) > 0) sampled_.push_back(w);
  if (sampled_.size() < asked.size())
    throw BadInput("paths.sampled_widths = " + value_text(settings.value("paths.sampled_widths")) +
                   ": each must be one of paths.widths");
  for (const auto w : sampled_) {  // a width that cannot be drawn is refused here, not after an hour
    const auto network = network_of_width(tasks.heads(), theory.widths()[w]);
    for (const auto& sampler : samplers_)
      if (sampler == order_sampler)
        NestedWishart{network};
      else
        check_whole_widths(network);
  }
}

std::size_t ChainPoints::count() const {
  return theory_.temperatures().size() * sampled_.size() * tasks_.seeds().size() * samplers_.size() * chains_;
}

ChainPoints::ChainIndex ChainPoints::index_of(std::size_t point) const {
  ChainIndex at{};
  const auto next = [&](std::size_t& index, std::size_t size) {
    index = point % size;
    point /= size;
  };
  // The last index is the fastest, as in `point`.
  next(at.chain, chains_);
  next(at.sampler, samplers_.size());
  next(at.seed, tasks_.seeds().size());
  next(at.width, sampled_.size());
  at.temperature = point;
  return at;
}

std::size_t ChainPoints::point(const ChainIndex& at) const {
  return (((at.temperature * sampled_.size() + at.width) * tasks_.seeds().size() + at.seed) *
              samplers_.size() +
          at.sampler) *
             chains_ +
         at.chain;
}

ChainPlan ChainPoints::plan(const ChainIndex& at) const {
  auto plan = plan_;
  plan.steps = samplers_[at.sampler] == weights_sampler ? leapfrog_ : walk_;
  // The seed depends on the values, not on their places in the lists: a chain is the same in any deck that
  // asks for it.
  const auto words = RandomStream(static_cast<std::uint64_t>(tasks_.seeds()[at.seed]), "chain of a posterior")
                         .item(std::bit_cast<std::uint64_t>(theory_.temperatures()[at.temperature]))
                         .item(std::bit_cast<std::uint64_t>(width(at.width)))
                         .bits(at.chain);
  plan.seed = (std::uint64_t{words[0]} << 32) | words[1];
  return plan;
}

std::size_t ChainPoints::numbers(std::size_t) const {
  const auto network = network_of_width(tasks_.heads(), 1);
  std::size_t all = 4 + drawn_quantities * static_cast<std::size_t>(plan_.draws) + tasks_.heads().size() + 2 +
                    static_cast<std::size_t>(tasks_.paths() * tasks_.dimension());
  for (int l = 1; l <= network.layers(); ++l)
    all += static_cast<std::size_t>(network.order_size(l)) * static_cast<std::size_t>(network.order_size(l));
  return all;
}

std::vector<double> ChainPoints::measure(std::size_t point) {
  const auto at = index_of(point);
  const auto& theory = tasks_.of(tasks_.seeds()[at.seed]);
  const auto network = network_of_width(tasks_.heads(), width(at.width));
  const PosteriorTarget posterior{network, theory.task().train, theory.kernels(),
                                  theory_.temperatures()[at.temperature]};
  return packed(samplers_[at.sampler] == weights_sampler ? weight_chain(posterior, plan(at))
                                                         : order_chain(posterior, plan(at)));
}

double ChainPoints::bytes() const {
  double all = static_cast<double>(numbers(0)) * static_cast<double>(count());
  if (std::ranges::count(samplers_, weights_sampler) > 0) {
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
  text << "; " << chains_ << " chain(s) of " << plan_.draws << " draws with each of ";
  for (std::size_t s = 0; s < samplers_.size(); ++s) text << (s > 0 ? ", " : "") << samplers_[s];
  text << " at N =";
  for (std::size_t w = 0; w < sampled_.size(); ++w) text << (w > 0 ? ", " : " ") << width(w);
  return text.str();
}

std::vector<PosteriorChain> ChainPoints::chains(ChainIndex at,
                                                const std::vector<std::vector<double>>& found) const {
  const auto network = network_of_width(tasks_.heads(), width(at.width));
  std::vector<PosteriorChain> all;
  all.reserve(chains_);
  for (at.chain = 0; at.chain < chains_; ++at.chain)
    all.push_back(unpacked(found[point(at)], network, plan_.draws));
  return all;
}

std::string ChainPoints::summary(const std::vector<std::vector<double>>& found) const {
  std::ostringstream text;
  for (std::size_t s = 0; s < samplers_.size(); ++s) {
    double worst = 0;
    text << "\n  " << samplers_[s] << ':';
    for (std::size_t t = 0; t < theory_.temperatures().size(); ++t)
      for (std::size_t w = 0; w < sampled_.size(); ++w) {
        std::vector<double> accuracies;
        accuracies.reserve(tasks_.seeds().size());
        for (std::size_t seed = 0; seed < tasks_.seeds().size(); ++seed) {
          const auto& test = tasks_.task_of(tasks_.seeds()[seed]).test;
          const auto all = sampled_posterior(
              chains({.temperature = t, .width = w, .seed = seed, .sampler = s, .chain = 0}, found),
              test.inputs);
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

void ChainPoints::add_axes(StudyRecord& record) const {
  record.axis(stored::chain, 1, static_cast<long>(chains_));
  record.axis(stored::quantity, 0, static_cast<long>(drawn_quantities) - 1);
  record.axis(stored::draw, 1, plan_.draws);
  record.axis(stored::block, 0, static_cast<long>(tasks_.heads().size()) + 1);
  record.note("", stored::quantities, "u_a\ntr U_1\nE\ndata virial\n-ln density\n");
}

void ChainPoints::add(const std::vector<std::vector<double>>& found, const std::vector<double>& seconds,
                      const std::vector<std::vector<double>>& theory, StudyRecord& record) const {
  const auto result = [&](std::size_t t, std::size_t w, std::size_t seed) {
    return theory_.result_of(theory[theory_.point(t, w, seed)]);
  };
  const std::size_t limit = theory_.widths().size() - 1;
  for (std::size_t s = 0; s < samplers_.size(); ++s)
    for (std::size_t seed = 0; seed < tasks_.seeds().size(); ++seed) {
      std::vector<ChainMeasures> places(theory_.temperatures().size() * theory_.widths().size());
      double sum = 0;
      for (std::size_t t = 0; t < theory_.temperatures().size(); ++t)
        for (std::size_t k = 0; k < sampled_.size(); ++k) {
          ChainIndex at{.temperature = t, .width = k, .seed = seed, .sampler = s, .chain = 0};
          places[t * theory_.widths().size() + sampled_[k]] =
              chain_measures(chains(at, found), tasks_.task_of(tasks_.seeds()[seed]).test,
                             result(t, sampled_[k], seed), result(t, limit, seed), width(k));
          for (; at.chain < chains_; ++at.chain) sum += seconds[point(at)];
        }
      for (const auto& [variable, values] : in_a_row(places)) record.add(samplers_[s], variable, values);
      record.add(samplers_[s], compare::seconds, {sum});
    }
}

}  // namespace fluxformer
