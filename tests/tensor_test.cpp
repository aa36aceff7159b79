// Tensors: how they are made, what they say of themselves, handles and copies, single and all values, changes in place.
#include "tests/support.hpp"

#include <array>
#include <type_traits>
#include <utility>

using namespace capstan;
using namespace tests;

static_assert(std::is_nothrow_move_constructible_v<Tensor> && std::is_nothrow_move_assignable_v<Tensor>);
static_assert(std::is_nothrow_copy_constructible_v<Tensor> && std::is_nothrow_default_constructible_v<Tensor>);
static_assert(!std::is_convertible_v<Tensor, bool> && !std::is_convertible_v<float, Tensor>);
static_assert(sizeof(Tensor) == sizeof(void*));

// --- making ----------------------------------------------------------------------------------------------------

TEST_CASE("braces make a tensor row by row", "[tensor][host]") {
  const Tensor x = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}};
  CHECK(x.shape() == Shape{2, 3});
  CHECK(x.rank() == 2);
  CHECK(x.numel() == 6);
  CHECK(x.dtype() == DType::float32);
  CHECK(x.device() == cpu());
  CHECK(x.is_contiguous());
  CHECK(x.to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
  const Tensor deep = {{{1}, {2}}, {{3}, {4}}};
  CHECK(deep.shape() == Shape{2, 2, 1});
  CHECK(Tensor{5}.shape() == Shape{1});
  CHECK((Tensor{{}, {}}.shape() == Shape{2, 0}));
}

TEST_CASE("a number in parentheses makes a tensor without axes", "[tensor]") {
  const Tensor x(2.5);
  CHECK(x.shape() == Shape{});
  CHECK(x.rank() == 0);
  CHECK(x.numel() == 1);
  CHECK(x.dtype() == DType::float64);
  CHECK(x.item<double>() == 2.5);
  CHECK(x.at<double>() == 2.5);
  CHECK(Tensor(true).item<bool>());
  CHECK(Tensor(7).dtype() == DType::int32);
}

TEST_CASE("zeros, ones, full and their likes fill every type", "[tensor]") {
  for (const DType type : {DType::float32, DType::float64, DType::int32, DType::int64, DType::uint8, DType::bool8}) {
    INFO(name(type));
    const TensorOptions options{.dtype = type};
    CHECK(same(zeros({2, 2}, options), from_doubles({0, 0, 0, 0}, {2, 2}, type)));
    CHECK(same(ones({3}, options), from_doubles({1, 1, 1}, {3}, type)));
    CHECK(same(zeros_like(ones({3}, options)), zeros({3}, options)));
    CHECK(same(ones_like(zeros({0, 2}, options)), ones({0, 2}, options)));
    CHECK(empty({2, 5}, options).shape() == Shape{2, 5});
    CHECK(empty_like(zeros({4}, options)).dtype() == type);
    if (type == DType::bool8) CHECK(same(full({2}, true, options), {true, true}));
    else CHECK(same(full({2}, 7, options), from_doubles({7, 7}, {2}, type)));
  }
  CHECK(same(full({2}, 0.5), {0.5f, 0.5f}));
  CHECK(same(full_like(Tensor{1.0, 2.0}, 3), {3.0, 3.0}));
  CHECK(same(scalar(3, {.dtype = DType::float64}), Tensor(3.0)));
}

TEST_CASE("likes of a strided tensor are contiguous", "[tensor]") {
  const Tensor turned = transpose(Tensor{{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}});
  CHECK(zeros_like(turned).is_contiguous());
  CHECK(zeros_like(turned).shape() == Shape{3, 2});
}

