#include "training/optimiser_record.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"

namespace fluxformer {
namespace {

constexpr const char* group = "/optimiser";
const std::string preconditioner_path = "/optimiser/preconditioner";
const io::Attribute rate{"learning_rate", "learning rate of the next step"},
    threshold{"stability_threshold",
              "learning rate times largest eigenvalue of the preconditioned Hessian at which full-batch "
              "training on a "
              "quadratic loss becomes unstable"};
const io::Variable parameter = io::index(
                       "parameter",
                       "parameter, counted from 1: embedding (W, b, words, position), each of the layers "
                       "(norm1_gain, norm1_bias, W_Q, W_K, W_V, b_Q, b_K, b_V, W_O, b_O, norm2_gain, "
                       "norm2_bias, W_1, b_1, W_2, b_2, the six of half_, kappa, nu), final_norm "
                       "(gain, bias), head (W, b), alpha, rho"),
                   preconditioner{"preconditioner",
                                  {"parameter"},
                                  "",
                                  "sqrt(v_hat) + epsilon of adam or adamw; epsilon where nothing is trained"};

double positive(const io::ArchiveReader& archive, const io::Attribute& attribute) {
  const double value = archive.real(attribute, group);
  if (!(value >= 0) || !std::isfinite(value))
    throw BadInput(archive.called() + ": " + group + "@" + attribute.name + " is negative or not finite");
  return value;
}

}  // namespace

void write_optimiser(io::ArchiveWriter& archive, const OptimiserRecord& record) {
  archive.attribute(rate, record.rate, group);
  archive.attribute(threshold, record.threshold, group);
  if (record.preconditioner.empty()) return;
  std::vector<double> numbers(record.preconditioner.size());
  std::iota(numbers.begin(), numbers.end(), 1.0);
  archive.axis(parameter, std::move(numbers));
  archive.write(group, preconditioner, record.preconditioner);
}

std::optional<OptimiserRecord> read_optimiser(const io::ArchiveReader& archive, std::size_t size) {
  if (!archive.has(group)) return {};
  OptimiserRecord record{positive(archive, rate), positive(archive, threshold), {}};
  if (!archive.has(preconditioner_path)) return record;
  record.preconditioner = archive.array(preconditioner_path, std::vector<Index>(1, size)).values;
  if (!std::ranges::all_of(record.preconditioner, [](double d) { return d > 0 && std::isfinite(d); }))
    throw BadInput(archive.called() + ": " + preconditioner_path + " holds numbers that are not positive");
  return record;
}

void describe_optimiser(io::Description& description) {
  description.variables("/", {parameter});
  description.attributes(group, {rate, threshold});
  description.variables(group, {preconditioner});
}

}  // namespace fluxformer
