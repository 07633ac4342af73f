#include "data/wrong_labels.hpp"

#include <string>
#include <utility>

#include "base/error.hpp"

namespace fluxformer::data {

WrongLabels::WrongLabels(std::unique_ptr<Dataset> of, double share, std::uint64_t seed)
    : of_(std::move(of)), share_(share), draw_(seed, "wrong labels") {
  if (!(share > 0 && share < 1))
    throw BadInput("data.wrong_labels = " + std::to_string(share) + ": must be above 0 and below 1");
  const auto refuse = [this](const std::string& why) {
    throw BadInput("data.wrong_labels: " + of_->title() + " has " + why);
  };
  if (of_->classes() < 2) refuse("fewer than two classes, so that no label can be wrong");
  for (std::size_t index = 0; index < of_->size(); ++index)
    if (of_->label(index) < 0) refuse("samples without a label");
}

int WrongLabels::label(std::size_t index) const {
  const int right = of_->label(index);
  const auto of_sample = draw_.item(index);
  if (of_sample.uniform(0) >= share_) return right;
  const int other = static_cast<int>(of_sample.below(1, static_cast<std::uint64_t>(of_->classes() - 1)));
  return other < right ? other : other + 1;
}

}  // namespace fluxformer::data
