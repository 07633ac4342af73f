#pragma once

// Variables of perturbed inputs in output files: the response to each kind of perturbation by its level, and
// the growth of a small one through depth (perturbed_model.hpp).

#include <string>
#include <vector>

#include "io/axes.hpp"

namespace fluxformer::perturbation::variables {

inline const io::Variable
    noise_level = io::coordinate(
        "noise_level", "",
        "standard deviation of the noise relative to the root mean square of the sample's embedded input"),
    feature_noise_level =
        io::coordinate("feature_noise_level", "",
                       "standard deviation of the noise in units of the features (images: standard deviation "
                       "of a pixel, 0.3081 of the range from black to white)"),
    dropped_share = io::coordinate("dropped_share", "", "fraction of the tokens of a sample that is blanked"),
    attack_level =
        io::coordinate("attack_level", "",
                       "size of the step relative to the sample's embedded input: maximum norm over root "
                       "mean square (FGSM, PGD), Euclidean norm over Euclidean norm (worst)"),
    feature_attack_level =
        io::coordinate("feature_attack_level", "",
                       "size of the step in the maximum norm and units of the features (images: standard "
                       "deviation of a pixel; pixels stay between black and white)");

/// Kind of perturbation: its name, the axis of its levels, and how it changes the input.
struct PerturbationKind {
  std::string name;
  const io::Variable& axis;
  std::string how;
};
/// All kinds of perturbations of both spaces of ModelInput, in the order of their curves.
inline const std::vector<PerturbationKind>& kinds() {
  static const std::vector<PerturbationKind> all{
      {"noise", noise_level, "with Gaussian noise on the embedded input"},
      {"feature_noise", feature_noise_level, "with Gaussian noise on the features of the tokens"},
      {"dropped", dropped_share, "with that fraction of the tokens blanked"},
      {"fgsm", attack_level, "after one sign step of the embedded input (FGSM)"},
      {"pgd", attack_level, "after projected sign steps of the embedded input (PGD)"},
      {"worst", attack_level, "after a step along the worst direction of the embedded input"},
      {"feature_fgsm", feature_attack_level, "after one sign step of the features (FGSM)"},
      {"feature_pgd", feature_attack_level, "after projected sign steps of the features (PGD)"}};
  return all;
}

/// Variables of the response to one kind of perturbation.
struct Response {
  io::Variable accuracy, loss, change, sensitivity, not_finite, accuracy_by_sample;
};
/// Makes the variables "<kind>_accuracy", "<kind>_loss", ... over the axis of the kind.
inline Response response(const PerturbationKind& kind) {
  const auto variable = [&](const char* name, const std::string& long_name) {
    return io::Variable{kind.name + "_" + name, {kind.axis.name}, "", long_name};
  };
  const auto accuracy = variable("accuracy", "fraction of the samples classified correctly " + kind.how);
  return {accuracy,
          variable("loss", "mean cross entropy " + kind.how + ", of the samples with finite logits"),
          variable("change", "relative change of the embedded input " + kind.how + ", mean over samples"),
          variable("sensitivity", "relative change of the logits over that of the embedded input " +
                                      kind.how + ", mean over samples"),
          variable("not_finite", "samples whose logits are not finite " + kind.how),
          io::by_sample(accuracy, {kind.axis.name}, "1 if classified correctly " + kind.how + ", else 0")};
}

inline const io::Attribute classes{"classes", "number of classes: a guess is right once in so many times"};

inline const io::Variable accuracy{
    "accuracy", {}, "", "fraction of the samples classified correctly, unperturbed inputs"},
    accuracy_by_sample =
        io::by_sample(accuracy, {}, "1 if classified correctly without a perturbation, else 0"),
    loss{"loss", {}, "", "mean cross entropy, unperturbed inputs"},
    growth{"growth",
           {"<model>_depth"},
           "",
           "size of a small random perturbation of the embedded input relative to its size at depth 0, mean "
           "over samples"},
    tangent_growth{
        "tangent_growth", {"<model>_depth"}, "", "the same of an infinitesimal one in the same direction"},
    largest_singular_value{
        "largest_singular_value",
        {},
        "",
        "largest singular value of the Jacobian of the logits with respect to the embedded "
        "input, mean over samples"},
    relative_singular_value{
        "relative_singular_value",
        {},
        "",
        "largest singular value times the norm of the embedded input over that of the logits: the relative "
        "sensitivity to the worst small perturbation, mean over samples"};

}  // namespace fluxformer::perturbation::variables
