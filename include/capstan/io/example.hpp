#pragma once
// TensorFlow's Example and SequenceExample, which most TFRecord files hold.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace io {

/// A list of strings of bytes, of float32 or of int64; or nothing, which is not the same as an empty list. The other
/// lists are empty.
struct Feature {
  enum class Kind : std::uint8_t { none, bytes, floats, integers };

  Feature() = default;
  Feature(std::vector<std::string> values) : kind(Kind::bytes), bytes(std::move(values)) {}
  Feature(std::vector<float> values) : kind(Kind::floats), floats(std::move(values)) {}
  Feature(std::vector<std::int64_t> values) : kind(Kind::integers), integers(std::move(values)) {}

  Kind kind = Kind::none;
  std::vector<std::string> bytes;
  std::vector<float> floats;
  std::vector<std::int64_t> integers;

  friend bool operator==(const Feature&, const Feature&) = default;
};

/// Features by name. Of several of the same name the last one counts, as in protobuf.
struct Example {
  std::vector<std::pair<std::string, Feature>> features;

  const Feature* find(std::string_view name) const noexcept;                       ///< null if there is none
  const Feature& at(std::string_view name, Where where = Where::current()) const;  ///< IndexError if there is none

  friend bool operator==(const Example&, const Example&) = default;
};

/// Features of a whole sequence, and lists with a feature for each step.
struct SequenceExample {
  Example context;
  std::vector<std::pair<std::string, std::vector<Feature>>> feature_lists;

  const std::vector<Feature>* find(std::string_view name) const noexcept;  ///< of the lists; null if there is none
  const std::vector<Feature>& at(std::string_view name, Where where = Where::current()) const;  ///< IndexError

  friend bool operator==(const SequenceExample&, const SequenceExample&) = default;
};

/// Takes a message apart; features are sorted by name, of equal names the last one stays. As protobuf does: lists are
/// packed or not, and what comes in parts is joined; of several kinds in one feature the last one stays; unknown fields
/// are passed over. Names are taken as they are. tensorflow/core/example/example.proto and feature.proto; the encoding
/// is protobuf's, protobuf.dev/programming-guides/encoding.
///
/// Memory is in proportion to the bytes: at most some 50 times as much, for lists of nothing but empty strings or empty
/// features, which are valid.
/// Throws  IoError  with the offset in `bytes`: not a message, or one whose fields have other types
///         MissingLibraryError  this build has no protozero
Example parse_example(std::string_view bytes, Where where = Where::current());
SequenceExample parse_sequence_example(std::string_view bytes, Where where = Where::current());

/// The message, in the order of the vectors: from sorted names, the bytes of protobuf's deterministic serialization.
/// Throws  Error  a name that is no UTF-8, more than 2^31 - 1 bytes
///         MissingLibraryError  this build has no protozero
std::string serialize(const Example& example, Where where = Where::current());
std::string serialize(const SequenceExample& example, Where where = Where::current());

/// A list of numbers as int64 [n] or float32 [n], on the default device. DTypeError for bytes, and for nothing.
Tensor to_tensor(const Feature& feature, Where where = Where::current());

/// What a feature must be like to become a tensor: TensorFlow's FixedLenFeature, or VarLenFeature without a shape.
struct FeatureSpec {
  std::string name;
  DType dtype = DType::float32;     ///< float32 or int64; uint8 for the bytes of the feature's only string
  std::optional<Shape> shape = {};  ///< of as many elements as the feature has; none: [n] of any n, 0 if it is missing
  std::optional<Scalar> default_value = {};  ///< every element of the shape if the feature is missing
};

/// One tensor for each row of `specs`, in their order, on the default device. A feature without a list counts as
/// missing, as in tf.io.parse_single_example.
///
/// Throws  IoError  as above; a feature that is missing without a default, of another kind or another count of values
///         DTypeError  another dtype in a spec, a default that it cannot hold    Error  a default without a shape
std::vector<Tensor> parse_example(std::string_view bytes, std::span<const FeatureSpec> specs,
                                  Where where = Where::current());

}  // namespace io
}  // namespace capstan
