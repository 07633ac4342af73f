#pragma once

namespace fluxformer {

/// The parts of F_s = kappa Lap u + alpha A_s(u) + rho R_s(u). For norm = sphere attention and reaction are
/// projected to the tangent space at u.
enum class Mechanism { diffusion, attention, reaction };
inline constexpr Mechanism all_mechanisms[] = {Mechanism::diffusion, Mechanism::attention,
                                               Mechanism::reaction};

}  // namespace fluxformer
