#include "drivers/compare/compare_options.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/error.hpp"
#include "drivers/common/data_options.hpp"
#include "drivers/common/run_options.hpp"

namespace fluxformer {
namespace {

std::vector<std::string> split(std::string text) {
  std::ranges::replace(text, ',', ' ');
  std::istringstream words(text);
  std::vector<std::string> list;
  for (std::string word; words >> word;) list.push_back(word);
  return list;
}

template <class T>
void refuse_twice(const std::vector<T>& list, const std::string& key, const std::string& text) {
  for (std::size_t j = 0; j < list.size(); ++j)
    if (std::find(list.begin(), list.begin() + j, list[j]) != list.begin() + j)
      throw BadInput(key + " = " + text + ": contains duplicates");
}

void declare_models(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "models.seeds",
           .fallback = std::string("1"),
           .doc = "seeds of the trained models, e.g. 1, 2, 3; each replaces {seed} in the file names"});
  declare({.name = "models.transformer",
           .fallback = std::string(),
           .doc = "HDF5 file of the trained Transformer, e.g. out/transformer_{seed}.h5"});
  declare({.name = "models.independent",
           .fallback = std::string(),
           .doc = "HDF5 file of a PDE model trained on labels only; empty: none"});
  declare({.name = "models.normed",
           .fallback = std::string(),
           .doc = "HDF5 file of another one, with normalisation (depth.norm of train); empty: none"});
  declare(
      {.name = "models.distilled",
       .fallback = std::string(),
       .doc = "HDF5 file of a PDE model distilled from this Transformer (distill.* of train); empty: none"});
  declare({.name = "models.inherited",
           .fallback = 0L,
           .doc = "depth cells per layer of a PDE model that takes the Transformer's own weights, "
                  "interpolated in depth; 1: the Transformer itself, 0: none",
           .unit = "cells",
           .minimum = 0});
}

}  // namespace

void declare_compared(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare_models(options);
  declare({.name = "samples.count",
           .fallback = 1000L,
           .doc = "test samples used, drawn with run.seed; 0: all",
           .minimum = 0});
  declare({.name = "samples.batch",
           .fallback = 32L,
           .doc = "samples per batch on each rank",
           .unit = "samples",
           .minimum = 1});
  declare_data_options(options);
  declare(precision_option());
  declare(seed_option("seed of the built-in data, of the choice of samples and of all random draws"));
}

void declare_compare_run(Options& options, const std::string& file) {
  options.declare(output_option(file));
  options.declare(overwrite_option());
  options.declare(
      time_limit_option("wall time after which the run ends without a result, between two models; 0: none"));
}

void declare_compare_options(Options& options, const std::string& file) {
  declare_compared(options);
  declare_compare_run(options, file);
}

Option epochs_option(const std::string& name) {
  return {.name = name,
          .fallback = std::string(),
          .doc =
              "training epochs whose weight snapshots (output.snapshots of train) are analysed too, e.g. 0, "
              "1, 2; empty: none"};
}

std::vector<double> number_list(const Settings& settings, const std::string& key, double minimum,
                                double maximum) {
  const auto& text = settings.word(key);
  std::vector<double> list;
  for (const auto& word : split(text)) {
    std::size_t used = 0;
    double value = 0;
    try {
      value = std::stod(word, &used);
    } catch (const std::exception&) {
      used = 0;
    }
    if (used != word.size() || !(value >= minimum && value <= maximum)) {
      std::ostringstream range;
      range << key << " = " << text << ": '" << word << "' must be a number from " << minimum << " to "
            << maximum;
      throw BadInput(range.str());
    }
    list.push_back(value);
  }
  refuse_twice(list, key, text);
  return list;
}

std::vector<long> integer_list(const Settings& settings, const std::string& key, long minimum) {
  std::vector<long> list;
  for (const double value : number_list(settings, key, static_cast<double>(minimum), 2147483647)) {
    if (value != std::floor(value))
      throw BadInput(key + " = " + settings.word(key) + ": must be whole numbers");
    list.push_back(static_cast<long>(value));
  }
  return list;
}

std::vector<std::string> word_list(const Settings& settings, const std::string& key,
                                   const std::vector<std::string>& known) {
  const auto& text = settings.word(key);
  auto list = split(text);
  for (const auto& word : list) {
    if (std::ranges::find(known, word) != known.end()) continue;
    std::string allowed;
    for (const auto& name : known) allowed += (allowed.empty() ? "" : ", ") + name;
    throw BadInput(key + " = " + text + ": '" + word + "' is none of " + allowed);
  }
  refuse_twice(list, key, text);
  return list;
}

}  // namespace fluxformer