TEST_CASE("long ranges are the same whoever writes them", "[tensor][threads]") {
  constexpr std::int64_t count = 100003;
  for (const int threads : {1, 3}) {
    const ThreadCount for_now(threads);
    const std::vector<double> steps = values(linspace(-1, 1, count, {.dtype = DType::float64}));
    const std::vector<double> whole = values(arange(7, 7 + 3 * count, 3));
    const std::vector<double> halves = values(arange(0.0, 0.5 * count, 0.5));
    REQUIRE((steps.size() == count && whole.size() == count && halves.size() == count));
    bool right = steps[count - 1] == 1;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      right = right && (i == count - 1 || steps[at] == -1 + static_cast<double>(i) * (2.0 / (count - 1))) &&
              whole[at] == static_cast<double>(7 + 3 * i) && halves[at] == 0.5 * static_cast<double>(i);
    }
    CHECK(right);
  }
}

TEST_CASE("arange and linspace give the published values", "[tensor]") {
  CHECK(same(linspace(10, 12, 3), {10.0f, 11.0f, 12.0f}));
  CHECK(same(arange(3, 18, 3), from_vector(std::vector<std::int64_t>{3, 6, 9, 12, 15})));
  CHECK(same(arange(4), from_vector(std::vector<std::int64_t>{0, 1, 2, 3})));
  CHECK(same(arange(5, 0, -2), from_vector(std::vector<std::int64_t>{5, 3, 1})));
  CHECK(arange(3, 3).numel() == 0);
  for (const std::int64_t step : {-1, -2, 3}) CHECK(same(arange(3, 3, step), zeros({0}, {.dtype = DType::int64})));
  CHECK(arange(0, 0, INT64_MIN).numel() == 0);
  CHECK(arange(3, 0).numel() == 0);
  CHECK(arange(0).dtype() == DType::int64);
  CHECK(same(arange(0.0, 1.0, 0.25), {0.0f, 0.25f, 0.5f, 0.75f}));
  CHECK(same(arange(1, 2, 0.5), {1.0f, 1.5f}));
  CHECK(linspace(0, 1, 0).numel() == 0);
  CHECK(same(linspace(5, 9, 1), {5.0f}));
  const Tensor tenths = linspace(0, 1, 11, {.dtype = DType::float64});
  CHECK(tenths.at<double>(10) == 1.0);                                         // the end is met exactly
  CHECK(linspace(0, 1, 50, {.dtype = DType::float64}).at<double>(49) == 1.0);  // which 49 * (1.0 / 49) is not
  CHECK(close(tenths, {0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0}, tolerance::roundings64));
}

TEST_CASE("eye has ones on its diagonal", "[tensor]") {
  CHECK(same(eye(2), {{1.0f, 0.0f}, {0.0f, 1.0f}}));
  CHECK(same(eye(2, 3, {.dtype = DType::int32}), {{1, 0, 0}, {0, 1, 0}}));
  CHECK(same(eye(3, 2), {{1.0f, 0.0f}, {0.0f, 1.0f}, {0.0f, 0.0f}}));
  CHECK(eye(0).shape() == Shape{0, 0});
}

TEST_CASE("from_span and from_vector copy", "[tensor]") {
  std::vector<float> numbers = {1, 2, 3, 4};
  const Tensor matrix = from_vector(numbers, {2, 2}), row = from_vector(numbers);
  const bool flags[] = {true, false};
  const Tensor bools = from_span<bool>(flags, {2});
  numbers[0] = 9;
  CHECK(same(matrix, {{1.0f, 2.0f}, {3.0f, 4.0f}}));
  CHECK(row.shape() == Shape{4});
  CHECK(same(bools, {true, false}));
}

TEST_CASE("from_memory shares, and releases when the last view is gone", "[tensor]") {
  float memory_of_another[] = {1, 2, 3, 4};
  int released = 0;
  {
    Tensor row;
    {
      Tensor x = from_memory(
          memory_of_another, {2, 2}, [](void* count) { ++*static_cast<int*>(count); }, &released);
      x.set(9.0f, 0, 0);
      row = x[1];
    }
    CHECK(released == 0);
    memory_of_another[2] = 7;
    CHECK(same(row, {7.0f, 4.0f}));
  }
  CHECK(released == 1);
  CHECK(memory_of_another[0] == 9);
}

