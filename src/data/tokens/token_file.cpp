#include "data/tokens/token_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <new>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>

#include "base/error.hpp"
#include "data/text/vocabulary.hpp"
#include "io/from_root.hpp"
#include "io/hdf5/checker.hpp"
#include "io/hdf5/finished_file.hpp"
#include "io/hdf5/handles.hpp"
#include "io/hdf5/hdf5_objects.hpp"

namespace fluxformer::data {
namespace {

using io::h5;

/// True if these bytes are a text in UTF-8 (RFC 3629).
bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = [&](std::size_t k) -> std::uint32_t { return static_cast<unsigned char>(text[k]); };
    const std::uint32_t first = byte(at++);
    if (first < 0x80) continue;
    const std::size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    if (first < 0xC0 || first > 0xF7 || text.size() - at < more) return false;
    std::uint32_t letter = first & (0x3FU >> more);
    for (std::size_t k = 0; k < more; ++k, ++at) {
      if ((byte(at) & 0xC0U) != 0x80) return false;
      letter = letter << 6U | (byte(at) & 0x3FU);
    }
    // The shortest form, and no half of a pair of UTF-16.
    static constexpr std::uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    if (letter < least[more] || letter > 0x10FFFF || (letter >= 0xD800 && letter < 0xE000)) return false;
  }
  return true;
}

/// Kind of an array's items. Other kinds (flags, complex numbers, structures, objects, references) are not
/// read.
enum class ItemKind { whole, real, text, other };

/// The kind and shape that an array announces.
struct ArrayInfo {
  ItemKind kind = ItemKind::other;
  std::string type;      ///< the kind in words, for messages
  std::size_t item = 0;  ///< bytes of one item
  std::vector<std::size_t> shape;
};

/// The arrays of one HDF5 file. Names have no leading slash: "ids" or "train/ids". Links and datasets that
/// lead to other files are refused. Not collective. Throws BadInput without the name of the file; an array
/// never announces more numbers than the file can hold.
class Hdf5Arrays {
 public:
  /// Throws BadInput for what is no whole HDF5 file.
  explicit Hdf5Arrays(const std::string& path);
  /// The name of an array in messages.
  std::string called(const std::string& name) const { return "/" + name; }
  /// True if the file has an array of this name.
  bool has(const std::string& name) const;
  /// True if the file has a group of this name.
  bool has_group(const std::string& group) const;
  ArrayInfo info(const std::string& name) const;
  /// The numbers of an array, row-major. A whole number that is no int becomes the nearest one.
  std::vector<int> whole_numbers(const std::string& name) const;
  std::vector<float> singles(const std::string& name) const;
  std::vector<double> doubles(const std::string& name) const;
  /// The texts of a one-dimensional array.
  std::vector<std::string> words(const std::string& name) const;
  /// An attribute of an array; none if it is not there. Throws BadInput if it is not a whole number.
  std::optional<long> attribute(const std::string& array, const std::string& name) const;

 private:
  template <class T>
  std::vector<T> read(const std::string& name, hid_t type) const;
  io::FileHandle file_;
};

Hdf5Arrays::Hdf5Arrays(const std::string& path) {
  io::quiet_hdf5();
  file_ = io::open_finished(path);
}

bool Hdf5Arrays::has(const std::string& name) const {
  return io::path_exists(file_, called(name));
}

bool Hdf5Arrays::has_group(const std::string& group) const {
  if (!io::path_exists(file_, called(group))) return false;
  const io::ObjectHandle object(h5(H5Oopen(file_, called(group).c_str(), H5P_DEFAULT), called(group)));
  return H5Iget_type(object) == H5I_GROUP;
}

