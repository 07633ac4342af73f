#include "drivers/hessian/hessian_options.hpp"

#include <string>
#include <utility>

#include "drivers/compare/compare_options.hpp"
#include "drivers/hessian/layer_study.hpp"
#include "drivers/train/train_options.hpp"

namespace fluxformer {

namespace {

void declare_spectrum(Options& options) {
  declare_compared(options);
  declare_minimised(options);
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "hessian.parts",
           .fallback = std::string("hessian, gauss_newton"),
           .doc = "what is analysed: hessian, gauss_newton, functional (their difference)"});
  declare({.name = "hessian.eigenvalues",
           .fallback = 5L,
           .doc = "eigenvalues at either end of the spectrum (Krylov-Schur); 0: none",
           .minimum = 0});
  declare({.name = "hessian.tolerance",
           .fallback = 1e-6,
           .doc = "residual |H x - lambda x| / ||H|| at which an eigenvalue has converged",
           .minimum = 1e-14,
           .maximum = 0.1});
  declare({.name = "hessian.probes",
           .fallback = 4L,
           .doc = "random vectors for the spectral density, the trace and the norm; 0: none of these",
           .minimum = 0});
  declare({.name = "hessian.steps",
           .fallback = 30L,
           .doc = "Lanczos steps for each random vector of the spectral density",
           .minimum = 1});
  declare(
      {.name = "hessian.blocks",
       .fallback = std::string("Q, K, V, O, W_1, W_2, embedding, head"),
       .doc = "kinds of blocks whose traces and norms are estimated: Q, K, V, O, W_1, W_2, embedding, head"});
  declare({.name = "hessian.block_probes",
           .fallback = 0L,
           .doc = "random vectors for each block, a product with the Hessian each; 0: no blocks",
           .minimum = 0});
  declare({.name = "hessian.block_steps",
           .fallback = 0L,
           .doc =
               "Lanczos steps for each of them: spectral densities of the diagonal blocks and the distances "
               "between them; 0: none",
           .minimum = 0,
           .when = "hessian.block_probes != 0"});
  declare({.name = "hessian.lambda_0",
           .fallback = 0.01,
           .doc =
               "eigenvalue, over the root mean square of its block, at which the axis for the comparison of "
               "densities turns from linear to logarithmic",
           .minimum = 1e-12,
           .when = "hessian.block_steps != 0"});
  declare({.name = "hessian.broadening",
           .fallback = 0.2,
           .doc = "standard deviation of the broadening of these densities, in asinh(eigenvalue / lambda_0)",
           .minimum = 1e-3,
           .when = "hessian.block_steps != 0"});
  declare(epochs_option("hessian.epochs"));
}

}  // namespace

void declare_hessian(Options& options) {
  options.declare({.name = "hessian.study",
                   .fallback = std::string("spectrum"),
                   .doc =
                       "spectrum: of trained models; blocks, scaling: sizes of the entries of one attention "
                       "layer's Hessian, and the growth of its norms with the size of the embeddings",
                   .choices = {"spectrum", "blocks", "scaling"}});
  options.declare_when("hessian.study = spectrum", declare_spectrum);
  options.declare_when("hessian.study = blocks | scaling", declare_layer_study);
  declare_compare_run(options, "hessian.h5");
}

}  // namespace fluxformer
