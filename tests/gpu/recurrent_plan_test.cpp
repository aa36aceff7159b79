// How recurrent sequences lie in memory on a GPU, and how they are cut: plain arithmetic.
#include "cuda/recurrent_plan.hpp"

#include <set>

#include "tests/support.hpp"

using namespace capstan;
using namespace capstan::on_cuda;

namespace {

LineView host(const LinePlan& plan) { return plan.view(plan.table().data()); }

}  // namespace

TEST_CASE("without lengths the lines of a sequence are in the order of its elements", "[gpu][recurrent]") {
  const Tensor by_rows = zeros({3, 4, 5}), by_steps = transpose(zeros({4, 3, 5}), 0, 1);
  const Tensor wide = zeros({3, 4, 7}), part = narrow(wide, 2, 0, 5);
  const LinePlan rows(*by_rows.impl(), nullptr, false), steps(*by_steps.impl(), nullptr, false),
      other(*part.impl(), nullptr, true);
  CHECK(!rows.gathers());
  CHECK(host(rows).line(1, 2) == 2 * 4 + 1);
  CHECK(!steps.gathers());
  CHECK(host(steps).line(1, 2) == 1 * 3 + 2);
  CHECK(other.gathers());
  CHECK(host(other).line(1, 2) == 1 * 3 + 2);
  CHECK(host(other).at(0) == 3);  // it runs backwards
  CHECK(host(other).entry(2) == 3 * 3 + 2);
  CHECK(rows.holds(*by_rows.impl()));
  CHECK(!rows.holds(*by_steps.impl()));
}

TEST_CASE("with lengths every valid step has a line of its own, and rows that run stand first", "[gpu][recurrent]") {
  const std::vector<std::int64_t> lengths = {2, 0, 4, 3, 4};
  const Tensor x = zeros({5, 6, 2});
  for (const bool reverse : {false, true}) {
    const LinePlan plan(*x.impl(), lengths.data(), reverse);
    const LineView lines = host(plan);
    CHECK(plan.lines() == 13);
    CHECK(lines.time == 4);  // of the longest row
    std::set<std::int64_t> taken, places;
    for (std::int64_t row = 0; row < 5; ++row) {
      places.insert(lines.place(row));
      REQUIRE(lines.length(row) == lengths[static_cast<std::size_t>(lines.place(row))]);
      for (std::int64_t t = 0; t < lines.time; ++t) {
        CHECK((row < lines.active(t)) == (t < lines.length(row)));
        if (row < lines.active(t)) taken.insert(lines.line(t, row));
      }
    }
    CHECK(places.size() == 5);
    CHECK(taken.size() == 13);
    CHECK(*taken.begin() == 0);
    CHECK(*taken.rbegin() == 12);
    CHECK(lines.entry(0) == lines.line(reverse ? 3 : 0, 0));
    CHECK(lines.carry(3) == 0);
    CHECK(lines.carry(0) == (reverse ? 2 : 4));  // rows of the first step that the second one has as well
  }
}

TEST_CASE("batches of no rows and rows without steps have no lines", "[gpu][recurrent]") {
  const std::vector<std::int64_t> none = {0, 0};
  const Tensor empty_batch = zeros({0, 3, 2}), x = zeros({2, 3, 2});
  CHECK(LinePlan(*empty_batch.impl(), nullptr, false).lines() == 0);
  CHECK(LinePlan(*empty_batch.impl(), none.data(), false).lines() == 0);
  const LinePlan plan(*x.impl(), none.data(), false);
  CHECK(plan.lines() == 0);
  CHECK(host(plan).time == 0);
  CHECK(host(plan).length(1) == 0);
}

TEST_CASE("blocks of resident kernels have all rows, and no more than their memory holds", "[gpu][recurrent]") {
  for (std::int64_t columns = 1; columns <= 4 * kResidentUnits; ++columns)
    for (const std::int64_t batch : {1, 2, 64, 131, 132, 133, 1000, 5000, 100000}) {
      const ResidentCut cut = cut_resident(batch, columns);
      REQUIRE(cut.rows() <= kResidentRows);
      REQUIRE(cut.rows_each <= kResidentEach);
      REQUIRE(cut.groups * cut.columns <= kResidentThreads);
      REQUIRE(cut.blocks * cut.rows() >= batch);
      REQUIRE((cut.blocks - 1) * cut.rows() < batch);
    }
  CHECK(cut_resident(64, 256).blocks == 64);  // a row each while there are multiprocessors
  CHECK(cut_resident(0, 256).blocks == 0);
}

TEST_CASE("few units stay resident, small products are tiled, and large ones are products of matrices",
          "[gpu][recurrent]") {
  const auto way = [](std::int64_t batch, std::int64_t time, std::int64_t hidden, bool projection = false) {
    return choose_way(batch, time, hidden, 4 * hidden, projection, sizeof(float), kTileRows<float>);
  };
  CHECK(way(1000, 50, 64) == RecurrentWay::resident);
  CHECK(way(20, 20, 200) == RecurrentWay::tiled);
  CHECK(way(20, 35, 650) == RecurrentWay::tiled);
  CHECK(way(20, 1, 200) == RecurrentWay::products);
  CHECK(way(512, 50, 1024) == RecurrentWay::products);
  CHECK(way(2, 20, 32, true) == RecurrentWay::products);
}

TEST_CASE("sums of columns take all lines, in chunks", "[gpu][recurrent]") {
  for (const std::int64_t lines : {0, 1, 255, 640, 50000})
    for (const std::int64_t width : {1, 24, 256, 10000}) {
      const ColumnCut cut = cut_columns(lines, width);
      CHECK(cut.tiles * 32 >= width);
      CHECK(cut.chunks >= 1);
      CHECK(cut.chunks * cut.lines_each >= lines);
    }
}