ArrayInfo Hdf5Arrays::info(const std::string& name) const {
  const io::DatasetHandle dataset = io::open_dataset(file_, called(name));
  const io::TypeHandle type(h5(H5Dget_type(dataset), called(name)));
  const auto dims = io::dataset_shape(dataset);
  ArrayInfo info;
  info.item = H5Tget_size(type);
  info.shape = {dims.begin(), dims.end()};
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      info.kind = ItemKind::whole, info.type = "whole numbers";
      break;
    case H5T_FLOAT:
      info.kind = ItemKind::real, info.type = "real numbers";
      break;
    case H5T_STRING:
      info.kind = ItemKind::text, info.type = "texts";
      break;
    default:
      info.type = "neither numbers nor texts";
  }
  return info;
}

template <class T>
std::vector<T> Hdf5Arrays::read(const std::string& name, hid_t type) const {
  const io::DatasetHandle dataset = io::open_dataset(file_, called(name));
  const auto dims = io::dataset_shape(dataset);
  std::vector<T> values(std::accumulate(dims.begin(), dims.end(), std::size_t{1}, std::multiplies<>()));
  if (!values.empty()) h5(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), called(name));
  return values;
}

std::vector<int> Hdf5Arrays::whole_numbers(const std::string& name) const {
  return read<int>(name, H5T_NATIVE_INT);
}

std::vector<float> Hdf5Arrays::singles(const std::string& name) const {
  return read<float>(name, H5T_NATIVE_FLOAT);
}

std::vector<double> Hdf5Arrays::doubles(const std::string& name) const {
  return read<double>(name, H5T_NATIVE_DOUBLE);
}

std::vector<std::string> Hdf5Arrays::words(const std::string& name) const {
  return io::from_terminated(io::read_words(file_, called(name)));
}

std::optional<long> Hdf5Arrays::attribute(const std::string& array, const std::string& name) const {
  const io::DatasetHandle dataset = io::open_dataset(file_, called(array));
  const auto value = io::read_attribute(dataset, name);
  if (!value) return {};
  if (const auto* whole = std::get_if<long>(&*value)) return *whole;
  throw BadInput("attribute " + name + " of " + called(array) + " is not a whole number");
}

constexpr int largest_int = std::numeric_limits<int>::max();
constexpr std::size_t most_words = std::size_t{1} << 24U;  // of the memory that a small file can ask for

/// Runs `read`; its failure becomes BadInput that names the file.
template <class Read>
auto blaming(const std::string& path, const Read& read) {
  const std::string key = "data.file = ";
  const io::AtOnce at_once(key + path);
  try {
    return read();
  } catch (const io::NoChecker& e) {
    throw Error(e.code(), key + path + ": " + e.what());
  } catch (const Error& e) {
    const std::string what = e.what();
    throw BadInput(key + (what.starts_with(path) ? what : path + ": " + what));
  } catch (const std::bad_alloc&) {
    throw BadInput(key + path + ": announces more than fits into memory");
  } catch (const std::length_error&) {
    throw BadInput(key + path + ": announces more than fits into memory");
  }
}

std::string shape_text(const std::vector<std::size_t>& shape) {
  std::string text;
  for (const std::size_t extent : shape) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return text.empty() ? "a single item" : text;
}

/// "(sample 3, token 1)" of an index into an array of this shape.
std::string place_text(std::size_t index, const std::vector<std::size_t>& shape) {
  static constexpr const char* axes[] = {"sample", "token", "number"};
  std::string text;
  for (std::size_t k = std::min(shape.size(), std::size(axes)); k-- > 0; index /= shape[k])
    text = std::string(axes[k]) + " " + std::to_string(index % shape[k]) + (text.empty() ? "" : ", ") + text;
  return "(" + text + ")";
}

/// Throws BadInput unless all `values` of an array of this shape are from `least` to `most`; `called` is the
/// array.
void require_range(const std::string& called, const std::vector<int>& values,
                   const std::vector<std::size_t>& shape, int least, int most) {
  for (std::size_t k = 0; k < values.size(); ++k)
    if (values[k] < least || values[k] > most)
      throw BadInput(called + " holds " + std::to_string(values[k]) +
                     (values[k] == largest_int ? " or more " : " ") + place_text(k, shape) + ": must be " +
                     std::to_string(least) + " to " + std::to_string(most));
}

