#pragma once

// `attention`: how alike the attention of a Transformer and of its PDE models is, beside what rows that know
// nothing of the input score.

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

void describe_attention(io::Description& description);
void declare_attention(Options& options);
std::unique_ptr<Experiment> make_attention(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
