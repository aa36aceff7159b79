// Bad input to pipelines: the right exception, word for word, at the line of the stage, and nothing leaked.
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/files.hpp"
#include "tests/pipelines.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_data_test.cpp";
const std::string one_or_more = "; it must be 1 or more.", none_or_more = "; it must be 0 or more.";
const std::string ascending = " follow each other; they must be ascending.";
const std::string as_many = "; there must be one size, or one more than bounds.";
const std::string holds = "; it must be a number that they can hold.";
const std::string missing = ": cannot be opened: No such file or directory; it must exist and be readable.";

struct Labelled {
  Tensor images, labels;
};

std::int64_t itself(std::int64_t x) { return x; }
data::Pipeline<std::int64_t> opened(std::int64_t x) { return data::range(x); }

template <class T>
void walk(data::Pipeline<T> pipeline) {
  for ([[maybe_unused]] const auto& element : pipeline) {}
}

data::Pipeline<Tensor> both(const Tensor& a, const Tensor& b) { return data::from(std::vector<Tensor>{a, b}); }

}  // namespace

TEST_CASE("stages refuse numbers that are too small", "[data][pipeline][errors][host]") {
  const auto p = data::range(4);
  check_errors({
      {__LINE__, message_of<Error>, [&] { p | data::map(itself, {.workers = -1}); }, "map: workers is -1" + none_or_more},
      {__LINE__, message_of<Error>, [&] { p | data::shuffle(0); }, "shuffle: the buffer has 0 elements; it must have 1 or more."},
      {__LINE__, message_of<Error>, [&] { p | data::shuffle(-3); }, "shuffle: the buffer has -3 elements; it must have 1 or more."},
      {__LINE__, message_of<Error>, [&] { p | data::batch(0); }, "batch: size is 0" + one_or_more},
      {__LINE__, message_of<Error>, [&] { p | data::batch(-1); }, "batch: size is -1" + one_or_more},
      {__LINE__, message_of<Error>, [&] { p | data::padded_batch(0); }, "padded_batch: size is 0" + one_or_more},
      {__LINE__, message_of<Error>, [&] { p | data::padded_batch(2, {.multiple_of = 0}); }, "padded_batch: multiple_of is 0" + one_or_more},
      {__LINE__, message_of<Error>, [&] { p | data::window(0); }, "window: size is 0" + one_or_more},
      {__LINE__, message_of<Error>, [&] { p | data::window(2, {.shift = 0}); }, "window: shift is 0" + one_or_more},
      {__LINE__, message_of<Error>, [&] { p | data::window(2, {.stride = -2}); }, "window: stride is -2" + one_or_more},
      {__LINE__, message_of<Error>, [&] { p | data::window(3, {.stride = data::kEndless}); },
       "window: size 3 and stride 9223372036854775807 reach over 2^63 elements."},
      {__LINE__, message_of<Error>, [&] { p | data::repeat(-1); }, "repeat: count is -1" + none_or_more},
      {__LINE__, message_of<Error>, [&] { p | data::take(-1); }, "take: count is -1" + none_or_more},
      {__LINE__, message_of<Error>, [&] { p | data::skip(-5); }, "skip: count is -5" + none_or_more},
      {__LINE__, message_of<Error>, [&] { p | data::prefetch(0); }, "prefetch: count is 0" + one_or_more},
      {__LINE__, message_of<Error>, [&] { p | data::prefetch(-1, cpu()); }, "prefetch: count is -1" + one_or_more},
      {__LINE__, message_of<Error>, [&] { p | data::interleave(opened, {.cycle = 0}); },
       "interleave: cycle is 0 and block 1; both must be 1 or more."},
      {__LINE__, message_of<Error>, [&] { p | data::interleave(opened, {.cycle = 2, .block = -1}); },
       "interleave: cycle is 2 and block -1; both must be 1 or more."},
      {__LINE__, message_of<ShapeError>, [] { data::range(-1); }, "range: count is -1" + none_or_more},
      {__LINE__, message_of<ShapeError>, [] { data::generate(-1, itself); }, "generate: count is -1" + none_or_more},
      {__LINE__, message_of<Error>, [] { data::lines("none", {.max_line_bytes = 0}); }, "lines: max_line_bytes is 0" + one_or_more},
  }, file);
}

