// Event files: those that TensorFlow and PyTorch wrote, every form that a value may have, and files that grow.
#include <capstan/capstan.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.hpp"
#include "tests/event_files.hpp"
#include "tests/files.hpp"
#include "tests/support.hpp"

namespace cs = capstan;
namespace wire = tests::wire;

namespace {

using cs::io::Event;
using cs::io::EventReader;
using cs::io::SummaryKind;
using cs::io::SummaryValue;
using tests::Bytes;
using tests::TemporaryFolder;

std::vector<Event> read_file(const Bytes& bytes) {
  const TemporaryFolder folder;
  return cs::io::read_events(folder.write("events", bytes));
}

/// The one value of the one event with that summary.
SummaryValue value_of(const std::string& summary) {
  const std::vector<Event> events = read_file(wire::file_of({wire::event(1, 2, summary)}));
  REQUIRE(events.size() == 1);
  REQUIRE(events[0].values.size() == 1);
  return events[0].values[0];
}

SummaryValue tensor_value(const std::string& plugin, const std::string& tensor) {
  return value_of(wire::tensor_summary(plugin, tensor));
}

std::map<std::string, std::vector<SummaryValue>> by_tag(const std::vector<Event>& events) {
  std::map<std::string, std::vector<SummaryValue>> tags;
  for (const Event& event : events)
    for (const SummaryValue& value : event.values) tags[value.tag].push_back(value);
  return tags;
}

std::array<std::uint8_t, 8> png_start() { return {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}; }

bool is_png(const std::string& bytes) {
  const auto start = png_start();
  return bytes.size() > start.size() && std::equal(start.begin(), start.end(), bytes.begin(),
                                                   [](auto a, char b) { return a == static_cast<std::uint8_t>(b); });
}

double total(const SummaryValue& value) {
  double sum = 0;
  for (const auto& bin : value.histogram) sum += bin[2];
  return sum;
}

}  // namespace

// --- files of other software; values by the protobuf classes of TensorBoard -----------------------------------------

TEST_CASE("the scalars of a TensorFlow 2 event file are read", "[io][events][host]") {
  const std::string path = tests::shared_data("tfevents/tf2_scalar_my_metric.out.tfevents.v2");
  if (path.empty() || !wire::has_events()) return;
  const std::vector<Event> events = cs::io::read_events(path);
  REQUIRE(events.size() == 101);
  CHECK(events[0].file_version == "brain.Event:2");
  CHECK(events[0].wall_time == 1585499054.0);
  CHECK(events[0].values.empty());
  for (std::size_t i = 1; i < events.size(); ++i) {
    const auto step = static_cast<std::int64_t>(i) - 1;
    CHECK(events[i].step == step);
    REQUIRE(events[i].values.size() == 1);
    const SummaryValue& value = events[i].values[0];
    CHECK(value.tag == "my_metric");
    CHECK(value.plugin == "scalars");
    CHECK(value.kind == SummaryKind::scalar);
    CHECK(value.scalar == 0.5 * static_cast<double>(step));
  }
  CHECK(events[100].wall_time == 1585499054.156347);
}

TEST_CASE("the scalars of a Keras event file are read as curves", "[io][events][host]") {
  const std::string path = tests::shared_data("tfevents/keras_validation_scalars.out.tfevents.v2");
  if (path.empty() || !wire::has_events()) return;
  CHECK(cs::io::read_events(path).size() == 41);
  const std::vector<cs::io::ScalarCurve> curves = cs::io::read_scalars(path);
  REQUIRE(curves.size() == 4);
  CHECK(curves[0].tag == "evaluation_loss_vs_iterations");
  CHECK(curves[1].tag == "evaluation_accuracy_vs_iterations");
  CHECK(curves[2].tag == "epoch_loss");
  CHECK(curves[3].tag == "epoch_accuracy");
  for (std::size_t i = 0; i < 10; ++i) {
    CHECK(curves[0].steps.at(i) == 1500 * static_cast<std::int64_t>(i + 1));
    CHECK(curves[2].steps.at(i) == static_cast<std::int64_t>(i));
    CHECK(curves[0].values.at(i) == curves[2].values.at(i));
    CHECK(curves[1].values.at(i) == curves[3].values.at(i));
  }
  CHECK(curves[2].values.size() == 10);
  CHECK(curves[2].values[0] == static_cast<double>(0.3675377666950226f));
  CHECK(curves[2].values[9] == static_cast<double>(0.16368553042411804f));
  CHECK(curves[3].values[9] == static_cast<double>(0.956250011920929f));
  CHECK(curves[3].wall_times[9] == 1690486902.620452);
}

