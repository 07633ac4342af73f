#pragma once

// A model on one slab at any depth: the layer map G_s(u; h) and the field F_s(u) of docs/model.md sections 1
// and 2, with tangents and adjoints. The interface that evolve, march and back-propagation call, whatever the
// arithmetic of the kernels.

#include <mpi.h>

#include <memory>
#include <span>

#include "model/depth_weights.hpp"
#include "operators/slab.hpp"
#include "operators/slab_term.hpp"

namespace fluxformer {

/// The parts of the field F_s = kappa Lap u - nu d/dx u + alpha A_s(u) + rho R_s(u). For norm = sphere
/// attention and reaction are projected to the tangent space at u.
enum class FieldTermKind { diffusion, transport, attention, reaction };
inline constexpr FieldTermKind all_field_terms[] = {FieldTermKind::diffusion, FieldTermKind::transport,
                                                    FieldTermKind::attention, FieldTermKind::reaction};

/// The arithmetic of the kernels. States, parameters and gradients are double in any case. `mixed` is float32
/// in which the linear maps of attention and reaction multiply numbers rounded to bfloat16; `mixed_emulated`
/// rounds the same on processors without such products.
enum class Precision { float32, float64, mixed, mixed_emulated };

/// True if some factors are rounded to bfloat16.
constexpr bool is_mixed(Precision precision) {
  return precision == Precision::mixed || precision == Precision::mixed_emulated;
}

/// The coefficients of equation (1): the ranges of kappa and nu over the knots of this rank and their channels,
/// and alpha and rho, which are the same everywhere.
struct EquationCoefficients {
  /// The least and the largest value.
  struct Range {
    double least = 0, largest = 0;
  };
  Range kappa, nu;
  double alpha = 1, rho = 1;
};

/// The values that one application of the layer map, or of the field, keeps for its derivatives. A tape may
/// be used again: each application overwrites it.
class Tape {
 public:
  virtual ~Tape() = default;
  /// Memory that the tape holds, in bytes; the first application allocates it.
  virtual std::size_t bytes() const = 0;
};

/// A model on one slab: layer map and field with their derivatives. Slabs are context().size() doubles;
/// results overlap no argument. Calls are collective over the token line unless they say otherwise.
///
/// A null tape means: keep nothing, compute again. With a tape, derivatives read what the application that
/// filled it kept, at its depth, h, u, mask, parameters and parts. `parameters` is the flat vector of a
/// gradient, or empty: += this rank's share. `direction` is a flat vector of variations, or empty: the
/// parameters do not vary.
class DepthModel {
 public:
  virtual ~DepthModel() = default;
  DepthModel(const DepthModel&) = delete;
  DepthModel& operator=(const DepthModel&) = delete;
  /// The structure of the model, and the tokens, samples and mask of its slabs.
  const ModelSpec& spec() const { return parameters_.spec; }
  const SlabContext& context() const { return context_; }
  /// The arithmetic of the kernels.
  virtual Precision precision() const = 0;
  /// The coefficients of the equation, as of the last `refresh`. Not collective.
  const EquationCoefficients& coefficients() const { return coefficients_; }
  /// Largest kappa over layers and channels; 0 if there is no token diffusion. Not collective.
  double largest_kappa() const { return coefficients_.kappa.largest; }
  /// The same of nu; 0 if there is no token transport.
  double largest_nu() const { return coefficients_.nu.largest; }
  /// Makes the ranges of kappa and nu those of all ranks of `comm`, which may hold other knots, until the next
  /// `refresh`. Collective.
  void agree_on_coefficients(MPI_Comm comm);

  /// An empty tape for derivatives up to this order. Throws BadInput, naming the key, for second derivatives
  /// of a model that has none, or whose products are rounded.
  virtual std::unique_ptr<Tape> make_tape(Order upto) const = 0;

  /// v = G(u; h), h in layers divided by the speed c. A zero vector with norm = sphere gives NaN (the solvers
  /// report a non-finite state).
  virtual void map(const DepthPoint& at, double h, const double* u, double* v, Tape* tape) = 0;
  /// v_dot = (dG/du) u_dot + (dG/dtheta) direction
  virtual void push(const DepthPoint& at, double h, Point point, std::span<const double> direction,
                    double* v_dot, Tape* tape) = 0;
  /// u_bar = (dG/du)^T w; parameters += (dG/dtheta)^T w. With `keep` = second, what pull_along needs is kept
  /// on a tape of second order; otherwise the tape stays as it is.
  virtual void pull(const DepthPoint& at, double h, const double* u, const double* w, double* u_bar,
                    std::span<double> parameters, Tape* tape, Order keep) = 0;
  /// The derivative of the last pull that kept, along the direction (u_dot, direction) of the last push with
  /// this tape and w_dot, all with the same h: u_bar_dot = and parameters_dot += . `direction` and
  /// `parameters_dot` are not empty.
  virtual void pull_along(const DepthPoint& at, double h, Point point, const double* w_dot,
                          std::span<const double> direction, double* u_bar_dot,
                          std::span<double> parameters_dot, Tape& tape) = 0;
  /// out = G(u; h) - u
  void increment(const DepthPoint& at, double h, const double* u, double* out);

  /// out += scale * (the sum of these parts of the field)(u)
  virtual void field(std::span<const FieldTermKind> parts, const DepthPoint& at, double scale,
                     const double* u, double* out, Tape* tape) = 0;
  /// out += scale * (d parts/du) u_dot
  virtual void push_field(std::span<const FieldTermKind> parts, const DepthPoint& at, double scale,
                          Point point, double* out) = 0;
  /// u_bar += scale * (d parts/du)^T w; parameters += scale * (d parts/dtheta)^T w
  virtual void pull_field(std::span<const FieldTermKind> parts, const DepthPoint& at, double scale,
                          const double* u, const double* w, double* u_bar, std::span<double> parameters,
                          Tape* tape) = 0;
  /// diagonal += scale * the diagonal of the token diffusion at this depth
  virtual void add_diffusion_diagonal(const DepthPoint& at, double scale, double* diagonal) = 0;

  /// The attention within the layer map G(u; h). v (if not null): the state on which it acts, which is u, or
  /// under macaron what the first half of the reaction made of it; LayerNorm of norm = pre comes after that.
  /// k (if not null): its kernel, [sample][head][local query][global key].
  virtual void attention(const DepthPoint& at, double h, const double* u, double* v, double* k) = 0;

  /// Interpolates the parameters of these depths once and keeps them.
  virtual void prepare(std::span<const DepthPoint> points) = 0;
  /// To be called after the parameters changed. Throws BadInput for a negative kappa or nu. Not collective.
  virtual void refresh() = 0;

 protected:
  /// Both are borrowed. Throws BadInput for a structure that is not valid, and for a negative kappa
  /// or nu.
  DepthModel(const Parameters& parameters, const SlabContext& context);
  void read_coefficients();

  const Parameters& parameters_;
  const SlabContext& context_;

 private:
  EquationCoefficients coefficients_;
};

/// Makes the model of these parameters in the given arithmetic. `parameters` and `context` are borrowed.
/// Throws BadInput for combinations that are not defined (kappa > 0 with a causal mask, sinkhorn with a
/// causal mask, ...).
std::unique_ptr<DepthModel> make_depth_model(const Parameters& parameters, const SlabContext& context,
                                             Precision precision);

}  // namespace fluxformer
