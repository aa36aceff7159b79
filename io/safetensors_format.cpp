#include "io/safetensors_format.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include <capstan/create.hpp>

#include "io/quoted.hpp"
#include "io/safetensors_header.hpp"
#include "io/utf8.hpp"
#include "lib/base/text.hpp"

namespace capstan::io {
namespace {

// Elements are little-endian in the file, and are used where they lie.
static_assert(std::endian::native == std::endian::little, "safetensors files need a little-endian machine");

// --- reading -------------------------------------------------------------------------------------------------------

template <class Word>
Word load(const unsigned char* bytes) noexcept {
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// Types of 8 bits: OCP 8-bit Floating Point Specification (E4M3 has no infinity), and of its Microscaling formats E8M0.
// FNUZ, arXiv:2206.02915: no infinity, and NaN alone in the place of -0.

/// All bytes as finite numbers.
template <std::uint32_t kMantissa, std::uint32_t kBias>
float from_finite(std::uint8_t byte) noexcept {
  const std::uint32_t sign = (byte & 0x80u) << 24, magnitude = byte & 0x7Fu;
  if (magnitude >> kMantissa != 0)
    return std::bit_cast<float>(sign | ((magnitude << (23 - kMantissa)) + ((127 - kBias) << 23)));
  const auto least = std::bit_cast<float>((128 - kBias - kMantissa) << 23);  // 2^(1 - bias - mantissa)
  return (sign != 0 ? -least : least) * static_cast<float>(magnitude);
}
float from_e4m3(std::uint8_t byte) noexcept {
  if ((byte & 0x7F) == 0x7F) return std::bit_cast<float>((byte & 0x80u) << 24 | 0x7FC00000u);
  return from_finite<3, 7>(byte);
}
float from_e4m3_fnuz(std::uint8_t byte) noexcept {
  return byte == 0x80 ? std::numeric_limits<float>::quiet_NaN() : from_finite<3, 8>(byte);
}
float from_e5m2_fnuz(std::uint8_t byte) noexcept {
  return byte == 0x80 ? std::numeric_limits<float>::quiet_NaN() : from_finite<2, 16>(byte);
}
float from_e5m2(std::uint8_t byte) noexcept {  // the upper half of a float16
  return float16::from_bits(static_cast<std::uint16_t>(byte << 8));
}
float from_e8m0(std::uint8_t byte) noexcept {  // 2^(byte - 127)
  if (byte == 0xFF) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(byte == 0 ? 0x00400000u : std::uint32_t{byte} << 23);
}

void let_go(void* keeper) { delete static_cast<std::shared_ptr<const MappedFile>*>(keeper); }

/// Makes the tensors of one file.
class Elements {
 public:
  Elements(const SafetensorsSource& source, std::shared_ptr<const MappedFile> file, std::int64_t data, TensorUse use)
      : source_(source),
        file_(std::move(file)),
        data_(data),
        shares_pages_(use == TensorUse::read_only || file_->is_writable()) {}

  Tensor tensor(const StoredTensor& stored) const;

 private:
  unsigned char* bytes(const StoredTensor& stored) const { return file_->bytes() + data_ + stored.begin; }
  template <class T>
  Tensor made(const StoredTensor& stored) const {
    return empty(stored.shape, {.dtype = dtype_of<T>(), .device = cpu()}, source_.where);
  }
  template <class T>
  Tensor shared(const StoredTensor& stored) const;
  template <class Word, class T, class Convert>
  Tensor converted(const StoredTensor& stored, Convert convert) const;
  template <class Word, class T>
  Tensor widened(const StoredTensor& stored) const {
    return converted<Word, T>(stored, [](Word word) { return static_cast<T>(word); });
  }
  Tensor booleans(const StoredTensor& stored) const;
  void check_signed(const StoredTensor& stored) const;

  const SafetensorsSource& source_;
  std::shared_ptr<const MappedFile> file_;
  std::int64_t data_;
  bool shares_pages_;
};

/// The file's own pages, or a copy if T cannot be read from there, or not be written to by whoever gets the tensor.
template <class T>
Tensor Elements::shared(const StoredTensor& stored) const {
  if (stored.shape.numel() == 0) return made<T>(stored);
  unsigned char* const from = bytes(stored);
  if (shares_pages_ && reinterpret_cast<std::uintptr_t>(from) % alignof(T) == 0) {
    auto keeper = std::make_unique<std::shared_ptr<const MappedFile>>(file_);
    Tensor x =
        from_memory<T>(static_cast<T*>(static_cast<void*>(from)), stored.shape, &let_go, keeper.get(), source_.where);
    static_cast<void>(keeper.release());  // the tensor has it
    return x;
  }
  Tensor copy = made<T>(stored);
  std::memcpy(static_cast<void*>(copy.mutable_data<T>(source_.where)), from,
              static_cast<std::size_t>(stored.end - stored.begin));
  return copy;
}

template <class Word, class T, class Convert>
Tensor Elements::converted(const StoredTensor& stored, Convert convert) const {
  Tensor x = made<T>(stored);
  const std::int64_t count = stored.shape.numel();
  if (count == 0) return x;
  const unsigned char* from = bytes(stored);
  T* const to = x.mutable_data<T>(source_.where);
  for (std::int64_t i = 0; i < count; ++i, from += sizeof(Word)) to[i] = convert(load<Word>(from));
  return x;
}

/// Whatever is not zero is true; as bool, other bytes than 0 and 1 are no values.
Tensor Elements::booleans(const StoredTensor& stored) const {
  const unsigned char* const begin = bytes(stored);
  const bool plain = std::all_of(begin, begin + stored.shape.numel(), [](unsigned char byte) { return byte <= 1; });
  if (plain) return shared<bool>(stored);
  return converted<std::uint8_t, bool>(stored, [](std::uint8_t byte) { return byte != 0; });
}

/// There is no wider type for unsigned numbers of 64 bits.
void Elements::check_signed(const StoredTensor& stored) const {
  for (std::int64_t at = stored.begin; at < stored.end; at += 8) {
    const auto number = load<std::uint64_t>(file_->bytes() + data_ + at);
    if (number >> 63 != 0)
      source_.fail("the unsigned number ", std::to_string(number), " at offset ", data_ + at, ", in tensor ",
                   quoted(stored.name), ", does not fit in int64; it must be below 2^63.");
  }
}

Tensor Elements::tensor(const StoredTensor& stored) const {
  switch (stored.type) {
    case StoredType::boolean: return booleans(stored);
    case StoredType::U8: return shared<std::uint8_t>(stored);
    case StoredType::I8: return shared<std::int8_t>(stored);
    case StoredType::F8_E4M3: return converted<std::uint8_t, float>(stored, &from_e4m3);
    case StoredType::F8_E5M2: return converted<std::uint8_t, float>(stored, &from_e5m2);
    case StoredType::F8_E8M0: return converted<std::uint8_t, float>(stored, &from_e8m0);
    case StoredType::F8_E4M3FNUZ: return converted<std::uint8_t, float>(stored, &from_e4m3_fnuz);
    case StoredType::F8_E5M2FNUZ: return converted<std::uint8_t, float>(stored, &from_e5m2_fnuz);
    case StoredType::U16: return widened<std::uint16_t, std::int32_t>(stored);
    case StoredType::I16: return shared<std::int16_t>(stored);
    case StoredType::F16: return shared<float16>(stored);
    case StoredType::BF16: return shared<bfloat16>(stored);
    case StoredType::U32: return widened<std::uint32_t, std::int64_t>(stored);
    case StoredType::I32: return shared<std::int32_t>(stored);
    case StoredType::F32:
    case StoredType::C64: return shared<float>(stored);
    case StoredType::U64: check_signed(stored); return shared<std::int64_t>(stored);
    case StoredType::I64: return shared<std::int64_t>(stored);
    case StoredType::F64: break;
  }
  return shared<double>(stored);
}

// --- writing -------------------------------------------------------------------------------------------------------

/// In the order in which the package writes them: every tensor begins at a multiple of its elements' size.
struct WrittenType {
  DType dtype;
  const char* name;
};
constexpr WrittenType kWrittenTypes[] = {
    {DType::int64, "I64"},     {DType::float64, "F64"}, {DType::float32, "F32"}, {DType::int32, "I32"},
    {DType::bfloat16, "BF16"}, {DType::float16, "F16"}, {DType::int16, "I16"},   {DType::int8, "I8"},
    {DType::uint8, "U8"},      {DType::bool8, "BOOL"},
};

std::size_t rank_of(DType dtype) noexcept {
  const auto found = std::find_if(std::begin(kWrittenTypes), std::end(kWrittenTypes),
                                  [&](const WrittenType& type) { return type.dtype == dtype; });
  return static_cast<std::size_t>(found - std::begin(kWrittenTypes));
}

constexpr std::string_view kMetadata = "__metadata__";

struct Writer {
  const char* op;
  const std::string& path;
  Where where;

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    base::fail<Error>(where, op, ": ", path, ": ", parts...);
  }
  void check_text(const char* what, std::string_view text) const {
    if (const std::size_t good = utf8_bytes(text); good < text.size())
      fail(what, " ", quoted(text), " is no UTF-8 from byte ", good, " on; it must be.");
  }
  void check_different(const char* what, std::vector<std::string_view> names) const {
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) fail(what, " are called ", quoted(*twice), "; names must be different.");
  }
};

void check_tensors(const Writer& writer, std::span<const NamedTensor> tensors) {
  std::vector<std::string_view> names;
  std::int64_t total = kLongestHeader;
  for (const NamedTensor& tensor : tensors) {
    if (tensor.name.empty()) writer.fail("a tensor has no name; give it one.");
    if (tensor.name == kMetadata) writer.fail("a tensor is called '__metadata__'; the format keeps that name.");
    writer.check_text("the name of tensor", tensor.name);
    names.push_back(tensor.name);
    if (!tensor.value.defined()) writer.fail("tensor ", quoted(tensor.name), " is undefined; give it a value first.");
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(tensor.value.numel(writer.where), size_of(tensor.value.dtype(writer.where)), &bytes) ||
        __builtin_add_overflow(total, bytes, &total))
      writer.fail("tensor ", quoted(tensor.name), " of shape ", tensor.value.shape(writer.where),
                  " makes the file larger than 2^63 bytes; no file can be.");
  }
  writer.check_different("two tensors", std::move(names));
}

