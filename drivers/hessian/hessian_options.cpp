#include "drivers/hessian/hessian_options.hpp"

#include <limits>
#include <string>
#include <utility>

#include "analysis/hessian/parameter_blocks.hpp"
#include "drivers/common/run_options.hpp"
#include "drivers/compare/compare_options.hpp"
#include "drivers/hessian/hessian_measures.hpp"
#include "drivers/train/train_options.hpp"

namespace fluxformer {

namespace {

void declare_controls_and_samples(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "models.linear",
           .fallback = std::string(),
           .doc = "control: HDF5 file of a Transformer trained with linear attention "
                  "(attention.normalisation = linear); empty: none"});
  declare({.name = "models.mlp",
           .fallback = std::string(),
           .doc = "control: HDF5 file of a Transformer trained without attention (equation.alpha = 0), which "
                  "is an MLP with data.tokens = whole; empty: none"});
  declare({.name = "data.split",
           .fallback = std::string("test"),
           .doc = "split that samples are drawn from; train: the first samples that the training of each "
                  "model drew (with its own run.seed)",
           .choices = {"train", "test"}});
  declare({.name = "mesh.ranks_token",
           .fallback = 1L,
           .doc = "MPI ranks that share the tokens of a sample",
           .minimum = 1,
           .role = Role::free});
}

void declare_whole_spectrum(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "hessian.parts",
           .fallback = std::vector<std::string>{"hessian", "gauss_newton"},
           .doc = "parts of the Hessian that are analysed; functional is the difference of the other two",
           .choices = hessian_parts,
           .not_empty = true});
  declare({.name = "hessian.eigenvalues",
           .fallback = 5L,
           .doc = "number of eigenvalues at either end of the spectrum (Krylov-Schur); 0: none",
           .minimum = 0});
  declare({.name = "hessian.tolerance",
           .fallback = 1e-6,
           .doc = "residual |H x - lambda x| / ||H|| at which an eigenvalue has converged",
           .minimum = 1e-14,
           .maximum = 0.1});
  declare({.name = "hessian.probes",
           .fallback = 4L,
           .doc = "number of random vectors for the spectral density, the trace and the norm; 0: these are "
                  "not computed",
           .minimum = 0});
  declare({.name = "hessian.steps",
           .fallback = 30L,
           .doc = "Lanczos steps for each random vector of the spectral density",
           .minimum = 1});
}

void declare_block_measures(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "hessian.blocks",
           .fallback = hessian::block_kinds,
           .doc = "kinds of blocks whose traces and norms are estimated",
           .choices = hessian::block_kinds});
  declare({.name = "hessian.block_probes",
           .fallback = 0L,
           .doc = "number of random vectors for each block, each of which takes a product with the Hessian; "
                  "0: no blocks",
           .minimum = 0});
  declare({.name = "hessian.block_steps",
           .fallback = 0L,
           .doc = "Lanczos steps for each random vector of a block, for spectral densities of the diagonal "
                  "blocks and the distances between them; 0: no densities",
           .minimum = 0,
           .when = When{"hessian.block_probes", Not{0L}}});
  declare({.name = "hessian.block_eigenvalues",
           .fallback = false,
           .doc = "compute the eigenvalue of largest magnitude of each diagonal block (Krylov-Schur)"});
  declare({.name = "hessian.exact",
           .fallback = false,
           .doc =
               "compute the whole spectrum of the Gauss-Newton part, its blocks and the distances between "
               "their spectra exactly, from the gradients of all outputs; takes samples x classes gradients "
               "of one sample, and as many times the size of the model in memory, shared by the ranks"});
  declare({.name = "hessian.lambda_0",
           .fallback = 0.01,
           .doc = "eigenvalue, relative to the root mean square of its block, at which the axis for "
                  "comparing densities turns from linear to logarithmic",
           .minimum = 1e-12});
  declare({.name = "hessian.broadening",
           .fallback = 0.5,
           .doc = "standard deviation by which the compared densities are broadened, in asinh(eigenvalue / "
                  "lambda_0)",
           .minimum = 1e-3});
}

