// The JSON is read by nlohmann's parser, which tells of one token after another; what they must be is checked here, so
// that nothing nests deeper than the format does and nothing is kept that it does not have. Metadata can be a few bytes
// each: of them only the places are kept until their names are known to be different.
#include "io/safetensors_header.hpp"

#if CAPSTAN_HAS_NLOHMANN_JSON
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "io/quoted.hpp"
#include "io/utf8.hpp"

namespace capstan::io {
namespace {

constexpr std::int64_t kLengthBytes = 8;
static_assert(kLongestHeader <= std::numeric_limits<std::uint32_t>::max(), "places in it have 32 bits");
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

struct Type {
  std::string_view name;
  StoredType type;
  std::int64_t bytes;
};
constexpr Type kTypes[] = {
    {"BOOL", StoredType::boolean, 1},
    {"U8", StoredType::U8, 1},
    {"I8", StoredType::I8, 1},
    {"F8_E4M3", StoredType::F8_E4M3, 1},
    {"F8_E5M2", StoredType::F8_E5M2, 1},
    {"F8_E8M0", StoredType::F8_E8M0, 1},
    {"F8_E4M3FNUZ", StoredType::F8_E4M3FNUZ, 1},
    {"F8_E5M2FNUZ", StoredType::F8_E5M2FNUZ, 1},
    {"U16", StoredType::U16, 2},
    {"I16", StoredType::I16, 2},
    {"F16", StoredType::F16, 2},
    {"BF16", StoredType::BF16, 2},
    {"U32", StoredType::U32, 4},
    {"I32", StoredType::I32, 4},
    {"F32", StoredType::F32, 4},
    {"C64", StoredType::C64, 8},
    {"U64", StoredType::U64, 8},
    {"I64", StoredType::I64, 8},
    {"F64", StoredType::F64, 8},
};

std::string names_of_types() {
  std::string names;
  for (const Type& type : kTypes) names += (names.empty() ? "" : " ") + std::string(type.name);
  return names;
}

std::string list(std::span<const std::int64_t> numbers) {
  std::string text = "[";
  for (const std::int64_t number : numbers) text += (text.size() > 1 ? ", " : "") + std::to_string(number);
  return text + "]";
}

// --- the text ------------------------------------------------------------------------------------------------------

std::string_view header_text(const SafetensorsSource& source) {
  if (source.size < kLengthBytes)
    source.fail("the file ends at offset ", source.size, "; it must begin with 8 bytes, the length of the header.");
  std::uint64_t length = 0;
  for (int i = 0; i < 8; ++i) length |= std::uint64_t{source.bytes[i]} << (8 * i);
  if (length > static_cast<std::uint64_t>(kLongestHeader))
    source.fail("the length at offset 0 is ", std::to_string(length), "; a header has at most ", kLongestHeader,
                " bytes.");
  const std::int64_t left = source.size - kLengthBytes;
  if (static_cast<std::int64_t>(length) > left)
    source.fail("the length at offset 0 is ", std::to_string(length), ", but the file ends ", left,
                " bytes behind it; the header must be there.");
  const auto* const begin = reinterpret_cast<const char*>(source.bytes + kLengthBytes);
  const std::string_view text(begin, static_cast<std::size_t>(length));
  if (text.empty() || text.front() != '{')
    source.fail("the header at offset 8 begins with ", io::quoted(text.substr(0, 8)), "; it must begin with '{'.");
  if (const std::size_t good = utf8_bytes(text); good < text.size())
    source.fail("the header is no UTF-8 at offset ", kLengthBytes + static_cast<std::int64_t>(good), ", where ",
                io::quoted(text.substr(good, 4)), " stands; it must be.");
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos)  // for the parser it were the end
    source.fail("a zero byte stands at offset ", kLengthBytes + static_cast<std::int64_t>(zero),
                "; the header must be JSON, with nothing but blanks behind it.");
  return text;
}

/// Follows the parser, which does not say where its tokens stand.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  /// Goes to the token that the parser tells of, and passes it: its offset in the file.
  std::int64_t next() {
    begin_ = std::min(text_.find_first_not_of(" \t\n\r:,", end_), text_.size());
    end_ = end_of_token();
    return kLengthBytes + static_cast<std::int64_t>(begin_);
  }
  std::string_view token() const { return text_.substr(begin_, end_ - begin_); }

