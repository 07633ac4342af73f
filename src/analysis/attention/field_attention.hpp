#pragma once

// The attention of all depth cells in a state of equation (1) that is spread over ranks along depth and
// tokens.

#include <petscvec.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "mesh/mesh.hpp"
#include "model/equation.hpp"

namespace fluxformer::attention {

/// The weights of the n keys for one query; cells from 0.
using RowOfAttention = std::function<void(std::size_t cell, std::size_t sample, std::size_t head,
                                          std::size_t query, const double* weights)>;
/// Calls row(cell, sample, head, query, weights) for all queries of this rank. `inflow_slab`: the slab of cell
/// 0, which the scheme `shift` needs. Collective over the mesh.
void for_attention_rows(const Mesh& mesh, const Equation& equation, Vec u,
                        const std::vector<double>& inflow_slab, const RowOfAttention& row);

/// Attention of a state by depth cell and head.
struct FieldAttention {
  std::vector<double> entropy;  ///< [cell][head]: mean over samples and queries of the row entropy, over ln n
  std::vector<double> weights;  ///< [cell][sample][head][query][key]; empty unless asked for
};

enum class StoredAttention { entropy, entropy_and_weights };

/// The same on all ranks. Every rank holds all the weights that are kept. Collective over the mesh.
FieldAttention field_attention(const Mesh& mesh, const Equation& equation, Vec u,
                               const std::vector<double>& inflow_slab, StoredAttention store);

/// -sum p ln p, nats.
double row_entropy(const double* p, std::size_t n);

}  // namespace fluxformer::attention