TEST_CASE("scalars, histograms and a picture of a TensorFlow 1 event file are read", "[io][events][host]") {
  const std::string path = tests::shared_data("tfevents/tf1_scalar_histogram_image.out.tfevents");
  if (path.empty() || !wire::has_events()) return;
  const std::vector<Event> events = cs::io::read_events(path);
  REQUIRE(events.size() == 3);
  CHECK(events[1].step == 99);
  auto tags = by_tag(events);
  REQUIRE(tags.size() == 4);
  CHECK(tags["Slope_Estimate/Slope_Estimate"].at(0).scalar == static_cast<double>(2.0388264656066895f));

  const SummaryValue errors = tags["Loss_and_Residuals/Histogram_Errors"].at(0);
  CHECK(errors.kind == SummaryKind::histogram);
  REQUIRE(errors.histogram.size() == 1);  // the bins around it are empty, and it reaches from the least to the most
  CHECK(errors.histogram[0] == std::array<double, 3>{21.820653915405273, 21.820653915405273, 1});

  const SummaryValue residuals = tags["Loss_and_Residuals/Histogram_Residuals"].at(0);
  CHECK(total(residuals) == 50);
  CHECK(residuals.histogram.front() == std::array<double, 3>{-80.43299865722656, -73.54438625107609, 1});
  CHECK(residuals.histogram.back()[1] == 57.423377990722656);

  const SummaryValue image = tags["Linear_Plot/image/0"].at(0);
  CHECK(image.kind == SummaryKind::image);
  CHECK(image.width == 640);
  CHECK(image.height == 480);
  REQUIRE(image.bytes.size() == 1);
  CHECK(image.bytes[0].size() == 38615);
  CHECK(is_png(image.bytes[0]));
}

TEST_CASE("the scalars of a PyTorch event file are read", "[io][events][host]") {
  const std::string path = tests::shared_data("tfevents/pytorch_scalars.out.tfevents");
  if (path.empty() || !wire::has_events()) return;
  CHECK(cs::io::read_events(path).size() == 390);
  const std::vector<cs::io::ScalarCurve> curves = cs::io::read_scalars(path);
  REQUIRE(curves.size() == 4);
  CHECK(curves[0].tag == "Loss/train");
  CHECK(curves[1].tag == "Loss/test");
  CHECK(curves[2].tag == "Accuracy/train");
  CHECK(curves[3].tag == "Accuracy/test");
  CHECK(curves[0].values.size() == 98);
  CHECK(curves[0].steps.front() == 0);
  CHECK(curves[0].steps.back() == 97);
  CHECK(curves[0].values.front() == static_cast<double>(0.49586692452430725f));
  CHECK(curves[0].values.back() == static_cast<double>(0.6988003849983215f));
  for (std::size_t i = 1; i < 4; ++i) {
    CHECK(curves[i].values.size() == 97);
    CHECK(curves[i].steps.back() == 96);
  }
  CHECK(curves[3].values.back() == static_cast<double>(0.2001533955335617f));
  CHECK(curves[3].wall_times.front() == 1715401115.1002614);
}

TEST_CASE("the histograms of a PyTorch event file are read", "[io][events][host]") {
  const std::string path = tests::shared_data("tfevents/pytorch_histograms.out.tfevents");
  if (path.empty() || !wire::has_events()) return;
  const std::vector<Event> events = cs::io::read_events(path);
  REQUIRE(events.size() == 11);
  auto tags = by_tag(events);
  REQUIRE(tags.size() == 2);
  for (const char* tag : {"hist-numpy", "hist-torch"}) {
    REQUIRE(tags[tag].size() == 5);
    for (const SummaryValue& value : tags[tag]) {
      CHECK(value.kind == SummaryKind::histogram);
      CHECK(total(value) == 1000);
      for (std::size_t i = 1; i < value.histogram.size(); ++i)
        CHECK(value.histogram[i][0] == value.histogram[i - 1][1]);
    }
  }
  const SummaryValue& first = tags["hist-numpy"][0];
  CHECK(first.histogram.front() == std::array<double, 3>{-3.245187752543251, -3.1665833053880363, 2});
  CHECK(first.histogram.back()[1] == 3.108977049415355);
  CHECK(tags["hist-torch"][4].histogram.front()[0] == -13.822505950927734);
}

