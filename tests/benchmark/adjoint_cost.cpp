// The march through depth and its transpose by TSAdjoint against back-propagation: time and memory.
//
//   fluxformer_adjoint_cost time [cells]
//       both in turns, median and best of many, with checkpoints too
//   fluxformer_adjoint_cost memory <march> [cells]
//       one of them in this process: backprop, adjoint, <k> (a checkpoint every k steps), <k>disk
//   fluxformer_adjoint_cost runge_kutta <digits | mnist | words> <single | double | mixed> [method [rounds]]
//       that Runge-Kutta method (4) on the cells of the deck input/train/*_pde.ini, with the states of its
//       stages and with their activations kept, against back-propagation with as many evaluations of the
//       field, forward Euler on more cells; all in turns
//
// time and memory: batch 32, 49 tokens, width 64, 4 heads, 6 layers, ffn 256, float, 1fe; cells a multiple
// of the layers.

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/phases.hpp"
#include "base/session.hpp"
#include "model/depth_march.hpp"
#include "model/depth_model.hpp"
#include "solvers/adjoint/adjoint_march.hpp"
#include "tests/benchmark/network.hpp"

namespace {

using namespace fluxformer;

class Case {
 public:
  Case(const bench::Size& size, const ModelSpec& spec, Precision precision)
      : line_(TokenLine::even(MPI_COMM_SELF, size.columns, size.rows)),
        context_{&line_, size.batch, size.width, {}},
        parameters_(spec),
        gradient_(parameters_.values.size()) {
    initialise_standard(parameters_, 1, spec.kind == ModelKind::pde ? 0.05 : 0, 1, 1);
    model_ = make_depth_model(parameters_, context_, precision);
  }
  std::unique_ptr<DepthMarch> march(const std::string& name, int cells) {
    if (name == "backprop") return std::make_unique<Backpropagation>(*model_, depth(cells), 1);
    AdjointSettings settings;
    settings.every = std::atoi(name.c_str());
    settings.on_disk = name.ends_with("disk");
    return march(settings, cells);
  }
  std::unique_ptr<DepthMarch> march(const AdjointSettings& settings, int cells) {
    return std::make_unique<AdjointMarch>(*model_, depth(cells), 1, settings);
  }
  /// Milliseconds of processor time of one forward and backward march (the machine may be shared).
  double run(DepthMarch& march) {
    std::vector<double> u(context_.size());
    for (std::size_t j = 0; j < u.size(); ++j) u[j] = std::sin(static_cast<double>(j));
    model_->refresh();  // as after a step of the optimiser
    const auto begin = std::clock();
    march.forward(u.data(), Keep::activations, {});
    march.backward(u.data(), gradient_, {});
    return 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  }

 private:
  DepthCells depth(int cells) const { return {parameters_.spec.layers, cells}; }
  TokenLine line_;
  SlabContext context_;
  Parameters parameters_;
  std::vector<double> gradient_;
  std::unique_ptr<DepthModel> model_;
};

Case small_case() {
  const bench::Size size;
  return {size, bench::model_spec(size), Precision::float32};
}

/// Marches in turns: processor times in milliseconds and flops of each, the first being what others are
/// compared with.
struct Runs {
  std::vector<std::vector<double>> times;  // [march][round]
  std::vector<double> flops;               // of the products of one run

