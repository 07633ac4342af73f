#include "drivers/compare/untrained.hpp"

#include <algorithm>

#include "base/random.hpp"
#include "model/initialise.hpp"

namespace fluxformer {

Parameters untrained(const ComparedModel& model, std::uint64_t draws, long seed) {
  Parameters fresh(model.parameters.spec);
  // A separate stream, so that no trained model was initialised with these numbers.
  const auto draw = RandomStream(draws, "untrained models").bits(static_cast<std::uint64_t>(seed));
  const auto start = model.origin.starting_coefficients();
  const auto [kappa, alpha, rho] = start.value_or(ModelOrigin::Coefficients{});
  initialise_standard(fresh, (std::uint64_t{draw[0]} << 32) | draw[1], kappa, alpha, rho);
  if (!start)
    for (const auto& view : fresh.layout.views())
      if (view.name == "kappa" || view.group == "equation")
        std::ranges::copy(model.parameters.view(view.path()), fresh.view(view.path()).begin());
  return fresh;
}

}  // namespace fluxformer
