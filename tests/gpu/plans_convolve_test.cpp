// How convolutions are computed and cut into tiles, beside the definition: result o reads place o * stride + tap *
// dilation - before.
#include <array>
#include <set>
#include <utility>

#include "cuda/convolve_plan.hpp"
#include "tests/gpu/paper.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace capstan::on_cuda;
using namespace tests;

namespace {

using Triple = std::array<std::int64_t, 3>;
using Triples = std::vector<Triple>;

/// False if no result fits.
bool finish(core::WindowAxis& a) {
  const std::int64_t room = a.in + a.before + a.after - a.extent();
  a.out = room < 0 ? 0 : room / a.stride + 1;
  return room >= 0;
}

/// Axes of all kinds.
std::vector<core::WindowAxis> all_axes() {
  std::vector<core::WindowAxis> list;
  for (std::int64_t in = 1; in <= 9; ++in)
    for (std::int64_t kernel = 1; kernel <= 4; ++kernel)
      for (std::int64_t stride = 1; stride <= 4; ++stride)
        for (std::int64_t dilation = 1; dilation <= 4; ++dilation)
          for (std::int64_t before = 0; before <= 2; ++before)
            for (std::int64_t after = 0; after <= 2; ++after) {
              core::WindowAxis a{in, 1, kernel, stride, kernel == 1 ? 1 : dilation, before, after};
              if (finish(a)) list.push_back(a);
            }
  return list;
}

/// Image's place, result, tap.
Triples plain_triples(const core::WindowAxis& a) {
  Triples list;
  for (std::int64_t i = 0; i < a.in; ++i)
    for (std::int64_t o = 0; o < a.out; ++o)
      for (std::int64_t tap = 0; tap < a.kernel; ++tap)
        if (o * a.stride + tap * a.dilation - a.before == i) list.push_back({i, o, tap});
  return list;
}

/// The same as a pass goes through them.
Triples passed_triples(const core::WindowAxis& a, bool backward) {
  Triples list;
  const ConvolvePassAxis<std::int32_t> axis(a, backward);
  std::set<std::int64_t> written;
  for (std::int32_t phase = 0; phase < axis.phases; ++phase) {
    const ConvolveTaps<std::int32_t> taps = axis.taps(phase);
    for (std::int32_t j = 0; j < axis.count; ++j) {
      const std::int64_t to = phase + axis.out_step * j;
      if (to >= axis.out) continue;
      REQUIRE(written.insert(to).second);
      for (std::int32_t t = 0; t < taps.count; ++t) {
        const std::int64_t from = axis.in_step * j + taps.offset + t * taps.offset_step,
                           tap = taps.first + t * taps.step;
        REQUIRE((tap >= 0 && tap < a.kernel));
        if (from >= 0 && from < axis.in) list.push_back(backward ? Triple{to, from, tap} : Triple{from, to, tap});
      }
    }
  }
  REQUIRE(static_cast<std::int64_t>(written.size()) == (backward ? a.in : a.out));
  std::sort(list.begin(), list.end());
  return list;
}

core::WindowAxis random_axis(PaperRandom& random) {
  core::WindowAxis a;
  do {
    a = {1 + random.below(7), 1, 1 + random.below(3), 1 + random.below(3), 1 + random.below(2), random.below(3),
         random.below(3)};
  } while (!finish(a));
  return a;
}
Convolution random_convolution(PaperRandom& random) {
  core::Window window;
  window.axes = 1 + static_cast<int>(random.below(3));
  for (int i = 0; i < window.axes; ++i) window.axis[i] = random_axis(random);
  return {DType::float32, 1 + random.below(3), 1 + random.below(3), 1 + random.below(4), 1 + random.below(5), window};
}
/// Over two axes that are alike.
Convolution plain_convolution(std::int64_t batch, std::int64_t groups, std::int64_t in, std::int64_t out,
                              std::int64_t size, std::int64_t kernel, std::int64_t stride = 1, std::int64_t border = 0,
                              DType dtype = DType::float32) {
  core::Window window;
  window.axes = 2;
  for (core::WindowAxis* a : {&window.axis[0], &window.axis[1]}) {
    *a = {size, 1, kernel, stride, 1, border, border};
    finish(*a);
  }
  return {dtype, batch, groups, in, out, window};
}

}  // namespace

TEST_CASE("passes and their phases are convolutions and their transposes along each axis", "[gpu][plans]") {
  for (const core::WindowAxis& a : all_axes()) {
    const Triples expected = plain_triples(a);
    INFO("in " << a.in << ", kernel " << a.kernel << ", stride " << a.stride << ", dilation " << a.dilation
               << ", before " << a.before << ", after " << a.after);
    REQUIRE((passed_triples(a, false) == expected));
    REQUIRE((passed_triples(a, true) == expected));
  }
}