/// The arrays of a split: those of the root, or of a group.
class SplitReader {
 public:
  /// `prefix`: "" or "train/".
  SplitReader(const Hdf5Arrays& file, std::string prefix) : file_(&file), prefix_(std::move(prefix)) {
    const bool ids = has("ids"), features = has("features");
    refuse_name("input_ids", "ids", ids || features);
    refuse_name("attention_mask", "lengths", has("lengths"));
    if (ids && features) throw BadInput("has both " + called("ids") + " and " + called("features"));
    if (!ids && !features) throw BadInput("has neither " + called("ids") + " nor " + called("features"));
    const auto shape = checked_shape(ids ? "ids" : "features", ids ? ItemKind::whole : ItemKind::real,
                                     ids ? "samples x tokens" : "samples x tokens x inputs", ids ? 2 : 3);
    samples_ = shape[0], tokens_ = shape[1], inputs_ = ids ? 0 : shape[2];
    if (inputs_ > largest_int / tokens_)
      throw BadInput(called("features") + " is " + shape_text(shape) + ": more numbers per sample than " +
                     std::to_string(largest_int));
    if (!ids && has("segments"))
      throw BadInput(called("segments") + " needs " + called("ids") + ": only words have segments");
    if (!ids && has("token_bytes"))
      throw BadInput(called("token_bytes") + " needs " + called("ids") + ": only words have bytes");
    require_shape("lengths", {samples_});
    require_shape("labels", {samples_});
    require_shape("segments", {samples_, tokens_});
    require_shape("token_bytes", {samples_, tokens_});
  }

  std::string called(const std::string& name) const { return file_->called(prefix_ + name); }
  bool has(const std::string& name) const { return file_->has(prefix_ + name); }
  std::size_t samples() const { return samples_; }
  std::size_t tokens() const { return tokens_; }
  /// Numbers per token of the features; 0: words.
  std::size_t inputs() const { return inputs_; }

  /// Numbers from `least` to `most`; empty if there is no such array.
  std::vector<int> numbers(const std::string& name, int least, int most) const {
    if (!has(name)) return {};
    auto values = file_->whole_numbers(prefix_ + name);
    require_range(called(name), values, file_->info(prefix_ + name).shape, least, most);
    return values;
  }
  /// The largest number of an array and one; 0 if there is no such array.
  int count(const std::string& name) const {
    const auto values = numbers(name, 0, largest_int - 1);
    return values.empty() ? 0 : *std::ranges::max_element(values) + 1;
  }
  /// The labels: classes from 0, in the group test also -1, "unlabelled". Empty if there are none.
  std::vector<int> labels() const {
    if (!has("labels")) return {};
    auto values = file_->whole_numbers(prefix_ + "labels");
    const auto shape = file_->info(prefix_ + "labels").shape;
    const auto none = std::ranges::find(values, -1);
    const bool test = prefix_ == "test/";
    if (!test && none != values.end())
      throw BadInput(called("labels") + " holds -1 " +
                     place_text(static_cast<std::size_t>(none - values.begin()), shape) +
                     ": classes count from 0, and -1 usually means unlabelled, which only the labels of a "
                     "group test may be; leave these samples out, or leave out labels if no sample has one");
    require_range(called("labels"), values, shape, test ? -1 : 0, largest_int - 1);
    return values;
  }
  /// The attribute `vocabulary` of the ids, else the largest id and one.
  int vocabulary() const {
    if (inputs_ > 0) return 0;
    const auto said = file_->attribute(prefix_ + "ids", "vocabulary");
    if (!said) return count("ids");
    if (*said < 1 || *said > largest_int)
      throw BadInput("attribute vocabulary of " + called("ids") + " = " + std::to_string(*said) +
                     ": must be 1 to " + std::to_string(largest_int));
    return static_cast<int>(*said);
  }
  void read_features(TokenTable& table) const {
    const auto info = file_->info(prefix_ + "features");
    const auto check = [&](const auto& values) {
      for (std::size_t k = 0; k < values.size(); ++k) {
        if (!std::isfinite(values[k]))
          throw BadInput(called("features") + " holds " + std::to_string(values[k]) + " " +
                         place_text(k, info.shape));
        table.largest_feature = std::max<double>(table.largest_feature, std::abs(values[k]));
      }
    };
    if (info.item <= sizeof(float))
      check(table.features.emplace<std::vector<float>>(file_->singles(prefix_ + "features")));
    else
      check(table.features.emplace<std::vector<double>>(file_->doubles(prefix_ + "features")));
  }

