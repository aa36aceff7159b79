// Runs as curves: several files of one folder, and what counts no more after a run was resumed.
#include <capstan/capstan.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/event_files.hpp"
#include "tests/files.hpp"
#include "tests/support.hpp"

namespace cs = capstan;
namespace wire = tests::wire;

namespace {

using Steps = std::vector<std::int64_t>;
using Values = std::vector<double>;
using tests::TemporaryFolder;

std::string folder_of(const TemporaryFolder& folder) {
  return std::filesystem::path(folder.path("file")).parent_path().string();
}

std::string said(const std::string& path) {
  return tests::split_message(tests::message_of<cs::IoError>([&] { cs::io::read_scalars(path); })).text;
}

}  // namespace

TEST_CASE("curves have every point of their tag in the order of the file", "[io][events][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "log",
      wire::file_of({wire::version(), wire::scalar(10, 5, "loss", 2), wire::scalar(11, 5, "accuracy", 0.5f),
                     wire::scalar(12, 7, "loss", 1.5f), wire::scalar(13, 6, "loss", 1),
                     wire::event(14, 8, wire::tensor_summary("text", wire::tensor(7, {}, wire::text(8, "x"))))}));
  const std::vector<cs::io::ScalarCurve> curves = cs::io::read_scalars(path);
  REQUIRE(curves.size() == 2);
  CHECK(curves[0].tag == "loss");
  CHECK(curves[0].steps == Steps{5, 7, 6});
  CHECK(curves[0].values == Values{2, 1.5, 1});
  CHECK(curves[0].wall_times == Values{10, 12, 13});
  CHECK(curves[1].tag == "accuracy");
  CHECK(curves[1].steps == Steps{5});
}

TEST_CASE("a later file of a folder replaces what it begins at, tag by tag", "[io][events][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  // The names are in the other order than the times.
  folder.write("b.tfevents.1",
               wire::file_of({wire::event(100, 0, wire::text(3, "brain.Event:2")), wire::scalar(101, 1, "loss", 1),
                              wire::scalar(101, 1, "rate", 0.1f), wire::scalar(102, 2, "loss", 2),
                              wire::scalar(103, 3, "loss", 3), wire::scalar(103, 3, "rate", 0.3f)}));
  folder.write("a.tfevents.2",
               wire::file_of({wire::event(200, 0, wire::text(3, "brain.Event:2")), wire::scalar(201, 2, "loss", 20),
                              wire::scalar(202, 3, "loss", 30), wire::scalar(203, 4, "loss", 40)}));
  folder.write("notes.txt", tests::bytes_of("not read"));
  folder.write("c.tfevents.empty", {});
  std::filesystem::create_directory(folder.path("tfevents"));
  const std::vector<cs::io::ScalarCurve> curves = cs::io::read_scalars(folder_of(folder));
  REQUIRE(curves.size() == 2);
  CHECK(curves[0].steps == Steps{1, 2, 3, 4});
  CHECK(curves[0].values == Values{1, 20, 30, 40});
  CHECK(curves[0].wall_times == Values{101, 201, 202, 203});
  CHECK(curves[1].steps == Steps{1, 3});  // the second file has none of these
}

TEST_CASE("a tag's plugin counts for all files of a run", "[io][events][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  const std::string content = wire::text(9, wire::text(1, wire::text(1, "scalars")));
  const auto value = [](float number) { return wire::text(8, wire::tensor(1, {}, wire::single(5, number))); };
  folder.write("a.tfevents.1",
               wire::file_of({wire::event(100, 0, wire::text(3, "brain.Event:2")),
                              wire::event(101, 1, wire::summary(wire::text(1, "loss") + content + value(0.5f)))}));
  folder.write("a.tfevents.2",  // of a writer that was opened anew, which has named it before
               wire::file_of({wire::event(200, 0, wire::text(3, "brain.Event:2")),
                              wire::event(201, 2, wire::summary(wire::text(1, "loss") + value(0.25f)))}));
  const std::vector<cs::io::ScalarCurve> curves = cs::io::read_scalars(folder_of(folder));
  REQUIRE(curves.size() == 1);
  CHECK(curves[0].steps == Steps{1, 2});
  CHECK(curves[0].values == Values{0.5, 0.25});
}

TEST_CASE("of three files the last that reaches back counts", "[io][events][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, double time, const std::vector<std::int64_t>& steps, float value) {
    std::vector<std::string> events = {wire::event(time, 0, wire::text(3, "brain.Event:2"))};
    for (const std::int64_t step : steps) events.push_back(wire::scalar(time, step, "loss", value));
    folder.write(name, wire::file_of(events));
  };
  write("1.tfevents", 100, {1, 2, 3, 4, 5}, 1);
  write("2.tfevents", 200, {4, 5, 6}, 2);
  write("3.tfevents", 300, {2, 3}, 3);
  const std::vector<cs::io::ScalarCurve> curves = cs::io::read_scalars(folder_of(folder));
  REQUIRE(curves.size() == 1);
  CHECK(curves[0].steps == Steps{1, 2, 3});
  CHECK(curves[0].values == Values{1, 3, 3});
}

TEST_CASE("a session that starts makes later steps of all tags void", "[io][events][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "log",
      wire::file_of({wire::version(), wire::session_start(1, 0), wire::scalar(1, 1, "loss", 1),
                     wire::scalar(2, 2, "loss", 2), wire::scalar(2, 2, "rate", 2), wire::scalar(3, 3, "loss", 3),
                     wire::session_start(4, 2), wire::scalar(5, 2, "loss", 20), wire::scalar(5, 3, "loss", 30)}));
  const std::vector<cs::io::ScalarCurve> curves = cs::io::read_scalars(path);
  REQUIRE(curves.size() == 1);  // nothing is left of the rate
  CHECK(curves[0].steps == Steps{1, 2, 3});
  CHECK(curves[0].values == Values{1, 20, 30});
}

TEST_CASE("a file that starts fifty thousand sessions is read in one pass", "[io][events][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  constexpr int kCount = 50000;  // each of them compared with each point: 5 * 10^9 steps
  tests::Bytes bytes;
  const tests::Bytes point = wire::record(wire::scalar(1, 1, "a", 1)), late = wire::record(wire::scalar(1, 9, "a", 9)),
                     start = wire::record(wire::session_start(1, 9));
  for (int i = 0; i < kCount; ++i)
    for (const tests::Bytes* record : {&point, &late, &start})
      bytes.insert(bytes.end(), record->begin(), record->end());
  const std::vector<cs::io::ScalarCurve> curves = cs::io::read_scalars(folder.write("log", bytes));
  REQUIRE(curves.size() == 1);
  CHECK(curves[0].steps == Steps(kCount, 1));
}

TEST_CASE("a run that is not there, or has no event files, is an error that says so", "[io][events][errors][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  folder.write("notes.txt", tests::bytes_of("text"));
  CHECK(said(folder_of(folder)) ==
        "read_scalars: " + folder_of(folder) + ": no event file is in the folder; their names contain \"tfevents\".");
  CHECK(said(folder.path("missing")) == "read_scalars: " + folder.path("missing") +
                                            ": cannot be opened: No such file or directory; it must exist and be "
                                            "readable.");
}
