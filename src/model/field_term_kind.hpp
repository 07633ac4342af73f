#pragma once

namespace fluxformer {

/// The parts of F_s = kappa Lap u + alpha A_s(u) + rho R_s(u). For norm = sphere attention and reaction are
/// projected to the tangent space at u.
enum class FieldTermKind { diffusion, attention, reaction };
inline constexpr FieldTermKind all_field_terms[] = {FieldTermKind::diffusion, FieldTermKind::attention,
                                                    FieldTermKind::reaction};

}  // namespace fluxformer