void declare_spectrum(Options& options) {
  declare_compared(options);
  declare_minimised(options);
  declare_controls_and_samples(options);
  declare_whole_spectrum(options);
  declare_block_measures(options);
  options.declare(epochs_option("hessian.epochs"));
}

void declare_layer_study(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "hessian.layers",
           .fallback = std::vector<std::string>{"softmax", "linear"},
           .doc = "kinds of layers: softmax, linear (attention whose weights are the logits), "
                  "softmax_pre_norm (LayerNorm before attention, MLP and unembedding), softmax_post_norm "
                  "(LayerNorm after both sums), linear_mlp (matrices without activation and a squared-error "
                  "loss, whatever hessian.mlp, .residual and .loss are; scaling only)",
           .choices = {"softmax", "linear", "softmax_pre_norm", "softmax_post_norm", "linear_mlp"},
           .not_empty = true});
  declare({.name = "hessian.seeds",
           .fallback = std::vector<long>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
           .doc = "seeds of data and weights",
           .minimum = 0,
           .maximum = std::numeric_limits<int>::max(),
           .not_empty = true});
  declare({.name = "hessian.width",
           .fallback = 16L,
           .doc = "width of the decoder and of its one head",
           .minimum = 1});
  declare(
      {.name = "hessian.sequences",
       .fallback = 64L,
       .doc =
           "number of training sequences (5-digit additions); the six answer digits of each enter the loss",
       .minimum = 1});
  declare({.name = "hessian.mlp", .fallback = true, .doc = "give each layer an MLP of four times the width"});
  declare({.name = "hessian.residual",
           .fallback = 1.0,
           .doc = "factor of the residual connection around attention"});
  declare({.name = "hessian.loss",
           .fallback = std::string("cross_entropy"),
           .doc = "cross entropy of the next token, or squared error to the one-hot of the current token",
           .choices = {"cross_entropy", "squared_error"}});
  declare({.name = "hessian.heat_map",
           .fallback = false,
           .doc = "also store the sizes of all entries of the Hessian, for the first seed of each kind of "
                  "layer: a number of 4 bytes for each pair of weights of the decoder",
           .when = When{"hessian.study", "blocks"}});
  options.declare_when(When{"hessian.study", "scaling"}, [](Options& scaling) {
    scaling.declare({.name = "hessian.sigmas",
                     .fallback = std::vector<double>{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10},
                     .doc = "standard deviations of the embeddings",
                     .minimum = 1e-100,
                     .maximum = 1e100,
                     .not_empty = true});
    scaling.declare({.name = "hessian.depth",
                     .fallback = 1L,
                     .doc = "number of layers; norms are exact for one layer, estimated for more",
                     .unit = "layers",
                     .minimum = 1});
    scaling.declare({.name = "hessian.norm_probes",
                     .fallback = 20L,
                     .doc = "number of random vectors for each norm with more than one layer",
                     .minimum = 1});
  });
  declare({.name = "checkpoint.every",
           .fallback = 5.0,
           .doc = "wall time between checkpoints of the finished points; 0: only when stopped",
           .unit = "s",
           .minimum = 0,
           .role = Role::output});
  declare(restart_option());
}

}  // namespace

void declare_hessian(Options& options) {
  options.declare(
      {.name = "hessian.study",
       .fallback = std::string("spectrum"),
       .doc = "spectrum: spectra of trained models; blocks: sizes of the entries of the Hessian of one "
              "attention layer; scaling: growth of its norms with the size of the embeddings",
       .choices = {"spectrum", "blocks", "scaling"}});
  options.declare_when(When{"hessian.study", "spectrum"}, declare_spectrum);
  options.declare_when(When{"hessian.study", {"blocks", "scaling"}}, declare_layer_study);
  declare_compare_run(options, "hessian.h5");
}

}  // namespace fluxformer