TEST_CASE("the pictures of a PyTorch event file are read", "[io][events][host]") {
  const std::string path = tests::shared_data("tfevents/pytorch_images.out.tfevents");
  if (path.empty() || !wire::has_events()) return;
  const std::vector<Event> events = cs::io::read_events(path);
  REQUIRE(events.size() == 9);
  auto tags = by_tag(events);
  REQUIRE(tags.size() == 5);
  CHECK(tags["MNIST_group"].size() == 4);
  for (const auto& [tag, values] : tags)
    for (const SummaryValue& value : values) {
      INFO(tag);
      CHECK(value.kind == SummaryKind::image);
      CHECK(value.width == 28);
      CHECK(value.height == 28);
      REQUIRE(value.bytes.size() == 1);
      CHECK(is_png(value.bytes[0]));
    }
  CHECK(tags["MNIST_Tag_is_tensor__5__"][0].bytes[0].size() == 549);
}

// --- forms of values -----------------------------------------------------------------------------------------------

TEST_CASE("a scalar is the same number in every type and in both places of a tensor", "[io][events][host]") {
  if (!wire::has_events()) return;
  const auto content = [](const std::string& bytes) { return wire::text(4, bytes); };
  const auto list = [](int field, std::int64_t value) { return wire::integer(field, value); };
  struct Row {
    std::string what;
    std::int64_t type;
    std::string values;
    double number;
  };
  const std::vector<Row> rows = {
      {"float", 1, content(wire::raw(1.5f)), 1.5},
      {"float, listed", 1, wire::single(5, 1.5f), 1.5},
      {"float, packed", 1, wire::text(5, wire::raw(1.5f)), 1.5},
      {"double", 2, content(wire::raw(0.1)), 0.1},
      {"double, listed", 2, wire::real(6, 0.1), 0.1},
      {"double, packed", 2, wire::text(6, wire::raw(0.1)), 0.1},
      {"int32", 3, content(wire::raw(std::int32_t{-7})), -7},
      {"int32, listed", 3, list(7, -7), -7},
      {"int32, packed", 3, wire::text(7, wire::varint(7)), 7},
      {"uint8", 4, content(wire::raw(std::uint8_t{200})), 200},
      {"uint8, listed", 4, list(7, 200), 200},
      {"uint8, listed by PyTorch", 4, list(16, 200), 200},
      {"int16", 5, content(wire::raw(std::int16_t{-300})), -300},
      {"int16, listed", 5, list(7, -300), -300},
      {"int8", 6, content(wire::raw(std::int8_t{-100})), -100},
      {"int8, listed", 6, list(7, -100), -100},
      {"int64", 9, content(wire::raw(-(std::int64_t{1} << 40))), -1099511627776.0},
      {"int64, listed", 9, list(10, -(std::int64_t{1} << 40)), -1099511627776.0},
      {"bool", 10, content(std::string(1, '\1')), 1},
      {"bool, listed", 10, list(11, 1), 1},
      {"bfloat16", 14, content(wire::raw(std::uint16_t{0xC0A0})), -5},
      {"bfloat16, listed", 14, list(13, 0xC0A0), -5},
      {"bfloat16, listed by PyTorch", 14, list(13, std::int32_t(0xC0A00000)), -5},  // the bits of -5 as a float32
      {"uint16", 17, content(wire::raw(std::uint16_t{65535})), 65535},
      {"uint16, listed", 17, list(7, 65535), 65535},
      {"half", 19, content(wire::raw(std::uint16_t{0x3E00})), 1.5},
      {"half, listed", 19, list(13, 0x3E00), 1.5},
      {"half, listed by PyTorch", 19, list(13, 0x3FC00000), 1.5},
      {"a subnormal half, listed by PyTorch", 19, list(13, 0x33800000), 0x1p-24},
      {"uint32", 22, content(wire::raw(std::uint32_t{4294967295u})), 4294967295.0},
      {"uint32, listed", 22, list(16, 4294967295), 4294967295.0},
      {"uint64", 23, content(wire::raw(~std::uint64_t{0})), 18446744073709551616.0},
      {"uint64, listed", 23, list(17, -1), 18446744073709551616.0},  // the same bits
  };
  for (const Row& row : rows) {
    INFO(row.what);
    const SummaryValue value = tensor_value("scalars", wire::tensor(row.type, {}, row.values));
    CHECK(value.kind == SummaryKind::scalar);
    CHECK(value.scalar == row.number);
    CHECK(tensor_value("scalars", wire::tensor(row.type, {1}, row.values)).scalar == row.number);
  }
}

