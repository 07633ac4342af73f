#include "io/schema_perturbation.hpp"

namespace fluxformer {
namespace {

constexpr SchemaEntry entries[] = {
    {"/noise_level", "noise_level", "",
     "deviation of the noise over the root mean square of the sample's embedded input"},
    {"/feature_noise_level", "feature_noise_level", "",
     "deviation of the noise in units of the features (images: of a pixel's deviation, 0.3081 of black to "
     "white)"},
    {"/dropped_share", "dropped_share", "", "share of the tokens of a sample that is emptied"},
    {"/attack_level", "attack_level", "",
     "step over the size of the sample's embedded input: maximum norm over root mean square (FGSM, PGD), "
     "norm over norm (worst)"},
    {"/feature_attack_level", "feature_attack_level", "",
     "largest step of a feature in its units (images: of a pixel's deviation; pixels stay between black and "
     "white)"},
    {"/analysis/perturbation/<model>/accuracy", "seed", "",
     "share of the samples that is classified correctly, inputs as they are"},
    {"/analysis/perturbation/<model>/loss", "seed", "", "mean cross entropy, inputs as they are"},
    {"/analysis/perturbation/<model>/growth", "seed, <model>_depth", "",
     "size of a small random perturbation of the embedded input over its size at depth 0, mean over samples"},
    {"/analysis/perturbation/<model>/tangent_growth", "seed, <model>_depth", "",
     "the same of an infinitesimal one in the same direction"},
    {"/analysis/perturbation/<model>/largest_singular_value", "seed", "",
     "largest singular value of the Jacobian of the logits with respect to the embedded input, mean over "
     "samples"},
    {"/analysis/perturbation/<model>/relative_singular_value", "seed", "",
     "it times the norm of the embedded input over that of the logits: the relative sensitivity to the worst "
     "small perturbation, mean over samples"},
    {"/analysis/perturbation/<model>/noise_accuracy", "seed, noise_level", "",
     "share of the samples that is classified correctly with Gaussian noise on the embedded input"},
    {"/analysis/perturbation/<model>/noise_loss", "seed, noise_level", "",
     "mean cross entropy with Gaussian noise on the embedded input, of the samples with finite logits"},
    {"/analysis/perturbation/<model>/noise_change", "seed, noise_level", "",
     "relative change of the embedded input with Gaussian noise on the embedded input, mean over samples"},
    {"/analysis/perturbation/<model>/noise_sensitivity", "seed, noise_level", "",
     "relative change of the logits over that of the embedded input with Gaussian noise on the embedded "
     "input, mean over samples"},
    {"/analysis/perturbation/<model>/noise_not_finite", "seed, noise_level", "",
     "samples whose logits are not finite with Gaussian noise on the embedded input"},
    {"/analysis/perturbation/<model>/feature_noise_accuracy", "seed, feature_noise_level", "",
     "share of the samples that is classified correctly with Gaussian noise on the features of the tokens"},
    {"/analysis/perturbation/<model>/feature_noise_loss", "seed, feature_noise_level", "",
     "mean cross entropy with Gaussian noise on the features of the tokens, of the samples with finite "
     "logits"},
    {"/analysis/perturbation/<model>/feature_noise_change", "seed, feature_noise_level", "",
     "relative change of the embedded input with Gaussian noise on the features of the tokens, mean over "
     "samples"},
    {"/analysis/perturbation/<model>/feature_noise_sensitivity", "seed, feature_noise_level", "",
     "relative change of the logits over that of the embedded input with Gaussian noise on the features of "
     "the tokens, mean over samples"},
    {"/analysis/perturbation/<model>/feature_noise_not_finite", "seed, feature_noise_level", "",
     "samples whose logits are not finite with Gaussian noise on the features of the tokens"},
    {"/analysis/perturbation/<model>/dropped_accuracy", "seed, dropped_share", "",
     "share of the samples that is classified correctly with that share of the tokens emptied"},
    {"/analysis/perturbation/<model>/dropped_loss", "seed, dropped_share", "",
     "mean cross entropy with that share of the tokens emptied, of the samples with finite logits"},
    {"/analysis/perturbation/<model>/dropped_change", "seed, dropped_share", "",
     "relative change of the embedded input with that share of the tokens emptied, mean over samples"},
    {"/analysis/perturbation/<model>/dropped_sensitivity", "seed, dropped_share", "",
     "relative change of the logits over that of the embedded input with that share of the tokens emptied, "
     "mean over samples"},
    {"/analysis/perturbation/<model>/dropped_not_finite", "seed, dropped_share", "",
     "samples whose logits are not finite with that share of the tokens emptied"},
    {"/analysis/perturbation/<model>/fgsm_accuracy", "seed, attack_level", "",
     "share of the samples that is classified correctly after one sign step of the embedded input (FGSM)"},
    {"/analysis/perturbation/<model>/fgsm_loss", "seed, attack_level", "",
     "mean cross entropy after one sign step of the embedded input (FGSM), of the samples with finite "
     "logits"},
    {"/analysis/perturbation/<model>/fgsm_change", "seed, attack_level", "",
     "relative change of the embedded input after one sign step of the embedded input (FGSM), mean over "
     "samples"},
    {"/analysis/perturbation/<model>/fgsm_sensitivity", "seed, attack_level", "",
     "relative change of the logits over that of the embedded input after one sign step of the embedded "
     "input (FGSM), mean over samples"},
    {"/analysis/perturbation/<model>/fgsm_not_finite", "seed, attack_level", "",
     "samples whose logits are not finite after one sign step of the embedded input (FGSM)"},
    {"/analysis/perturbation/<model>/pgd_accuracy", "seed, attack_level", "",
     "share of the samples that is classified correctly after projected sign steps of the embedded input "
     "(PGD)"},
    {"/analysis/perturbation/<model>/pgd_loss", "seed, attack_level", "",
     "mean cross entropy after projected sign steps of the embedded input (PGD), of the samples with finite "
     "logits"},
    {"/analysis/perturbation/<model>/pgd_change", "seed, attack_level", "",
     "relative change of the embedded input after projected sign steps of the embedded input (PGD), mean "
     "over samples"},
    {"/analysis/perturbation/<model>/pgd_sensitivity", "seed, attack_level", "",
     "relative change of the logits over that of the embedded input after projected sign steps of the "
     "embedded input (PGD), mean over samples"},
    {"/analysis/perturbation/<model>/pgd_not_finite", "seed, attack_level", "",
     "samples whose logits are not finite after projected sign steps of the embedded input (PGD)"},
    {"/analysis/perturbation/<model>/worst_accuracy", "seed, attack_level", "",
     "share of the samples that is classified correctly after a step along the worst direction of the "
     "embedded input"},
    {"/analysis/perturbation/<model>/worst_loss", "seed, attack_level", "",
     "mean cross entropy after a step along the worst direction of the embedded input, of the samples with "
     "finite logits"},
    {"/analysis/perturbation/<model>/worst_change", "seed, attack_level", "",
     "relative change of the embedded input after a step along the worst direction of the embedded input, "
     "mean over samples"},
    {"/analysis/perturbation/<model>/worst_sensitivity", "seed, attack_level", "",
     "relative change of the logits over that of the embedded input after a step along the worst direction "
     "of the embedded input, mean over samples"},
    {"/analysis/perturbation/<model>/worst_not_finite", "seed, attack_level", "",
     "samples whose logits are not finite after a step along the worst direction of the embedded input"},
    {"/analysis/perturbation/<model>/feature_fgsm_accuracy", "seed, feature_attack_level", "",
     "share of the samples that is classified correctly after one sign step of the features (FGSM)"},
    {"/analysis/perturbation/<model>/feature_fgsm_loss", "seed, feature_attack_level", "",
     "mean cross entropy after one sign step of the features (FGSM), of the samples with finite logits"},
    {"/analysis/perturbation/<model>/feature_fgsm_change", "seed, feature_attack_level", "",
     "relative change of the embedded input after one sign step of the features (FGSM), mean over samples"},
    {"/analysis/perturbation/<model>/feature_fgsm_sensitivity", "seed, feature_attack_level", "",
     "relative change of the logits over that of the embedded input after one sign step of the features "
     "(FGSM), mean over samples"},
    {"/analysis/perturbation/<model>/feature_fgsm_not_finite", "seed, feature_attack_level", "",
     "samples whose logits are not finite after one sign step of the features (FGSM)"},
    {"/analysis/perturbation/<model>/feature_pgd_accuracy", "seed, feature_attack_level", "",
     "share of the samples that is classified correctly after projected sign steps of the features (PGD)"},
    {"/analysis/perturbation/<model>/feature_pgd_loss", "seed, feature_attack_level", "",
     "mean cross entropy after projected sign steps of the features (PGD), of the samples with finite "
     "logits"},
    {"/analysis/perturbation/<model>/feature_pgd_change", "seed, feature_attack_level", "",
     "relative change of the embedded input after projected sign steps of the features (PGD), mean over "
     "samples"},
    {"/analysis/perturbation/<model>/feature_pgd_sensitivity", "seed, feature_attack_level", "",
     "relative change of the logits over that of the embedded input after projected sign steps of the "
     "features (PGD), mean over samples"},
    {"/analysis/perturbation/<model>/feature_pgd_not_finite", "seed, feature_attack_level", "",
     "samples whose logits are not finite after projected sign steps of the features (PGD)"},
};

}  // namespace

std::span<const SchemaEntry> perturbation_schema() {
  return entries;
}

}  // namespace fluxformer
