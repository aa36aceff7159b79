// What SummaryWriter writes for each kind of value. Expected messages are put together by the definitions of
// TensorFlow's and TensorBoard's .proto files, with the functions of tests/event_files.hpp.
#include <capstan/capstan.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/files.hpp"
#include "tests/summary_files.hpp"
#include "tests/support.hpp"

namespace cs = capstan;
namespace wire = tests::wire;
using cs::DType;
using cs::Tensor;
using cs::io::SummaryWriter;
using tests::Bytes;
using tests::kInfinity;
using tests::kNaN;
using tests::TemporaryFolder;
using tests::time_of;

namespace {

using Log = std::function<void(SummaryWriter&)>;

/// The records that `log` makes.
std::vector<std::string> logged(const Log& log) {
  const TemporaryFolder folder;
  SummaryWriter writer(folder.path("run"));
  log(writer);
  writer.close();
  return tests::records_of(writer.path());
}

/// The only record, and the same with the value that it should have. Its time is its own.
void check_value(const Log& log, std::int64_t step, const std::string& value) {
  const std::vector<std::string> records = logged(log);
  REQUIRE(records.size() == 1);
  CHECK((records[0] == wire::event(time_of(records[0]), step, wire::summary(value))));
}

cs::io::SummaryValue read_value(const Log& log) {
  const TemporaryFolder folder;
  SummaryWriter writer(folder.path("run"));
  log(writer);
  writer.close();
  const std::vector<cs::io::Event> events = cs::io::read_events(writer.path());
  REQUIRE(events.size() == 2);
  REQUIRE(events[1].values.size() == 1);
  return events[1].values[0];
}

/// Of tensorflow.HistogramProto.
std::string histogram(const std::vector<double>& five, const std::vector<double>& limits,
                      const std::vector<double>& counts) {
  std::string message;
  for (std::size_t i = 0; i < five.size(); ++i) message += wire::real(static_cast<int>(i) + 1, five[i]);
  if (!limits.empty()) message += wire::text(6, wire::raw(limits)) + wire::text(7, wire::raw(counts));
  return wire::text(1, "h") + wire::text(5, message);
}

void check_histogram(const Tensor& values, std::int64_t bins, const std::string& expected) {
  check_value([&](SummaryWriter& log) { log.histogram("h", values, 7, {.bins = bins}); }, 7, expected);
}

}  // namespace

// --- scalars -------------------------------------------------------------------------------------------------------

TEST_CASE("a scalar is a simple_value of 32 bits, also if it is NaN or infinite", "[io][summary][host]") {
  if (!wire::has_events()) return;
  for (const double number : {0.5, -3.0, 0.1, 1e300, kInfinity, -kInfinity, 0.0}) {
    INFO(number);
    const std::string value = wire::text(1, "train/loss") + wire::single(2, static_cast<float>(number));
    check_value([&](SummaryWriter& log) { log.scalar("train/loss", number, 3); }, 3, value);
  }
  const double nan = read_value([](SummaryWriter& log) { log.scalar("x", kNaN, 0); }).scalar;
  CHECK(nan != nan);
}

TEST_CASE("steps may be 0, large and negative", "[io][summary][host]") {
  if (!wire::has_events()) return;
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t step : {std::int64_t{0}, std::int64_t{300}, largest, std::int64_t{-1}})
    check_value([&](SummaryWriter& log) { log.scalar("x", 1, step); }, step,
                wire::text(1, "x") + wire::single(2, 1.0f));
}

TEST_CASE("a tensor with one element of any type is a scalar", "[io][summary]") {
  if (!wire::has_events()) return;
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int8, DType::int16,
                            DType::int32, DType::int64, DType::uint8}) {
    INFO(cs::name(dtype));
    const Tensor value = cs::full({1, 1}, 2, {.dtype = dtype});
    CHECK(read_value([&](SummaryWriter& log) { log.scalar("x", value, 1); }).scalar == 2);
  }
  CHECK(read_value([](SummaryWriter& log) { log.scalar("x", Tensor(true), 1); }).scalar == 1);
  CHECK(read_value([](SummaryWriter& log) { log.scalar("x", Tensor(false), 1); }).scalar == 0);
}

