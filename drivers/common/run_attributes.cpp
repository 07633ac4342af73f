#include "drivers/common/run_attributes.hpp"

#include "base/mpi.hpp"
#include "base/provenance.hpp"
#include "io/layout.hpp"
#include "operators/kernels/blas.hpp"

namespace fluxformer {

std::vector<std::pair<std::string, io::AttributeValue>> run_attributes(const Settings& settings,
                                                                       const RunContext& context) {
  std::vector<std::pair<std::string, io::AttributeValue>> attributes{
      {names::experiment, context.experiment},
      {names::command_line, context.command_line},
      {names::deck, context.deck},
      {names::settings, settings.resolved()},
      {names::ranks, static_cast<long>(mpi::size(context.comm))},
      {names::blas, blas_description()},
      {names::cites, context.cites}};
  if (settings.options()->find("run.seed") != nullptr)
    attributes.emplace_back(names::seed, settings.integer("run.seed"));
  for (const auto& [name, value] : provenance()) attributes.emplace_back(name, value);
  return attributes;
}

}  // namespace fluxformer
