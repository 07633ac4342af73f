#pragma once

// The heat map of a decoder's Hessian: the sizes of the entries of the whole matrix, for the first seed of a
// study of one attention layer.

#include <mpi.h>

#include <cstdint>

#include "drivers/common/run_frame.hpp"
#include "drivers/compare/study_record.hpp"
#include "drivers/hessian/layer_points.hpp"

namespace fluxformer {

/// Bytes of the maps of all kinds of layers.
std::uint64_t heat_map_bytes(const LayerPoints& points);
/// Computes a heat map for each kind of layer, rows shared over the ranks, and adds it to the record with the
/// names and sizes of its blocks. Returns false if the run was asked to stop first. Collective.
bool add_heat_maps(const LayerPoints& points, MPI_Comm comm, RunFrame& frame, StudyRecord& record);

}  // namespace fluxformer