TEST_CASE("bucket_by_length refuses bounds and sizes that do not fit", "[data][pipeline][errors][host]") {
  const auto p = data::range(4);
  check_errors({
      {__LINE__, message_of<Error>, [&] { p | data::bucket_by_length(itself, {4, 4}, {2}); },
       "bucket_by_length: bounds 4 and 4" + ascending},
      {__LINE__, message_of<Error>, [&] { p | data::bucket_by_length(itself, {1, 5, 3}, {2}); },
       "bucket_by_length: bounds 5 and 3" + ascending},
      {__LINE__, message_of<Error>, [&] { p | data::bucket_by_length(itself, {4}, {}); },
       "bucket_by_length: there are 0 sizes and 1 bounds" + as_many},
      {__LINE__, message_of<Error>, [&] { p | data::bucket_by_length(itself, {4, 6}, {1, 2}); },
       "bucket_by_length: there are 2 sizes and 2 bounds" + as_many},
      {__LINE__, message_of<Error>, [&] { p | data::bucket_by_length(itself, {}, {1, 2}); },
       "bucket_by_length: there are 2 sizes and 0 bounds" + as_many},
      {__LINE__, message_of<Error>, [&] { p | data::bucket_by_length(itself, {4}, {0}); },
       "bucket_by_length: a size is 0" + one_or_more},
      {__LINE__, message_of<Error>, [&] { p | data::bucket_by_length(itself, {4}, {3, -1}); },
       "bucket_by_length: a size is -1" + one_or_more},
      {__LINE__, message_of<Error>, [&] { p | data::bucket_by_length(itself, {4}, {2}, {.multiple_of = -1}); },
       "bucket_by_length: multiple_of is -1" + one_or_more},
  }, file);
}

TEST_CASE("from refuses tensors without rows, and different numbers of rows", "[data][pipeline][errors][host]") {
  const Tensor three = zeros({3}), two = zeros({2, 3}), one_number = Tensor(1.0f);
  const std::string no_rows = "from: a tensor has shape []; it must have a first axis, whose rows are the elements.";
  const std::string uneven = "from: tensors have 3 and 2 rows; all must have as many.";
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { data::from(one_number); }, no_rows},
      {__LINE__, message_of<ShapeError>, [&] { data::from(std::pair(three, one_number)); }, no_rows},
      {__LINE__, message_of<ShapeError>, [&] { data::from(Labelled{one_number, three}); }, no_rows},
      {__LINE__, message_of<ShapeError>, [&] { data::from(std::pair(three, two)); }, uneven},
      {__LINE__, message_of<ShapeError>, [&] { data::from(std::tuple(three, three, two)); }, uneven},
      {__LINE__, message_of<ShapeError>, [&] { data::from(Labelled{three, two}); }, uneven},
      {__LINE__, message_of<Error>, [&] { data::from(Labelled{three, Tensor()}); },
       "Tensor::rank: the tensor is undefined; give it a value first."},
      {__LINE__, message_of<Error>, [] { data::from(Tensor()); },
       "Tensor::rank: the tensor is undefined; give it a value first."},
  }, file);
}