 private:
  /// Throws BadInput for an array with the name that tokenisers give to `name`, unless that one is `there`.
  void refuse_name(const std::string& theirs, const std::string& name, bool there) const {
    if (there || !has(theirs)) return;
    throw BadInput("has " + called(theirs) + ", which is not read, and no " + called(name) +
                   ": fluxformer tokens and fluxformer.tokens.write_token_file write it of that");
  }
  /// The shape of an array of this kind, without an extent of 0.
  std::vector<std::size_t> checked_shape(const std::string& name, ItemKind kind, const std::string& axes,
                                         std::size_t rank) const {
    const auto info = file_->info(prefix_ + name);
    if (info.kind != kind)
      throw BadInput(called(name) + " holds " + info.type + ", where " +
                     (kind == ItemKind::whole ? "whole" : "real") + " numbers are expected");
    if (info.shape.size() != rank)
      throw BadInput(called(name) + " is " + shape_text(info.shape) + ", expected " + axes);
    for (const std::size_t extent : info.shape)
      if (extent == 0) throw BadInput(called(name) + " is " + shape_text(info.shape) + ": it is empty");
    if (rank > 1 && info.shape[1] > largest_int / 2)
      throw BadInput(called(name) + " is " + shape_text(info.shape) + ": too many tokens");
    return info.shape;
  }
  void require_shape(const std::string& name, const std::vector<std::size_t>& expected) const {
    if (!has(name)) return;
    const auto shape = checked_shape(name, ItemKind::whole, shape_text(expected), expected.size());
    if (shape != expected)
      throw BadInput(called(name) + " is " + shape_text(shape) + ", expected " + shape_text(expected));
  }

  const Hdf5Arrays* file_;
  std::string prefix_;
  std::size_t samples_ = 0, tokens_ = 0, inputs_ = 0;
};

/// The list of words called `name`; empty if there is none.
std::vector<std::string> words_of(const Hdf5Arrays& file, const std::string& name) {
  if (!file.has(name)) return {};
  const auto shape = file.info(name).shape;
  if (shape.size() == 1 && shape[0] > most_words)
    throw BadInput(file.called(name) + " announces " + std::to_string(shape[0]) + " words, more than " +
                   std::to_string(most_words));
  auto words = file.words(name);
  for (std::size_t k = 0; k < words.size(); ++k)
    if (!is_utf8(words[k]))
      throw BadInput(file.called(name) + ": word " + std::to_string(k) + " is not in UTF-8");
  if (words.empty()) throw BadInput(file.called(name) + " holds no words");
  return words;
}

/// The ids that a file names as those that stand for no word; they need not occur in it. Empty: none.
std::vector<int> specials_of(const Hdf5Arrays& file) {
  const std::string name = "specials";
  if (!file.has(name)) return {};
  const auto info = file.info(name);
  if (info.kind != ItemKind::whole || info.shape.size() != 1)
    throw BadInput(file.called(name) + " holds " + info.type + " (" + shape_text(info.shape) +
                   "), where a list of whole numbers is expected");
  auto ids = file.whole_numbers(name);
  for (const int id : ids)
    if (id < 0) throw BadInput(file.called(name) + " holds " + std::to_string(id) + ": ids are 0 or more");
  return ids;
}