TEST_CASE("tapes do not see what is logged", "[io][summary]") {
  if (!wire::has_events()) return;
  const Tensor x = {1.0f, 2.0f};
  cs::GradientTape tape;
  tape.watch(x);
  const Tensor y = cs::sum(x * x);
  const std::int64_t before = tape.size();
  logged([&](SummaryWriter& log) {
    log.scalar("y", y.to(DType::float64), 0);
    log.histogram("x", x, 0);
    log.audio("x", x, 0);
    log.graph(tape);
  });
  CHECK(tape.size() == before + 1);  // the conversion that stands here
}

// --- histograms ----------------------------------------------------------------------------------------------------

TEST_CASE("a histogram counts as NumPy's does, with sums beside it", "[io][summary]") {
  if (!wire::has_events()) return;
  // numpy.histogram([0, 1, 1, 2, 3], 3): counts 1 2 2, edges 0 1 2 3; sum 7, of squares 15
  const std::string expected = histogram({0, 3, 5, 7, 15}, {1, 2, 3}, {1, 2, 2});
  check_histogram(Tensor{0.0f, 1.0f, 1.0f, 2.0f, 3.0f}, 3, expected);
  check_histogram(Tensor{0, 1, 1, 2, 3}, 3, expected);
  check_histogram(tests::strided(Tensor{{0.0, 1.0}, {1.0, 2.0}}), 2, histogram({0, 2, 4, 4, 6}, {1, 2}, {1, 3}));
  check_histogram(Tensor{true, false, true, true}, 2, histogram({0, 1, 4, 3, 3}, {0.5, 1}, {1, 3}));
}

TEST_CASE("a histogram leaves NaN and infinities out", "[io][summary]") {
  if (!wire::has_events()) return;
  check_histogram(Tensor{0.0, kNaN, 1.0, kInfinity, -kInfinity, 2.0}, 2, histogram({0, 2, 3, 3, 5}, {1, 2}, {1, 2}));
  check_histogram(Tensor{kNaN, kInfinity}, 2, histogram({0, 0, 0, 0, 0}, {}, {}));
  check_histogram(Tensor(kNaN), 2, histogram({0, 0, 0, 0, 0}, {}, {}));
}

TEST_CASE("a histogram of equal elements has one bin, and of none no bin", "[io][summary]") {
  if (!wire::has_events()) return;
  check_histogram(cs::full({4}, -5.0), 30, histogram({-5, -5, 4, -20, 100}, {-5}, {4}));
  check_histogram(Tensor(2.0), 30, histogram({2, 2, 1, 2, 4}, {2}, {1}));
  check_histogram(cs::zeros({0, 3}), 30, histogram({0, 0, 0, 0, 0}, {}, {}));
}

TEST_CASE("a histogram has one bin where float64 has no room for more", "[io][summary]") {
  if (!wire::has_events()) return;
  const double next = 1 + std::numeric_limits<double>::epsilon(), huge = 1.5e308;
  const auto bins_of = [](const Tensor& values) {
    return read_value([&](SummaryWriter& log) { log.histogram("h", values, 0); }).histogram;
  };
  CHECK(bins_of(Tensor{1.0, next, next}) == std::vector<std::array<double, 3>>{{1, next, 3}});
  CHECK(bins_of(Tensor{-huge, huge}) == std::vector<std::array<double, 3>>{{-huge, huge, 2}});
  CHECK(bins_of(Tensor{0.0, 1e-322}) == std::vector<std::array<double, 3>>{{0, 1e-322, 2}});
  CHECK(bins_of(Tensor{0.0, 3.0}).size() == 30);
}

// --- pictures ------------------------------------------------------------------------------------------------------