TEST_CASE("from_memory takes no pointer where there are no elements, and releases all the same", "[tensor]") {
  int released = 0;
  {
    Tensor view;
    {
      const Tensor x = from_memory<float>(
          nullptr, {0}, [](void* count) { ++*static_cast<int*>(count); }, &released);
      CHECK(x.is_contiguous());
      CHECK(x.to_vector<float>().empty());
      CHECK(number(sum(x)) == 0);
      CHECK((x * 2).shape() == Shape{0});
      CHECK(x.copy().shape() == Shape{0});
      view = x.index({range(0, 0)});
    }
    CHECK(released == 0);
    CHECK(view.shape() == Shape{0});
  }
  CHECK(released == 1);
}

// --- asking ----------------------------------------------------------------------------------------------------

TEST_CASE("sizes and strides are counted in elements, negative axes from the end", "[tensor]") {
  const Tensor x = zeros({2, 3, 4});
  CHECK(x.size(0) == 2);
  CHECK(x.size(-1) == 4);
  CHECK(x.stride(0) == 12);
  CHECK(x.stride(1) == 4);
  CHECK(x.stride(-1) == 1);
  const Tensor turned = transpose(x);
  CHECK(turned.shape() == Shape{4, 3, 2});
  CHECK(turned.stride(0) == 1);
  CHECK(turned.stride(2) == 12);
  CHECK_FALSE(turned.is_contiguous());
}

TEST_CASE("what has at most one element is contiguous, however it came about", "[tensor]") {
  CHECK(transpose(zeros({1, 5})).is_contiguous());
  CHECK(transpose(zeros({0, 5})).is_contiguous());
  CHECK(zeros({4, 4}).index({range(0, 1), range(0, 4)}).is_contiguous());
  CHECK_FALSE(zeros({4, 4}).index({all, range(0, 2)}).is_contiguous());
}

TEST_CASE("shapes compare by all their sizes, and print as a list", "[tensor]") {
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK_FALSE((Shape{2, 3} == Shape{3, 2}));
  CHECK_FALSE((Shape{2} == Shape{2, 1}));
  CHECK_FALSE((Shape{0, 2} == Shape{0, 3}));
  CHECK(to_string(Shape{64, 128}) == "[64, 128]");
  CHECK(to_string(Shape{}) == "[]");
  CHECK(Shape{}.numel() == 1);
  CHECK(Shape{2, 0, 3}.numel() == 0);
  CHECK(Shape{4, 5}.size(-1) == 5);
}

// --- handles ---------------------------------------------------------------------------------------------------

TEST_CASE("shapes count negative axes from the end", "[tensor]") {
  const Shape shape = {2, 3, 4};
  CHECK(shape[-1] == 4);
  CHECK(shape[-3] == 2);
  CHECK(ones({5, 7}).shape()[-2] == 5);
}

TEST_CASE("shapes are made of whatever lists int64, if that is said", "[tensor]") {
  std::vector<std::int64_t> vector = {2, 3};
  const std::array<std::int64_t, 2> array = {2, 3};
  std::int64_t plain[] = {2, 3};
  const Shape shape = {2, 3}, empty(std::vector<std::int64_t>{});
  for (const Shape& made : {Shape(vector), Shape(std::as_const(vector)), Shape(std::vector<std::int64_t>{2, 3}),
                            Shape(array), Shape(plain), Shape(std::span<std::int64_t>(vector)),
                            Shape(std::span<const std::int64_t>(vector)), Shape(std::span(plain)), Shape(shape)})
    CHECK(made == shape);
  CHECK(empty.rank() == 0);
  const std::initializer_list<std::int64_t> list = {2, 3};
  CHECK(Shape(list) == shape);
  CHECK_FALSE(std::is_convertible_v<std::vector<std::int64_t>, Shape>);
  CHECK_FALSE(std::is_constructible_v<Shape, std::vector<int>>);
  CHECK_FALSE(std::is_constructible_v<Shape, int>);
  CHECK(std::is_trivially_copyable_v<Shape>);
}