TEST_CASE("batches refuse tensors that do not go together", "[data][pipeline][errors][host]") {
  const Tensor two = zeros({2}), three = zeros({3}), column = zeros({2, 1}), integers = {1, 2}, nothing;
  const Tensor full_rank = zeros({1, 1, 1, 1, 1, 1, 1, 1});
  const auto length = [](const Tensor&) { return 1; };
  const std::string unequal = ": element 0: element 1 of the batch has shape [3] and element 0 [2]; all must be equal. padded_batch pads them.";
  const std::string ranks = ": element 0: element 1 of the batch has shape [2, 1] and element 0 [2]; all must have as many axes.";
  const std::string types = ": element 0: element 1 of the batch is int32 and element 0 float32; all must have one type.";
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { walk(both(two, three) | data::batch(2)); }, "batch" + unequal},
      {__LINE__, message_of<ShapeError>, [&] { walk(both(two, three) | data::window(2)); }, "window" + unequal},
      {__LINE__, message_of<ShapeError>, [&] { walk(both(two, three) | data::batch(2) | data::prefetch(1)); }, "batch" + unequal},
      {__LINE__, message_of<ShapeError>, [&] { walk(both(two, column) | data::padded_batch(2)); }, "padded_batch" + ranks},
      {__LINE__, message_of<ShapeError>, [&] { walk(both(two, column) | data::bucket_by_length(length, {}, {2})); }, "bucket_by_length" + ranks},
      {__LINE__, message_of<DTypeError>, [&] { walk(both(two, integers) | data::batch(2)); }, "batch" + types},
      {__LINE__, message_of<DTypeError>, [&] { walk(data::from(std::vector<std::uint64_t>{INT64_MAX, 1ull << 63}) | data::batch(2)); }, "batch: element 0: element 1 of the batch is 9223372036854775808; an int64 holds less than 2^63."},
      {__LINE__, message_of<DTypeError>, [&] { walk(both(two, integers) | data::padded_batch(2)); }, "padded_batch" + types},
      {__LINE__, message_of<Error>, [&] { walk(both(two, nothing) | data::batch(2)); }, "batch: element 0: the tensor of element 1 of the batch is undefined."},
      {__LINE__, message_of<Error>, [&] { walk(both(nothing, two) | data::padded_batch(2)); }, "padded_batch: element 0: the tensor of element 0 of the batch is undefined."},
      {__LINE__, message_of<ShapeError>, [&] { walk(both(full_rank, full_rank) | data::batch(2)); },
       "batch: element 0: elements of shape [1, 1, 1, 1, 1, 1, 1, 1] have no room for one more axis; tensors have at most 8."},
      {__LINE__, message_of<ShapeError>, [&] { walk(both(full_rank, full_rank) | data::padded_batch(2, {.multiple_of = 2})); },
       "padded_batch: element 0: elements of shape [1, 1, 1, 1, 1, 1, 1, 1] have no room for one more axis; tensors have at most 8."},
  }, file);
}

TEST_CASE("a padding value must fit the tensors", "[data][pipeline][errors][host]") {
  const Tensor wide = from_doubles({1, 0, 1}, {3}, DType::int64), narrow = from_doubles({1}, {1}, DType::int64);
  const auto rows = [&](DType type) { return both(wide.to(type), narrow.to(type)); };
  const auto length = [](const Tensor&) { return 1; };
  check_errors({
      {__LINE__, message_of<DTypeError>, [&] { walk(rows(DType::int64) | data::padded_batch(2, {.value = 0.5})); }, "padded_batch: element 0: the value is 0.5 and the tensors are int64" + holds},
      {__LINE__, message_of<DTypeError>, [&] { walk(rows(DType::int64) | data::padded_batch(2, {.value = 0x1p63})); }, "padded_batch: element 0: the value is 9.22337e+18 and the tensors are int64" + holds},
      {__LINE__, message_of<DTypeError>, [&] { walk(rows(DType::int32) | data::padded_batch(2, {.value = kNaN})); }, "padded_batch: element 0: the value is nan and the tensors are int32" + holds},
      {__LINE__, message_of<DTypeError>, [&] { walk(rows(DType::int32) | data::padded_batch(2, {.value = -kInfinity})); }, "padded_batch: element 0: the value is -inf and the tensors are int32" + holds},
      {__LINE__, message_of<DTypeError>, [&] { walk(rows(DType::int16) | data::padded_batch(2, {.value = 32768})); }, "padded_batch: element 0: the value is 32768 and the tensors are int16" + holds},
      {__LINE__, message_of<DTypeError>, [&] { walk(rows(DType::int8) | data::padded_batch(2, {.value = -129})); }, "padded_batch: element 0: the value is -129 and the tensors are int8" + holds},
      {__LINE__, message_of<DTypeError>, [&] { walk(rows(DType::uint8) | data::padded_batch(2, {.value = -1})); }, "padded_batch: element 0: the value is -1 and the tensors are uint8" + holds},
      {__LINE__, message_of<DTypeError>, [&] { walk(rows(DType::uint8) | data::padded_batch(2, {.value = 256})); }, "padded_batch: element 0: the value is 256 and the tensors are uint8" + holds},
      {__LINE__, message_of<DTypeError>, [&] { walk(rows(DType::bool8) | data::padded_batch(2, {.value = 2})); }, "padded_batch: element 0: the value is 2 and the tensors are bool" + holds},
      {__LINE__, message_of<DTypeError>, [&] { walk(rows(DType::uint8) | data::bucket_by_length(length, {}, {2}, {.value = 1.5})); }, "bucket_by_length: element 0: the value is 1.5 and the tensors are uint8" + holds},
  }, file);
}