TEST_CASE("results of a pass are numbered once, and tiles are told apart", "[gpu][plans]") {
  PaperRandom random(31);
  for (int trial = 0; trial < 400; ++trial) {
    const Convolution c = random_convolution(random);
    for (const bool transposed : {false, true}) {
      const ConvolvePass<std::int32_t> pass(c, transposed);
      std::set<std::array<std::int32_t, 4>> places;
      std::set<std::array<std::int64_t, 2>> written;
      for (std::int32_t number = 0; number < pass.places; ++number) {
        const ConvolvePlace<std::int32_t> p = pass.place(number);
        REQUIRE(p.image < c.batch);
        REQUIRE(places.insert({p.image, p.d, p.h, p.w}).second);
        for (std::int32_t d = 0; d < pass.axis[0].phases; ++d)
          for (std::int32_t h = 0; h < pass.axis[1].phases; ++h)
            for (std::int32_t w = 0; w < pass.axis[2].phases; ++w) {
              const std::int32_t phase[3] = {d, h, w};
              const std::int64_t offset = pass.offset(p, phase);
              if (offset >= 0) REQUIRE(written.insert({p.image, offset}).second);
            }
      }
      const std::int64_t plane = transposed ? c.in_plane() : c.out_plane();
      REQUIRE(static_cast<std::int64_t>(written.size()) == c.batch * plane);

      const auto rows = static_cast<std::int32_t>(pass.row_tiles(2)),
                 columns = static_cast<std::int32_t>(pass.column_tiles(8));
      REQUIRE(rows * 2 >= pass.to);
      REQUIRE(columns * 8 >= pass.places);
      std::set<std::array<std::int32_t, 6>> tiles;
      for (std::int32_t tile = 0; tile < pass.tiles(2, 8); ++tile) {
        const ConvolveSpot<std::int32_t> s = pass.spot(tile, rows, columns);
        REQUIRE((s.row < rows && s.group < pass.groups && s.column < columns));
        for (int i = 0; i < 3; ++i) REQUIRE(s.phase[i] < pass.axis[i].phases);
        REQUIRE(tiles.insert({s.phase[0], s.phase[1], s.phase[2], s.group, s.row, s.column}).second);
      }
    }
  }
}

TEST_CASE("sums for weights have a term for each place of the results, and a column for each tap", "[gpu][plans]") {
  PaperRandom random(32);
  for (int trial = 0; trial < 300; ++trial) {
    const Convolution c = random_convolution(random);
    const ConvolveWeights<std::int32_t> w(c);
    std::int32_t number = 0;
    each_place({c.batch, c.axis[0].out, c.axis[1].out, c.axis[2].out}, [&](const std::int64_t* at) {
      const ConvolveTerm<std::int32_t> t = w.term(number++);
      const std::int32_t first[3] = {t.d, t.h, t.w};
      REQUIRE(t.image == at[0]);
      REQUIRE(t.place == (at[1] * c.axis[1].out + at[2]) * c.axis[2].out + at[3]);
      for (int i = 0; i < 3; ++i) REQUIRE(first[i] == at[1 + i] * c.axis[i].stride - c.axis[i].before);
    });
    REQUIRE(number == w.terms);
    number = 0;
    each_place({c.in, c.axis[0].kernel, c.axis[1].kernel, c.axis[2].kernel}, [&](const std::int64_t* at) {
      const ConvolveColumn<std::int32_t> column = w.column(number++);
      const std::int32_t added[3] = {column.d, column.h, column.w};
      REQUIRE(column.channel == at[0]);
      for (int i = 0; i < 3; ++i) REQUIRE(added[i] == at[1 + i] * c.axis[i].dilation);
    });
    REQUIRE(number == w.columns);
  }
}

TEST_CASE("parts of long sums are whole slices, and have all terms within the memory that they may take",
          "[gpu][plans]") {
  for (const std::int64_t terms : {1, 15, 16, 17, 500, 513, 1024, 5000, 100000, 1 << 24})
    for (const std::int64_t blocks : {1, 10, 263, 264, 5000})
      for (const std::int64_t sums : {1, 100, 1 << 20, 1 << 26, 1 << 28})
        for (const std::int64_t slice : {8, 16, 32}) {
          const std::int64_t each = terms_of_part(terms, blocks, sums, slice), parts = (terms + each - 1) / each;
          REQUIRE(each >= slice);
          REQUIRE(each % slice == 0);
          REQUIRE((parts == 1 || parts * sums <= std::int64_t{1} << 26));
        }
  CHECK(terms_of_part(1 << 20, 1, 100, 16) <= 1024 + 16);  // no float32 sum becomes long
}

