#pragma once

// The keys shared by all comparisons of a Transformer with PDE models.

#include <string>
#include <vector>

#include "base/settings.hpp"

namespace fluxformer {

/// models.*, samples.*, data.*, output.*, run.*. `file`: the default of output.file.
void declare_compare_options(Options& options, const std::string& file);
/// Its two parts: what is compared (models, samples, data, run.seed and run.precision), and the rest.
void declare_compared(Options& options);
void declare_compare_run(Options& options, const std::string& file);

/// The key that lists the epochs to analyse (ComparedModels::after_epoch).
Option epochs_option(const std::string& name);

/// The numbers listed in a key: "1, 2, 3" or "1 2 3". Throws BadInput naming the key for an entry that is not
/// a number, is outside [minimum, maximum], or occurs twice.
std::vector<double> number_list(const Settings& settings, const std::string& key, double minimum,
                                double maximum);
/// The same for whole numbers.
std::vector<long> integer_list(const Settings& settings, const std::string& key, long minimum);
/// The words of a list; BadInput for one that is not in `known`.
std::vector<std::string> word_list(const Settings& settings, const std::string& key,
                                   const std::vector<std::string>& known);

}  // namespace fluxformer