 private:
  std::size_t end_of_token() const {
    if (begin_ == text_.size()) return begin_;
    switch (text_[begin_]) {
      case '{':
      case '}':
      case '[':
      case ']': return begin_ + 1;
      case '"': break;
      default: return std::min(text_.find_first_of(" \t\n\r:,]}", begin_), text_.size());
    }
    std::size_t at = begin_ + 1;
    while (at < text_.size() && text_[at] != '"') at += text_[at] == '\\' ? 2 : 1;
    return std::min(at + 1, text_.size());
  }

  std::string_view text_;
  std::size_t begin_ = 0, end_ = 0;
};

/// The bytes that a text of JSON stands for, one at a time; the parser has seen that it is one.
class TextBytes {
 public:
  /// `rest` begins with its first quote.
  explicit TextBytes(std::string_view rest) : rest_(rest) {}

  /// -1 at the end.
  int next() {
    if (left_ == 0) {
      const char c = rest_[at_];
      if (c == '"') return -1;
      ++at_;
      if (c != '\\') return static_cast<unsigned char>(c);
      read_escape();
    }
    return last_first_[--left_];
  }

 private:
  void put(std::uint32_t byte) { last_first_[left_++] = static_cast<unsigned char>(byte); }
  void read_escape() {
    constexpr std::string_view letters = "bfnrt", controls = "\b\f\n\r\t";
    const char c = rest_[at_++];
    const std::size_t control = letters.find(c);
    if (c == 'u') read_character();
    else put(static_cast<unsigned char>(control != std::string_view::npos ? controls[control] : c));
  }
  std::uint32_t read_unit() {
    std::uint32_t unit = 0;
    for (const std::size_t end = at_ + 4; at_ < end; ++at_) {
      const char c = rest_[at_];
      unit = 16 * unit + static_cast<std::uint32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return unit;
  }
  void read_character() {
    constexpr std::uint32_t marks[] = {0, 0xC0, 0xE0, 0xF0};
    std::uint32_t code = read_unit();
    if (code >= 0xD800 && code < 0xDC00) {  // half of a pair
      at_ += 2;                             // the backslash and the u of the other
      const std::uint32_t low = read_unit() - 0xDC00;
      code = 0x10000 + ((code - 0xD800) << 10) + low;
    }
    const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    for (int i = 0; i < more; ++i, code >>= 6) put(0x80 | (code & 0x3F));
    put(marks[more] | code);
  }

  std::string_view rest_;
  std::size_t at_ = 1, left_ = 0;
  unsigned char last_first_[4] = {};  // UTF-8 of an escape
};

std::string text_at(std::string_view rest) {
  std::string text;
  TextBytes bytes(rest);
  for (int byte = bytes.next(); byte >= 0; byte = bytes.next()) text += static_cast<char>(byte);
  return text;
}

int compare_texts(std::string_view a, std::string_view b) {
  TextBytes left(a), right(b);
  for (;;) {
    const int x = left.next(), y = right.next();
    if (x != y) return x < y ? -1 : 1;
    if (x < 0) return 0;
  }
}

// --- what it says --------------------------------------------------------------------------------------------------

/// What must come next.
enum class Next {
  object,    // of the whole header
  names,     // of tensors
  metadata,  // its object
  keys,      // of metadata
  text,      // of one of them
  tensor,    // its object
  entries,   // of a tensor
  dtype,
  shape,
  sizes,
  offsets,
  ends
};

class HeaderReader final : public nlohmann::json::json_sax_t {
 public:
  HeaderReader(const SafetensorsSource& source, std::string_view text) : source_(source), text_(text), cursor_(text) {
    header_.data = kLengthBytes + static_cast<std::int64_t>(text.size());
    data_bytes_ = source.size - header_.data;
    header_.tensors.reserve(most_tensors());
  }

  SafetensorsHeader read() {
    nlohmann::json::sax_parse(text_.begin(), text_.end(), this);
    check_names();
    check_metadata_names();
    check_ranges();
    read_metadata();
    return std::move(header_);
  }

  // The parser's calls. They throw; what they return says that it goes on.
  bool null() override { unexpected("null"); }
  bool boolean(bool value) override { unexpected(value ? "true" : "false"); }
  bool number_integer(number_integer_t) override { unexpected_number(); }  // a negative one
  bool number_float(number_float_t, const string_t&) override { unexpected_number(); }
  bool number_unsigned(number_unsigned_t value) override;
  bool string(string_t& value) override;
  bool binary(binary_t&) override { unexpected("binary data"); }
  bool start_object(std::size_t) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override;