TEST_CASE("copying a tensor copies the handle, copy() the elements", "[tensor]") {
  Tensor a = {1.0f, 2.0f};
  Tensor b = a;
  Tensor c = a.copy();
  a.set(9.0f, 0);
  CHECK(b.at<float>(0) == 9);
  CHECK(c.at<float>(0) == 1);
  CHECK(b.is_same(a));
  CHECK(b.shares_storage(a));
  CHECK_FALSE(c.is_same(a));
  CHECK_FALSE(c.shares_storage(a));
}

// x[0] = y would change nothing
static_assert(!std::is_assignable_v<Tensor, const Tensor&> && !std::is_assignable_v<Tensor, Tensor>);
static_assert(std::is_nothrow_copy_assignable_v<Tensor> && std::is_nothrow_move_assignable_v<Tensor>);

TEST_CASE("both integers of 64 bits are element types", "[tensor][host]") {
  const Tensor x = from_vector(std::vector<long long>{1, -2});
  CHECK(x.dtype() == DType::int64);
  CHECK(same(x, from_vector(std::vector<long>{1, -2})));
  CHECK(x.to_vector<long long>() == std::vector<long long>{1, -2});
  CHECK(x[1].item<long long>() == -2);
  CHECK(x.span<long long>()[1] == -2);
  CHECK(*x.data<long>() == 1);
}

TEST_CASE("a vector that cannot be had is an error of the operation", "[tensor][host]") {
  const Tensor x = broadcast_to(Tensor(1.0f), {std::int64_t{1} << 61});
  const Message message = split_message(message_of<OutOfMemoryError>([&] { x.to_vector<float>(); }));
  CHECK(message.text == "to_vector: 2305843009213693952 values of float32 take more memory than there is.");
  CHECK(message.file == "tensor_test.cpp");
}

TEST_CASE("a moved-from tensor is undefined", "[tensor]") {
  Tensor a = {1.0f};
  const Tensor b = std::move(a);
  CHECK_FALSE(a.defined());  // NOLINT: that is the promise
  CHECK(b.defined());
  Tensor c;
  CHECK_FALSE(c.defined());
  c = b;
  CHECK(c.is_same(b));
  const Tensor& alias = c;
  c = alias;  // assigning to itself
  CHECK(c.at<float>(0) == 1);
  CHECK_FALSE(Tensor().is_same(c));
  CHECK(Tensor().is_same(Tensor()));
  CHECK_FALSE(Tensor().shares_storage(Tensor()));
}

TEST_CASE("contiguous and to give the tensor itself where nothing is to do", "[tensor][host]") {
  const Tensor x = {{1.0f, 2.0f}, {3.0f, 4.0f}}, turned = transpose(x);
  CHECK(x.contiguous().is_same(x));
  CHECK(x.to(DType::float32).is_same(x));
  CHECK(x.to(cpu()).is_same(x));
  CHECK_FALSE(turned.contiguous().shares_storage(x));
  CHECK(same(turned.contiguous(), {{1.0f, 3.0f}, {2.0f, 4.0f}}));
  CHECK(turned.copy().is_contiguous());
  CHECK(same(x.to(DType::int32), {{1, 2}, {3, 4}}));
}

// --- values ----------------------------------------------------------------------------------------------------

TEST_CASE("single values are read and written, negative indices count from the end", "[tensor]") {
  Tensor x = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}};
  CHECK(x.at<float>(0, 1) == 2);
  CHECK(x.at<float>(-1, -1) == 6);
  CHECK(transpose(x).at<float>(2, 0) == 3);
  x.set(7.0f, -1, 0);
  CHECK(same(x, {{1.0f, 2.0f, 3.0f}, {7.0f, 5.0f, 6.0f}}));
  Tensor flags = {true, false};
  flags.set(true, 1);
  CHECK(flags.at<bool>(1));
  CHECK(x[1].index({2}).item<float>() == 6);
}

