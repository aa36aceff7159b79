// xtensor and Capstan on the same memory: views share, arrays are taken over, expressions are evaluated.
#include "tests/support.hpp"

#include <capstan/interop/xtensor.hpp>

#if __has_include(<xtensor/core/xmath.hpp>)
#include <xtensor/core/xmath.hpp>
#include <xtensor/views/xview.hpp>
#else
#include <xtensor/xmath.hpp>
#include <xtensor/xview.hpp>
#endif

using namespace capstan;
using namespace tests;

TEST_CASE("a tensor is an xtensor expression without a copy", "[interop][host]") {
  const Tensor x = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}};
  const std::uint32_t version = x.version();
  const auto seen = interop::view<float>(x);
  CHECK(seen.dimension() == 2u);
  CHECK(seen.shape()[0] == 2u);
  CHECK(seen.shape()[1] == 3u);
  CHECK(seen(1, 0) == 4);
  CHECK(&seen(0, 0) == x.data<float>());
  CHECK(xt::sum(seen)() == 21);
  CHECK(x.version() == version);  // looking is no write
}

TEST_CASE("strides of a view carry over", "[interop][host]") {
  const Tensor x = {{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}};
  const Tensor turned = transpose(x), column = x.index({all, 1}), block = x.index({range(0, 2), range(1, 3)});
  const auto seen = interop::view<double>(turned);
  CHECK(seen.shape()[0] == 3u);
  CHECK(seen(2, 1) == 6);
  CHECK(seen(0, 1) == 4);
  const auto seen_column = interop::view<double>(column);
  CHECK(seen_column(0) == 2);
  CHECK(seen_column(1) == 5);
  const auto seen_block = interop::view<double>(block);
  CHECK(seen_block(1, 1) == 6);
  CHECK(xt::sum(seen_block)() == 16);  // 2 + 3 + 5 + 6
  const Tensor stretched = broadcast_to(Tensor{1.0, 2.0}, {3, 2});
  CHECK(xt::sum(interop::view<double>(stretched))() == 9);
}

TEST_CASE("every element type, no axes and no elements can be viewed", "[interop][host]") {
  CHECK(interop::view<std::int32_t>(Tensor{1, 2})(1) == 2);
  CHECK(interop::view<std::int64_t>(arange(3))(2) == 2);
  CHECK(interop::view<double>(Tensor(2.5))() == 2.5);
  CHECK(interop::view<float>(zeros({0, 3})).size() == 0u);
}

TEST_CASE("writing through a mutable view writes into the tensor, and counts", "[interop][host]") {
  Tensor x = zeros({2, 2});
  Tensor turned = transpose(x);
  const std::uint32_t version = x.version();
  {
    auto seen = interop::mutable_view<float>(turned);
    seen(0, 1) = 7;
  }
  CHECK(same(x, {{0.0f, 0.0f}, {7.0f, 0.0f}}));
  CHECK(x.version() == version + 1);
  auto whole = interop::mutable_view<float>(x);
  whole *= 2.0f;
  whole += 1.0f;
  CHECK(same(x, {{1.0f, 1.0f}, {15.0f, 1.0f}}));
}

TEST_CASE("a tape notices what was written through a mutable view", "[interop][tape][host]") {
  Tensor x = {1.0f, 2.0f};
  GradientTape tape;
  tape.watch(x);
  const Tensor y = square(x);
  interop::mutable_view<float>(x)(0) = 5;
  CHECK_THROWS_AS(tape.gradient(y, x), TapeError);
}

TEST_CASE("an xtensor array is taken over without a copy", "[interop][host]") {
  xt::xarray<double> array = {{1.0, 2.0}, {3.0, 4.0}};
  const double* elements = array.data();
  Tensor row;
  {
    const Tensor x = interop::from_xtensor(std::move(array));
    CHECK(x.data<double>() == elements);
    CHECK(same(x, {{1.0, 2.0}, {3.0, 4.0}}));
    row = x[1];
  }
  CHECK(same(row, {3.0, 4.0}));  // the memory lives as long as a view of it
}

TEST_CASE("any xtensor expression can be evaluated into a tensor", "[interop][host]") {
  const Tensor x = {{1.0, 2.0}, {3.0, 4.0}};
  const auto seen = interop::view<double>(x);
  CHECK(same(interop::copy(seen * 2.0 + 1.0), {{3.0, 5.0}, {7.0, 9.0}}));
  CHECK(same(interop::copy(xt::sum(seen, {1})), {3.0, 7.0}));
  CHECK(same(interop::copy(xt::view(seen, xt::all(), 1)), {2.0, 4.0}));
  const Tensor copied = interop::copy(seen);
  CHECK_FALSE(copied.shares_storage(x));
  CHECK(same(copied, x));
}

TEST_CASE("what xtensor cannot express is refused", "[interop][host]") {
  const Tensor x = {1.0f, 2.0f, 3.0f};
  CHECK_THROWS_AS(interop::view<double>(x), DTypeError);
  const int line = __LINE__ + 1;
  const std::string message = message_of<ShapeError>([&] { (void)interop::view<float>(x.index({from(-1, -1)})); });
  CHECK(message ==
        "interop::view: axis 0 of shape [3] is walked backwards, which xtensor's adaptors cannot do; make a copy with "
        "x.copy(). (interop_test.cpp:" +
            std::to_string(line) + ")");
  CHECK_THROWS_AS(interop::view<float>(Tensor()), Error);
}
