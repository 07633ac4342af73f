#include "drivers/identifiability/identifiability_options.hpp"

#include <limits>
#include <string>
#include <utility>

#include "drivers/compare/compare_options.hpp"

namespace fluxformer {

void declare_identifiability(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare_compared(options);
  declare(
      {.name = "identifiability.measures",
       .fallback = std::vector<std::string>{"weights", "identity", "attribution"},
       .doc =
           "what is measured: weights (how many attention weights give the same output, and the part of them "
           "that acts), identity (whether tokens are recognised at depth), attribution (where hidden tokens "
           "come from)",
       .choices = {"weights", "identity", "attribution"},
       .not_empty = true});
  declare(
      {.name = "identifiability.lengths",
       .fallback = std::vector<long>{},
       .doc =
           "weights: numbers of tokens to which samples are cut, too, e.g. 8, 16, 32; only samples that are "
           "at least as long count; empty: whole samples only",
       .minimum = 2,
       .maximum = std::numeric_limits<int>::max()});
  declare({.name = "identifiability.rows",
           .fallback = 8L,
           .doc = "weights: rows of every head on which soft-max reachable freedom is counted; 0: none",
           .minimum = 0});
  declare(
      {.name = "identifiability.joint_tokens",
       .fallback = 0L,
       .doc =
           "weights: most tokens of the first sample for which the freedom of queries and keys together is "
           "counted, by the singular values of a matrix of n^2 x 2 n d_k; 0: not",
       .minimum = 0});
  declare({.name = "identifiability.head",
           .fallback = 0L,
           .doc = "weights: head whose raw, effective and alternative weights are stored",
           .minimum = 0});
  declare({.name = "identifiability.maps",
           .fallback = std::vector<std::string>{"identity", "linear", "mlp"},
           .doc =
               "identity: maps from states back to embedded tokens; linear is a ridge regression, mlp has a "
               "hidden layer",
           .choices = {"identity", "linear", "mlp"}});
  declare({.name = "identifiability.fit",
           .fallback = 200L,
           .doc = "identity: further samples, on which maps are fitted (four fifths) and chosen (the rest)",
           .unit = "samples",
           .minimum = 5});
  declare({.name = "identifiability.hidden",
           .fallback = 128L,
           .doc = "identity: hidden units of mlp",
           .minimum = 1});
  declare(
      {.name = "identifiability.fit_epochs",
       .fallback = 50L,
       .doc = "identity: most epochs of mlp's training; it ends before where the validation loss has stopped "
              "falling",
       .unit = "epochs",
       .minimum = 1});
  declare(epochs_option("identifiability.epochs"));
  declare({.name = "identifiability.attributed",
           .fallback = 20L,
           .doc = "attribution: samples used; each costs width x tokens tangents",
           .unit = "samples",
           .minimum = 1});
  declare({.name = "identifiability.norm",
           .fallback = std::string("frobenius"),
           .doc = "attribution: norm of the blocks of the Jacobian",
           .choices = {"frobenius", "spectral"}});
  declare(
      {.name = "identifiability.probes",
       .fallback = 0L,
       .doc =
           "attribution: random directions for each token (Hutchinson), 64 or more; 0: the Jacobian itself",
       .minimum = 0});
  declare(
      {.name = "identifiability.flow_tokens",
       .fallback = 0L,
       .doc =
           "attribution: output tokens of each sample whose attention flow is computed; each costs a largest "
           "flow for every token and layer; 0: no flow",
       .minimum = 0});
  declare_compare_run(options, "identifiability.h5");
}

}  // namespace fluxformer
