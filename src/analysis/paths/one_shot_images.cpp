#include "analysis/paths/one_shot_images.hpp"

#include <map>
#include <utility>

#include "base/error.hpp"
#include "data/images/digits.hpp"
#include "data/images/mnist.hpp"
#include "data/images/omniglot.hpp"

namespace fluxformer::paths {
namespace {

using Images = std::shared_ptr<const data::ImageDataset>;

constexpr std::size_t built_in_images = 2000;
constexpr std::size_t every = 6;  // alphabet is for validation

/// How they would be split into tokens does not matter here.
const data::ImageTokens any_tokens(data::TokenLayout::patches);

Images digits(bool train, std::uint64_t seed) {
  return std::make_shared<data::Digits>(train, any_tokens, seed, built_in_images);
}

std::shared_ptr<const data::Omniglot> omniglot(const std::string& set, const std::string& directory) {
  return std::make_shared<data::Omniglot>(data::DatasetSpec{.name = set, .directory = directory}, any_tokens);
}

/// Of each character, the number of its alphabet.
std::vector<std::size_t> alphabets(const data::Omniglot& images) {
  std::map<std::string, std::size_t> numbers;
  std::vector<std::size_t> of;
  of.reserve(images.characters().size());
  for (const auto& character : images.characters())
    of.push_back(numbers.emplace(character.substr(0, character.find('/')), numbers.size()).first->second);
  return of;
}

OneShotPool foreign_pool(const std::string& word, const std::string& directory, std::uint64_t seed) {
  const auto two = [](int label) { return label < 2; };
  if (word == "mnist")
    return {"0 and 1 of MNIST", std::make_shared<data::Mnist>(directory, false, any_tokens), two};
  return {"0 and 1 of digits", digits(false, seed), two};
}

}  // namespace

OneShotPool::OneShotPool(std::string name, Images images, const std::function<bool(int)>& kept)
    : name_(std::move(name)), images_(std::move(images)) {
  std::map<int, std::vector<std::size_t>> by_label;
  for (std::size_t k = 0; k < images_->size(); ++k)
    if (kept(images_->label(k))) by_label[images_->label(k)].push_back(k);
  for (auto& [label, members] : by_label)
    if (members.size() > 1) members_.push_back(std::move(members));
  if (members_.size() < 2)
    throw BadInput("one-shot examples need two classes of two images each; " + name_ + " have " +
                   std::to_string(members_.size()));
}

void OneShotPool::ink(std::size_t of_class, std::size_t drawing, double* out) const {
  images_->image(members_[of_class][drawing], out);
}

OneShotPools one_shot_pools(const std::string& images, const std::string& foreign,
                            const std::string& directory, std::uint64_t seed) {
  auto other = foreign_pool(foreign, directory, seed);
  if (images == "digits") {
    const auto all = digits(true, seed);
    return {.training = {"digits 2 to 5", all, [](int label) { return label > 1 && label < 6; }},
            .validation = {"digits 6 and 7", all, [](int label) { return label == 6 || label == 7; }},
            .test = {"digits 8 and 9", all, [](int label) { return label > 7; }},
            .foreign = std::move(other)};
  }
  const auto background = omniglot("omniglot", directory);
  const auto alphabet = alphabets(*background);
  const auto validates = [&](int label) { return alphabet[label] % every == every - 1; };
  return {.training = {"characters for training", background, [&](int label) { return !validates(label); }},
          .validation = {"characters for validation", background, validates},
          .test = {"characters of the evaluation set", omniglot("omniglot_evaluation", directory),
                   [](int) { return true; }},
          .foreign = std::move(other)};
}

}  // namespace fluxformer::paths