TEST_CASE("pictures come back as they were given, by their declared sizes", "[io][summary]") {
  if (!wire::has_events()) return;
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    const Tensor pixels = cs::reshape((10 * cs::arange(channels * 6)).to(DType::uint8), {channels, 2, 3});
    const cs::io::SummaryValue value = read_value([&](SummaryWriter& log) { log.image("i", pixels, 2); });
    CHECK(value.kind == cs::io::SummaryKind::image);
    CHECK(value.height == 2);
    CHECK(value.width == 3);
    REQUIRE(value.bytes.size() == 1);
    const Bytes png = tests::bytes_of(value.bytes[0]);
    CHECK(tests::same(cs::io::decode_image(png), pixels));
    check_value([&](SummaryWriter& log) { log.image("i", pixels, 2); }, 2,
                wire::text(1, "i") + wire::text(4, wire::integer(1, 2) + wire::integer(2, 3) +
                                                       wire::integer(3, channels) + wire::text(4, value.bytes[0])));
  }
}

TEST_CASE("floating pictures go from 0 to 1, limited to them, and NaN is 0", "[io][summary]") {
  if (!wire::has_events()) return;
  const Tensor pixels = {{0.0f, 0.5f, 1.0f}, {-1.0f, 7.0f, static_cast<float>(kNaN)}};
  const Tensor expected = Tensor{{{0, 128, 255}, {0, 255, 0}}}.to(DType::uint8);  // 127.5 is rounded away from 0
  for (const DType dtype : {DType::float32, DType::float64, DType::float16}) {
    const auto value = read_value([&](SummaryWriter& log) { log.image("i", pixels.to(dtype), 0); });
    CHECK(tests::same(cs::io::decode_image(tests::bytes_of(value.bytes.at(0))), expected));
  }
}

TEST_CASE("several pictures are a grid with two black pixels around each", "[io][summary]") {
  if (!wire::has_events()) return;
  const Tensor pictures = cs::reshape(cs::arange(1, 31).to(DType::uint8), {5, 1, 2, 3});
  const auto value = read_value([&](SummaryWriter& log) { log.image("i", pictures, 0); });
  const Tensor grid = cs::io::decode_image(tests::bytes_of(value.bytes.at(0)));
  REQUIRE(grid.shape() == cs::Shape{1, 10, 17});  // 3 columns: 3 * (3 + 2) + 2; 2 rows: 2 * (2 + 2) + 2
  const Tensor expected = cs::zeros({1, 10, 17}, {.dtype = DType::uint8});
  for (std::int64_t i = 0; i < 5; ++i) {
    const std::int64_t top = 2 + i / 3 * 4, left = 2 + i % 3 * 5;
    expected.index({0, cs::range(top, top + 2), cs::range(left, left + 3)}).assign(pictures.index({i, 0}));
  }
  CHECK(tests::same(grid, expected));
  const auto alone = read_value([&](SummaryWriter& log) { log.image("i", pictures.index({cs::range(0, 1)}), 0); });
  CHECK(tests::same(cs::io::decode_image(tests::bytes_of(alone.bytes.at(0))), pictures[0]));
}

// --- sounds --------------------------------------------------------------------------------------------------------

namespace {

/// A WAV file by RIFF's definition.
std::string wav(int channels, std::uint64_t rate, const std::vector<int>& samples) {
  const auto count = static_cast<std::uint64_t>(samples.size()), frame = static_cast<std::uint64_t>(channels) * 2;
  Bytes bytes = tests::bytes_of("RIFF");
  tests::append_little(bytes, 36 + 2 * count, 4);
  bytes = tests::joined(bytes, tests::bytes_of("WAVEfmt "));
  tests::append_little(bytes, 16, 4);
  tests::append_little(bytes, 1, 2);
  tests::append_little(bytes, static_cast<std::uint64_t>(channels), 2);
  tests::append_little(bytes, rate, 4);
  tests::append_little(bytes, rate * frame, 4);
  tests::append_little(bytes, frame, 2);
  tests::append_little(bytes, 16, 2);
  bytes = tests::joined(bytes, tests::bytes_of("data"));
  tests::append_little(bytes, 2 * count, 4);
  for (const int sample : samples) tests::append_little(bytes, static_cast<std::uint64_t>(sample), 2);
  return std::string(bytes.begin(), bytes.end());
}

std::string audio(float rate, std::int64_t channels, std::int64_t frames, const std::string& file) {
  return wire::text(1, "a") +
         wire::text(6, wire::single(1, rate) + wire::integer(2, channels) + wire::integer(3, frames) +
                           wire::text(4, file) + wire::text(5, "audio/wav"));
}

}  // namespace