TEST_CASE("errors in the loop name the stage, the element, and the line of the call", "[data][pipeline][errors][host]") {
  const auto nothing = [](std::int64_t) { return false; };
  const std::string empty = "repeat: the pipeline before it has no elements; without a count it must have some.";
  check_errors({
      {__LINE__, message_of<Error>, [] { walk(data::range(0) | data::repeat()); }, empty},
      {__LINE__, message_of<Error>, [&] { walk(data::range(9) | data::filter(nothing) | data::repeat() | data::prefetch(1)); }, empty},
      {__LINE__, message_of<ShapeError>, [] { walk(data::range(3) | data::map([](std::int64_t x) { return zeros({2}) + zeros({x + 1}); })); },
       "map: element 2: add: shapes do not broadcast: a is [2] and b is [3]; sizes 2 and 3 of axis -1 must be equal or 1."},
      {__LINE__, message_of<ShapeError>, [] { walk(data::range(3) | data::filter([](std::int64_t x) { return data::range(1 - x).size() >= 0; })); },
       "filter: element 2: range: count is -1; it must be 0 or more."},
      {__LINE__, message_of<ShapeError>, [] { walk(data::generate(3, [](std::int64_t x) { return zeros({1 - x}).size(0); })); },
       "generate: element 2: Shape: size -1 of axis 0 is negative; sizes must be >= 0."},
      {__LINE__, message_of<ShapeError>, [] { walk(data::range(9) | data::skip(3) | data::interleave([](std::int64_t x) { return data::range(4 - x); })); },
       "interleave: element 2: range: count is -1; it must be 0 or more."},
  }, file);
}

TEST_CASE("restore refuses what is no state of its pipeline", "[data][pipeline][errors][host]") {
  auto plain = data::range(4);
  auto shuffled = data::range(4) | data::shuffle(3, {.seed = 1});
  const std::string state = shuffled.state(), damaged = state.substr(0, state.size() - 1);
  const std::string text = "Pipeline::restore: the text is no state of a pipeline.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { plain.restore(""); }, text},
      {__LINE__, message_of<Error>, [&] { plain.restore("capstan pipeline 2;from;pass 0;seeds;end"); }, text},
      {__LINE__, message_of<Error>, [&] { plain.restore(state); },
       "Pipeline::restore: the state is that of `from shuffle(3)` but the pipeline is `from`; both must have the same stages."},
      {__LINE__, message_of<Error>, [&] { shuffled.restore(plain.state()); },
       "Pipeline::restore: the state is that of `from` but the pipeline is `from shuffle(3)`; both must have the same stages."},
      {__LINE__, message_of<Error>, [&] { shuffled.restore(damaged); },
       "Pipeline::restore: the state is damaged; it must be what Pipeline::state gave."},
  }, file);
  CHECK(shuffled.state() == state);
}

TEST_CASE("files that are missing or damaged are errors of the loop, but patterns of the call", "[data][pipeline][errors][host]") {
  const TemporaryFolder folder;
  const std::string none = folder.path("none"), good = folder.write_text("a.txt", "one\nthree\n"), no_folder = folder.path("none/*.txt"), no_match = folder.path("*.csv");
  const std::string cut = folder.write("cut", Bytes(5, 0));
  check_errors({
      {__LINE__, message_of<IoError>, [&] { walk(data::lines(none)); }, "LineReader: " + none + missing},
      {__LINE__, message_of<IoError>, [&] { walk(data::lines({good, none}) | data::prefetch(1)); }, "LineReader: " + none + missing},
      {__LINE__, message_of<IoError>, [&] { walk(data::lines(good, {.max_line_bytes = 4})); },
       "LineReader: " + good + ": line 2 at offset 4 is longer than 4 bytes; LineReaderOptions::max_line_bytes must allow for the longest line."},
      {__LINE__, message_of<IoError>, [&] { walk(data::records({none, cut})); }, "TfRecordReader: " + none + missing},
      {__LINE__, message_of<IoError>, [&] { walk(data::records(cut)); },
       "TfRecordReader: " + cut + ": the head of a record is cut short at offset 5; it must be 12 bytes from offset 0, a length and its checksum."},
      {__LINE__, message_of<IoError>, [&] { data::files(no_match); }, "files: " + no_match + ": no file has such a name; there must be one."},
      {__LINE__, message_of<IoError>, [&] { data::files(no_folder); }, "files: " + no_folder + ": the folder cannot be read: No such file or directory."},
  }, file);
  auto lines = data::lines(none);  // nothing is opened before the loop
  CHECK(lines.size() == data::kUnknownSize);
}