void check_metadata(const Writer& writer, const Metadata& metadata) {
  std::vector<std::string_view> names;
  for (const auto& [name, text] : metadata) {
    writer.check_text("the name of metadata", name);
    writer.check_text("the metadata", text);
    names.push_back(name);
  }
  writer.check_different("two metadata", std::move(names));
}

std::vector<std::size_t> order_of(std::span<const NamedTensor> tensors, Where where) {
  std::vector<std::pair<std::size_t, std::size_t>> ranked;  // of the type; which tensor
  for (std::size_t i = 0; i < tensors.size(); ++i) ranked.emplace_back(rank_of(tensors[i].value.dtype(where)), i);
  std::sort(ranked.begin(), ranked.end(), [&](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : tensors[a.second].name < tensors[b.second].name;
  });
  std::vector<std::size_t> order;
  for (const auto& [rank, index] : ranked) order.push_back(index);
  return order;
}

/// Escaped as the package does: what has a short form, and other control characters.
void append_json(std::string& to, std::string_view text) {
  constexpr std::string_view escaped = "\"\\\b\f\n\r\t", letters = "\"\\bfnrt", digits = "0123456789abcdef";
  to += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (const std::size_t short_form = escaped.find(c); short_form != std::string_view::npos)
      to += {'\\', letters[short_form]};
    else if (byte < 0x20) to += {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]};
    else to += c;
  }
  to += '"';
}

