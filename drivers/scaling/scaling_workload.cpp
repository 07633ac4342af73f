#include "drivers/scaling/scaling_workload.hpp"

#include <algorithm>

#include "base/vector_arrays.hpp"
#include "drivers/evolve/evolve_problem.hpp"
#include "drivers/evolve/evolve_record.hpp"
#include "drivers/train/train_problem.hpp"
#include "io/checkpoint.hpp"

namespace fluxformer {
namespace {

class Evolving final : public ScalingWorkload {
 public:
  Evolving(const Settings& settings, MPI_Comm comm) : problem_(plan_of_evolution(settings), comm) {}
  std::string describe() const override { return problem_.describe(); }
  const ModelSpec& model() const override { return problem_.parameters->spec; }
  Size size() const override {
    const auto& mesh = *problem_.mesh;
    return {.cells = mesh.total_cells(),
            .tokens = mesh.token_line().tokens(),
            .samples = mesh.spec().samples,
            .parameters = problem_.parameters->layout.size_of_model(),
            .ranks_depth = mesh.grid().depth,
            .ranks_token = mesh.grid().token(),
            .groups = 1};
  }
  void run(const std::function<bool()>& after_step) override {
    problem_.solver->run([&](const Step&) { return after_step(); });
  }
  void save(const std::string& output) override {
    io::CheckpointWriter file(problem_.mesh->comm(), output);
    file.put(io::NumbersItem{"u"}, field_part(*problem_.mesh), ReadArray(problem_.solver->state()).values);
    file.commit();
  }

 private:
  EvolveProblem problem_;
};

class Training final : public ScalingWorkload {
 public:
  Training(const Settings& settings, MPI_Comm comm) : problem_(plan_of_training(settings), comm) {}
  std::string describe() const override { return problem_.describe(); }
  const ModelSpec& model() const override { return problem_.parameters->spec; }
  Size size() const override {
    return {.cells = problem_.depth.cells,
            .tokens = problem_.line->tokens(),
            .samples = problem_.plan.samples.batch,
            .parameters = problem_.parameters->layout.size_of_model(),
            .ranks_depth = problem_.ranks.stages,
            .ranks_token = problem_.line->size(),
            .groups = problem_.ranks.replica.count,
            .micro_batches = problem_.through_stages.micro_batches};
  }
  void run(const std::function<bool()>& after_step) override {
    do problem_.step();
    while (after_step());
  }
  void save(const std::string& output) override {
    io::CheckpointWriter file(problem_.comm, output);
    problem_.trainer->save(file);
    file.commit();
  }

 private:
  TrainProblem problem_;
};

/// End time of an equation, long enough for the steps whatever their size (at most four times forward
/// Euler's, c dt/h = 1).
double time_for(const Settings& settings, long cells, long layers, long steps) {
  const double dt = settings.real("evolve.dt"), c = settings.real("equation.c");
  const double longest = dt > 0  ? dt
                         : c > 0 ? 4 * settings.real("evolve.cfl") * static_cast<double>(layers) /
                                       (c * static_cast<double>(cells))
                                 : 0;
  // One step more than needed, so that the end time never cuts a timed step short.
  return longest * static_cast<double>(steps + 1);
}

}  // namespace

Settings scaled(const Settings& settings, int ranks) {
  Settings::Changes changes;
  const auto set = [&](const char* key, const OptionValue& value) { changes.emplace_back(key, value); };
  const bool evolves = settings.word("scaling.workload") == "evolve";
  if (settings.word("evolve.stop") == "steady")
    throw BadInput("evolve.stop = steady: a fixed number of steps is timed; leave it out");
  if (!settings.word("mesh.edges").empty())
    throw BadInput("mesh.edges: cells of equal length are timed; give mesh.cells");
  const bool weak = settings.word("scaling.mode") == "weak";
  const auto& over = settings.word("scaling.over");
  const auto refuse = [&](const std::string& why) { throw BadInput("scaling.over = " + over + ": " + why); };
  if (evolves && over == "samples") refuse("evolve keeps all samples on each rank; split depth or tokens");

  if (settings.integer("mesh.ranks_token") == 0 && settings.integer("mesh.ranks_depth") == 0) {
    set("mesh.ranks_token", over == "tokens" ? long{ranks} : 1L);
    set("mesh.ranks_depth", over == "depth" ? long{ranks} : 1L);
  }
  const auto grow = [&](const char* key) { set(key, std::max(1L, settings.integer(key)) * ranks); };
  if (weak && over == "depth") {
    if (!settings.word("model.file").empty())
      refuse("the depth of a model read from a file cannot be increased");
    for (const char* key : {"mesh.layers", "mesh.cells"})
      if (settings.integer(key) > 0) grow(key);
  }
  if (weak && over == "tokens") {
    if (!evolves || settings.word("inflow.source") == "data")
      refuse(
          "the number of tokens is fixed by the data; it can only grow with inflow.source = noise or none");
    grow(settings.integer("mesh.tokens_y") > 1 ? "mesh.tokens_y" : "mesh.tokens_x");
  }
  if (weak && over == "samples") grow("train.batch");

  const long steps = settings.integer("scaling.warm_up") +
                     settings.integer("scaling.repetitions") * settings.integer("scaling.steps");
  const long layers = settings.integer("mesh.layers");
  const long cells = settings.integer("mesh.cells") > 0 ? settings.integer("mesh.cells") : layers;
  const double time = time_for(settings, cells, layers, steps);
  if (evolves && settings.real("evolve.time") == 0 && time > 0) set("evolve.time", time);
  return settings.with(changes);
}

std::unique_ptr<ScalingWorkload> make_workload(const Settings& settings, MPI_Comm comm) {
  if (settings.word("scaling.workload") == "evolve") return std::make_unique<Evolving>(settings, comm);
  return std::make_unique<Training>(settings, comm);
}

}  // namespace fluxformer