TokenTable read(const Hdf5Arrays& file, const std::string& split) {
  const std::string other = split == "train" ? "test" : "train";
  const bool grouped = file.has_group(split) || file.has_group(other);
  if (grouped && !file.has_group(split))
    throw BadInput("has " + file.called(other) + ", but no " + file.called(split));
  std::vector<SplitReader> splits{{file, grouped ? split + "/" : ""}};
  if (grouped && file.has_group(other)) splits.emplace_back(file, other + "/");
  const auto& own = splits.front();
  for (const auto& one : splits)
    if (one.tokens() != own.tokens() || one.inputs() != own.inputs())
      throw BadInput("its splits differ in tokens: " + std::to_string(own.tokens()) + " and " +
                     std::to_string(one.tokens()) + " of " + std::to_string(own.inputs()) + " and " +
                     std::to_string(one.inputs()) + " features");
  TokenTable table;
  table.one_split = !grouped;
  table.samples = own.samples();
  table.tokens = static_cast<int>(own.tokens());
  table.inputs = static_cast<int>(own.inputs());
  table.ids_called = own.called("ids");
  if (table.inputs == 0) {
    table.words = words_of(file, "words");
    if (table.words.empty() && grouped) table.words = words_of(file, split + "/words");
  }
  for (const auto& one : splits) {
    if (table.words.empty()) table.vocabulary = std::max(table.vocabulary, one.vocabulary());
    const auto labels = one.labels();
    if (!labels.empty()) table.classes = std::max(table.classes, *std::ranges::max_element(labels) + 1);
    table.segment_count = std::max(table.segment_count, one.count("segments"));
  }
  if (!table.words.empty()) table.vocabulary = static_cast<int>(table.words.size());
  table.lengths = own.numbers("lengths", 1, table.tokens);
  table.labels = own.labels();
  if (table.inputs > 0) {
    own.read_features(table);
  } else {
    table.ids = own.numbers("ids", 0, table.vocabulary - 1);
    table.segments = own.numbers("segments", 0, table.segment_count - 1);
    table.bytes = own.numbers("token_bytes", 0, largest_int - 1);
    table.specials = specials_of(file);
  }
  return table;
}

