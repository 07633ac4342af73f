#include "drivers/hessian/heat_map.hpp"

#include <algorithm>
#include <vector>

#include "analysis/decoder/decoder_variables.hpp"
#include "analysis/hessian/hessian_variables.hpp"
#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/progress.hpp"

namespace fluxformer {

namespace layered = decoder::variables;

namespace {

constexpr Index rows_at_once = 32;  // rows between two looks at the clock

/// Number of weights of a decoder, the same for all kinds of layers.
Index weights_of(const LayerPoints& points) {
  const auto blocks =
      decoder::parameter_blocks(points.study_of(points.kinds().front(), points.seeds().front()).shape);
  return blocks.back().begin + blocks.back().size();
}

void add_names(const decoder::DecoderShape& shape, const std::string& kind, StudyRecord& record) {
  std::string names, sizes;
  for (const auto& block : decoder::parameter_blocks(shape)) {
    const char* const end = names.empty() ? "" : "\n";
    names += end + block.name;
    sizes += end + std::to_string(block.size());
  }
  record.note(kind, hessian::variables::blocks, names);
  record.note(kind, layered::block_sizes, sizes);
}

}  // namespace

std::uint64_t heat_map_bytes(const LayerPoints& points) {
  const auto weights = static_cast<std::uint64_t>(weights_of(points));
  return sizeof(float) * weights * weights * points.kinds().size();
}

bool add_heat_maps(const LayerPoints& points, MPI_Comm comm, RunFrame& frame, StudyRecord& record) {
  const int rank = mpi::rank(comm), ranks = mpi::size(comm);
  const Index weights = weights_of(points);
  record.axis(layered::parameter, 1, weights);
  record.axis(layered::other_parameter, 1, weights);
  // Every rank takes consecutive rows and as many rounds as the others.
  const Index first = weights * rank / ranks, end = weights * (rank + 1) / ranks;
  const Index most = (weights + ranks - 1) / ranks;
  Progress progress = frame.progress(static_cast<double>(points.kinds().size()) * static_cast<double>(most),
                                     "rows of the heat map");
  Index done = 0;
  for (const auto& kind : points.kinds()) {
    const auto study = points.study_of(kind, points.seeds().front());
    std::vector<float> mine;
    for (Index from = 0; from < most; from += rows_at_once) {
      if (frame.asked_to_stop()) {
        progress.finish();
        return false;
      }
      collectively(comm, [&] {
        const Index begin = std::min(first + from, end);
        const auto rows = decoder::entry_logarithms(study, begin, std::min(begin + rows_at_once, end));
        mine.insert(mine.end(), rows.begin(), rows.end());
      });
      done += std::min(rows_at_once, most - from);
      progress.update(static_cast<double>(done));
    }
    record.rows(kind, layered::heat_map, std::move(mine));
    add_names(study.shape, kind, record);
  }
  progress.finish();
  return true;
}

}  // namespace fluxformer
