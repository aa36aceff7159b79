// tensorflow/core/framework/tensor.proto, tensor_shape.proto and types.proto:
//
//   TensorProto       dtype = 1, tensor_shape = 2, tensor_content = 4, and a list of values for each type
//   TensorShapeProto  repeated Dim = 2 {size = 1}, unknown_rank = 3
//
// Values stand in tensor_content, as they are in memory, or in the list of their type. TensorFlow shortens lists that
// end in equal values in graphs, but not in events.
#if CAPSTAN_HAS_PROTOZERO
#include "io/event_tensor.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>

#include <capstan/device.hpp>
#include <capstan/half.hpp>
#include <capstan/shape.hpp>

#include "io/elements.hpp"

namespace capstan::io {
namespace {

static_assert(std::endian::native == std::endian::little, "values are copied as they stand in the file");

constexpr std::uint32_t kHalfList = 13, kFloatList = 5, kDoubleList = 6, kTextList = 8;

constexpr TensorNumber kNumbers[] = {
    {1, DType::float32, kFloatList, 4, false},   // DT_FLOAT
    {2, DType::float64, kDoubleList, 8, false},  // DT_DOUBLE
    {3, DType::int32, 7, 4, true},               // DT_INT32
    {4, DType::uint8, 7, 1, false, 16},          // DT_UINT8
    {5, DType::int16, 7, 2, true},               // DT_INT16
    {6, DType::int8, 7, 1, true},                // DT_INT8
    {9, DType::int64, 10, 8, true},              // DT_INT64
    {10, DType::bool8, 11, 1, false},            // DT_BOOL
    {14, DType::bfloat16, kHalfList, 2, false},  // DT_BFLOAT16
    {17, DType::int32, 7, 2, false},             // DT_UINT16
    {19, DType::float16, kHalfList, 2, false},   // DT_HALF
    {22, DType::int64, 16, 4, false},            // DT_UINT32
    {23, DType::int64, 17, 8, false},            // DT_UINT64
};

std::string list_of(const std::vector<std::int64_t>& sizes) {
  std::string text = "[";
  for (const std::int64_t size : sizes) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

template <class T>
T value_at(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

/// An integer of a type's bytes; one of 64 bits without a sign as if it had one.
std::int64_t integer_at(const char* bytes, const TensorNumber& number) {
  switch (number.bytes) {
    case 1: return number.is_signed ? value_at<std::int8_t>(bytes) : std::int64_t{value_at<std::uint8_t>(bytes)};
    case 2: return number.is_signed ? value_at<std::int16_t>(bytes) : std::int64_t{value_at<std::uint16_t>(bytes)};
    case 4: return number.is_signed ? value_at<std::int32_t>(bytes) : std::int64_t{value_at<std::uint32_t>(bytes)};
    default: return value_at<std::int64_t>(bytes);
  }
}

/// The bits of a 16-bit number. PyTorch writes those of the float32 with its value, none of which but 0's fit into 16:
/// they are converted, and stay as they are if the type has no such number.
std::int64_t half_bits(std::int64_t value, DType dtype) {
  if ((value >= 0 && value <= 0xFFFF) || value < INT32_MIN || value > INT32_MAX) return value;
  const auto number = std::bit_cast<float>(static_cast<std::int32_t>(value));
  const auto narrowed = [&](auto half) {
    const bool same = static_cast<float>(half) == number || std::isnan(number);
    return same ? std::int64_t{half.bits()} : value;
  };
  return dtype == DType::bfloat16 ? narrowed(bfloat16(number)) : narrowed(float16(number));
}

double real_at(const char* bytes, const TensorNumber& number) {
  switch (number.dtype) {
    case DType::float32: return value_at<float>(bytes);
    case DType::float64: return value_at<double>(bytes);
    case DType::float16: return float16::from_bits(value_at<std::uint16_t>(bytes));
    case DType::bfloat16: return bfloat16::from_bits(value_at<std::uint16_t>(bytes));
    case DType::bool8: return *bytes != 0 ? 1 : 0;
    default: break;
  }
  if (number.bytes == 8 && !number.is_signed) return static_cast<double>(value_at<std::uint64_t>(bytes));
  return static_cast<double>(integer_at(bytes, number));
}

/// Whether the low bytes of `value` are it.
bool fits(std::int64_t value, const TensorNumber& number) {
  if (number.bytes == 8 || number.dtype == DType::bool8) return true;
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  return integer_at(bytes, number) == value;
}

template <class T>
std::string raw_bytes(const std::vector<T>& values) {
  return values.empty() ? std::string()
                        : std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

/// The content of a tensor, for what makes tensors from files.
class Content final : public ByteSource {
 public:
  Content(std::string_view bytes, const ProtobufSource& source) : bytes_(bytes), source_(source) {}

  std::size_t read(unsigned char* to, std::size_t count) override {
    const std::size_t done = std::min(count, bytes_.size() - position_);
    std::copy_n(bytes_.data() + position_, done, reinterpret_cast<char*>(to));
    position_ += done;
    return done;
  }
  bool at_end() override { return position_ == bytes_.size(); }
  std::int64_t position() const noexcept override { return static_cast<std::int64_t>(position_); }
  std::int64_t most_left() const noexcept override { return static_cast<std::int64_t>(bytes_.size() - position_); }
  bool most_left_is_exact() const noexcept override { return true; }
  std::string place(std::int64_t) const override { return "offset " + std::to_string(source_.offset()); }
  Where where() const noexcept override { return source_.where; }

 private:
  [[noreturn]] void fail_with(const std::string& text) const override { source_.fail(text); }

  std::string_view bytes_;
  const ProtobufSource& source_;
  std::size_t position_ = 0;
};

}  // namespace

TensorMessage::TensorMessage(ProtobufSource& source, std::string_view bytes) : source_(source), bytes_(bytes) {
  for (ProtobufMessage message(source, bytes); message.next();) {
    if (message.number() == 1) type_ = message.integer();
    else if (message.number() == 2) read_shape(message.message());
    else if (message.number() == 4) content_ = message.bytes();
    else message.skip();
  }
  for (const TensorNumber& number : kNumbers)
    if (number.type == type_) number_ = &number;
  check_sizes();
}

void TensorMessage::read_shape(ProtobufMessage message) {
  sizes_.clear();
  while (message.next()) {
    if (message.number() == 2) {
      std::int64_t size = 0;
      for (ProtobufMessage axis = message.message(); axis.next();) {
        if (axis.number() == 1) size = axis.integer();
        else axis.skip();
      }
      if (sizes_.size() == static_cast<std::size_t>(kMaxRank))
        source_.fail("a shape has more than ", kMaxRank, " sizes at offset ", source_.offset(),
                     "; no tensor can have them.");
      sizes_.push_back(size);
    } else if (message.number() == 3) {
      has_rank_ = message.integer() == 0;
    } else {
      message.skip();
    }
  }
}

/// Sizes of 0 do not excuse the others.
void TensorMessage::check_sizes() {
  if (!has_rank_)
    source_.fail("a tensor has no shape in the message at offset ", source_.offset(), "; one with values must have.");
  std::int64_t bytes = number_ != nullptr ? size_of(number_->dtype) : 8;
  bool any = true;
  for (const std::int64_t size : sizes_) {
    if (size < 0)
      source_.fail("the sizes ", list_of(sizes_), " of a tensor hold ", size, " at offset ", source_.offset(),
                   "; none may be negative.");
    if (size == 0) {
      any = false;
      continue;
    }
    if (bytes > std::numeric_limits<std::int64_t>::max() / size)
      source_.fail("the sizes ", list_of(sizes_), " of a tensor need 2^63 bytes or more at offset ", source_.offset(),
                   "; the values must be in the message.");
    bytes *= size;
    count_ *= size;
  }
  if (!any) count_ = 0;
}

std::string TensorMessage::description() const {
  const std::string type = number_ != nullptr ? name(number_->dtype)
                           : is_text()        ? std::string("text")
                                              : "type " + std::to_string(type_);
  return type + " " + list_of(sizes_);
}

void TensorMessage::check_count(std::size_t found) const {
  if (found != static_cast<std::size_t>(count_))
    source_.fail("a tensor, ", description(), ", holds ", found, " values in the message at offset ", source_.offset(),
                 "; it must hold ", count_, ".");
}

/// The values of a list, as they had stood in tensor_content.
std::string TensorMessage::listed_values() const {
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<std::int64_t> integers;
  for (ProtobufMessage message(source_, bytes_); message.next();) {
    const std::uint32_t list = message.number();
    if (list != number_->field && (number_->other == 0 || list != number_->other)) message.skip();
    else if (number_->field == kFloatList) message.read_floats(floats);
    else if (number_->field == kDoubleList) message.read_doubles(doubles);
    else message.read_integers(integers);
  }
  if (number_->field == kFloatList) return raw_bytes(floats);
  if (number_->field == kDoubleList) return raw_bytes(doubles);
  std::string all;
  all.reserve(integers.size() * static_cast<std::size_t>(number_->bytes));
  for (std::int64_t integer : integers) {
    if (number_->field == kHalfList) integer = half_bits(integer, number_->dtype);
    if (!fits(integer, *number_))
      source_.fail("a tensor, ", description(), ", holds ", integer, " in the message at offset ", source_.offset(),
                   "; its values must be of its type.");
    const std::int64_t value = number_->dtype == DType::bool8 && integer != 0 ? 1 : integer;
    all.append(reinterpret_cast<const char*>(&value), static_cast<std::size_t>(number_->bytes));
  }
  return all;
}

/// All values in the form of tensor_content, as many as the shape has.
std::string TensorMessage::values() const {
  const auto bytes = static_cast<std::size_t>(number_->bytes);
  std::string all = content_.empty() ? listed_values() : std::string(content_);
  if (all.size() % bytes != 0)
    source_.fail("a tensor, ", description(), ", has ", all.size(), " bytes of content in the message at offset ",
                 source_.offset(), "; it must have ", count_, " times ", bytes, ".");
  check_count(all.size() / bytes);
  return all;
}

std::vector<double> TensorMessage::reals() const {
  const std::string all = values();
  std::vector<double> result;
  result.reserve(static_cast<std::size_t>(count_));
  for (std::size_t at = 0; at < all.size(); at += static_cast<std::size_t>(number_->bytes))
    result.push_back(real_at(all.data() + at, *number_));
  return result;
}

/// In the types of Capstan, which are wider for some of those without a sign.
std::string TensorMessage::widened_values() const {
  const auto narrow = static_cast<std::size_t>(number_->bytes);
  const auto wide = static_cast<std::size_t>(size_of(number_->dtype));
  std::string all = values();
  if (narrow == wide && (number_->is_signed || number_->dtype != DType::int64)) return all;
  std::string widened;
  widened.reserve(static_cast<std::size_t>(count_) * wide);
  for (std::size_t at = 0; at < all.size(); at += narrow) {
    const std::int64_t value = integer_at(all.data() + at, *number_);
    if (value < 0)
      source_.fail("a tensor of numbers without signs holds ", std::to_string(static_cast<std::uint64_t>(value)),
                   " in the message at offset ", source_.offset(), "; it must be less than 2^63.");
    widened.append(reinterpret_cast<const char*>(&value), wide);
  }
  return widened;
}

Tensor TensorMessage::tensor() const {
  const std::string all = widened_values();
  Content content(all, source_);
  const Shape shape(std::span<const std::int64_t>(sizes_), source_.where);
  return read_elements(content, shape, number_->dtype, ByteOrder::little).to(default_device(), source_.where);
}

std::vector<std::string> TensorMessage::texts() const {
  if (!content_.empty())
    source_.fail("a tensor of texts has ", content_.size(), " bytes of content in the message at offset ",
                 source_.offset(), "; texts must stand in their list.");
  const auto each = [&](const auto& take) {
    for (ProtobufMessage message(source_, bytes_); message.next();) {
      if (message.number() == kTextList) take(message.bytes());
      else message.skip();
    }
  };
  std::size_t found = 0;
  each([&](std::string_view) { ++found; });
  check_count(found);
  std::vector<std::string> result;
  result.reserve(found);
  each([&](std::string_view text) { result.emplace_back(text); });
  return result;
}

}  // namespace capstan::io

#endif
