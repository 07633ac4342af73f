#include "io/layout.hpp"

#include <map>

namespace fluxformer {

std::vector<std::string> names::anonymous_axes(const std::vector<Index>& shape) {
  std::vector<std::string> axes;
  std::map<Index, int> uses;
  for (const Index extent : shape) {
    const int use = ++uses[extent];
    axes.push_back("extent_" + std::to_string(extent) + (use == 1 ? "" : "_" + std::to_string(use)));
  }
  return axes;
}

std::optional<Index> names::anonymous_extent(const std::string& axis) {
  const std::string beginning = "extent_";
  if (!axis.starts_with(beginning)) return {};
  return std::stol(axis.substr(beginning.size()));
}

namespace io {

void describe_archive(Description& description) {
  using namespace names;
  description.attributes("/",
                         {version,  experiment, created, git_revision, git_dirty, command_line, deck,
                          settings, seed,       ranks,   compiler,     petsc,     slepc,        petsc_options,
                          hdf5,     names::mpi, blas,    host,         cites,     status,       message});
  description.attributes("<dataset>", {unit, long_name, digest});
  description.variables("/", {coordinate("extent_<n>", "",
                                         "dimension of length n without a coordinate (extent_<n>_2: its "
                                         "second use)")});
  description.variables(
      timing, {{"<phase>", {"extent_3"}, "s", "wall time: minimum, mean and maximum over the ranks"}});
  description.attributes(timing, {statistics});
}

void describe_checkpoint(Description& description) {
  description.variables(
      names::state, {{"<name>",
                      {"any"},
                      "",
                      "checkpoint: what the next step depends on (fields: [cell, token, sample, channel])"}});
  description.attributes(names::state,
                         {{"<name>", "checkpoint: numbers and words that the next step depends on"},
                          names::complete,
                          names::digest});
}

}  // namespace io
}  // namespace fluxformer
