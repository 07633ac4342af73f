#include "drivers/evolve/evolve_logits.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"
#include "base/vector_arrays.hpp"
#include "drivers/evolve/evolve_variables.hpp"
#include "io/axes.hpp"
#include "model/readout.hpp"
#include "model/tasks/word_task.hpp"

namespace fluxformer {
namespace {

/// Number of word logits of all tokens, as a double: there may be too many for an integer.
double word_count(const Mesh& mesh, const ModelSpec& spec) {
  return 1.0 * mesh.token_line().tokens() * mesh.spec().samples * spec.vocabulary;
}

}  // namespace

void require_storable_logits(const Mesh& mesh, const Parameters& parameters) {
  const auto& spec = parameters.spec;
  if (spec.classes == 0 && !spec.word_head.present)
    throw BadInput("output.logits: the model has no head, neither of classes nor of words");
  if (!spec.word_head.present) return;
  constexpr double most = 1 << 28;  // 2 GB
  if (word_count(mesh, spec) > most)
    throw BadInput("output.logits: " + std::to_string(static_cast<long long>(word_count(mesh, spec))) +
                   " logits of words are too many to gather; reduce inflow.samples");
  require_memory(mesh.comm(), 2 * sizeof(double) * word_count(mesh, spec),
                 "output.logits and inflow.samples");
}

void write_logits(io::ArchiveWriter& archive, const Mesh& mesh, const SlabContext& context,
                  const Parameters& parameters, Vec u) {
  const auto& spec = parameters.spec;
  const auto& line = mesh.token_line();
  const bool last = mesh.cells() > 0 && mesh.first_cell() + mesh.cells() - 1 == mesh.total_cells();
  const ReadArray state(u);
  const double* const slab = last ? state.values + mesh.slab_size() * (mesh.cells() - 1) : nullptr;
  const auto samples = static_cast<std::size_t>(context.samples);
  if (spec.classes > 0) {
    std::vector<double> logits(samples * static_cast<std::size_t>(spec.classes), 0.0);
    if (last) {
      ReadoutTape tape;
      Readout(parameters, context).logits(slab, logits.data(), tape);
      if (line.rank() != 0) std::fill(logits.begin(), logits.end(), 0.0);
    }
    sum_over_ranks(logits, mesh.comm());
    archive.axis(evolution::class_index, evolution::indices(static_cast<std::size_t>(spec.classes)));
    archive.write(evolution::prediction, evolution::class_logits, logits);
  }
  if (!spec.word_head.present) return;
  const auto words = static_cast<std::size_t>(spec.vocabulary), row = samples * words;
  std::vector<double> logits(row * static_cast<std::size_t>(line.tokens()), 0.0);  // [token][sample][word]
  if (last) {
    std::vector<double> mine(static_cast<std::size_t>(context.rows()) * words);
    word_logits(parameters, context.rows(), slab, mine.data());
    for (int local = 0; local < line.block().count(); ++local)
      std::copy_n(
          mine.begin() + static_cast<std::ptrdiff_t>(row * static_cast<std::size_t>(local)), row,
          logits.begin() + static_cast<std::ptrdiff_t>(
                               row * static_cast<std::size_t>(line.global_index(line.rank(), local))));
  }
  sum_over_ranks(logits, mesh.comm());
  archive.axis(evolution::word_index, evolution::indices(words));
  archive.write(evolution::prediction, evolution::word_logits, logits);
}

}  // namespace fluxformer
