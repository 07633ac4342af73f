// The march through depth and its transpose by TSAdjoint (1fe) against back-propagation: time and memory.
//
//   fluxformer_adjoint_cost time [cells]
//       both in turns, median and best of many, with checkpoints too
//   fluxformer_adjoint_cost memory <march> [cells]
//       one of them in this process: backprop, adjoint, <k> (a checkpoint every k steps), <k>disk
//
// Batch 32, 49 tokens, width 64, 4 heads, 6 layers, ffn 256, float; cells a multiple of the layers.

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>

#include "base/session.hpp"
#include "model/depth_march.hpp"
#include "model/depth_model.hpp"
#include "solvers/adjoint/adjoint_march.hpp"
#include "tests/benchmark/network.hpp"

namespace {

using namespace fluxformer;

class Case {
 public:
  explicit Case(int cells)
      : cells_(cells),
        line_(TokenLine::even(MPI_COMM_SELF, size_.columns, size_.rows)),
        context_{&line_, size_.batch, size_.width, {}},
        parameters_(bench::model_spec(size_)),
        gradient_(parameters_.values.size()) {
    initialise_standard(parameters_, 1, 0, 1, 1);
    model_ = make_depth_model(parameters_, context_, Precision::float32);
  }
  std::unique_ptr<DepthMarch> march(const std::string& name) {
    const DepthCells depth{size_.layers, cells_};
    if (name == "backprop") return std::make_unique<Backpropagation>(*model_, depth, 1);
    AdjointSettings settings;
    settings.every = std::atoi(name.c_str());
    settings.on_disk = name.ends_with("disk");
    return std::make_unique<AdjointMarch>(*model_, depth, 1, settings);
  }
  /// Milliseconds of processor time of one forward and backward march (the machine may be shared).
  double run(DepthMarch& march) {
    std::vector<double> u(context_.size());
    for (std::size_t j = 0; j < u.size(); ++j) u[j] = std::sin(static_cast<double>(j));
    const auto begin = std::clock();
    march.forward(u.data(), Keep::activations, {});
    march.backward(u.data(), gradient_, {});
    return 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  }

 private:
  int cells_;
  bench::Size size_;
  TokenLine line_;
  SlabContext context_;
  Parameters parameters_;
  std::vector<double> gradient_;
  std::unique_ptr<DepthModel> model_;
};

void compare_times(int cells) {
  Case problem(cells);
  const std::vector<std::string> names = {"backprop", "adjoint", "2", "2disk"};
  std::vector<std::unique_ptr<DepthMarch>> marches;
  for (const auto& name : names) marches.push_back(problem.march(name));
  std::vector<std::vector<double>> times(names.size());
  for (int repeat = 0; repeat < 41; ++repeat)
    for (std::size_t k = 0; k < names.size(); ++k) times[k].push_back(problem.run(*marches[k]));
  for (auto& series : times) std::sort(series.begin(), series.end());
  for (std::size_t k = 0; k < names.size(); ++k)
    std::printf("%-10s median %8.2f ms, %5.2f of backprop; best %8.2f ms, %5.2f of backprop\n",
                names[k].c_str(), times[k][20], times[k][20] / times[0][20], times[k][0],
                times[k][0] / times[0][0]);
}

void measure_memory(const std::string& name, int cells) {
  Case problem(cells);
  const auto march = problem.march(name);
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
  const std::string what = argc > 1 ? argv[1] : "time";
  if (what == "memory")
    measure_memory(argc > 2 ? argv[2] : "backprop", argc > 3 ? std::atoi(argv[3]) : 48);
  else
    compare_times(argc > 2 ? std::atoi(argv[2]) : 6);
  return 0;
}