TEST_CASE("sounds are WAV files of 16 bits, limited to -1 and 1", "[io][summary]") {
  if (!wire::has_events()) return;
  const Tensor samples = {0.0f, 1.0f, -1.0f, 0.5f, 3.0f, -3.0f, static_cast<float>(kNaN)};
  const std::vector<int> expected = {0, 32767, -32767, 16384, 32767, -32767, 0};  // 0.5 * 32767 = 16383.5
  check_value([&](SummaryWriter& log) { log.audio("a", samples, 1); }, 1, audio(44100, 1, 7, wav(1, 44100, expected)));
  check_value([&](SummaryWriter& log) { log.audio("a", samples.to(DType::float64), 1, {.rate = 8000}); }, 1,
              audio(8000, 1, 7, wav(1, 8000, expected)));
  const Tensor stereo = {{0.0f, 1.0f}, {-1.0f, 0.5f}};  // left 0 1, right -1 0.5
  check_value([&](SummaryWriter& log) { log.audio("a", stereo, 1); }, 1,
              audio(44100, 2, 2, wav(2, 44100, {0, -32767, 32767, 16384})));
}

// --- texts, graphs, hyper-parameters -------------------------------------------------------------------------------

TEST_CASE("a text is a tensor of one string for the text plugin", "[io][summary][host]") {
  if (!wire::has_events()) return;
  for (const std::string text : {"**gr\xC3\xB6\xC3\x9F"
                                 "er**\n\n| a |",
                                 ""})
    check_value([&](SummaryWriter& log) { log.text("notes", text, 4); }, 4,
                wire::text(1, "notes") + wire::text(8, wire::tensor(7, {}, wire::text(8, text))) +  // DT_STRING
                    wire::text(9, wire::text(1, wire::text(1, "text")) + wire::integer(4, 2)));     // DATA_CLASS_TENSOR
}

namespace {

/// A NodeDef; `dims` is the shape of its one output.
std::string node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                 const std::vector<std::int64_t>& dims, const std::string& where) {
  std::string message = wire::text(1, name) + wire::text(2, op), axes;
  for (const std::string& input : inputs) message += wire::text(3, input);
  for (const std::int64_t size : dims) axes += wire::text(2, wire::integer(1, size));
  message += wire::text(5, wire::text(1, "_output_shapes") + wire::text(2, wire::text(1, wire::text(7, axes))));
  if (!where.empty()) message += wire::text(5, wire::text(1, "where") + wire::text(2, wire::text(2, where)));
  return wire::text(1, message);
}

}  // namespace

TEST_CASE("a graph has the tape's operations, grouped by parameters and lines", "[io][summary][host]") {
  if (!wire::has_events()) return;
  const cs::Parameter weight(cs::ones({3, 2}));
  const Tensor x = cs::ones({5, 3});
  cs::GradientTape tape;
  const unsigned line = __LINE__ + 1;
  const Tensor h = cs::matmul(x, weight);
  const Tensor a = cs::exp(h), b = cs::exp(h), y = a + b;
  const std::vector<cs::NamedTensor> names = {{"body.fc.weight", weight}, {"elsewhere", cs::ones({2})}, {"none", {}}};
  const std::vector<std::string> records = logged([&](SummaryWriter& log) { log.graph(tape, names); });
  REQUIRE(records.size() == 1);

  const std::string file = "summary_values_test.cpp";
  const std::string first = file + ":" + std::to_string(line), second = file + ":" + std::to_string(line + 1);
  const std::string in_first = "body/fc/" + file + "_" + std::to_string(line) + "/",
                    in_second = file + "_" + std::to_string(line + 1) + "/";
  const std::string expected =
      node("body/fc/weight", "Parameter", {}, {3, 2}, "") +
      node(in_first + "matmul", "matmul", {"body/fc/weight"}, {5, 2}, first) +
      node(in_second + "exp", "exp", {in_first + "matmul"}, {5, 2}, second) +
      node(in_second + "exp_1", "exp", {in_first + "matmul"}, {5, 2}, second) +
      node(in_second + "add", "add", {in_second + "exp", in_second + "exp_1"}, {5, 2}, second) +
      wire::text(4, wire::integer(1, 22));
  CHECK(records[0] == wire::real(1, time_of(records[0])) + wire::text(4, expected));
}