 private:
  [[noreturn]] void unexpected(const std::string& what) {
    const std::int64_t offset = cursor_.next();
    source_.fail(what, " stands at offset ", offset, "; ", rule());
  }
  [[noreturn]] void unexpected_number() {
    Cursor ahead = cursor_;
    ahead.next();
    unexpected("the number " + io::quoted(ahead.token()));
  }
  std::string rule() const;
  StoredTensor& tensor() { return header_.tensors.back(); }
  std::string called() { return "tensor " + io::quoted(tensor().name); }
  std::size_t most_tensors() const;
  void begin_tensor(const std::string& name, std::int64_t offset);
  void begin_entry(std::string_view name, std::int64_t offset);
  void read_type(std::string_view name, std::int64_t offset);
  void finish_tensor();
  void finish_shape();
  void check_names() const;
  void check_metadata_names() const;
  void check_ranges() const;
  void read_metadata();

  const SafetensorsSource& source_;
  std::string_view text_;
  Cursor cursor_;
  SafetensorsHeader header_;
  std::int64_t data_bytes_ = 0;
  Next next_ = Next::object;
  bool has_metadata_ = false;
  std::vector<std::uint32_t> metadata_;  // where their names stand in the text

  // of the tensor that is being read
  const Type* type_ = nullptr;
  bool has_dtype_ = false, has_shape_ = false, has_ends_ = false;
  std::int64_t sizes_[kMaxRank + 1] = {}, ends_[2] = {};
  std::size_t size_count_ = 0, end_count_ = 0;
};

std::string HeaderReader::rule() const {
  const auto of_tensor = [&](const char* what) {
    return what + (" of tensor " + io::quoted(header_.tensors.back().name));
  };
  switch (next_) {
    case Next::metadata:
    case Next::keys:
    case Next::text: return "'__metadata__' must be an object of texts.";
    case Next::tensor:
    case Next::entries:
      return "tensor " + io::quoted(header_.tensors.back().name) +
             " must be an object of dtype, shape and data_offsets.";
    case Next::dtype: return of_tensor("the dtype") + " must be a text.";
    case Next::shape:
    case Next::sizes: return of_tensor("the shape") + " must be a list of whole numbers from 0 to 2^63 - 1.";
    case Next::offsets:
    case Next::ends: return of_tensor("data_offsets") + " must be a list of two whole numbers from 0 to 2^63 - 1.";
    default: return "the header must be an object.";
  }
}

bool HeaderReader::number_unsigned(number_unsigned_t value) {
  const bool is_size = next_ == Next::sizes;
  if ((!is_size && next_ != Next::ends) || value > static_cast<number_unsigned_t>(kMost)) unexpected_number();
  if (!is_size && end_count_ == 2) unexpected_number();
  const std::int64_t offset = cursor_.next(), number = static_cast<std::int64_t>(value);
  if (is_size && size_count_ == kMaxRank)
    source_.fail("a size more stands at offset ", offset, ": ", called(), " has at least ", kMaxRank + 1,
                 " axes; at most ", kMaxRank, " are possible.");
  if (is_size) sizes_[size_count_++] = number;
  else ends_[end_count_++] = number;
  return true;
}

bool HeaderReader::string(string_t& value) {
  if (next_ == Next::text) {
    cursor_.next();
    next_ = Next::keys;
  } else if (next_ == Next::dtype) {
    read_type(value, cursor_.next());
    next_ = Next::entries;
  } else unexpected("the text " + io::quoted(value));
  return true;
}

bool HeaderReader::start_object(std::size_t) {
  switch (next_) {
    case Next::object: next_ = Next::names; break;
    case Next::metadata: next_ = Next::keys; break;
    case Next::tensor: next_ = Next::entries; break;
    default: unexpected("an object");
  }
  cursor_.next();
  return true;
}

bool HeaderReader::key(string_t& name) {
  const std::int64_t offset = cursor_.next();
  if (next_ == Next::entries) {
    begin_entry(name, offset);
  } else if (next_ == Next::keys) {
    metadata_.push_back(static_cast<std::uint32_t>(offset - kLengthBytes));
    next_ = Next::text;
  } else if (name == "__metadata__") {
    if (has_metadata_) source_.fail("'__metadata__' stands at offset ", offset, " again; it may be there once.");
    has_metadata_ = true;
    next_ = Next::metadata;
  } else begin_tensor(name, offset);
  return true;
}

bool HeaderReader::end_object() {
  cursor_.next();
  if (next_ == Next::entries) finish_tensor();
  next_ = Next::names;
  return true;
}

bool HeaderReader::start_array(std::size_t) {
  if (next_ == Next::shape) next_ = Next::sizes;
  else if (next_ == Next::offsets) next_ = Next::ends;
  else unexpected("a list");
  cursor_.next();
  return true;
}

bool HeaderReader::end_array() {
  if (next_ == Next::ends && end_count_ < 2) unexpected("the end of the list");
  cursor_.next();
  next_ = Next::entries;
  return true;
}

bool HeaderReader::parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) {
  constexpr int too_large = 406;  // a number, for double
  if (error.id == too_large) unexpected_number();
  const std::size_t at = std::min(position > 0 ? position - 1 : 0, text_.size());
  source_.fail("the header is no JSON at offset ", kLengthBytes + static_cast<std::int64_t>(at), ", where ",
               at == text_.size() ? "it ends" : io::quoted(text_.substr(at, 16)) + " stands",
               "; it must be one object, with nothing but blanks behind it.");
}

