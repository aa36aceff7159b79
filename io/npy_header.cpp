#include "io/npy_header.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <string_view>

#include "io/quoted.hpp"

namespace capstan::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kPiece = 1 << 16;    // headers are read in pieces, so that only what is there costs memory
constexpr std::size_t kAlignment = 64;     // of the elements in a file
constexpr std::size_t kGrowthDigits = 21;  // NumPy leaves room for this many digits of the first size
constexpr std::string_view kSupported = "it must be one of f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 c8 c16.";
constexpr std::int64_t kLongest = 1 << 20;  // bytes of a header: from gzip any number could come

struct Row {
  std::string_view code;
  DType stored, given;
  bool complex = false, is_unsigned = false;
};
constexpr Row kTypes[] = {
    {"f2", DType::float16, DType::float16},
    {"f4", DType::float32, DType::float32},
    {"f8", DType::float64, DType::float64},
    {"i1", DType::int8, DType::int8},
    {"i2", DType::int16, DType::int16},
    {"i4", DType::int32, DType::int32},
    {"i8", DType::int64, DType::int64},
    {"u1", DType::uint8, DType::uint8},
    {"b1", DType::bool8, DType::bool8},
    {"u2", DType::int16, DType::int32, false, true},
    {"u4", DType::int32, DType::int64, false, true},
    {"u8", DType::int64, DType::int64, false, true},
    {"c8", DType::float32, DType::float32, true, false},
    {"c16", DType::float64, DType::float64, true, false},
};

constexpr ByteOrder kNative = std::endian::native == std::endian::little ? ByteOrder::little : ByteOrder::big;

/// What the elements are whose type, without its byte order, is none of ours.
std::string_view kind_of(std::string_view code) {
  for (const std::string_view wide : {"f10", "f12", "f16", "g", "c20", "c24", "c32", "G"})
    if (code == wide) return "long double is";
  switch (code.empty() ? '\0' : code[0]) {
    case 'O': return "Python objects are";
    case 'V': return "raw bytes are";
    case 'U':
    case 'S':
    case 'a': return "text is";
    case 'M': return "dates are";
    case 'm': return "time spans are";
    default: return "this type is";
  }
}

/// The dict, parsed from left to right. Python's literals, as far as NumPy writes or has ever written them.
class HeaderText {
 public:
  HeaderText(const ByteSource& file, std::string_view text, std::int64_t begin)
      : file_(file), text_(text), begin_(begin) {}
  NpyHeader parse();

 private:
  enum Key : std::size_t { kDescr, kFortranOrder, kShape, kKeys };
  static constexpr std::string_view kNames[kKeys] = {"descr", "fortran_order", "shape"};

  void read_item();
  Key read_key();
  NpyType read_type();
  bool read_bool();
  void read_shape();
  std::int64_t read_size();
  std::string_view read_string();

  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\r\n\f", at_), text_.size()); }
  /// The next character, 0 at the end.
  char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    skip_space();
    if (!take(c)) fail_at(at_, "the header has " + found(), quoted({&c, 1}) + " must stand there");
  }
  std::string found() const { return at_ < text_.size() ? quoted(text_.substr(at_, 1)) : "no more"; }
  [[noreturn]] void fail_at(std::size_t at, const std::string& what, std::string_view must) const {
    file_.fail(what, " at ", place(at), "; ", must, '.');
  }
  std::string place(std::size_t at) const { return file_.place(begin_ + static_cast<std::int64_t>(at)); }

  const ByteSource& file_;
  std::string_view text_;
  std::int64_t begin_;  // where the text stands in the file
  std::size_t at_ = 0;
  std::size_t shape_at_ = 0;
  bool seen_[kKeys] = {};
  NpyHeader header_;
};

NpyHeader HeaderText::parse() {
  expect('{');
  skip_space();
  while (!take('}')) {
    read_item();
    skip_space();
    if (take(',')) skip_space();
    else if (next() != '}') fail_at(at_, "the header has " + found(), "',' or '}' must stand there");
  }
  skip_space();
  if (at_ < text_.size()) fail_at(at_, "the header has " + found(), "only white space may follow its '}'");
  for (std::size_t key = 0; key < kKeys; ++key)
    if (!seen_[key]) fail_at(0, "the header has no key " + quoted(kNames[key]), "it must have all three");
  if (header_.type.complex && header_.rank == kMaxRank)
    fail_at(shape_at_, "'shape' has 8 sizes", "of complex numbers it must have at most 7, since they are pairs");
  return header_;
}

