#pragma once

// The loss of one sample as a function of its logits.
//
//   cross_entropy        -sum_c q_c log softmax(z)_c,   q = (1 - smoothing) onehot + smoothing / C
//   mean_squared_error   (1/C) sum_c (z_c - q_c)^2
//
// Source of label smoothing: Szegedy et al. 2016, arXiv 1512.00567.

#include <string>
#include <vector>

#include "model/sample_set.hpp"

namespace fluxformer {

enum class LossKind { cross_entropy, mean_squared_error };
/// Target of the logits: the class of a sample, or the words at its masked tokens.
enum class LossTarget { label, masked_words };

/// The keys train.loss, train.label_smoothing and train.objective of a deck.
struct Loss {
  LossKind kind = LossKind::cross_entropy;
  double smoothing = 0;  ///< label smoothing, in [0, 1)
  LossTarget target = LossTarget::label;
};

/// The loss of one sample with `classes` logits z; z_bar (if not null) := weight * d loss / dz. Not
/// collective.
double loss_of(const Loss& loss, const double* z, int classes, int label, double weight, double* z_bar);

/// z_bar_dot := weight * (d2 loss / dz2) z_dot for one sample: softmax(z) . (z_dot - softmax(z).z_dot), or
/// 2 z_dot / C. Positive semi-definite. Not collective.
void loss_curvature(const Loss& loss, const double* z, int classes, double weight, const double* z_dot,
                    double* z_bar_dot);

/// column := column c of a matrix B (classes x classes) with B B^T = weight d2 loss / dz2: for cross entropy
/// with p = softmax(z), column c is sqrt(weight p_c) (e_c - p). Not collective.
void loss_curvature_factor(const Loss& loss, const double* z, int classes, double weight, int c,
                           double* column);

/// The sum of the weights of the correctly classified samples of a batch; logits are [sample][class].
double correct_share(const Batch& batch, const std::vector<double>& logits, int classes);

/// The class with the largest logit (the first of equals); -1 if one is not a number.
int most_likely(const double* z, int classes);

/// The kind named by "cross_entropy" or "mean_squared_error"; throws BadInput for another word.
LossKind loss_kind(const std::string& word);

}  // namespace fluxformer
