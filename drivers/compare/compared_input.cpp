#include "drivers/compare/compared_input.hpp"

#include <algorithm>
#include <sstream>

#include "base/error.hpp"
#include "base/random.hpp"

namespace fluxformer {
namespace {

// The split that samples are drawn from. Only `hessian` can choose: the loss of the training is minimised on
// its own samples.
std::string split_of(const Settings& settings) {
  return settings.options()->find("data.split") != nullptr ? settings.word("data.split") : "test";
}

/// The order in which `train` draws its samples, and in which comparisons draw test samples.
std::vector<std::size_t> drawing_order(const Settings& settings, const std::string& split, std::size_t size) {
  const char* const purpose = split == "train" ? "training" : "compared";
  return shuffled(size, static_cast<std::uint64_t>(settings.integer("run.seed")), purpose, 0);
}

}  // namespace

ComparedInput::ComparedInput(const Settings& settings, MPI_Comm comm, MPI_Comm line, const KnownInput& known)
    : split_(split_of(settings)),
      data_(open_data(settings, split_, known, comm)),
      line_(token_line(line, *data_)),
      drawn_(drawing_order(settings, split_, data_->size())),
      samples_(choose(settings, comm)) {}

SampleSet ComparedInput::choose(const Settings& settings, MPI_Comm comm) const {
  const Index wanted = settings.integer("samples.count");
  if (wanted > std::ssize(drawn_))
    throw BadInput("samples.count = " + std::to_string(wanted) + ": " + data_->name() + " has " +
                   std::to_string(drawn_.size()) + " " + split_ + " samples");
  const SampleSet all(comm, line_, *data_, drawn_, settings.count("samples.batch"));
  return all.first(wanted > 0 ? wanted : all.size());
}

SampleSet ComparedInput::other_samples(long count, const std::string& key) const {
  if (count > std::ssize(drawn_) - samples_.size())
    throw BadInput(key + " = " + std::to_string(count) + ": " + data_->name() + " has only " +
                   std::to_string(drawn_.size() - samples_.size()) + " " + split_ +
                   " samples besides those of samples.count");
  others_ = std::max(others_, count);
  const auto first = drawn_.begin() + samples_.size();
  return samples_.with({first, first + count}, samples_.capacity());
}

std::uint64_t ComparedInput::digest() const {
  return digest_of_samples(*data_, std::span(drawn_).first(samples_.size() + others_));
}

std::string ComparedInput::describe() const {
  std::ostringstream text;
  text << data_->name() << ": " << samples_.size() << ' ' << split_ << " samples, " << line_.tokens_x()
       << " x " << line_.tokens_y() << " tokens; " << samples_.replica().count * line_.size()
       << " rank(s), up to " << samples_.capacity() << " samples each at a time";
  return text.str();
}

}  // namespace fluxformer