TEST_CASE("what is a product of matrices is known, and nothing else is taken for one", "[gpu][plans]") {
  CHECK(reads_whole(plain_convolution(3, 1, 4, 5, 7, 7)));
  CHECK_FALSE(reads_whole(plain_convolution(3, 1, 4, 5, 7, 7, 1, 1)));
  CHECK_FALSE(reads_whole(plain_convolution(3, 2, 4, 5, 7, 7)));
  CHECK(reads_points(plain_convolution(3, 1, 4, 5, 7, 1)));
  CHECK_FALSE(reads_points(plain_convolution(3, 1, 4, 5, 7, 1, 2)));
  CHECK_FALSE(reads_points(plain_convolution(3, 1, 4, 5, 7, 1, 1, 1)));
  for (const core::WindowAxis& a : all_axes()) {
    core::Window window;
    window.axes = 1;
    window.axis[0] = a;
    const Convolution c(DType::float32, 2, 1, 3, 4, window);
    const Triples triples = plain_triples(a);
    Triples whole, points;
    for (std::int64_t i = 0; i < a.in; ++i) whole.push_back({i, 0, i}), points.push_back({i, i, 0});
    if (reads_whole(c)) REQUIRE((triples == whole && a.kernel == a.in && a.out == 1));
    if (reads_points(c)) REQUIRE((triples == points && a.kernel == 1 && a.out == a.in));
  }
}

TEST_CASE("convolutions go the way that suits them", "[gpu][plans]") {
  const auto route = [](const Convolution& c, ConvolveTarget target = ConvolveTarget::result, bool library = false) {
    return choose_route(c, target, library);
  };
  CHECK(route(plain_convolution(8, 1, 64, 64, 14, 3)) == ConvolveRoute::tiles);
  CHECK(route(plain_convolution(8, 1, 64, 64, 14, 3), ConvolveTarget::result, true) == ConvolveRoute::library);
  CHECK(route(plain_convolution(8, 32, 1, 1, 14, 3)) == ConvolveRoute::depthwise);
  CHECK(route(plain_convolution(8, 1, 64, 64, 14, 14)) == ConvolveRoute::whole);
  CHECK(route(plain_convolution(8, 1, 64, 64, 14, 1)) == ConvolveRoute::pointwise);
  CHECK(route(plain_convolution(8, 1, 64, 64, 14, 1), ConvolveTarget::weight) == ConvolveRoute::tiles);
  // few sums of very many terms keep their digits in our own kernel
  CHECK(route(plain_convolution(64, 1, 1, 8, 64, 3), ConvolveTarget::weight, true) == ConvolveRoute::tiles);
}

TEST_CASE("cuDNN is asked only for what it can do", "[gpu][plans]") {
  for (const core::WindowAxis& a : all_axes()) {
    core::Window window;
    window.axes = 1;
    window.axis[0] = a;
    if (!library_can(Convolution(DType::float32, 2, 1, 3, 4, window))) continue;
    core::WindowAxis even = a;
    even.after = a.before;  // it has one number for both sides
    REQUIRE(finish(even));
    REQUIRE(even.out == a.out);
  }
  CHECK(library_can(plain_convolution(2, 1, 3, 4, 8, 3, 2, 1)));
  CHECK_FALSE(library_can(plain_convolution(0, 1, 3, 4, 8, 3)));
}

TEST_CASE("images are taken in parts that 32 bits reach", "[gpu][plans]") {
  CHECK(fits_32_bits(plain_convolution(128, 1, 64, 64, 56, 3)));
  CHECK_FALSE(fits_32_bits(plain_convolution(1, 1, 1, 1, std::int64_t{1} << 29, 3)));
  CHECK_FALSE(fits_32_bits(plain_convolution(1 << 20, 1, 64, 64, 56, 3)));
  for (const std::int64_t size : {1, 56, 1000, 30000}) {
    Convolution c = plain_convolution(1 << 20, 1, 3, 64, size, 1);
    const std::int64_t step = images_at_once(c);
    REQUIRE(step >= 1);
    c.batch = step;
    if (step > 1) REQUIRE(fits_32_bits(c));
  }
}

TEST_CASE("how far a kernel reaches counts borders, and does not overflow", "[gpu][plans]") {
  CHECK(reach_of(plain_convolution(1, 1, 3, 4, 8, 3)) == 27);
  core::Window window;
  window.axes = 3;
  for (core::WindowAxis& a : window.axis) a = {std::int64_t{1} << 40, 1, 3, 1, std::int64_t{1} << 38, 0, 0};
  CHECK(reach_of(Convolution(DType::float32, 1, 1, 8, 1, window)) > 1e34);
}