  static double quantile(std::vector<double> list, int quarter) {
    std::sort(list.begin(), list.end());
    return list[(list.size() - 1) * static_cast<std::size_t>(quarter) / 4];
  }
  double median(std::size_t k) const { return quantile(times[k], 2); }
  double best(std::size_t k) const { return quantile(times[k], 0); }
  /// A quartile of the ratio to the first march of the same round.
  double ratio(std::size_t k, int quarter) const {
    auto list = times[k];
    for (std::size_t round = 0; round < list.size(); ++round) list[round] /= times[0][round];
    return quantile(list, quarter);
  }
};

Runs runs_in_turns(Case& problem, const std::vector<std::unique_ptr<DepthMarch>>& marches, int rounds) {
  Runs runs{std::vector<std::vector<double>>(marches.size()), {}};
  for (const auto& march : marches) {
    problem.run(*march);  // the first one allocates
    reset_work_counts();
    problem.run(*march);
    runs.flops.push_back(work_counts().flops);
  }
  for (int round = 0; round < rounds; ++round)
    for (std::size_t k = 0; k < marches.size(); ++k) runs.times[k].push_back(problem.run(*marches[k]));
  return runs;
}

void compare_times(int cells) {
  auto problem = small_case();
  const std::vector<std::string> names = {"backprop", "adjoint", "2", "2disk"};
  std::vector<std::unique_ptr<DepthMarch>> marches;
  for (const auto& name : names) marches.push_back(problem.march(name, cells));
  constexpr int rounds = 41;
  const auto runs = runs_in_turns(problem, marches, rounds);
  for (std::size_t k = 0; k < names.size(); ++k)
    std::printf("%-10s median %8.2f ms, %5.2f of backprop; best %8.2f ms, %5.2f of backprop\n",
                names[k].c_str(), runs.median(k), runs.median(k) / runs.median(0), runs.best(k),
                runs.best(k) / runs.best(0));
}

struct Deck {
  bench::Size size;
  int cells;
  bool kappa_per_channel;
};

/// The model of a deck and the cells that it is solved on.
Deck deck(const std::string& name) {
  if (name == "digits") return {{.layers = 4, .width = 48, .ffn = 96}, 8, true};
  if (name == "mnist") return {{}, 12, true};
  return {{.columns = 128, .rows = 1, .width = 128, .heads = 8, .ffn = 512}, 6, false};
}

void compare_runge_kutta(const std::string& name, const std::string& arithmetic, const std::string& method,
                         int rounds) {
  const std::map<std::string, int> stages = {{"2a", 2}, {"3", 3}, {"4", 4}, {"5f", 6}, {"8vr", 13}};
  const std::map<std::string, Precision> precisions = {
      {"single", Precision::float32}, {"double", Precision::float64}, {"mixed", Precision::mixed}};
  const auto [size, cells, kappa_per_channel] = deck(name);
  auto spec = bench::model_spec(size);
  spec.kind = ModelKind::pde;
  spec.variation = DepthVariation::linear;
  spec.knots = 3;
  spec.kappa_per_channel = kappa_per_channel;
  Case problem(size, spec, precisions.at(arithmetic));
  const std::vector<std::string> names = {"backprop", "stages kept", "tapes kept"};
  std::vector<std::unique_ptr<DepthMarch>> marches;
  marches.push_back(problem.march("backprop", stages.at(method) * cells));
  for (const bool tapes : {false, true})
    marches.push_back(problem.march(AdjointSettings{.method = method, .tapes = tapes}, cells));
  const auto runs = runs_in_turns(problem, marches, rounds);
  for (std::size_t k = 0; k < names.size(); ++k)
    std::printf("%s %s %s %-11s %8.2f ms, ratio %5.3f (quartiles %5.3f, %5.3f), flops %5.3f, kept %8.1f MB\n",
                name.c_str(), arithmetic.c_str(), method.c_str(), names[k].c_str(), runs.median(k),
                runs.ratio(k, 2), runs.ratio(k, 1), runs.ratio(k, 3), runs.flops[k] / runs.flops[0],
                1e-6 * static_cast<double>(marches[k]->kept_bytes()));
}

void measure_memory(const std::string& name, int cells) {
  auto problem = small_case();
  const auto march = problem.march(name, cells);
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  for (int repeat = 0; repeat < 3; ++repeat) problem.run(*march);
  getrusage(RUSAGE_SELF, &after);
  std::printf("%-10s %d cells: keeps %.1f MB, the process at most %.1f MB (%.1f MB before)\n", name.c_str(),
              cells, 1e-6 * static_cast<double>(march->kept_bytes()),
              1.024e-3 * static_cast<double>(after.ru_maxrss),
              1.024e-3 * static_cast<double>(before.ru_maxrss));
}

}  // namespace

int main(int argc, char** argv) {
  Session session(argc, argv);
  const auto argument = [&](int index, const char* otherwise) {
    return argc > index ? argv[index] : otherwise;
  };
  const std::string what = argument(1, "time");
  if (what == "memory")
    measure_memory(argument(2, "backprop"), std::atoi(argument(3, "48")));
  else if (what == "runge_kutta")
    compare_runge_kutta(argument(2, "digits"), argument(3, "single"), argument(4, "4"),
                        std::atoi(argument(5, "21")));
  else
    compare_times(std::atoi(argument(2, "6")));
  return 0;
}
