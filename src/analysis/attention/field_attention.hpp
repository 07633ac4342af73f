#pragma once

// Attention of all depth cells in a state of equation (1) that is distributed over ranks along depth and
// tokens.

#include <petscvec.h>

#include <functional>
#include <vector>

#include "base/index.hpp"
#include "mesh/mesh.hpp"
#include "model/equation.hpp"

namespace fluxformer::attention {

/// Receives the weights of the n keys for one query; cells count from 0.
using RowOfAttention =
    std::function<void(Index cell, Index sample, Index head, Index query, const double* weights)>;
/// Calls row(cell, sample, head, query, weights) for all queries of this rank. `inflow_slab` is the slab of
/// cell 0, which the scheme `shift` needs. Collective over the mesh.
void for_attention_rows(const Mesh& mesh, const Equation& equation, Vec u,
                        const std::vector<double>& inflow_slab, const RowOfAttention& row);

/// Attention of a state, by depth cell and head.
struct FieldAttention {
  std::vector<double> entropy;  ///< [cell][head]: mean over samples and queries of the row entropy, over ln n
  std::vector<double> weights;  ///< [cell][sample][head][query][key]; empty unless asked for
};

/// Choice of the numbers that are kept.
enum class StoredAttention { entropy, entropy_and_weights };

/// Attention of the state u, the same on all ranks: every rank holds all weights that are kept. Collective
/// over the mesh.
FieldAttention field_attention(const Mesh& mesh, const Equation& equation, Vec u,
                               const std::vector<double>& inflow_slab, StoredAttention store);

/// Entropy -sum p ln p of a row of n keys, nats.
double row_entropy(const double* p, Index n);

}  // namespace fluxformer::attention