void HeaderText::read_item() {
  const Key key = read_key();
  expect(':');
  skip_space();
  if (key == kDescr) header_.type = read_type();
  else if (key == kFortranOrder) header_.fortran_order = read_bool();
  else read_shape();
}

HeaderText::Key HeaderText::read_key() {
  const std::size_t at = at_;
  const std::string_view name = read_string();
  for (std::size_t key = 0; key < kKeys; ++key) {
    if (name != kNames[key]) continue;
    if (seen_[key]) fail_at(at, "the header has the key " + quoted(name) + " again", "it must have it once");
    seen_[key] = true;
    return static_cast<Key>(key);
  }
  fail_at(at, "the header has the key " + quoted(name), "its keys must be 'descr', 'fortran_order' and 'shape'");
}

NpyType HeaderText::read_type() {
  const std::size_t at = at_;
  if (next() == '[')
    file_.fail("the element type at ", place(at), " is a list: structured types are not supported; ", kSupported);
  if (next() == '(')
    file_.fail("the element type at ", place(at), " is a tuple: types with a shape are not supported; ", kSupported);
  const std::string_view text = read_string();
  std::string_view code = text;
  ByteOrder order = kNative;
  if (!code.empty() && std::string_view("<>|=").find(code[0]) != std::string_view::npos) {
    if (code[0] == '<') order = ByteOrder::little;
    if (code[0] == '>') order = ByteOrder::big;
    code.remove_prefix(1);
  }
  for (const Row& row : kTypes)
    if (row.code == code) return {row.stored, row.given, order, row.complex, row.is_unsigned};
  file_.fail("element type ", quoted(text), " at ", place(at), ": ", kind_of(code), " not supported; ", kSupported);
}

bool HeaderText::read_bool() {
  for (const std::string_view word : {"False", "True"}) {
    if (text_.substr(at_, word.size()) != word) continue;
    at_ += word.size();
    return word == "True";  // letters that follow are found to be no ',' or '}'
  }
  fail_at(at_, "'fortran_order' is " + found(), "it must be True or False");
}

void HeaderText::read_shape() {
  shape_at_ = at_;
  header_.shape_offset = begin_ + static_cast<std::int64_t>(at_);
  if (!take('(')) fail_at(at_, "'shape' is " + found(), "it must be a tuple of sizes, such as (2, 3)");
  bool comma = true;
  for (skip_space(); !take(')'); skip_space()) {
    if (!comma) fail_at(at_, "'shape' has " + found(), "',' or ')' must stand there");
    if (header_.rank == kMaxRank) fail_at(at_, "'shape' has a ninth size", "there may be at most 8");
    const std::int64_t size = read_size();
    header_.sizes[header_.rank++] = size;
    skip_space();
    comma = take(',');
  }
  if (header_.rank == 1 && !comma)
    fail_at(shape_at_, "'shape' is a number in brackets", "a tuple of one size has a comma, as in (3,)");
}

std::int64_t HeaderText::read_size() {
  const std::size_t at = at_;
  const bool negative = take('-');
  const std::size_t digits = at_;
  std::int64_t value = 0;
  for (; next() >= '0' && next() <= '9'; ++at_) {
    const int digit = next() - '0';
    if (value > (std::numeric_limits<std::int64_t>::max() - digit) / 10)
      fail_at(at, "'shape' has a size that is too large", "it must be below 2^63");
    value = 10 * value + digit;
  }
  if (at_ == digits) fail_at(at_, "'shape' has " + found(), "its sizes must be whole numbers");
  if (at_ - digits > 1 && text_[digits] == '0')
    fail_at(at, "'shape' has a size with zeros before it", "Python has no such numbers");
  if (negative && value != 0) fail_at(at, "'shape' has a negative size", "it must be 0 or more");
  take('L');  // Python 2's long
  return value;
}

