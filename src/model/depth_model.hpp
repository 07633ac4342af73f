#pragma once

// A model on one slab at any depth: the layer map G_s(u; h) and the field F_s(u) of docs/model.md sections 1
// and 2, with tangents and adjoints. The interface that evolve, march and back-propagation call, whatever the
// arithmetic of the kernels.

#include <algorithm>
#include <memory>
#include <span>
#include <string>

#include "model/depth_weights.hpp"
#include "operators/slab.hpp"

namespace fluxformer {

/// The parts of the field F_s = kappa Lap u + alpha A_s(u) + rho R_s(u). For norm = sphere attention and
/// reaction are projected to the tangent space at u.
enum class FieldTermKind { diffusion, attention, reaction };
inline constexpr FieldTermKind all_field_terms[] = {FieldTermKind::diffusion, FieldTermKind::attention,
                                                    FieldTermKind::reaction};

/// The arithmetic of the kernels. States, parameters and gradients are double in any case. `mixed` is float32
/// in which the linear maps of attention and reaction multiply numbers rounded to bfloat16; `mixed_emulated`
/// rounds the same on processors without such products.
enum class Precision { float32, float64, mixed, mixed_emulated };

/// True if some factors are rounded to bfloat16.
constexpr bool is_mixed(Precision precision) {
  return precision == Precision::mixed || precision == Precision::mixed_emulated;
}

/// The coefficients of equation (1): the range of kappa over layers and channels, and alpha and rho, which
/// are the same everywhere.
struct EquationCoefficients {
  double least_kappa = 0, largest_kappa = 0, alpha = 1, rho = 1;
};

/// The activations of one application of the layer map, kept for its adjoint. A tape may be used again.
class Tape {
 public:
  virtual ~Tape() = default;
  /// Memory that the tape holds, in bytes; the first map_keeping allocates it.
  virtual std::size_t bytes() const = 0;
};

/// A model on one slab: layer map and field with their derivatives. Slabs are context().size() doubles. Calls
/// are collective over the token line.
class DepthModel {
 public:
  virtual ~DepthModel() = default;
  /// The structure of the model, and the tokens, samples and mask of its slabs.
  virtual const ModelSpec& spec() const = 0;
  virtual const SlabContext& context() const = 0;

  /// out += scale * (G(u; h) - base), h in layers divided by the speed c. `base` may be `u`; `out` overlaps
  /// neither. A zero vector with norm = sphere gives NaN (the solvers report a non-finite state).
  virtual void add_map(const DepthPoint& at, double h, double scale, const double* u, const double* base,
                       double* out) = 0;
  /// out = G(u; h) - u
  void increment(const DepthPoint& at, double h, const double* u, double* out) {
    std::fill_n(out, context().size(), 0.0);
    add_map(at, h, 1.0, u, u, out);
  }
  /// out = (dG/du - I) v
  virtual void increment_tangent(const DepthPoint& at, double h, const double* u, const double* v,
                                 double* out) = 0;
  /// u_bar += (dG/du - I)^T w; parameters (the flat vector, or empty) += this rank's share of (dG/dtheta)^T w
  virtual void increment_adjoint(const DepthPoint& at, double h, const double* u, const double* w,
                                 double* u_bar, std::span<double> parameters) = 0;

  /// An empty tape. Each cell has one: a forward pass fills it; tangents and the backward pass read it, at
  /// the depth, h, u, mask and parameters of that forward pass, and leave it as it is.
  virtual std::unique_ptr<Tape> make_tape() const = 0;
  /// v = G(u; h), recording on `tape` (of this model) what map_adjoint needs. v must not overlap u.
  virtual void map_keeping(const DepthPoint& at, double h, const double* u, double* v, Tape& tape) = 0;
  /// v_dot := (dG/du) u_dot (overwritten; must not overlap u_dot) at the depth, h, u, mask and parameters of
  /// the map_keeping that filled `tape`.
  virtual void map_tangent(const DepthPoint& at, double h, const double* u, Tape& tape, const double* u_dot,
                           double* v_dot) = 0;
  /// u_bar := (dG/du)^T w (overwritten; must not overlap w) at the depth, h, u, mask and parameters of the
  /// map_keeping that filled `tape`; parameters += this rank's share of (dG/dtheta)^T w, as in
  /// increment_adjoint. The tape does not change.
  virtual void map_adjoint(const DepthPoint& at, double h, const double* u, Tape& tape, const double* w,
                           double* u_bar, std::span<double> parameters) = 0;

  /// out += scale * part(u)
  virtual void add_field(FieldTermKind part, const DepthPoint& at, double scale, const double* u,
                         double* out) = 0;
  /// out += scale * (d part/du) v
  virtual void add_field_tangent(FieldTermKind part, const DepthPoint& at, double scale, const double* u,
                                 const double* v, double* out) = 0;
  /// u_bar += scale * (d part/du)^T w; parameters += scale * (d part/dtheta)^T w, as in increment_adjoint.
  virtual void add_field_adjoint(FieldTermKind part, const DepthPoint& at, double scale, const double* u,
                                 const double* w, double* u_bar, std::span<double> parameters) = 0;
  /// out := scale * F(u), the sum of all parts (no norm = sphere), recording on `tape` what field_adjoint
  /// needs.
  virtual void field_keeping(const DepthPoint& at, double scale, const double* u, double* out,
                             Tape& tape) = 0;
  /// u_bar := scale * (dF/du)^T w at the depth, u, mask and parameters of the field_keeping that filled
  /// `tape`, which does not change; parameters += scale * (dF/dtheta)^T w, as in increment_adjoint. `scale`
  /// may differ from that of field_keeping.
  virtual void field_adjoint(const DepthPoint& at, double scale, const double* u, Tape& tape, const double* w,
                             double* u_bar, std::span<double> parameters) = 0;
  /// diagonal += scale * the diagonal of the token diffusion at this depth
  virtual void add_diffusion_diagonal(const DepthPoint& at, double scale, double* diagonal) = 0;

  /// v := the state on which attention acts within G(u; h): u, or under macaron what the first half of the
  /// reaction made of it. LayerNorm of norm = pre comes after that.
  virtual void attention_state(const DepthPoint& at, double h, const double* u, double* v) = 0;
  /// The attention kernel within the layer map G(u; h): [sample][head][local query][global key].
  virtual void attention_matrix(const DepthPoint& at, double h, const double* u, double* k) = 0;

  /// Makes the range of kappa in `coefficients` that of all ranks of `comm`, which may hold other knots,
  /// until the next `refresh`. Collective.
  virtual void agree_on_coefficients(MPI_Comm comm) = 0;
  /// The coefficients of the equation; the range of kappa is that of the last `refresh`.
  virtual EquationCoefficients coefficients() const = 0;
  /// Largest kappa over layers and channels; 0 if there is no token diffusion.
  double largest_kappa() const { return coefficients().largest_kappa; }
  /// Interpolates the parameters of these depths once and keeps them.
  virtual void prepare(std::span<const DepthPoint> points) = 0;
  /// To be called after the parameters changed. Not collective.
  virtual void refresh() = 0;
};

/// Makes the model of these parameters in the given arithmetic. `parameters` and `context` are borrowed.
/// Throws BadInput for combinations that are not defined (kappa > 0 with a causal mask, sinkhorn with a
/// causal mask, ...).
std::unique_ptr<DepthModel> make_depth_model(const Parameters& parameters, const SlabContext& context,
                                             Precision precision);

}  // namespace fluxformer
