// Adds the experiment `drift` to the program: `evolve` with an additional term, TokenDrift.

#include "drivers/command_line.hpp"
#include "drivers/evolve/evolve_experiment.hpp"
#include "drivers/evolve/evolve_options.hpp"
#include "drivers/registry.hpp"
#include "token_drift.hpp"

namespace {

void declare_drift(fluxformer::Options& options) {
  fluxformer::declare_evolve(options);
  options.declare("drift.speed", 0.5, "v, the speed at which states drift along the tokens",
                  {.unit = "tokens/time", .minimum = 0});
}

std::unique_ptr<fluxformer::Experiment> make_drift(const fluxformer::Settings& settings,
                                                   const fluxformer::RunContext& context) {
  const auto drift = [speed = settings.real("drift.speed")](const fluxformer::SlabContext& slab) {
    return std::make_unique<own::TokenDrift>(slab, speed);
  };
  return fluxformer::make_evolve_with({drift}, settings, context);
}

}  // namespace

int main(int argc, char** argv) {
  fluxformer::register_experiment({.name = "drift",
                                   .family = "evolve",
                                   .sentence = "evolve with states that drift along the tokens",
                                   .cites = "",
                                   .declare = declare_drift,
                                   .describe = fluxformer::evolve_experiment().describe,
                                   .make = make_drift});
  return fluxformer::run_program(argc, argv);
}
