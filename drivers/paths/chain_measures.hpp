#pragma once

// What is stored of the chains of one sampler: their draws, whether they agree, and how far the theory is from them.

#include <utility>
#include <vector>

#include "analysis/paths/posterior_chain.hpp"
#include "drivers/paths/theory_points.hpp"
#include "io/variable.hpp"

namespace fluxformer {

/// Measures and their values, row-major.
using ChainMeasures = std::vector<std::pair<io::Variable, std::vector<double>>>;

/// Of the chains at one temperature and width. `theory` and `limit` are the theory's answers at this width and at infinite width.
ChainMeasures chain_measures(const std::vector<paths::PosteriorChain>& chains,
                             const paths::PathExamples& test, const TheoryPoints::Told& theory,
                             const TheoryPoints::Told& limit, double width);

/// Numbers of places in a row become one array each; NaN for those without any (empty). There is at least one that is not.
ChainMeasures in_a_row(const std::vector<ChainMeasures>& places);

/// The measures that a file can hold, and their coordinates.
std::vector<io::Variable> chain_variables();
std::vector<io::Variable> chain_coordinates();

}  // namespace fluxformer
