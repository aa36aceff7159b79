#pragma once
// What pipelines begin with.
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/data/pipeline.hpp>
#include <capstan/io/text_file.hpp>
#include <capstan/io/tfrecord.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace data {

namespace detail {
inline constexpr std::int64_t kUnknownRows = -1;
/// Checks that it has a first axis, and for all but the first that it is as long.
std::int64_t rows_of(const Tensor& tensor, std::int64_t rows, Where where);
Tensor row(const Tensor& tensor, std::int64_t i);

template <class Record>
Record row_of(const Record& record, std::int64_t i) {
  return nn::detail::with_fields(nn::detail::tie_fields(record),
                                 [&](const auto&... tensors) { return Record{row(tensors, i)...}; });
}
}  // namespace detail

/// The rows of a tensor, as views: [n, ...] gives n elements [...]. ShapeError for a tensor without axes.
Pipeline<Tensor> from(const Tensor& x, Where where = Where::current());

/// The rows of several tensors side by side, as a struct that consists of them: `from(mnist(folder, Split::train))` has
/// elements of the same type, one image and one label each. ShapeError unless all have equally many rows.
template <class Record>
requires detail::kIsRecord<Record> Pipeline<Record> from(Record tensors, Where where = Where::current()) {
  std::int64_t rows = detail::kUnknownRows;
  detail::for_each_tensor(tensors, [&](const Tensor& t) { rows = detail::rows_of(t, rows, where); });
  return Pipeline<Record>(detail::indexed(
      rows, [tensors = std::move(tensors)](std::int64_t i) { return detail::Item::of(detail::row_of(tensors, i)); }));
}
/// The same as tuples: `from(std::tuple(images, labels))`, and as pairs.
template <class... A>
requires(std::is_same_v<A, Tensor>&&...) Pipeline<std::tuple<A...>> from(std::tuple<A...> tensors,
                                                                         Where where = Where::current()) {
  std::int64_t rows = detail::kUnknownRows;
  detail::for_each_tensor(tensors, [&](const Tensor& t) { rows = detail::rows_of(t, rows, where); });
  return Pipeline<std::tuple<A...>>(detail::indexed(rows, [tensors = std::move(tensors)](std::int64_t i) {
    return detail::Item::of(
        std::apply([&](const auto&... t) { return std::tuple<A...>(detail::row(t, i)...); }, tensors));
  }));
}
Pipeline<std::pair<Tensor, Tensor>> from(std::pair<Tensor, Tensor> tensors, Where where = Where::current());

/// Copies of the values, in order.
template <class T>
Pipeline<T> from(std::vector<T> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return Pipeline<T>(detail::indexed(count, [values = std::move(values)](std::int64_t i) {
    return detail::Item::of(T(values[static_cast<std::size_t>(i)]));
  }));
}

/// 0, 1, ... count-1. ShapeError if it is negative.
Pipeline<std::int64_t> range(std::int64_t count, Where where = Where::current());

/// `at(0)`, `at(1)`, ... `at(count - 1)`, or without an end. What it gives must depend on the number alone; then any place
/// can be returned to at once. Inside, the default generator is one of the element's own, as in `map`. ShapeError if the
/// count is negative.
template <class At>
requires std::invocable<At&, std::int64_t>
auto generate(std::int64_t count, At at, Where where = Where::current()) {
  using T = std::decay_t<std::invoke_result_t<At&, std::int64_t>>;
  return Pipeline<T>(detail::generated(
      count, [at = std::move(at)](std::int64_t i) mutable { return detail::Item::of<T>(at(i)); }, where));
}
template <class At>
requires std::invocable<At&, std::int64_t>
auto generate(At at) { return generate(kEndless, std::move(at)); }

/// What a producer gives until it gives none. `make()` makes a new producer for each pass, a callable that returns a
/// std::optional: for sources that can only be walked. `restore` walks them from the beginning. Inside of both, the
/// default generator is one of the element's own, as in `map`.
///
///     data::generator([] { return [n = 0]() mutable { return n < 3 ? std::optional(n++) : std::nullopt; }; })
template <class Make>
auto generator(Make make) {
  using Made = std::decay_t<std::invoke_result_t<Make&>>;
  using T = typename std::decay_t<std::invoke_result_t<Made&>>::value_type;
  return Pipeline<T>(detail::walked([make = std::move(make)]() mutable {
    return detail::Producer([produce = make()](detail::Item& item) mutable {
      std::optional<T> value = produce();
      if (!value) return false;
      item = detail::Item::of<T>(std::move(*value));
      return true;
    });
  }));
}

// --- files ---------------------------------------------------------------------------------------------------------

/// The lines of text files, one file after another, plain or gzip, as io::LineReader reads them. IoError in the loop;
/// Error for max_line_bytes below 1.
Pipeline<std::string> lines(std::vector<std::string> paths, io::LineReaderOptions options = {},
                            Where where = Where::current());
Pipeline<std::string> lines(std::string path, io::LineReaderOptions options = {}, Where where = Where::current());

/// The records of TFRecord files, likewise, as io::TfRecordReader reads them; a `map` with io::parse_example parses them.
Pipeline<std::string> records(std::vector<std::string> paths, io::TfRecordReaderOptions options = {},
                              Where where = Where::current());
Pipeline<std::string> records(std::string path, io::TfRecordReaderOptions options = {}, Where where = Where::current());

/// The files whose path matches, sorted by name: `*` stands for any text within a name, `?` for one character:
/// "data/train-*.tfrecord". In a folder's name they are no wildcards. IoError if there is none.
Pipeline<std::string> files(const std::string& pattern, Where where = Where::current());

}  // namespace data
}  // namespace capstan