/// A text between quotes of either kind, without escapes: there is none that NumPy would have to write.
std::string_view HeaderText::read_string() {
  const std::size_t begin = at_;
  const char quote = next();
  if (quote != '\'' && quote != '"') fail_at(at_, "the header has " + found(), "a text in quotes must stand there");
  const std::size_t end = text_.find(quote, begin + 1);
  if (end == std::string_view::npos)
    fail_at(begin, "a text is not closed", "it must end with the quote it begins with");
  const std::string_view text = text_.substr(begin + 1, end - begin - 1);
  if (text.find_first_of("\\\r\n") != std::string_view::npos)
    fail_at(begin, "a text holds a backslash or a new line", "it must be plain");
  at_ = end + 1;
  return text;
}

/// The length of the header's text, by the format's version.
std::int64_t read_length(ByteSource& file) {
  std::array<unsigned char, 8> start;
  if (file.read(start.data(), start.size()) < start.size())
    file.fail("the header is cut short at ", file.place(file.position()),
              "; it must begin with \\x93NUMPY and the format's version.");
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  if (text.substr(0, kMagic.size()) != kMagic)
    file.fail("the data begins with ", quoted(text.substr(0, kMagic.size())), " at ", file.place(0),
              "; it must be '\\x93NUMPY'.");
  const int version = start[6], revision = start[7];
  if (version < 1 || version > 3 || revision != 0)
    file.fail("format version ", version, '.', revision, " at ", file.place(6), "; it must be 1.0, 2.0 or 3.0.");
  std::array<unsigned char, 4> bytes{};
  const std::size_t count = version == 1 ? 2 : 4;
  if (file.read(bytes.data(), count) < count)
    file.fail("the header is cut short at ", file.place(file.position()), "; its length of ", count,
              " bytes must stand at offset 8.");
  std::int64_t length = 0;
  for (std::size_t i = count; i > 0; --i) length = length << 8 | bytes[i - 1];
  if (length > kLongest)
    file.fail("the header declares ", length, " bytes at ", file.place(8), "; it must have at most ", kLongest, ".");
  return length;
}

std::string read_text(ByteSource& file, std::int64_t length) {
  const std::int64_t begin = file.position();
  const auto fail_at = [&](std::int64_t end) {
    file.fail("the header is cut short at ", file.place(end), "; it must have ", length, " bytes from offset ", begin,
              '.');
  };
  if (file.most_left_is_exact() && length > file.most_left()) fail_at(begin + file.most_left());
  std::string text;
  while (text.size() < static_cast<std::size_t>(length)) {
    const std::size_t done = text.size(), piece = std::min(static_cast<std::size_t>(length) - done, kPiece);
    text.resize(done + piece);
    if (file.read(reinterpret_cast<unsigned char*>(text.data()) + done, piece) < piece) fail_at(file.position());
  }
  return text;
}

std::string code_of(DType dtype) {
  const auto* row = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Row& r) { return r.given == dtype; });
  const char order = size_of(dtype) == 1 ? '|' : kNative == ByteOrder::little ? '<' : '>';
  return order + std::string(row->code);
}

}  // namespace

NpyHeader read_npy_header(ByteSource& file) {
  const std::int64_t length = read_length(file), begin = file.position();
  const std::string text = read_text(file, length);
  return HeaderText(file, text, begin).parse();
}

std::string npy_header(const Shape& shape, DType dtype) {
  std::string sizes;
  for (const std::int64_t size : shape) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  if (shape.rank() == 1) sizes += ',';
  std::string text = "{'descr': '" + code_of(dtype) + "', 'fortran_order': False, 'shape': (" + sizes + "), }";
  if (shape.rank() > 0) text.append(kGrowthDigits - std::to_string(shape[0]).size(), ' ');
  const std::size_t before = kMagic.size() + 4;  // what stands before the text, of which a new line is the last
  text.append(kAlignment - (before + text.size() + 1) % kAlignment, ' ');
  text += '\n';
  std::string header(kMagic);
  header += {'\x01', '\0', static_cast<char>(text.size() & 0xFF), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace capstan::io