/// True if the name ends in .npz, in capitals or not.
bool is_npz(std::string_view path) {
  constexpr std::string_view ending = ".npz";
  if (path.size() < ending.size()) return false;
  return std::ranges::equal(path.substr(path.size() - ending.size()), ending, {}, [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
}

/// Reads a split ("train" or "test") of an HDF5 file on this rank. Throws BadInput "data.file = PATH: ..."
/// that names the array for everything that is not as above, and names the command that converts FILE.npz.
TokenTable read_token_table(const std::string& path, const std::string& split) {
  if (path.empty()) throw BadInput("data.set = tokens needs data.file, the token file");
  if (is_npz(path))
    throw BadInput("data.file = " + path + ": a file of numpy is not read; make a token file of it: " +
                   "fluxformer tokens '" + path + "' --output '" + path.substr(0, path.size() - 4) + ".h5'");
  return blaming(path, [&] { return read(Hdf5Arrays(path), split); });
}

/// True if the words of the model are those of the file, and behind them at most names that `import` gives to
/// rows that only pad a word table ("<row 27>"), and a word that a training added.
bool same_but_for_padding(const std::vector<std::string>& known, const std::vector<std::string>& words) {
  if (same_but_for_added(known, words)) return true;
  const auto names_a_row = [](const std::string& word) {
    return word.starts_with('<') && word.find("row ") == word.find_first_not_of('<');
  };
  const bool added =
      !known.empty() && (known.back() == Vocabulary::mask_word || known.back() == end_marks[0]);
  return known.size() > words.size() && std::equal(words.begin(), words.end(), known.begin()) &&
         std::all_of(known.begin() + std::ssize(words), known.end() - (added ? 1 : 0), names_a_row);
}

/// Checks and takes the sizes of the model, where there is one.
void fit(const DatasetSpec& spec, int tokens, TokenTable& table) {
  const auto& model = spec.model;
  const auto refuse = [&](const std::string& what) {
    throw BadInput("data.file = " + spec.file + ": " + what);
  };
  const auto count = [](int number, const char* what) { return std::to_string(number) + " " + what; };
  if (model.tokens > 0 && tokens > model.tokens)
    refuse("has " + count(tokens, "tokens") + ", the model has positions for " +
           std::to_string(model.tokens) + "; data.length = " + std::to_string(model.tokens) +
           " cuts the samples");
  table.classes =
      std::max(table.classes, model.classes);  // where there are more, a training makes a new head
  if (table.vocabulary == 0) return;
  if (model.vocabulary > 0) {
    if (!table.words.empty() && table.vocabulary != model.vocabulary &&
        !same_but_for_padding(spec.words, table.words))
      refuse("has " + count(table.vocabulary, "words") + ", the model has a table of " +
             std::to_string(model.vocabulary) +
             (spec.words.empty() ? "; import the model with --words if that is its vocabulary" : ""));
    try {
      require_range(table.ids_called, table.ids, {table.samples, static_cast<std::size_t>(table.tokens)}, 0,
                    model.vocabulary - 1);
    } catch (const BadInput& e) {
      refuse(e.what() + std::string(", the words of the model"));
    }
    table.vocabulary = model.vocabulary;
  }
  if (model.segments > 0 && table.segment_count > model.segments)
    refuse("has " + count(table.segment_count, "segments") + ", the model has a table of " +
           std::to_string(model.segments));
  if (table.segment_count > 0 && model.vocabulary > 0 && model.segments == 0)
    refuse("has segments, the model has no table of them");
  table.segment_count = std::max(table.segment_count, model.segments);
  if (table.segment_count > 0 && table.segments.empty()) table.segments.assign(table.ids.size(), 0);
  if (spec.words.empty()) return;
  if (!table.words.empty() && !same_but_for_padding(spec.words, table.words))
    refuse("its words are not those of the model");
  if (spec.words.size() != static_cast<std::size_t>(table.vocabulary))
    refuse("its ids are of " + count(table.vocabulary, "words") + ", the vocabulary of the model has " +
           std::to_string(spec.words.size()));
  table.words = spec.words;
}

/// Words for padding alone.
constexpr std::string_view padding_words[] = {"[PAD]", "[pad]", "<pad>", "<PAD>", "<|pad|>", "<|padding|>"};
/// How often a sample has a word at its beginning, at its end and between. A sample of nothing else ends with
/// it.
struct Occurrences {
  std::ptrdiff_t beginning = 0, end = 0, between = 0;
};

Occurrences occurrences(std::span<const int> sample, int word) {
  const auto other = [word](int id) { return id != word; };
  const auto first = std::ranges::find_if(sample, other);
  if (first == sample.end()) return {.end = std::ssize(sample)};
  const auto behind = std::find_if(sample.rbegin(), sample.rend(), other).base();
  return {first - sample.begin(), sample.end() - behind, std::count(first, behind, word)};
}

/// Throws BadInput if padding would count as words: if real words follow a word for it at the beginning of a
/// sample, or if nothing says how long samples are and some end with one, or with more marks of the end of a
/// text than others. fluxformer.tokens.padding has the same rule.
void refuse_padding(const TokenTable& table, int tokens, const std::string& file) {
  const auto stride = static_cast<std::size_t>(table.tokens);
  const bool known = !table.lengths.empty();
  for (std::size_t word = 0; word < table.words.size() && !table.ids.empty(); ++word) {
    const auto& text = table.words[word];
    const bool pad = std::ranges::find(padding_words, text) != std::end(padding_words);
    // Some tokenisers pad with the mark of the end of a text.
    const bool mark = std::ranges::find(end_marks, text) != std::end(end_marks);
    if (!pad && (!mark || known)) continue;
    const auto refuse = [&](std::size_t sample, const std::string& what, const std::string& remedy) {
      throw BadInput("data.file = " + file + ": sample " + std::to_string(sample) + " of " +
                     table.ids_called + " " + what + " with '" + text + "', " + remedy);
    };
    std::ptrdiff_t least = tokens, most = 0;
    std::size_t longest = 0;
    bool blocks = false;  // of a long text, with marks between its parts
    for (std::size_t sample = 0; sample < table.ids.size() / stride; ++sample) {
      const auto real = static_cast<std::size_t>(known ? std::min(tokens, table.lengths[sample]) : tokens);
      const auto times = occurrences({table.ids.data() + sample * stride, real}, static_cast<int>(word));
      if (times.beginning > (pad ? 0 : 1))
        refuse(sample, "begins", "and padding on the left is not read: padding stands on the right");
      if (times.end > most) most = times.end, longest = sample;
      least = std::min(least, times.end);
      blocks = blocks || times.between > 0;
    }
    // One mark at the end is that of the text if all samples have one, or if they are blocks.
    if (!known && most > (mark && (least > 0 || blocks) ? 1 : 0))
      refuse(longest, "ends",
             "and there is no array lengths: padding would count as words. lengths is the number of real "
             "tokens of each sample; fluxformer tokens and fluxformer.tokens.write_token_file make it of an "
             "attention_mask");
  }
}

}  // namespace

TokenFile::TokenFile(const DatasetSpec& spec)
    : table_(read_token_table(spec.file, spec.split)), file_(spec.file), tokens_(table_.tokens) {
  if (spec.cut > tokens_)
    throw BadInput("data.length = " + std::to_string(spec.cut) + ": " + file_ + " has samples of " +
                   std::to_string(tokens_) + " tokens");
  if (spec.cut > 0) tokens_ = spec.cut;
  fit(spec, tokens_, table_);
  refuse_padding(table_, tokens_, file_);
  table_.samples = std::min(table_.samples, spec.at_most);
  for (const char* name : {"<unk>", "[UNK]"}) {
    const auto found = std::ranges::find(table_.words, name);
    if (unknown_ < 0 && found != table_.words.end())
      unknown_ = static_cast<int>(found - table_.words.begin());
  }
}

int TokenFile::label(std::size_t index) const {
  require(index);
  return table_.labels.empty() ? -1 : table_.labels[index];
}

int TokenFile::length(std::size_t index) const {
  require(index);
  return table_.lengths.empty() ? tokens_ : std::min(tokens_, table_.lengths[index]);
}

std::vector<int> TokenFile::token_bytes(std::size_t index) const {
  require(index);
  if (table_.bytes.empty()) return {};
  const auto* const first = table_.bytes.data() + index * static_cast<std::size_t>(table_.tokens);
  return {first, first + length(index)};
}

void TokenFile::tokens(std::size_t index, double* out) const {
  require(index);
  const std::size_t first = index * static_cast<std::size_t>(table_.tokens);
  if (table_.inputs > 0) {
    const auto inputs = static_cast<std::size_t>(table_.inputs);
    std::visit(
        [&](const auto& features) {
          std::copy_n(features.data() + first * inputs, static_cast<std::size_t>(tokens_) * inputs, out);
        },
        table_.features);
    return;
  }
  for (std::size_t token = first; token < first + static_cast<std::size_t>(tokens_); ++token) {
    *out++ = table_.ids[token];
    if (!table_.segments.empty()) *out++ = table_.segments[token];
  }
}

void TokenFile::variant(std::size_t index, const RandomStream& draw, double strength, double* out) const {
  if (const auto why = why_no_variants(); !why.empty()) throw BadInput(why);
  tokens(index, out);
  for (int token = 0; token < length(index); ++token)
    if (draw.uniform(static_cast<std::uint64_t>(token)) < strength) out[token * features()] = unknown_;
}

std::string TokenFile::why_no_variants() const {
  if (table_.inputs > 0) return "data.file = " + file_ + " holds features, which are not varied";
  return unknown_ >= 0 ? ""
                       : "data.file = " + file_ + " has no word <unk> or [UNK] that could replace others";
}

std::vector<int> TokenFile::placeholders() const {
  std::vector<int> none;
  for (const int id : table_.specials)
    if (id < table_.vocabulary) none.push_back(id);
  if (unknown_ >= 0) none.push_back(unknown_);
  std::ranges::sort(none);
  none.erase(std::ranges::unique(none).begin(), none.end());
  return none;
}

}  // namespace fluxformer::data