// --- one tensor ----------------------------------------------------------------------------------------------------

/// Room for as many as there are, unless they are written in odd ways.
std::size_t HeaderReader::most_tensors() const {
  constexpr std::string_view word = "\"data_offsets\"";
  constexpr std::size_t shortest = std::string_view(R"("":{"dtype":"U8","shape":[],"data_offsets":[0,0]})").size();
  std::size_t words = 0;
  for (std::size_t at = text_.find(word); at != std::string_view::npos; at = text_.find(word, at + word.size()))
    ++words;
  return std::min(words, text_.size() / shortest);
}

void HeaderReader::begin_tensor(const std::string& name, std::int64_t offset) {
  header_.tensors.emplace_back();
  tensor().name = name;  // the parser's own can have far more room
  tensor().offset = offset;
  has_dtype_ = has_shape_ = has_ends_ = false;
  size_count_ = end_count_ = 0;
  next_ = Next::tensor;
}

void HeaderReader::begin_entry(std::string_view name, std::int64_t offset) {
  const auto begin = [&](bool& seen, Next next) {
    if (seen) source_.fail(called(), " has ", name, " a second time at offset ", offset, "; it must be there once.");
    seen = true;
    next_ = next;
  };
  if (name == "dtype") begin(has_dtype_, Next::dtype);
  else if (name == "shape") begin(has_shape_, Next::shape);
  else if (name == "data_offsets") begin(has_ends_, Next::offsets);
  else
    source_.fail(called(), " has ", io::quoted(name), " at offset ", offset,
                 "; it must have dtype, shape and data_offsets alone.");
}

void HeaderReader::read_type(std::string_view name, std::int64_t offset) {
  const auto found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Type& type) { return type.name == name; });
  if (found == std::end(kTypes))
    source_.fail("dtype ", io::quoted(name), " at offset ", offset, " of ", called(),
                 " is not supported; it must be one of ", names_of_types(), ".");
  type_ = &*found;
}

void HeaderReader::finish_tensor() {
  StoredTensor& stored = tensor();
  if (!has_dtype_ || !has_shape_ || !has_ends_)
    source_.fail(called(), " at offset ", stored.offset, " has no ",
                 !has_dtype_   ? "dtype"
                 : !has_shape_ ? "shape"
                               : "data_offsets",
                 "; it must have dtype, shape and data_offsets.");
  stored.type = type_->type;
  stored.begin = ends_[0];
  stored.end = ends_[1];
  if (stored.begin > stored.end)
    source_.fail(called(), " at offset ", stored.offset, " has data_offsets ", list(ends_),
                 "; the first must not be larger than the second.");
  if (stored.end > data_bytes_)
    source_.fail(called(), " at offset ", stored.offset, " has data_offsets ", list(ends_), ", but ", data_bytes_,
                 " bytes follow the header; they must be there.");
  finish_shape();
}

