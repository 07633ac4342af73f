// The Hessian over the variables of a training: derivative of its gradient, null vectors and gauge directions
// that symmetries of the model imply, spectrum against a dense eigen-solve.

#include "analysis/hessian/training_hessian.hpp"

#include <gtest/gtest.h>

#include "solvers/spectra/eigenvalues.hpp"
#include "solvers/spectra/symmetric_operator.hpp"
#include "tests/support/classifier_hessian.hpp"
#include "tests/support/richardson.hpp"
#include "tests/support/small_word_models.hpp"
#include "tests/support/symmetric_matrix.hpp"
#include "training/smoothness.hpp"

namespace fluxformer {
namespace {

using namespace test;

SmallClassifier named(const char* name) {
  for (auto& c : small_classifiers())
    if (c.name == name) return c;
  throw std::logic_error("no such classifier");
}

/// The gradient of everything that is minimised with respect to the variables, at other variables.
std::vector<double> gradient_at(ClassifierHessian& of, const std::vector<double>& raw) {
  auto& p = of.run.parameters;
  const auto kept = p.values;
  auto variables = raw;
  of.hessian.trainable().apply(variables, p.values, {});
  of.run.model->refresh();
  std::vector<double> sum(raw.size(), 0.0);
  of.samples.for_batches([&](const Batch& batch) {
    const auto part = of.run.gradient(batch);
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += part[j];
  });
  add_smoothness(p.spec, p, of.objective.smoothness, sum);
  of.hessian.trainable().pull(p.values, sum);
  p.values = kept;
  of.run.model->refresh();
  return sum;
}

TEST(TrainingHessian, times_a_direction_is_the_derivative_of_the_gradient_over_the_variables) {
  for (const char* name : {"pre", "pde", "macaron"}) {
    ClassifierHessian of(MPI_COMM_SELF, 1, named(name));
    const auto raw = of.hessian.trainable().raw(of.run.parameters.values);
    EXPECT_LT(relative_difference(gradient_at(of, raw), of.hessian.gradient()), 1e-13) << name;
    const auto v = random_vector(raw.size(), 4, 0.1);
    const auto expected = derivative([&](double step) { return gradient_at(of, plus(raw, step, v)); }, 0.005);
    EXPECT_LT(relative_difference(of.product(Curvature::hessian, v), expected), 1e-8) << name;
  }
}

TEST(TrainingHessian, of_masked_words_is_the_derivative_of_the_gradient_over_the_variables) {
  for (const auto& c : small_word_models()) {
    ClassifierHessian of(MPI_COMM_SELF, 1, c);
    const auto raw = of.hessian.trainable().raw(of.run.parameters.values);
    EXPECT_LT(relative_difference(gradient_at(of, raw), of.hessian.gradient()), 1e-13) << c.name;
    const auto v = random_vector(raw.size(), 4, 0.1);
    const auto expected =
        derivative([&](double step) { return gradient_at(of, plus(raw, step, v)); }, 0.0025);
    EXPECT_LT(relative_difference(of.product(Curvature::hessian, v), expected), 1e-8) << c.name;
    // The two parts differ: the functional part of a model that is no linear map is not 0.
    EXPECT_GT(relative_difference(of.product(Curvature::gauss_newton, v), expected), 1e-3) << c.name;
  }
}

TEST(TrainingHessian, leaves_the_direction_as_it_was) {
  // kappa is not trained (pre), or by way of softplus; then alpha and rho, too, or neither.
  for (const char* name : {"pre", "pde", "macaron"})
    for (const bool coefficients : {true, false}) {
      ClassifierHessian of(MPI_COMM_SELF, 1, named(name));
      auto objective = of.objective;
      objective.coefficients.alpha = objective.coefficients.rho = coefficients;
      hessian::TrainingHessian hessian(of.run.parameters, of.run.context, of.run.march.depth(), 1, of.samples,
                                       objective);
      const auto direction = random_vector(hessian.size(), 4);
      for (const auto part : {Curvature::hessian, Curvature::gauss_newton}) {
        auto v = direction;
        std::vector<double> product(v.size()), again(v.size());
        hessian.multiply(part, v, product);
        EXPECT_EQ(v, direction) << name;
        hessian.multiply(part, v, again);
        EXPECT_EQ(again, product) << name;
      }
      auto pulled = direction;
      hessian.trainable().pull(of.run.parameters.values, pulled);
      EXPECT_NE(pulled, direction) << name << ": a case that shows nothing";
    }
}

TEST(TrainingHessian, leaves_out_what_is_not_trained) {
  ClassifierHessian of(MPI_COMM_SELF, 1, named("pre"));
  const auto v = random_vector(of.hessian.size(), 4);
  for (const auto part : {Curvature::hessian, Curvature::gauss_newton}) {
    const auto product = of.product(part, v);
    auto other = v;
    for (const auto& view : of.run.parameters.layout.views())
      if (view.name == "kappa") {
        for (Index j = view.offset; j < view.offset + view.size(); ++j) {
          EXPECT_EQ(product[j], 0);
          other[j] += 1;
        }
      }
    EXPECT_EQ(of.product(part, other), product);
  }
}

constexpr int training_hessian_width = 6, head_width = 3;  // of the small models, two heads

using Small = Eigen::Matrix<double, head_width, head_width, Eigen::RowMajor>;
using Rows = Eigen::Map<Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
using ConstRows = Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

Small generator(unsigned seed) {
  const auto numbers = random_vector(head_width * head_width, seed);
  return ConstRows(numbers.data(), head_width, head_width);
}

/// out's array += factor * (matrix times the head's rows of from's array).
void add_rows(const Parameters& p, const std::string& path, int head, const Small& matrix,
              const std::vector<double>& from, std::vector<double>& out) {
  const auto& view = p.layout.at(path);
  const int columns = view.shape.size() == 2 ? view.shape[1] : 1;
  const Index at = view.offset + head * head_width * columns;
  Rows(out.data() + at, head_width, columns) += matrix * ConstRows(from.data() + at, head_width, columns);
}

/// Adds to the head's columns of W_O: += from W_O(:, head) matrix.
void add_columns(const Parameters& p, const std::string& path, int head, const Small& matrix,
                 const std::vector<double>& from, std::vector<double>& out) {
  const auto at = p.layout.at(path).offset;
  Rows(out.data() + at, training_hessian_width, training_hessian_width)
      .middleCols(head * head_width, head_width) +=
      ConstRows(from.data() + at, training_hessian_width, training_hessian_width)
          .middleCols(head * head_width, head_width) *
      matrix;
}

// The loss does not change under q -> exp(e A) q, k -> exp(-e A^T) k, nor under v -> exp(e B) v,
// W_O -> W_O exp(-e B). With the generator M of such a symmetry, theta_dot = M theta: J theta_dot = 0 for the
// Jacobian of the logits, and differentiating g(exp(e M) theta) = exp(-e M^T) g(theta): H M theta = -M^T g.
TEST(TrainingHessian, turns_gauge_directions_into_the_gradient_and_gauss_newton_into_zero) {
  for (const char* name : {"pre", "post", "pde"}) {
    ClassifierHessian of(MPI_COMM_SELF, 1, named(name));
    if (of.objective.smoothness > 0) continue;  // the penalty is not invariant; see the next test
    const auto& p = of.run.parameters;
    for (const bool values : {false, true}) {
      std::vector<double> v(p.values.size(), 0.0), expected(v.size(), 0.0);
      for (int knot = 1; knot <= p.spec.knots; ++knot)
        for (int head = 0; head < 2; ++head) {
          const Small e = generator(static_cast<unsigned>(10 * knot + head));
          const auto path = "layers/" + std::to_string(knot) + "/";
          for (const std::string array : {"W", "b"}) {
            if (values) {
              add_rows(p, path + array + "_V", head, e, p.values, v);
              add_rows(p, path + array + "_V", head, -e.transpose(), of.hessian.gradient(), expected);
            } else {
              add_rows(p, path + array + "_Q", head, e, p.values, v);
              add_rows(p, path + array + "_K", head, -e.transpose(), p.values, v);
              add_rows(p, path + array + "_Q", head, -e.transpose(), of.hessian.gradient(), expected);
              add_rows(p, path + array + "_K", head, e, of.hessian.gradient(), expected);
            }
          }
          if (values) {
            add_columns(p, path + "W_O", head, -e, p.values, v);
            add_columns(p, path + "W_O", head, e.transpose(), of.hessian.gradient(), expected);
          }
        }
      EXPECT_LT(relative_difference(of.product(Curvature::hessian, v), expected), 1e-10) << name;
      EXPECT_LT(norm(of.product(Curvature::gauss_newton, v)), 1e-12 * norm(v)) << name;
    }
  }
}

TEST(TrainingHessian, has_one_gauge_for_all_knots_between_which_weights_are_linear) {
  auto c = named("pde");
  ClassifierHessian of(MPI_COMM_SELF, 1, c);
  LossHessian loss(of.run.parameters, of.run.context, of.run.march.depth(), 1, c.loss);
  const auto& p = of.run.parameters;
  std::vector<double> gradient(p.values.size(), 0.0), product(p.values.size());
  of.samples.for_batches([&](const Batch& batch) { loss.linearise(batch, gradient); });
  const Small e = generator(3);
  const auto along = [&](int last_knot) {
    std::vector<double> v(p.values.size(), 0.0), expected(v.size(), 0.0);
    for (int knot = 1; knot <= last_knot; ++knot)
      for (const std::string array : {"W", "b"}) {
        const auto path = "layers/" + std::to_string(knot) + "/" + array;
        add_rows(p, path + "_Q", 1, e, p.values, v);
        add_rows(p, path + "_K", 1, -e.transpose(), p.values, v);
        add_rows(p, path + "_Q", 1, -e.transpose(), gradient, expected);
        add_rows(p, path + "_K", 1, e, gradient, expected);
      }
    loss.multiply(Curvature::hessian, v, product);
    return relative_difference(product, expected);
  };
  EXPECT_LT(along(p.spec.knots), 1e-10);
  EXPECT_GT(along(1), 1e-3) << "one knot alone is no gauge";
}

TEST(TrainingHessian, has_the_null_vectors_of_softmax_logits_and_pre_norm) {
  ClassifierHessian of(MPI_COMM_SELF, 1, named("pre"));
  const auto& p = of.run.parameters;
  const auto is_null = [&](const std::vector<double>& v) {
    const double scale = norm(v) * norm(of.product(Curvature::hessian, random_vector(v.size(), 5))) /
                         std::sqrt(static_cast<double>(v.size()));
    for (const auto part : {Curvature::hessian, Curvature::gauss_newton})
      EXPECT_LT(norm(of.product(part, v)), 1e-12 * scale);
  };
  const auto ones = [&](const std::string& path, unsigned seed, std::vector<double>& v) {
    const auto& view = p.layout.at(path);
    // A matrix [out][in] gets 1 c^T; [token][channel] (positions) a constant for each token; a bias c 1.
    const bool transposed = view.name == "position";
    const Index rows = view.shape[0], columns = view.size() / rows;
    const auto c = random_vector(std::max(rows, columns), seed);
    for (Index r = 0; r < rows; ++r)
      for (Index j = 0; j < columns; ++j) v[view.offset + r * columns + j] = transposed ? c[r] : c[j];
  };
  {
    std::vector<double> v(p.values.size(), 0.0);  // a shift of all keys changes no row of the soft-max
    for (const char* layer : {"1", "2"}) {
      const auto& view = p.layout.at(std::string("layers/") + layer + "/b_K");
      for (Index j = 0; j < view.size(); ++j) v[view.offset + j] = std::sin(static_cast<double>(j) + 1);
    }
    is_null(v);
  }
  {
    std::vector<double> v(p.values.size(), 0.0);  // a shift of all logits
    ones("head/W", 1, v);
    ones("head/b", 2, v);
    is_null(v);
  }
  {
    std::vector<double> v(p.values.size(), 0.0);  // a shift of all channels, which every LayerNorm removes
    for (const char* path : {"embedding/W", "embedding/b", "embedding/position"}) ones(path, 3, v);
    for (const std::string layer : {"layers/1/", "layers/2/"})
      for (const char* name : {"W_O", "b_O", "W_2", "b_2"}) ones(layer + name, 4, v);
    is_null(v);
  }
}

TEST(TrainingHessian, has_the_eigenvalues_of_the_dense_matrix) {
  ClassifierHessian of(MPI_COMM_SELF, 1, named("pre"));
  const Index n = of.hessian.size();
  for (const auto part : {Curvature::hessian, Curvature::gauss_newton}) {
    Eigen::MatrixXd dense(n, n);
    std::vector<double> v(of.hessian.size(), 0.0);
    for (Index j = 0; j < n; ++j) {
      v[j] = 1;
      const auto column = of.product(part, v);
      dense.col(j) = Eigen::Map<const Eigen::VectorXd>(column.data(), n);
      v[j] = 0;
    }
    EXPECT_LT((dense - dense.transpose()).cwiseAbs().maxCoeff(), 1e-13 * dense.cwiseAbs().maxCoeff());
    const Eigen::VectorXd exact = eigenvalues(0.5 * (dense + dense.transpose()));
    const double size = exact.cwiseAbs().maxCoeff();
    if (part == Curvature::gauss_newton)
      EXPECT_GT(exact(0), -1e-13 * size);
    else
      EXPECT_LT(exact(0), -1e-3 * size);

    const spectra::ReplicatedOperator matrix(
        MPI_COMM_SELF, static_cast<PetscInt>(n),
        [&](std::span<double> in, std::span<double> out) { of.hessian.multiply(part, in, out); });
    const bool indefinite = part == Curvature::hessian;
    const auto found = spectra::EigenSolver(MPI_COMM_SELF)
                           .solve(matrix.get(), {.largest = 5, .smallest = indefinite ? 5 : 0});
    ASSERT_TRUE(found.largest.complete() && found.smallest.complete());
    for (int k = 0; k < 5; ++k) {
      const auto at = static_cast<std::size_t>(k);
      // Errors of eigenvalues are of second order in the residual.
      EXPECT_NEAR(found.largest.values[at], exact(n - 1 - k), 1e-9 * size);
      if (indefinite) {
        EXPECT_NEAR(found.smallest.values[at], exact(k), 1e-9 * size);
      }
    }
  }
}

}  // namespace
}  // namespace fluxformer