TEST_CASE("a tensor of another plugin keeps its values, shape and type", "[io][events]") {
  if (!wire::has_events()) return;
  const auto tensor = [](std::int64_t type, const std::vector<std::int64_t>& sizes, const std::string& values) {
    const SummaryValue value = tensor_value("pr_curves", wire::tensor(type, sizes, values));
    CHECK(value.kind == SummaryKind::tensor);
    CHECK(value.plugin == "pr_curves");
    return value.tensor;
  };
  const cs::Tensor floats = tensor(1, {2, 3}, wire::text(4, wire::raw(std::vector<float>{1, 2, 3, 4, 5, 6})));
  CHECK(floats.shape() == cs::Shape{2, 3});
  CHECK(floats.to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(floats.device() == cs::default_device());

  const cs::Tensor halves = tensor(19, {2}, wire::text(4, wire::raw(std::vector<std::uint16_t>{0x3C00, 0xC000})));
  CHECK(halves.dtype() == cs::DType::float16);
  CHECK(halves.to(cs::DType::float32).to_vector<float>() == std::vector<float>{1, -2});

  const cs::Tensor bools = tensor(10, {3}, wire::text(4, std::string("\2\0\1", 3)));
  CHECK(bools.to(cs::DType::int32).to_vector<std::int32_t>() == std::vector<std::int32_t>{1, 0, 1});

  const cs::Tensor wide = tensor(17, {2}, wire::text(4, wire::raw(std::vector<std::uint16_t>{65535, 1})));
  CHECK(wide.to_vector<std::int32_t>() == std::vector<std::int32_t>{65535, 1});
  const cs::Tensor wider = tensor(22, {1}, wire::integer(16, 4294967295));
  CHECK(wider.to_vector<std::int64_t>() == std::vector<std::int64_t>{4294967295});
  const cs::Tensor widest = tensor(23, {1}, wire::integer(17, std::numeric_limits<std::int64_t>::max()));
  CHECK(widest.to_vector<std::int64_t>() == std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::max()});
  const cs::Tensor bytes = tensor(6, {2}, wire::text(7, wire::varint(5) + wire::varint(~std::uint64_t{0})));
  CHECK(bytes.dtype() == cs::DType::int8);
  CHECK(bytes.to(cs::DType::int32).to_vector<std::int32_t>() == std::vector<std::int32_t>{5, -1});
  CHECK(tensor(2, {0, 4}, "").shape() == cs::Shape{0, 4});
}

TEST_CASE("numbers of types that Capstan does not have are of another kind", "[io][events][host]") {
  if (!wire::has_events()) return;
  const SummaryValue complex = tensor_value("mine", wire::tensor(8, {1}, wire::text(4, std::string(8, '\0'))));
  CHECK(complex.kind == SummaryKind::other);
  CHECK_FALSE(complex.tensor.defined());
}

TEST_CASE("histograms are bins in both forms", "[io][events][host]") {
  if (!wire::has_events()) return;
  using Bins = std::vector<std::array<double, 3>>;
  const std::string values = wire::raw(std::vector<double>{0, 1, 4, 1, 2.5, 2});
  const SummaryValue tensor = tensor_value("histograms", wire::tensor(2, {2, 3}, wire::text(4, values)));
  CHECK(tensor.kind == SummaryKind::histogram);
  CHECK(tensor.histogram == Bins{{0, 1, 4}, {1, 2.5, 2}});
  CHECK(tensor_value("histograms", wire::tensor(1, {0, 3}, "")).histogram.empty());

  const auto histo = [](const std::vector<double>& limits, const std::vector<double>& counts) {
    return value_of(wire::summary(wire::text(1, "tag") + wire::text(5, wire::real(1, -3) + wire::real(2, 9) +
                                                                           wire::text(6, wire::raw(limits)) +
                                                                           wire::text(7, wire::raw(counts)))))
        .histogram;
  };
  constexpr double kMost = std::numeric_limits<double>::max();
  CHECK(histo({-4, -2, 0, 2, kMost}, {0, 3, 0, 5, 1}) == Bins{{-3, -2, 3}, {-2, 0, 0}, {0, 2, 5}, {2, 9, 1}});
  CHECK(histo({-4, -2, 0, 2, kMost}, {0, 3, 0, 0, 0}) == Bins{{-3, 9, 3}});
  CHECK(histo({1, 2}, {0, 0}).empty());
  CHECK(histo({}, {}).empty());
}

