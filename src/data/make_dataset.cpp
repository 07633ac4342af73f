#include "data/make_dataset.hpp"

#include <utility>

#include "base/error.hpp"
#include "data/images/digits.hpp"
#include "data/images/mnist.hpp"
#include "data/images/omniglot.hpp"
#include "data/text/newsgroups.hpp"
#include "data/text/topics.hpp"
#include "data/tokens/token_file.hpp"
#include "data/wrong_labels.hpp"

namespace fluxformer::data {
namespace {

std::unique_ptr<Dataset> with_right_labels(const DatasetSpec& spec) {
  if (spec.name == "20news") return std::make_unique<Newsgroups>(spec);
  if (spec.name == "topics") return std::make_unique<Topics>(spec);
  if (spec.name == "tokens") return std::make_unique<TokenFile>(spec);
  const bool train = spec.split == "train";
  const ImageTokens layout(token_layout(spec.tokens));
  if (spec.name == "digits") return std::make_unique<Digits>(train, layout, spec.seed, spec.at_most);
  if (spec.name == "mnist") return std::make_unique<Mnist>(spec.directory, train, layout, spec.at_most);
  if (spec.name.starts_with("omniglot")) return std::make_unique<Omniglot>(spec, layout);
  throw BadInput("data.set = " + spec.name +
                 " is not known: digits, mnist, omniglot, omniglot_small1, omniglot_small2, "
                 "omniglot_evaluation, 20news, topics or tokens");
}

}  // namespace

std::unique_ptr<Dataset> make_dataset(const DatasetSpec& spec) {
  if (spec.split != "train" && spec.split != "test") {
    throw BadInput("split '" + spec.split + "' of the data is not known: train or test");
  }
  auto right = with_right_labels(spec);
  if (spec.split != "train" || spec.wrong_labels == 0) return right;
  return std::make_unique<WrongLabels>(std::move(right), spec.wrong_labels, spec.seed);
}

}  // namespace fluxformer::data
