#pragma once

// Measures of the chains of one sampler: their draws, whether they agree, and how far the theory is from
// them.

#include <utility>
#include <vector>

#include "analysis/paths/posterior_chain.hpp"
#include "drivers/paths/theory_points.hpp"
#include "io/variable.hpp"

namespace fluxformer {

/// Variables with their values, row-major.
using ChainMeasures = std::vector<std::pair<io::Variable, std::vector<double>>>;

/// Measures of the chains at one temperature and width. `theory` and `limit` are the theory's results at this
/// width and at infinite width.
ChainMeasures chain_measures(const std::vector<paths::PosteriorChain>& chains,
                             const paths::PathExamples& test, const TheoryPoints::PointResult& theory,
                             const TheoryPoints::PointResult& limit, double width);

/// Joins the measures of points in a row: one array for each variable. Points without measures (empty) give
/// NaN; at least one point must have some.
ChainMeasures in_a_row(const std::vector<ChainMeasures>& places);

/// Variables that a file can hold, and their coordinates.
std::vector<io::Variable> chain_variables();
std::vector<io::Variable> chain_coordinates();

}  // namespace fluxformer