void append_metadata(std::string& json, const Metadata& metadata) {
  if (metadata.empty()) return;
  json += "\"__metadata__\":";
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    json += i == 0 ? '{' : ',';
    append_json(json, metadata[i].first);
    json += ':';
    append_json(json, metadata[i].second);
  }
  json += '}';
}

void append_tensor(std::string& json, const NamedTensor& tensor, std::int64_t& place, Where where) {
  const Tensor& x = tensor.value;
  append_json(json, tensor.name);
  json += std::string(":{\"dtype\":\"") + kWrittenTypes[rank_of(x.dtype(where))].name + "\",\"shape\":[";
  const Shape& shape = x.shape(where);
  for (int axis = 0; axis < shape.rank(); ++axis) json += (axis > 0 ? "," : "") + std::to_string(shape[axis]);
  json += "],\"data_offsets\":[" + std::to_string(place);
  place += x.numel(where) * size_of(x.dtype(where));
  json += "," + std::to_string(place) + "]}";
}

}  // namespace

Weights parse_safetensors(const char* op, std::shared_ptr<const MappedFile> file, Where where, TensorUse use) {
  const SafetensorsSource source = source_of(op, *file, where);
  SafetensorsHeader header = read_safetensors_header(source);
  Weights weights;
  weights.metadata = std::move(header.metadata);
  weights.tensors.reserve(header.tensors.size());
  const Elements elements(source, file, header.data, use);
  for (StoredTensor& stored : header.tensors) {
    Tensor values = elements.tensor(stored);
    weights.tensors.push_back({std::move(stored.name), std::move(values)});
  }
  return weights;
}

SafetensorsLayout lay_out_safetensors(const char* op, const std::string& path, std::span<const NamedTensor> tensors,
                                      const Metadata& metadata, Where where) {
  const Writer writer{op, path, where};
  check_tensors(writer, tensors);
  check_metadata(writer, metadata);
  SafetensorsLayout layout;
  layout.order = order_of(tensors, where);
  std::string json = "{";
  append_metadata(json, metadata);
  std::int64_t place = 0;
  for (const std::size_t index : layout.order) {
    if (json.size() > 1) json += ',';
    append_tensor(json, tensors[index], place, where);
  }
  json += '}';
  json.append((8 - json.size() % 8) % 8, ' ');
  if (json.size() > static_cast<std::size_t>(kLongestHeader))
    writer.fail("the header would have ", json.size(), " bytes; names and metadata must fit in ", kLongestHeader, ".");
  for (int byte = 0; byte < 8; ++byte) layout.head += static_cast<char>(json.size() >> (8 * byte) & 0xFF);
  layout.head += json;
  return layout;
}

}  // namespace capstan::io