TEST_CASE("to_vector reads strided tensors of every type in row-major order", "[tensor]") {
  const Tensor x = {{1, 0, 3}, {0, 5, 6}};
  CHECK(transpose(x).to_vector<std::int32_t>() == std::vector<std::int32_t>{1, 0, 0, 5, 3, 6});
  CHECK(transpose(x.to(DType::uint8)).to_vector<std::uint8_t>() == std::vector<std::uint8_t>{1, 0, 0, 5, 3, 6});
  CHECK(transpose(x.to(DType::float64)).to_vector<double>() == std::vector<double>{1, 0, 0, 5, 3, 6});
  CHECK(transpose(x.to(DType::bool8)).to_vector<bool>() == std::vector<bool>{true, false, false, true, true, true});
  CHECK(zeros({0, 3}).to_vector<float>().empty());
  CHECK(Tensor(4).to_vector<int>() == std::vector<int>{4});
}

TEST_CASE("span and data give the elements without a copy", "[tensor][host]") {
  Tensor x = {{1.0f, 2.0f}, {3.0f, 4.0f}};
  CHECK(x.span<float>().size() == 4u);
  CHECK(x.span<float>()[2] == 3);
  x.mutable_span<float>()[2] = 8;
  CHECK(x.at<float>(1, 0) == 8);
  CHECK(x.data<float>() == x.span<float>().data());
  const Tensor turned = transpose(x);
  CHECK(turned.data<float>()[turned.stride(0)] == 2);  // strides apply
  *x[1].mutable_data<float>() = 5;
  CHECK(x.at<float>(1, 0) == 5);
}

// --- in place --------------------------------------------------------------------------------------------------

TEST_CASE("writing is counted, once a write, and views share the count", "[tensor][host]") {
  Tensor x = zeros({2, 2});
  Tensor row = x[0];
  const std::uint32_t start = x.version();
  x.fill(1);
  CHECK(x.version() == start + 1);
  CHECK(row.version() == start + 1);
  row.fill(2);
  x.set(3.0f, 1, 1);
  x.assign(ones({2, 2}));
  x += 1;
  x.index_put({0, all}, 5);
  x.mutable_span<float>();
  CHECK(x.version() == start + 7);
  const Tensor y = x + 1;
  CHECK(x.span<float>().size() == 4u);
  CHECK(x.version() == start + 7);  // reading is no write
}

TEST_CASE("fill and assign convert and broadcast", "[tensor]") {
  Tensor x = zeros({2, 3});
  x.assign(Tensor{1, 2, 3});
  CHECK(same(x, {{1.0f, 2.0f, 3.0f}, {1.0f, 2.0f, 3.0f}}));
  x.assign(Tensor{{1.5}, {2.5}});
  CHECK(same(x, {{1.5f, 1.5f, 1.5f}, {2.5f, 2.5f, 2.5f}}));
  x.assign(Tensor(4.0));
  CHECK(same(x, full({2, 3}, 4)));
  Tensor turned = transpose(x);
  turned.assign(Tensor{{1, 2}, {3, 4}, {5, 6}});
  CHECK(same(x, {{1.0f, 3.0f, 5.0f}, {2.0f, 4.0f, 6.0f}}));
  Tensor integers = {0, 0};
  integers.assign(Tensor{1.9, -1.9});
  CHECK(same(integers, {1, -1}));
}

