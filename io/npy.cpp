// .npy files. The header says what to read; the elements are then made row-major and signed.
#include <capstan/io/npy.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <capstan/ops/shaping.hpp>
#include <capstan/tape.hpp>

#include "io/byte_reader.hpp"
#include "io/elements.hpp"
#include "io/npy_data.hpp"
#include "io/npy_header.hpp"
#include "io/output_file.hpp"
#include "lib/base/text.hpp"

namespace capstan::io {
namespace {

/// The elements as they follow each other: axes in Fortran's order are those of a row-major tensor in reverse.
Shape stored_shape(const NpyHeader& header, Where where) {
  std::vector<std::int64_t> sizes(header.shape().begin(), header.shape().end());
  if (header.fortran_order) std::reverse(sizes.begin(), sizes.end());
  if (header.type.complex) sizes.push_back(2);
  return Shape(sizes, where);
}

/// The first `rank` axes in reverse.
Tensor reversed(const Tensor& x, std::size_t rank, Where where) {
  std::vector<int> order;
  for (int axis = 0; axis < x.rank(where); ++axis) order.push_back(axis);
  std::reverse(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(rank));
  return permute(x, order, where).contiguous(where);
}

}  // namespace

Tensor read_npy_data(ByteSource& file) {
  const NpyHeader header = read_npy_header(file);
  const std::int64_t numbers = header.type.complex ? 2 : 1;
  const std::int64_t widest = std::max(size_of(header.type.stored), size_of(header.type.given)) * numbers;
  checked_bytes(file, header.shape(), widest, header.shape_offset);
  const std::int64_t start = file.position();
  Tensor values = read_elements(file, stored_shape(header, file.where()), header.type.stored, header.type.order);
  const std::int64_t end = file.position();
  if (!file.at_end())
    file.fail("more bytes follow the last element at ", file.place(end), "; the data must end there.");
  if (header.type.is_unsigned) values = as_signed(file, values, start);
  if (header.fortran_order && header.rank > 1) values = reversed(values, header.rank, file.where());
  return values;
}

void check_for_npy(const std::string& op, const Tensor& x, Where where) {
  if (!x.defined()) base::fail<Error>(where, op, ": the tensor is undefined; give it a value first.");
  if (x.dtype(where) == DType::bfloat16)
    base::fail<DTypeError>(where, op,
                           ": the tensor is bfloat16, which NumPy does not have; cast it first, for example "
                           "by x.to(DType::float32).");
}

Tensor read_npy_file(const char* op, const std::string& path, Where where) {
  ByteReader file(op, path, where);
  return read_npy_data(file);
}

Tensor read_npy(const std::string& path, Where where) {
  return read_npy_file("read_npy", path, where).to(default_device(), where);
}

void write_npy(const std::string& path, const Tensor& x, Where where) {
  const NoGrad off;
  check_for_npy("write_npy", x, where);
  const Tensor values = x.to(cpu(), where).contiguous(where);
  const std::string header = npy_header(values.shape(where), values.dtype(where));
  OutputFile file("write_npy", path, where);
  file.write(header.data(), header.size());
  file.write(bytes_of(values, where), static_cast<std::size_t>(values.numel(where) * size_of(values.dtype(where))));
  file.commit();
}

}  // namespace capstan::io