TEST_CASE("pictures, sounds and texts are read in both forms", "[io][events][host]") {
  if (!wire::has_events()) return;
  using Texts = std::vector<std::string>;
  const auto listed = [](const Texts& texts) {
    std::string list;
    for (const std::string& text : texts) list += wire::text(8, text);
    return list;
  };
  const SummaryValue images = tensor_value("images", wire::tensor(7, {4}, listed({"640", "480", "one", "two"})));
  CHECK(images.kind == SummaryKind::image);
  CHECK(images.width == 640);
  CHECK(images.height == 480);
  CHECK(images.bytes == Texts{"one", "two"});
  CHECK(tensor_value("images", wire::tensor(7, {2}, listed({"1", "2"}))).bytes.empty());

  const SummaryValue sounds = tensor_value("audio", wire::tensor(7, {2, 2}, listed({"a", "label", "b", ""})));
  CHECK(sounds.kind == SummaryKind::audio);
  CHECK(sounds.bytes == Texts{"a", "b"});
  CHECK(tensor_value("audio", wire::tensor(7, {3}, listed({"a", "b", "c"}))).bytes == Texts{"a", "b", "c"});

  const SummaryValue text = tensor_value("text", wire::tensor(7, {}, listed({std::string("# a\0b", 5)})));
  CHECK(text.kind == SummaryKind::text);
  CHECK(text.bytes == Texts{std::string("# a\0b", 5)});
  const SummaryValue strings = tensor_value("mine", wire::tensor(7, {1, 2}, listed({"x", "y"})));
  CHECK(strings.kind == SummaryKind::tensor);
  CHECK(strings.bytes == Texts{"x", "y"});

  const SummaryValue audio = value_of(wire::summary(
      wire::text(1, "tag") + wire::text(6, wire::single(1, 8000) + wire::integer(2, 1) + wire::integer(3, 5) +
                                               wire::text(4, "RIFF") + wire::text(5, "audio/wav"))));
  CHECK(audio.kind == SummaryKind::audio);
  CHECK(audio.bytes == Texts{"RIFF"});
}

TEST_CASE("the last of several forms of one value stays", "[io][events][host]") {
  if (!wire::has_events()) return;
  const std::string image = wire::text(4, wire::integer(1, 2) + wire::integer(2, 3) + wire::text(4, "png"));
  const SummaryValue second = value_of(wire::summary(wire::single(2, 7) + image));
  CHECK(second.kind == SummaryKind::image);
  CHECK(second.scalar == 0);
  const SummaryValue first = value_of(wire::summary(image + wire::single(2, 7)));
  CHECK(first.kind == SummaryKind::scalar);
  CHECK(first.scalar == 7);
  CHECK(first.bytes.empty());
}

TEST_CASE("a value without a plugin takes that of the first value of its tag", "[io][events][host]") {
  if (!wire::has_events()) return;
  const std::string tensor = wire::text(8, wire::tensor(1, {}, wire::single(5, 4)));
  const std::string content = wire::text(9, wire::text(1, wire::text(1, "scalars") + wire::text(2, "kept")));
  const std::vector<Event> events =
      read_file(wire::file_of({wire::event(1, 0, wire::summary(wire::text(1, "a") + content + tensor)),
                               wire::event(2, 1, wire::summary(wire::text(1, "a") + tensor)),
                               wire::event(3, 2, wire::summary(wire::text(1, "b") + tensor))}));
  REQUIRE(events.size() == 3);
  CHECK(events[0].values.at(0).content == "kept");
  CHECK(events[1].values.at(0).kind == SummaryKind::scalar);
  CHECK(events[1].values.at(0).plugin == "scalars");
  CHECK(events[1].values.at(0).scalar == 4);
  CHECK(events[1].values.at(0).content.empty());
  CHECK(events[2].values.at(0).kind == SummaryKind::tensor);
}