/// Sizes of 0 do not excuse the others.
void HeaderReader::finish_shape() {
  StoredTensor& stored = tensor();
  const std::span<const std::int64_t> sizes(sizes_, size_count_);
  std::int64_t bytes = type_->bytes;
  for (const std::int64_t size : sizes) {
    if (size != 0 && __builtin_mul_overflow(bytes, size, &bytes))
      source_.fail(called(), " at offset ", stored.offset, " has shape ", list(sizes), ", which needs 2^63 bytes of ",
                   type_->name, " or more; the elements must be in the file.");
  }
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) bytes = 0;
  if (bytes != stored.end - stored.begin)
    source_.fail(called(), " at offset ", stored.offset, " has data_offsets ", list(ends_), ", but shape ", list(sizes),
                 " of ", type_->name, " needs ", bytes, " bytes; both must agree.");
  if (type_->type == StoredType::C64) {
    if (size_count_ == kMaxRank)
      source_.fail(called(), " at offset ", stored.offset, " has ", kMaxRank, " axes of complex numbers; at most ",
                   kMaxRank - 1, " are possible, since real and imaginary parts are one more.");
    sizes_[size_count_++] = 2;
  }
  stored.shape = Shape(std::span<const std::int64_t>(sizes_, size_count_), source_.where);
}

// --- all tensors ---------------------------------------------------------------------------------------------------

void HeaderReader::check_names() const {
  const std::vector<StoredTensor>& tensors = header_.tensors;
  std::vector<std::uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const int names = tensors[a].name.compare(tensors[b].name);
    return names != 0 ? names < 0 : a < b;
  });
  const auto twice = std::adjacent_find(
      order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return tensors[a].name == tensors[b].name; });
  if (twice != order.end())
    source_.fail("two tensors are called ", io::quoted(tensors[*twice].name), ", at offset ", tensors[*twice].offset,
                 " and at offset ", tensors[*(twice + 1)].offset, "; names must be different.");
}

void HeaderReader::check_metadata_names() const {
  const auto compare = [&](std::uint32_t a, std::uint32_t b) {
    return compare_texts(text_.substr(a), text_.substr(b));
  };
  std::vector<std::uint32_t> places = metadata_;
  std::sort(places.begin(), places.end(), [&](std::uint32_t a, std::uint32_t b) {
    const int names = compare(a, b);
    return names != 0 ? names < 0 : a < b;
  });
  const auto twice = std::adjacent_find(places.begin(), places.end(),
                                        [&](std::uint32_t a, std::uint32_t b) { return compare(a, b) == 0; });
  if (twice != places.end())
    source_.fail("two metadata are called ", io::quoted(text_at(text_.substr(*twice))), ", at offset ",
                 kLengthBytes + *twice, " and at offset ", kLengthBytes + *(twice + 1), "; names must be different.");
}

void HeaderReader::read_metadata() {
  header_.metadata.reserve(metadata_.size());
  for (const std::uint32_t place : metadata_) {
    const std::string_view rest = text_.substr(place);
    Cursor cursor(rest);
    cursor.next();  // the name
    const auto value = static_cast<std::size_t>(cursor.next() - kLengthBytes);
    header_.metadata.emplace_back(text_at(rest), text_at(rest.substr(value)));
  }
}

/// The tensors share the bytes behind the header among them.
void HeaderReader::check_ranges() const {
  std::vector<std::size_t> order(header_.tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto range = [&](std::size_t i) { return std::pair(header_.tensors[i].begin, header_.tensors[i].end); };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return range(a) != range(b) ? range(a) < range(b) : a < b; });
  std::int64_t place = 0;
  for (const std::size_t i : order) {
    const StoredTensor& stored = header_.tensors[i];
    if (stored.begin != place)
      source_.fail("the elements of tensor ", io::quoted(stored.name), " begin at offset ", header_.data + stored.begin,
                   ", and those before them end at offset ", header_.data + place,
                   "; none may overlap or leave bytes out.");
    place = stored.end;
  }
  if (place != data_bytes_)
    source_.fail("the last element ends at offset ", header_.data + place, " and the file at offset ", source_.size,
                 "; nothing may follow.");
}

}  // namespace

SafetensorsHeader read_safetensors_header(const SafetensorsSource& source) {
  return HeaderReader(source, header_text(source)).read();
}

}  // namespace capstan::io

#else  // without nlohmann-json

namespace capstan::io {

SafetensorsHeader read_safetensors_header(const SafetensorsSource& source) {
  base::fail<MissingLibraryError>(
      source.where, source.op,
      ": this build has no nlohmann-json; install nlohmann-json3-dev (Debian, Ubuntu) and build "
      "again.");
}

}  // namespace capstan::io

#endif