TEST_CASE("a graph names watched tensors, and further results by their numbers", "[io][summary][host]") {
  if (!wire::has_events()) return;
  const Tensor x = cs::ones({4, 3});
  cs::GradientTape tape;
  tape.watch(x);
  const cs::Moments both = cs::moments(x, 0);
  const Tensor y = cs::exp(both.variance);
  const TemporaryFolder folder;
  SummaryWriter log(folder.path("run"));
  log.graph(tape);
  log.close();
  const std::string graph = cs::io::read_events(log.path()).at(1).graph;
  CHECK(graph.find(node("watched", "Watched", {}, {4, 3}, "")) == 0);
  CHECK(graph.find(wire::text(3, "watched")) != std::string::npos);
  CHECK(graph.find("/moments:1") != std::string::npos);  // the input of exp
}

TEST_CASE("hyper-parameters are what TensorBoard's plugin keeps of them", "[io][summary][host]") {
  if (!wire::has_events()) return;
  const std::vector<std::string> records = logged([](SummaryWriter& log) {
    log.hparams({{"learning_rate", 1e-3}, {"optimizer", "adam"}, {"bias", true}, {"layers", 3}}, {"loss", "val/top1"});
  });
  REQUIRE(records.size() == 3);  // the last one by close
  const auto hparams = [](double time, const std::string& tag, const std::string& content) {
    const std::string plugin = wire::text(1, wire::text(1, "hparams") + wire::text(2, content));
    return wire::event(time, 0,
                       wire::summary(wire::text(1, "_hparams_/" + tag) + wire::text(9, plugin + wire::integer(4, 2)) +
                                     wire::text(8, wire::tensor(1, {0}, ""))));  // DT_FLOAT [0]
  };
  const auto info = [](const std::string& name, std::int64_t type) {
    return wire::text(4, wire::text(1, name) + wire::integer(4, type));
  };
  const auto metric = [](const std::string& tag) { return wire::text(5, wire::text(1, wire::text(2, tag))); };
  const auto value = [](const std::string& name, const std::string& is) {
    return wire::text(1, wire::text(1, name) + wire::text(2, is));
  };
  const double start = time_of(records[0]), end = time_of(records[2]);
  const std::string experiment = wire::real(3, start) + info("learning_rate", 3) + info("optimizer", 1) +
                                 info("bias", 2) + info("layers", 3) + metric("loss") + metric("val/top1");
  CHECK(records[0] == hparams(start, "experiment", wire::text(2, experiment)));
  const std::string session = value("learning_rate", wire::real(2, 1e-3)) + value("optimizer", wire::text(3, "adam")) +
                              value("bias", wire::integer(4, 1)) + value("layers", wire::real(2, 3)) +
                              wire::real(5, start);
  CHECK(records[1] == hparams(start, "session_start_info", wire::text(3, session)));
  CHECK(records[2] ==
        hparams(end, "session_end_info", wire::text(4, wire::integer(1, 1) + wire::real(2, end))));  // STATUS_SUCCESS
}

TEST_CASE("a run that an exception ends has failed", "[io][summary][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  try {
    SummaryWriter log(folder.path("run"));
    log.hparams({{"layers", 3}});
    throw cs::Error("the run failed");
  } catch (const cs::Error&) {}
  const std::vector<std::string> records = tests::records_of(tests::only_file(folder.path("run")));
  REQUIRE(records.size() == 3);
  CHECK(records[2].find(wire::text(4, wire::integer(1, 2) + wire::real(2, time_of(records[2])))) !=
        std::string::npos);  // STATUS_FAILURE
}