TEST_CASE("a number fills tensors and views of any size, by any number of threads", "[tensor][threads]") {
  for (const int threads : {1, 3}) {
    const ThreadCount count(threads);
    for (const DType type : {DType::uint8, DType::float16, DType::float32, DType::int64})
      for (const std::int64_t size : {1, 15, 16, 17, 40000, 200003}) {
        INFO(name(type) << ", " << size);
        const Tensor whole = full({size}, 3, {.dtype = type});
        CHECK(sum(equal(whole, 3)).item<std::int64_t>() == size);
        Tensor table = zeros({size, 3}, {.dtype = type});
        Tensor column = table.index({all, 1});
        column.fill(5);
        CHECK(sum(equal(table, 5)).item<std::int64_t>() == size);
        CHECK(sum(equal(column, 5)).item<std::int64_t>() == size);
      }
  }
}

TEST_CASE("assigning overlapping views works as if through a copy", "[tensor]") {
  Tensor x = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f};
  Tensor tail = x.index({from(1)});
  tail.assign(x.index({range(0, 4)}));
  CHECK(same(x, {1.0f, 1.0f, 2.0f, 3.0f, 4.0f}));
  Tensor head = x.index({range(0, 4)});
  head.assign(x.index({from(1)}));
  CHECK(same(x, {1.0f, 2.0f, 3.0f, 4.0f, 4.0f}));
  x.assign(x.index({from(-1, -1)}));
  CHECK(same(x, {4.0f, 4.0f, 3.0f, 2.0f, 1.0f}));
}

TEST_CASE("assigning between tensors over one piece of memory works as if through a copy", "[tensor]") {
  std::vector<float> numbers;
  for (int i = 0; i < 70 * 70; ++i) numbers.push_back(static_cast<float>(i));
  const Tensor turned = transpose(from_vector(numbers, {70, 70})).copy();
  Tensor owned = from_vector(numbers, {70, 70}).to(cpu());
  Tensor first = from_memory(numbers.data(), {70, 70});
  const Tensor second = from_memory(numbers.data(), {70, 70});
  first.assign(transpose(second));
  CHECK(same(second, turned));
  CHECK(first.version() == 1u);
  CHECK(second.version() == 0u);  // each counts its own writes
  Tensor lent = from_memory(owned.mutable_data<float>(), {70, 70});
  lent.assign(transpose(owned));
  CHECK(same(owned, turned));

  float few[] = {1, 2, 3, 4, 5, 6};
  Tensor tail = from_memory(few + 1, {4});
  tail.assign(from_memory(few, {4}));
  CHECK(same(tail, {1.0f, 2.0f, 3.0f, 4.0f}));
  CHECK(few[5] == 6);
}

TEST_CASE("compound assignment works in place, with tensors and with numbers", "[tensor]") {
  Tensor x = {{1.0f, 2.0f}, {3.0f, 4.0f}};
  const Tensor handle = x;
  x += Tensor{10.0f, 20.0f};
  CHECK(same(handle, {{11.0f, 22.0f}, {13.0f, 24.0f}}));
  x -= 1;
  x *= 2;
  CHECK(same(handle, {{20.0f, 42.0f}, {24.0f, 46.0f}}));
  x /= 2;
  x *= x;
  CHECK(same(handle, {{100.0f, 441.0f}, {144.0f, 529.0f}}));
  Tensor column = x.index({all, 0});
  column -= 100;
  CHECK(same(handle, {{0.0f, 441.0f}, {44.0f, 529.0f}}));
  Tensor integers = {1, 2};
  integers += 5;
  CHECK(same(integers, {6, 7}));
  (x += 1) += 1;
  CHECK(same(handle, {{2.0f, 443.0f}, {46.0f, 531.0f}}));
}

TEST_CASE("a write to a stretched view is refused", "[tensor]") {
  const Tensor x = {1.0f, 2.0f};
  Tensor stretched = broadcast_to(x, {3, 2});
  CHECK_THROWS_AS(stretched.fill(1), Error);
  CHECK_THROWS_AS(stretched += 1, Error);
  CHECK(same(x, {1.0f, 2.0f}));
}
