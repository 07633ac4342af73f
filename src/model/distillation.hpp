#pragma once

// Distillation from a trained teacher, at the depths where its layers end:
//
//   hidden      weight / S sum over layers l of |u(l) - U(l)|^2 / |U(l)|^2, over real tokens and channels
//   attention   weight / S sum over layers l of KL(K_l || k_l), k_l the student's attention at s = l - 1
//
// averaged over samples; U and K are the teacher's hidden states and attention for the same inputs. Sources:
// Hinton, Vinyals, Dean, arXiv 1503.02531; for both terms Jiao et al., arXiv 1909.10351.

#include <memory>
#include <vector>

#include "model/depth_model.hpp"
#include "model/depth_weights.hpp"
#include "model/gradient_evaluator.hpp"

namespace fluxformer {

/// The hidden states and the attention of a trained model for a batch.
class Teacher {
 public:
  /// `context` (borrowed) gives the token line and the samples of the student; the teacher may have another
  /// width. Throws BadInput for weights that are not one set per layer.
  Teacher(Parameters parameters, const SlabContext& context, Precision precision);
  const ModelSpec& spec() const { return parameters_.spec; }

  /// Runs the teacher on `batch` through the layers up to `last`, with its attention if asked for. Collective
  /// over the token line.
  void observe(const Batch& batch, bool attention, int last);
  /// The hidden state U(l) after layer l = 0 .. S, a slab.
  const std::vector<double>& state(int l) const { return states_[l]; }
  /// |U(l)|^2 of a sample, summed over all its real tokens.
  double square(int l, int sample) const { return squares_[l * context_.samples + sample]; }
  /// The attention K_l of layer l = 1 .. S, [sample][head][query][key].
  const std::vector<double>& attention(int l) const { return attention_[l - 1]; }

 private:
  Parameters parameters_;
  SlabContext context_;
  std::unique_ptr<DepthModel> model_;
  void find_squares(int last);
  std::vector<std::vector<double>> states_, attention_;
  std::vector<double> squares_;  // [layer][sample]
};

class AttentionMatch;

/// Both terms of the distillation as a loss at intermediate depths, with its gradient.
class Distillation final : public DepthLoss {
 public:
  /// The keys distill.hidden and distill.attention; 0 leaves the term out.
  struct Weights {
    double hidden = 0, attention = 0;
  };
  /// All objects are borrowed; `cells` are those of the stage, whose states are compared. Throws BadInput for
  /// a teacher of another number of layers, width (hidden) or heads (attention), for cells that do not end
  /// where layers do, and for order macaron (attention).
  Distillation(Teacher& teacher, const Parameters& student, const SlabContext& context,
               const DepthCells& depth, Weights weights, DepthRange cells);
  /// The distillation of a model that is not cut into stages.
  Distillation(Teacher& teacher, const Parameters& student, const SlabContext& context,
               const DepthCells& depth, Weights weights)
      : Distillation(teacher, student, context, depth, weights, all_cells(depth)) {}
  ~Distillation() override;

  void begin(const Batch& batch) override {
    teacher_.observe(batch, weights_.attention > 0, last_layer_);
    student_.refresh();
  }
  bool looks_at(int row) const override { return layer_ending_at(row, layer_rows_) >= 0; }
  double add(int row, const Batch& batch, const double* u, double* u_bar,
             std::span<double> gradient) override;

 private:
  double add_hidden(int layer, const Batch& batch, const double* u, double* u_bar) const;
  double add_attention(int layer, const Batch& batch, const double* u, double* u_bar,
                       std::span<double> gradient);
  Teacher& teacher_;
  const SlabContext& context_;
  DepthCells depth_;
  Weights weights_;
  std::vector<int> layer_rows_;
  int last_layer_;  // the teacher's last layer that is compared
  DepthWeights<double> student_;
  std::unique_ptr<AttentionMatch> match_;  // null without attention
};

}  // namespace fluxformer
