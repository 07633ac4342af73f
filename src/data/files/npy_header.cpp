#include "data/files/npy_header.hpp"

#include <cctype>
#include <limits>
#include <set>
#include <string_view>

#include "base/error.hpp"

namespace fluxformer::data {
namespace {

// numpy writes about 100 bytes; only structures need more, and these are not read.
constexpr std::size_t longest_header = std::size_t{1} << 16U;
constexpr std::size_t most = std::numeric_limits<std::size_t>::max() / 2;
constexpr std::size_t bytes_of_a_letter = 4;  // of a text of kind U

[[noreturn]] void refuse(const std::string& why) {
  throw BadInput("is not an array of numpy: " + why);
}

/// a * b; throws BadInput beyond `most`.
std::size_t product(std::size_t a, std::size_t b) {
  if (b != 0 && a > most / b) throw BadInput("announces more than any file can hold");
  return a * b;
}

/// The dictionary of the head, a literal of Python.
class Literal {
 public:
  explicit Literal(std::string_view text) : text_(text) {}

  /// Whether the next sign is this one, which is then passed.
  bool passes(char sign) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != sign) return false;
    ++at_;
    return true;
  }
  void expect(char sign) {
    if (!passes(sign)) refuse(std::string("its header lacks a '") + sign + "'");
  }
  /// Text between quotation marks; numpy's has no escapes.
  std::string word() {
    const char mark = passes('\'') ? '\'' : '"';
    if (mark == '"') expect(mark);
    const auto end = text_.find(mark, at_);
    if (end == std::string_view::npos) refuse("its header is cut");
    std::string found(text_.substr(at_, end - at_));
    at_ = end + 1;
    return found;
  }
  bool flag() {
    skip_spaces();
    for (const std::string_view name : {"True", "False"}) {
      if (!text_.substr(at_).starts_with(name)) continue;
      at_ += name.size();
      return name == "True";
    }
    refuse("its header has no True or False for fortran_order");
  }
  std::vector<std::size_t> shape() {
    std::vector<std::size_t> extents;
    expect('(');
    while (!passes(')')) {
      extents.push_back(number());
      if (!passes(',')) {
        expect(')');
        break;
      }
    }
    return extents;
  }
  bool at_end() {
    skip_spaces();
    return at_ == text_.size();
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  std::size_t number() {
    skip_spaces();
    const std::size_t first = at_;
    std::size_t value = 0;
    for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0; ++at_) {
      value = product(value, 10) + static_cast<std::size_t>(text_[at_] - '0');
      if (value > most) throw BadInput("announces more than any file can hold");
    }
    if (at_ == first) refuse("its header has a shape without numbers");
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// "<i8": byte order, kind, number of bytes (of letters for U).
void take_type(const std::string& type, NpyHeader& header) {
  header.type = type;
  if (type.size() < 2) refuse("its type is '" + type + "'");
  header.big_endian = type[0] == '>';
  header.kind = type[1];
  if (header.kind == 'O') throw BadInput("holds objects of Python, which are not read");
  header.item = 0;
  for (const char digit : type.substr(2)) {
    if (std::isdigit(static_cast<unsigned char>(digit)) == 0) refuse("its type is '" + type + "'");
    header.item = product(header.item, 10) + static_cast<std::size_t>(digit - '0');
  }
  if (header.kind == 'U') header.item = product(header.item, bytes_of_a_letter);
}

NpyHeader parse(std::string_view text) {
  Literal literal(text);
  NpyHeader header;
  std::set<std::string> seen;
  literal.expect('{');
  while (!literal.passes('}')) {
    const std::string key = literal.word();
    if (!seen.insert(key).second) refuse("its header has " + key + " twice");
    literal.expect(':');
    if (key == "descr") {
      if (literal.passes('[')) throw BadInput("holds structures, which are not read");
      take_type(literal.word(), header);
    } else if (key == "fortran_order") {
      if (literal.flag()) throw BadInput("is in Fortran order; write numpy.ascontiguousarray of it");
    } else if (key == "shape") {
      header.shape = literal.shape();
    } else {
      refuse("its header has an unknown key '" + key + "'");
    }
    if (literal.passes(',')) continue;
    literal.expect('}');
    break;
  }
  if (!literal.at_end()) refuse("its header goes on after the dictionary");
  for (const char* key : {"descr", "fortran_order", "shape"})
    if (!seen.contains(key)) refuse(std::string("its header has no ") + key);
  return header;
}

}  // namespace

std::size_t NpyHeader::bytes() const {
  std::size_t all = item;
  for (const std::size_t extent : shape) all = product(all, extent);
  return all;
}

NpyHeader read_npy_header(const std::function<std::size_t(char*, std::size_t)>& read) {
  const auto next = [&](std::size_t count) {
    std::string bytes(count, '\0');
    if (read(bytes.data(), count) < count) refuse("it ends within its header");
    return bytes;
  };
  const std::string magic = next(8);  // the name of the format, then its version
  if (!magic.starts_with("\x93NUMPY")) refuse("it does not begin as one");
  const int version = static_cast<unsigned char>(magic[6]);
  if (version < 1 || version > 3) refuse("version " + std::to_string(version) + " of the format");
  std::size_t length = 0;
  const std::string sizes = next(version == 1 ? 2 : 4);  // little-endian
  for (std::size_t k = sizes.size(); k-- > 0;) length = 256 * length + static_cast<unsigned char>(sizes[k]);
  if (length > longest_header) refuse("a header of " + std::to_string(length) + " bytes");
  return parse(next(length));
}

}  // namespace fluxformer::data
