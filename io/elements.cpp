#include "io/elements.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include <capstan/create.hpp>

namespace capstan::io {
namespace {

constexpr std::int64_t kFirstBytes = 1 << 16;  // elements are first given this much room, and four times that when full
constexpr std::int64_t kGrowth = 4;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::string list(std::span<const std::int64_t> sizes) {
  std::string text = "[";
  for (const std::int64_t size : sizes) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

std::int64_t checked_product(const ByteSource& file, std::span<const std::int64_t> sizes, std::int64_t element_bytes,
                             std::int64_t header_offset, const std::string& element) {
  std::int64_t bytes = element_bytes;
  bool any = true;
  for (const std::int64_t size : sizes) {
    if (size < 0)
      file.fail("sizes ", list(sizes), " at ", file.place(header_offset), " hold ", size, "; none may be negative.");
    if (size == 0) {
      any = false;
      continue;
    }
    if (bytes > kMost / size)
      file.fail("sizes ", list(sizes), " of ", element, " at ", file.place(header_offset),
                " need 2^63 bytes or more; the elements must be in the file.");
    bytes *= size;
  }
  return any ? bytes : 0;
}

/// f's template call for the C++ type of the elements.
template <class F>
auto with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: return f.template operator()<float>();
    case DType::float64: return f.template operator()<double>();
    case DType::int32: return f.template operator()<std::int32_t>();
    case DType::int64: return f.template operator()<std::int64_t>();
    case DType::bool8: return f.template operator()<bool>();
    case DType::float16: return f.template operator()<float16>();
    case DType::bfloat16: return f.template operator()<bfloat16>();
    case DType::int8: return f.template operator()<std::int8_t>();
    case DType::int16: return f.template operator()<std::int16_t>();
    default: return f.template operator()<std::uint8_t>();
  }
}

std::uint16_t swapped(std::uint16_t word) { return __builtin_bswap16(word); }
std::uint32_t swapped(std::uint32_t word) { return __builtin_bswap32(word); }
std::uint64_t swapped(std::uint64_t word) { return __builtin_bswap64(word); }

template <class Word>
void swap_words(unsigned char* bytes, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i, bytes += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes, sizeof word);
    word = swapped(word);
    std::memcpy(bytes, &word, sizeof word);
  }
}

/// From the file's order and values to the machine's.
void make_native(unsigned char* bytes, std::int64_t count, DType dtype, ByteOrder order) {
  if (dtype == DType::bool8)
    for (std::int64_t i = 0; i < count; ++i) bytes[i] = bytes[i] != 0 ? 1 : 0;
  if ((order == ByteOrder::little) == (std::endian::native == std::endian::little)) return;
  switch (size_of(dtype)) {
    case 2: return swap_words<std::uint16_t>(bytes, count);
    case 4: return swap_words<std::uint32_t>(bytes, count);
    case 8: return swap_words<std::uint64_t>(bytes, count);
    default: return;
  }
}

/// Unsigned numbers, which were read as signed ones of the same size, in a wider type.
template <class From, class To>
Tensor widened(const Tensor& stored, Where where) {
  Tensor result = empty(stored.shape(where), {.dtype = dtype_of<To>(), .device = cpu()}, where);
  const From* from = stored.data<From>(where);
  To* to = result.mutable_data<To>(where);
  const std::int64_t count = stored.numel(where);
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::make_unsigned_t<From>>(from[i]);
  return result;
}

/// There is no wider type for those of 64 bits.
void check_fits(const ByteSource& file, const Tensor& stored, std::int64_t start) {
  const auto values = stored.span<std::int64_t>(file.where());
  const auto negative = std::find_if(values.begin(), values.end(), [](std::int64_t value) { return value < 0; });
  if (negative == values.end()) return;
  const std::int64_t offset = start + 8 * (negative - values.begin());
  file.fail("the unsigned number ", static_cast<std::uint64_t>(*negative), " at ", file.place(offset),
            " does not fit in int64; it must be below 2^63.");
}

}  // namespace

const unsigned char* bytes_of(const Tensor& values, Where where) {
  return with_type(values.dtype(where),
                   [&]<class T>() { return reinterpret_cast<const unsigned char*>(values.data<T>(where)); });
}

unsigned char* mutable_bytes_of(Tensor& values, Where where) {
  return with_type(values.dtype(where),
                   [&]<class T>() { return reinterpret_cast<unsigned char*>(values.mutable_data<T>(where)); });
}

std::int64_t checked_bytes(const ByteSource& file, std::span<const std::int64_t> sizes, DType dtype,
                           std::int64_t header_offset) {
  return checked_product(file, sizes, size_of(dtype), header_offset, name(dtype));
}

std::int64_t checked_bytes(const ByteSource& file, std::span<const std::int64_t> sizes, std::int64_t element_bytes,
                           std::int64_t header_offset) {
  return checked_product(file, sizes, element_bytes, header_offset, std::to_string(element_bytes) + " bytes");
}

Tensor read_elements(ByteSource& file, const Shape& shape, DType dtype, ByteOrder order) {
  const std::int64_t element = size_of(dtype), count = shape.numel(), start = file.position();
  checked_bytes(file, std::span<const std::int64_t>(shape.begin(), shape.end()), dtype, start);
  const auto fail_at = [&](std::int64_t end) {
    file.fail("the elements end at ", file.place(end), "; sizes ", to_string(shape), " of ", name(dtype), " need ",
              count * element, " bytes from offset ", start, '.');
  };
  const bool known = file.most_left_is_exact();
  if (known && file.most_left() < count * element) fail_at(start + file.most_left());

  const TensorOptions options{.dtype = dtype, .device = cpu()};
  std::int64_t done = 0, room = known ? count : std::min(count, kFirstBytes / element);
  Tensor values = empty(room == count ? shape : Shape{room}, options, file.where());
  unsigned char* bytes = mutable_bytes_of(values, file.where());
  while (done < count) {
    if (done == room) {
      room = count / kGrowth <= room ? count : room * kGrowth;
      Tensor larger = empty(room == count ? shape : Shape{room}, options, file.where());
      unsigned char* larger_bytes = mutable_bytes_of(larger, file.where());
      std::copy_n(bytes, done * element, larger_bytes);
      values = std::move(larger);
      bytes = larger_bytes;
    }
    const auto wanted = static_cast<std::size_t>((room - done) * element);
    if (file.read(bytes + done * element, wanted) < wanted) fail_at(file.position());
    done = room;
  }
  make_native(bytes, count, dtype, order);
  return values;
}

Tensor as_signed(const ByteSource& file, const Tensor& stored, std::int64_t start) {
  if (stored.dtype() == DType::int16) return widened<std::int16_t, std::int32_t>(stored, file.where());
  if (stored.dtype() == DType::int32) return widened<std::int32_t, std::int64_t>(stored, file.where());
  check_fits(file, stored, start);
  return stored;
}

}  // namespace capstan::io
