#pragma once
// What capstan-weights does with files of weights. All of it throws what the library throws.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <capstan/create.hpp>
#include <capstan/io/weights.hpp>
#include <capstan/ops/shaping.hpp>

namespace weights_tool {

/// A name of a file, as it is shown: control characters as \xNN, so that they do nothing to a terminal.
std::string shown(const std::string& name);
/// "1,234,567".
std::string with_commas(std::int64_t number);
/// Names padded to the longest of them, within reason.
std::size_t width_of(const std::vector<capstan::NamedTensor>& tensors);

/// Prints what a file holds; with the smallest, largest and mean values if asked for.
void list(const std::string& path, bool with_values);

struct CompareOptions {
  double absolute = 0, relative = 0;  // values may differ by absolute + relative * the larger one's magnitude
  bool any_type = false;              // types may differ
  std::vector<std::pair<std::string, std::string>> rename;  // beginnings of names: of the first file, of the second
};
/// Prints what two files do not have in common. Whether they are equal.
bool compare(const std::string& first, const std::string& second, const CompareOptions& options);

/// Writes a file's tensors to another, in the format that its name ends in.
void convert(const std::string& from, const std::string& to);

/// Calls `use(span<const T>)` for a tensor's elements in order, in pieces, so that files larger than the memory will
/// do. T is double or std::int64_t.
template <class T, class Use>
void each_piece(const capstan::Tensor& x, Use use) {
  constexpr std::int64_t piece_size = 1 << 20;
  const std::int64_t count = x.numel();
  const capstan::Tensor flat = capstan::reshape(x, {count});
  for (std::int64_t begin = 0; begin < count; begin += piece_size) {
    const capstan::Tensor piece =
        flat.index({capstan::range(begin, begin + piece_size)}).to(capstan::dtype_of<T>()).contiguous();
    use(piece.span<T>());
  }
}

}  // namespace weights_tool
