#include "drivers/common/data_options.hpp"

#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "data/make_dataset.hpp"
#include "data/text/vocabulary.hpp"
#include "io/archive_reader.hpp"
#include "io/digest.hpp"
#include "io/hdf5/checker.hpp"
#include "io/layout.hpp"
#include "model/model_file.hpp"

namespace fluxformer {
namespace {

/// Rows of a matrix; 0 if the file has none, or something that read_model does not take.
int rows_of(const io::ArchiveReader& archive, const char* matrix) {
  if (!archive.has(matrix)) return 0;
  const auto shape = archive.shape(matrix);
  return shape.size() == 2 && std::in_range<int>(shape[0]) ? static_cast<int>(shape[0]) : 0;
}

/// Normalised pixels are between -3 and 3, and so are most other inputs of models.
constexpr double usual_features = 20;

std::string channels_text(const io::Array& numbers) {
  std::ostringstream text;
  for (const double number : numbers.values) text << (text.tellp() > 0 ? ", " : "") << number;
  return text.str();
}

/// Says of the pixels of the model in model.file how they were normalised; "" if it does not. Collective.
std::string pixels_of_model(const std::string& file, MPI_Comm comm) {
  if (file.empty()) return "";
  const io::ArchiveReader archive(comm, file, "model.file = ");
  if (!archive.has(model_file::preprocessor)) return "";
  std::ostringstream text;
  text << "; the model in " << file << " was trained on (pixel x "
       << archive.real(model_file::pixel_factor, model_file::preprocessor)
       << " - mean) / deviation with mean " << channels_text(archive.array(model_file::pixel_mean))
       << " and deviation " << channels_text(archive.array(model_file::pixel_deviation))
       << " of its channels";
  return text.str();
}

/// Says on rank 0 that features are as large as raw pixels, once for each file: a run opens it for each split
/// and each way to cut it. Collective.
void warn_of_raw_features(const DataPlan& plan, const data::Dataset& data, MPI_Comm comm) {
  static std::set<std::string> said;
  if (data.largest_feature() <= usual_features || !said.insert(plan.set.file).second) return;
  const auto wanted = pixels_of_model(plan.model, comm);
  if (!mpi::is_root(comm)) return;
  std::cerr << "fluxformer: data.file = " << plan.set.file << ": its features reach "
            << data.largest_feature()
            << " in absolute value, where most models expect numbers of about 1: pixels "
            << "that were not normalised?"
            << (wanted.empty() ? " Normalise them as the model was trained (preprocessor_config.json)"
                               : wanted)
            << '\n';
}

}  // namespace

void declare_data_options(Options& options) {
  options.declare(
      "data.set", "digits",
      "data set: digits (pen strokes) and topics (text) are built in; mnist, omniglot and 20news are read "
      "from files; tokens: tokens made by another program",
      {.choices = {"digits", "mnist", "omniglot", "topics", "20news", "tokens"}, .role = Role::data});
  options.declare("data.directory", "",
                  "folder of the files, or its parent folder: IDX files of MNIST or of a set in its form, "
                  "zip files of Omniglot or their unpacked folders, tar.gz or unpacked tree of 20 Newsgroups",
                  {.role = Role::free});
  options.declare("data.file", "", "token file (HDF5) with ids or features of the samples",
                  {.when = When{"data.set", "tokens"}, .role = Role::free});
  options.declare("data.tokens", "patches",
                  "how an image is split into tokens: 7x7 patches of 4x4 pixels, 28 rows, or 28x28 pixels; "
                  "whole: the image is a single token",
                  {.choices = {"patches", "rows", "pixels", "whole"},
                   .when = When{"data.set", {"digits", "mnist", "omniglot"}},
                   .role = Role::data});
  options.declare("data.length", 256L,
                  "text: tokens per sample; longer texts are truncated, shorter ones padded; token files: "
                  "samples are truncated only if the key is given",
                  {.unit = "tokens",
                   .minimum = 1,
                   .when = When{"data.set", {"20news", "topics", "tokens"}},
                   .role = Role::data});
  options.declare("data.vocabulary", 20000L,
                  "text: largest size of the vocabulary, which is built from the training split",
                  {.unit = "words", .minimum = 3, .when = When{"data.set", {"20news", "topics"}}});
  options.declare("data.least_count", 2L,
                  "text: a word must occur in at least this many training documents to enter the vocabulary",
                  {.minimum = 1, .when = When{"data.set", {"20news", "topics"}}});
  options.declare("data.headers", true,
                  "20news: keep the header, which is all lines before the first blank one",
                  {.when = When{"data.set", "20news"}, .role = Role::data});
  options.declare("data.quotes", true, "20news: keep text quoted from other posts",
                  {.when = When{"data.set", "20news"}, .role = Role::data});
  options.declare("data.footers", true, "20news: keep signatures",
                  {.when = When{"data.set", "20news"}, .role = Role::data});
  options.declare("data.alphabets", 0L,
                  "omniglot: use the first n alphabets, whose characters are the classes; 0: all",
                  {.minimum = 0, .when = When{"data.set", "omniglot"}, .role = Role::data});
  options.declare("data.classes", 20L, "topics: number of classes",
                  {.minimum = 2, .when = When{"data.set", "topics"}, .role = Role::data});
  options.declare(
      "data.wrong_labels", 0.0,
      "share of the training samples that get a wrong label, drawn by run.seed; test samples keep "
      "theirs. Of trained models whose training samples are analysed: if not given, that of the "
      "training",
      {.minimum = 0, .maximum = 0.99});
}

DataPlan data_plan(const Settings& settings) {
  DataPlan plan;
  auto& spec = plan.set;
  spec.name = settings.word("data.set");
  spec.directory = settings.word("data.directory");
  spec.tokens = settings.word("data.tokens");
  spec.seed = static_cast<std::uint64_t>(settings.integer("run.seed"));
  spec.length = settings.count("data.length");
  spec.vocabulary = settings.count("data.vocabulary");
  spec.least_count = settings.count("data.least_count");
  spec.keep_headers = settings.flag("data.headers");
  spec.keep_quotes = settings.flag("data.quotes");
  spec.keep_footers = settings.flag("data.footers");
  spec.file = settings.word("data.file");
  spec.cut = settings.given("data.length") ? settings.count("data.length") : 0;
  spec.alphabets = settings.count("data.alphabets");
  spec.classes = settings.count("data.classes");
  plan.wrong_labels_given = settings.given("data.wrong_labels");
  spec.wrong_labels = settings.real("data.wrong_labels");
  if (settings.options()->find("model.file") != nullptr) plan.model = settings.word("model.file");
  plan.takes_vocabulary = spec.name == "tokens" || settings.counts("data.vocabulary");
  return plan;
}

std::unique_ptr<data::Dataset> open_data(const DataPlan& plan, const std::string& split,
                                         const KnownInput& known, MPI_Comm comm) {
  auto spec = plan.set;
  spec.split = split;
  spec.words = known.words;
  spec.model = known.sizes;
  if (spec.name == "tokens") io::read_on_trial_first(comm, spec.file, "data.file = " + spec.file);
  auto data = collectively(comm, [&] { return data::make_dataset(spec); });
  warn_of_raw_features(plan, *data, comm);
  return data;
}

KnownInput known_input(const DataPlan& plan, MPI_Comm comm) {
  const bool tokens = plan.set.name == "tokens";
  if (plan.model.empty() || !plan.takes_vocabulary) return {};
  const io::ArchiveReader archive(comm, plan.model, "model.file = ");
  KnownInput known;
  if (archive.has(model_file::embedding_vocabulary))
    known.words = archive.words(model_file::embedding_vocabulary);
  if (tokens) {
    known.sizes = {.vocabulary = rows_of(archive, model_file::embedding_words),
                   .segments = rows_of(archive, model_file::embedding_segment),
                   .tokens = rows_of(archive, model_file::embedding_position),
                   .classes = rows_of(archive, model_file::head_W)};
  } else if (!known.words.empty()) {
    try {
      const data::Vocabulary valid(known.words);
    } catch (const BadInput& e) {
      throw BadInput(archive.called() + ": " + model_file::embedding_vocabulary + ": " + e.what());
    }
  }
  return known;
}

KnownInput known_input(const data::Dataset& data) {
  return {data.words(),
          {.vocabulary = data.vocabulary(), .segments = data.segments(), .classes = data.classes()}};
}

std::uint64_t digest_of_samples(const data::Dataset& data, std::span<const std::size_t> members) {
  const auto tokens = static_cast<std::size_t>(data.tokens_x()) * data.tokens_y() * data.features();
  std::vector<double> sample(tokens + 2);
  std::uint64_t sum = 0;
  Index place = 0;
  for (const auto member : members) {
    data.tokens(member, sample.data());
    sample[tokens] = data.length(member);
    sample[tokens + 1] = data.label(member);
    sum += io::digest_of(sample.data(), std::ssize(sample), place);
    place += std::ssize(sample);
  }
  return sum;
}

bool takes_first_positions(const Settings& settings) {
  return settings.word("data.set") == "tokens";
}

void leave_data_to_file(Settings& settings) {
  if (settings.options()->find("data.length") != nullptr && settings.word("data.set") == "tokens")
    settings.leave_to_file("data.length");
}

}  // namespace fluxformer
