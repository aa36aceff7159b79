#pragma once
// TensorProto, in which TensorFlow 2 writes every value; for builds with protozero.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <capstan/dtype.hpp>
#include <capstan/tensor.hpp>

#include "io/protobuf.hpp"

namespace capstan::io {

/// How TensorFlow's type of a number stands in a message, and what it becomes.
struct TensorNumber {
  std::int64_t type;    // of enum DataType
  DType dtype;          // what it becomes, which holds all of its values
  std::uint32_t field;  // the list of values that are not in tensor_content; or `other`, where PyTorch writes bytes
  int bytes;            // of one in tensor_content
  bool is_signed;       // if it is an integer
  std::uint32_t other = 0;
};

/// A tensor whose type and shape are known, and whose values are looked at when it is known what they should be.
class TensorMessage {
 public:
  /// Fails for a shape that is unknown, has more than 8 sizes, a negative one, or sizes whose product is 2^63 or more.
  TensorMessage(ProtobufSource& source, std::string_view bytes);

  /// None (null) if its values are no numbers, or of a type that Capstan does not have.
  const TensorNumber* number() const noexcept { return number_; }
  bool is_text() const noexcept { return type_ == kText; }
  std::int64_t count() const noexcept { return count_; }
  const std::vector<std::int64_t>& sizes() const noexcept { return sizes_; }
  /// "float32 [3, 4]", "type 8 []".
  std::string description() const;

  // Each fails unless there are as many values as the shape has.
  std::vector<double> reals() const;
  Tensor tensor() const;
  std::vector<std::string> texts() const;

 private:
  static constexpr std::int64_t kText = 7;  // DT_STRING

  void read_shape(ProtobufMessage message);
  void check_sizes();
  std::string values() const;
  std::string listed_values() const;
  std::string widened_values() const;
  void check_count(std::size_t found) const;

  ProtobufSource& source_;
  std::string_view bytes_, content_;
  std::int64_t type_ = 0, count_ = 1;
  std::vector<std::int64_t> sizes_;
  const TensorNumber* number_ = nullptr;
  bool has_rank_ = true;
};

}  // namespace capstan::io