TEST_CASE("graphs, sessions and many values of an event are read, and unknown fields passed over",
          "[io][events][host]") {
  if (!wire::has_events()) return;
  const std::string values = wire::text(1, wire::text(1, "a") + wire::single(2, 1)) +
                             wire::text(1, wire::text(1, "b") + wire::single(2, -1) + wire::text(99, "later"));
  const std::vector<Event> events = read_file(
      wire::file_of({wire::event(1, 0, wire::text(4, "graph")), wire::session_start(2, 30),
                     wire::event(3, 31, wire::text(7, wire::integer(1, 2))),
                     wire::event(4, -5, wire::text(5, values) + wire::integer(77, 1) + wire::text(10, "source")), ""}));
  REQUIRE(events.size() == 5);
  CHECK(events[0].graph == "graph");
  CHECK(events[1].session_start);
  CHECK(events[1].step == 30);
  CHECK_FALSE(events[2].session_start);
  CHECK(events[3].step == -5);
  CHECK(events[3].wall_time == 4);
  REQUIRE(events[3].values.size() == 2);
  CHECK(events[3].values[1].tag == "b");
  CHECK(events[3].values[1].scalar == -1);
  CHECK(events[4].step == 0);
}

// --- files that grow -----------------------------------------------------------------------------------------------

TEST_CASE("an event file cut anywhere is read up to its last whole record", "[io][events][host]") {
  if (!wire::has_events()) return;
  const std::vector<Bytes> records = {wire::record(wire::version()), wire::record(wire::scalar(1, 1, "a", 2)),
                                      wire::record(wire::scalar(2, 2, "a", 3))};
  Bytes whole;
  std::vector<std::size_t> ends;
  for (const Bytes& record : records) ends.push_back((whole = tests::joined(std::move(whole), record)).size());
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    INFO(length);
    std::size_t complete = 0;
    while (complete < ends.size() && ends[complete] <= length) ++complete;
    CHECK(read_file(tests::first_bytes(whole, length)).size() == complete);
  }
}

TEST_CASE("a packed event file whose last record is cut ends before it", "[io][events][host]") {
  if (!wire::has_events()) return;
  const Bytes whole = wire::file_of({wire::version(), wire::scalar(1, 1, "a", 2)});
  const std::size_t first = wire::record(wire::version()).size();
  for (std::size_t length = first; length <= whole.size(); ++length) {
    INFO(length);
    CHECK(read_file(tests::gzip(tests::first_bytes(whole, length))).size() == (length == whole.size() ? 2u : 1u));
  }
}

TEST_CASE("a reader at the end of an event file goes on when there is more", "[io][events][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  const Bytes first = wire::file_of({wire::version(), wire::scalar(1, 1, "a", 2)});
  const Bytes second = wire::record(wire::scalar(2, 2, "a", 3));
  const std::string path = folder.write("events", first);
  EventReader reader(path);
  Event event;
  CHECK(reader.next(event));
  CHECK(reader.next(event));
  CHECK(reader.offset() == static_cast<std::int64_t>(first.size()));
  CHECK_FALSE(reader.next(event));
  CHECK_FALSE(reader.next(event));
  CHECK(event.step == 1);  // stays as it was
  for (std::size_t length = 1; length <= second.size(); ++length) {
    folder.write("events", tests::joined(first, tests::first_bytes(second, length)));
    REQUIRE(reader.next(event) == (length == second.size()));
  }
  CHECK(event.step == 2);
  CHECK(event.values.at(0).scalar == 3);
  CHECK_FALSE(reader.next(event));
}

TEST_CASE("a reader that was told that an event file is whole finds a cut record", "[io][events][errors][host]") {
  if (!wire::has_events()) return;
  const std::vector<std::string> events = {wire::version(), wire::scalar(1, 1, "a", 2), wire::scalar(2, 2, "b", 3)};
  const std::size_t first = wire::file_of({events[0]}).size(), second = wire::file_of({events[0], events[1]}).size();
  tests::check_prefixes(wire::file_of(events), "EventReader", "events",
                        [](const std::string& path) {
                          EventReader reader(path, {.growing = false});
                          for (Event event; reader.next(event);) {}
                        },
                        {0, first, second});
}

TEST_CASE("a reader of events that was moved from says so, and can be given another", "[io][events][errors][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  const std::string path = folder.write("events", wire::file_of({wire::version()}));
  EventReader first(path);
  EventReader second(std::move(first));
  Event event;
  CHECK(second.next(event));
  CHECK(first.offset() == 0);
  CHECK(tests::split_message(tests::message_of<cs::Error>([&] { first.next(event); })).text ==
        "EventReader::next: this reader was moved from; it must hold a file.");
  first = EventReader(path);
  CHECK(first.next(event));
}
