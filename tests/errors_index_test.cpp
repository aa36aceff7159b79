// Bad input to indices with tensors, masks and scattering: the right exception, word for word, and nothing changed.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_index_test.cpp";
const std::string undefined = ": the tensor is undefined; give it a value first.";
const std::string integers = "; they must be integers.";
const std::string equal_types = "; the types must be equal. Convert one with x.to(dtype).";
const std::string a_number = ": the tensor is bool; it must be a number type, not bool.";
const std::string trailing = "; trailing sizes must be equal or 1.";

/// Operands of the tables below, the same in each test.
struct Operands {
  Tensor x = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}};
  Tensor flags = {{true, false, true}, {false, false, true}};
  Tensor two = {0, 1};
  Tensor none;

  ~Operands() {  // nothing may have changed them
    CHECK(same(x, {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}}));
    CHECK(x.version() == 0);
    CHECK(same(flags, {{true, false, true}, {false, false, true}}));
    CHECK(same(two, {0, 1}));
  }
};

}  // namespace

TEST_CASE("indices with tensors name what does not fit", "[errors][index]") {
  Operands o;
  check_errors({
      {__LINE__, message_of<IndexError>, [&] { o.x.index({Tensor{0, 2}}); },
       "index: index 2 at [1] is out of range for axis 0 of shape [2, 3]; it must be in [-2, 2)."},
      {__LINE__, message_of<IndexError>, [&] { o.x.index({all, Tensor{{0, 1}, {-4, 0}}}); },
       "index: index -4 at [1, 0] is out of range for axis 1 of shape [2, 3]; it must be in [-3, 3)."},
      {__LINE__, message_of<IndexError>, [&] { o.x.index({Tensor{0, 1}, Tensor{0, 3}}); },
       "index: index 3 at [1] is out of range for axis 1 of shape [2, 3]; it must be in [-3, 3)."},
      {__LINE__, message_of<IndexError>, [&] { o.x.index({o.two, 3}); },
       "index: index 3 is out of range for axis 1 of shape [2, 3]; it must be in [-3, 3)."},
      {__LINE__, message_of<IndexError>, [&] { zeros({3, 0}).index({Tensor{5}}); },
       "index: index 5 at [0] is out of range for axis 0 of shape [3, 0]; it must be in [-3, 3)."},
      {__LINE__, message_of<IndexError>, [&] { o.x.index({o.flags, 0}); },
       "index: 3 indices were given for shape [2, 3]; it has 2 axes."},
      {__LINE__, message_of<DTypeError>, [&] { o.x.index({o.x}); },
       "index: an index tensor is float32; it must be of integers or bool."},
      {__LINE__, message_of<ShapeError>, [&] { o.x.index({all, Tensor{true, false}}); },
       "index: the mask is [2] and the axes it stands for, from axis 1 of shape [2, 3] on, are [3]; the sizes must be equal."},
      {__LINE__, message_of<ShapeError>, [&] { o.x.index({Tensor{0, 1, 0}, o.two}); },
       "index: shapes do not broadcast: a is [3] and b is [2]; sizes 3 and 2 of axis -1 must be equal or 1."},
      {__LINE__, message_of<ShapeError>, [&] { o.x.index({zeros({1, 1, 1, 1, 1, 1, 1, 1}, {.dtype = DType::int32})}); },
       "index: the result would have more than 8 axes."},
      {__LINE__, message_of<Error>, [&] { o.x.index({all, o.none}); }, "index" + undefined},
      {__LINE__, message_of<IndexError>, [&] { o.x[Tensor{2}]; },
       "operator[]: index 2 at [0] is out of range for axis 0 of shape [2, 3]; it must be in [-2, 2)."},
      {__LINE__, message_of<ShapeError>, [&] { o.x[Tensor{true}]; },
       "operator[]: the mask is [1] and the axes it stands for, from axis 0 of shape [2, 3] on, are [2]; the sizes must be equal."},
      {__LINE__, message_of<IndexError>, [&] { o.x.index_put({Tensor{0, 2}}, 1); },
       "index_put: index 2 at [1] is out of range for axis 0 of shape [2, 3]; it must be in [-2, 2)."},
      {__LINE__, message_of<ShapeError>, [&] { o.x.index_put({o.flags}, Tensor{1.0f, 2.0f}); },
       "index_put: the value of shape [2] does not broadcast to [3]" + trailing},
      {__LINE__, message_of<DTypeError>, [&] { o.x.index_put({o.two}, true); },
       "index_put: the number true does not go with float32; integers go with numeric tensors, floating numbers with "
       "floating ones, true and false with bool."},
      {__LINE__, message_of<DTypeError>, [&] { o.flags.index_put({o.two}, true, {.accumulate = true}); },
       "index_put: the tensor is bool; it must be a number type, not bool, to accumulate."},
      {__LINE__, message_of<ShapeError>, [&] { o.x.index_put({0}, zeros({2, 3}), {.accumulate = true}); },
       "index_put: the value of shape [2, 3] does not broadcast to [3]" + trailing},
      {__LINE__, message_of<ShapeError>, [&] { broadcast_to(o.x, {4, 2, 3}).index_put({o.two}, 1); },
       "index_put: axis 0 of shape [4, 2, 3] is stretched over one element (broadcast_to); write to a copy."},
  }, file);
}

TEST_CASE("taking along axes and by positions refuses what does not fit", "[errors][index]") {
  const Operands o;
  const std::string along = "take_along_axis: the tensor is [2, 3] and the indices are ";
  check_errors({
      {__LINE__, message_of<IndexError>, [&] { take(o.x, Tensor{6}); },
       "take: index 6 at [0] is out of range for axis 0 of shape [6]; it must be in [-6, 6)."},
      {__LINE__, message_of<IndexError>, [&] { take(o.x, o.two, 2); },
       "take: axis 2 is out of range for rank 2; it must be in [-2, 2)."},
      {__LINE__, message_of<DTypeError>, [&] { take(o.x, o.flags); }, "take: the indices are bool" + integers},
      {__LINE__, message_of<ShapeError>, [&] { take_along_axis(o.x, o.two); },
       along + "[2]; they must have as many axes, and sizes that are equal or 1 but for axis 1."},
      {__LINE__, message_of<ShapeError>, [&] { take_along_axis(o.x, zeros({2, 2}, {.dtype = DType::int32}), 0); },
       along + "[2, 2]; they must have as many axes, and sizes that are equal or 1 but for axis 0."},
      {__LINE__, message_of<IndexError>, [&] { take_along_axis(o.x, Tensor{{0}, {-4}}); },
       "take_along_axis: index -4 at [1, 0] is out of range for axis 1 of shape [2, 3]; it must be in [-3, 3)."},
      {__LINE__, message_of<DTypeError>, [&] { take_along_axis(o.x, o.x); },
       "take_along_axis: the indices are float32" + integers},
      {__LINE__, message_of<IndexError>, [&] { take_along_axis(Tensor(1.0f), Tensor(0)); },
       "take_along_axis: axis -1 is out of range for rank 0; it must be in [0, 0)."},
      {__LINE__, message_of<IndexError>, [&] { gather_nd(o.x, Tensor{{0, 0}, {1, 3}}); },
       "gather_nd: index 3 at [1] is out of range for axis 1 of shape [2, 3]; it must be in [-3, 3)."},
      {__LINE__, message_of<ShapeError>, [&] { gather_nd(o.x, zeros({2, 3}, {.dtype = DType::int32})); },
       "gather_nd: the indices are [2, 3], 3 positions for each place, and the shape is [2, 3]; there must be at most 2."},
      {__LINE__, message_of<ShapeError>, [&] { gather_nd(o.x, Tensor(1)); },
       "gather_nd: the indices have shape []; their last axis must hold the positions."},
      {__LINE__, message_of<Error>, [&] { gather_nd(o.none, o.two); }, "gather_nd" + undefined},
      {__LINE__, message_of<ShapeError>, [&] { gather(zeros({1, 1, 1, 1, 1}), zeros({1, 1, 1, 1, 1}, {.dtype = DType::int32})); },
       "gather: the result would have more than 8 axes."},
  }, file);
}

TEST_CASE("masks refuse other types and shapes", "[errors][index]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<DTypeError>, [&] { masked_select(o.x, o.two); },
       "masked_select: the mask is int32; it must be bool."},
      {__LINE__, message_of<ShapeError>, [&] { masked_select(o.x, Tensor{true, false}); },
       "masked_select: shapes do not broadcast: a is [2, 3] and b is [2]; sizes 3 and 2 of axis -1 must be equal or 1."},
      {__LINE__, message_of<ShapeError>, [&] { masked_fill(o.x[0], o.flags, 0); },
       "masked_fill: the mask is [2, 3] and the tensor [3]; the mask must broadcast to the tensor's shape."},
      {__LINE__, message_of<DTypeError>, [&] { masked_fill(o.x, o.flags, Tensor(1.0)); },
       "masked_fill: the tensor is float32 and the value float64" + equal_types},
      {__LINE__, message_of<ShapeError>, [&] { masked_fill(o.x, o.flags, zeros({2})); },
       "masked_fill: the value of shape [2] does not broadcast to [2, 3]" + trailing},
      {__LINE__, message_of<DTypeError>, [&] { masked_fill(o.x, o.flags, true); },
       "masked_fill: the number true does not go with float32; integers go with numeric tensors, floating numbers with "
       "floating ones, true and false with bool."},
      {__LINE__, message_of<ShapeError>, [&] { nonzero(Tensor(1)); },
       "nonzero: the tensor has shape []; it needs an axis for its indices."},
      {__LINE__, message_of<Error>, [&] { argwhere(o.none); }, "argwhere" + undefined},
      {__LINE__, message_of<IndexError>, [&] { count_nonzero(o.x, 2); },
       "count_nonzero: axis 2 is out of range for rank 2; it must be in [-2, 2)."},
  }, file);
}

TEST_CASE("scattering refuses what does not fit", "[errors][index]") {
  const Operands o;
  const Tensor column = {{0}, {1}}, ones_column = ones({2, 1});
  const std::string sizes = "; all must have as many axes, and no size of the indices may exceed the updates', nor the tensor's but for axis 1.";
  check_errors({
      {__LINE__, message_of<IndexError>, [&] { scatter(o.x, Tensor{{0}, {3}}, ones_column); },
       "scatter: index 3 at [1, 0] is out of range for axis 1 of shape [2, 3]; it must be in [-3, 3)."},
      {__LINE__, message_of<ShapeError>, [&] { scatter(o.x, o.two, ones({2})); },
       "scatter: the tensor is [2, 3], the indices are [2] and the updates [2]" + sizes},
      {__LINE__, message_of<ShapeError>, [&] { scatter_add(o.x, column, ones({1, 1})); },
       "scatter_add: the tensor is [2, 3], the indices are [2, 1] and the updates [1, 1]" + sizes},
      {__LINE__, message_of<ShapeError>, [&] { scatter_max(o.x, zeros({3, 1}, {.dtype = DType::int32}), ones({3, 1})); },
       "scatter_max: the tensor is [2, 3], the indices are [3, 1] and the updates [3, 1]" + sizes},
      {__LINE__, message_of<DTypeError>, [&] { scatter_min(o.x, column, ones_column.to(DType::float64)); },
       "scatter_min: the tensor is float32 and the updates float64" + equal_types},
      {__LINE__, message_of<DTypeError>, [&] { scatter(o.x, ones_column, ones_column); },
       "scatter: the indices are float32" + integers},
      {__LINE__, message_of<DTypeError>, [&] { scatter_add(o.flags, column, o.flags); }, "scatter_add" + a_number},
      {__LINE__, message_of<IndexError>, [&] { scatter(o.x, column, ones_column, -3); },
       "scatter: axis -3 is out of range for rank 2; it must be in [-2, 2)."},
      {__LINE__, message_of<Error>, [&] { scatter(o.x, column, o.none); }, "scatter" + undefined},
      {__LINE__, message_of<ShapeError>, [&] { index_set(o.x, {o.two}, zeros({2})); },
       "index_set: the value of shape [2] does not broadcast to [2, 3]" + trailing},
      {__LINE__, message_of<DTypeError>, [&] { index_set(o.x, {o.two}, o.two); },
       "index_set: the tensor is float32 and the value int32" + equal_types},
      {__LINE__, message_of<DTypeError>, [&] { index_add(o.flags, {o.two}, o.flags); }, "index_add" + a_number},
      {__LINE__, message_of<IndexError>, [&] { index_add(o.x, {all, Tensor{7}}, 1); },
       "index_add: index 7 at [0] is out of range for axis 1 of shape [2, 3]; it must be in [-3, 3)."},
      {__LINE__, message_of<ShapeError>, [&] { scatter_nd(column, ones({2}), {2, 3}); },
       "scatter_nd: the updates are [2]; they must be [2, 3], the indices' shape without its last axis and the sizes that are left."},
      {__LINE__, message_of<IndexError>, [&] { scatter_nd_update(o.x, Tensor{{2}}, ones({1, 3})); },
       "scatter_nd_update: index 2 at [0] is out of range for axis 0 of shape [2, 3]; it must be in [-2, 2)."},
      {__LINE__, message_of<DTypeError>, [&] { scatter_nd_add(o.x, column, zeros({2, 3}, {.dtype = DType::int32})); },
       "scatter_nd_add: the tensor is float32 and the updates int32" + equal_types},
  }, file);
}

TEST_CASE("an index out of range is found wherever it stands", "[errors][index]") {
  const Tensor x = zeros({70, 20}), u = ones({70, 20});
  const auto with = [](std::int64_t count, std::int64_t place, std::int64_t bad) {
    std::vector<std::int64_t> list(static_cast<std::size_t>(count), -3);
    list[static_cast<std::size_t>(place)] = bad;
    return from_vector(list);
  };
  const auto table = [&](std::int64_t bad) { return reshape(with(1400, 33 * 20 + 7, bad), {70, 20}); };
  const std::string in_columns = " at [33, 7] is out of range for axis 1 of shape [70, 20]; it must be in [-20, 20).";
  const std::string in_rows = " at [600] is out of range for axis 0 of shape [70, 20]; it must be in [-70, 70).";
  const std::string lowest = "index -9223372036854775808", highest = "index 9223372036854775807";
  for (const int threads : {1, 3}) {
    const ThreadCount limit(threads);
    check_errors({
        {__LINE__, message_of<IndexError>, [&] { scatter_add(x, table(20), u); }, "scatter_add: index 20" + in_columns},
        {__LINE__, message_of<IndexError>, [&] { scatter_add(x, table(INT64_MIN), u); }, "scatter_add: " + lowest + in_columns},
        {__LINE__, message_of<IndexError>, [&] { scatter(x, table(INT64_MAX), u); }, "scatter: " + highest + in_columns},
        {__LINE__, message_of<IndexError>, [&] { scatter_max(x, table(-21), u); }, "scatter_max: index -21" + in_columns},
        {__LINE__, message_of<IndexError>, [&] { take_along_axis(x, table(-21)); }, "take_along_axis: index -21" + in_columns},
        {__LINE__, message_of<IndexError>, [&] { take_along_axis(x, table(INT64_MAX)); },
         "take_along_axis: " + highest + in_columns},
        {__LINE__, message_of<IndexError>, [&] { gather(x, with(1000, 600, 70)); }, "gather: index 70" + in_rows},
        {__LINE__, message_of<IndexError>, [&] { gather(x, with(1000, 600, INT64_MIN)); }, "gather: " + lowest + in_rows},
        {__LINE__, message_of<IndexError>, [&] { x.index({with(1000, 600, INT64_MAX)}); }, "index: " + highest + in_rows},
    }, file);
  }
  CHECK(same(x, zeros({70, 20})));
}

TEST_CASE("segments refuse ids that do not fit", "[errors][index]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<IndexError>, [&] { segment_sum(o.x, Tensor{0, 2}, 2); },
       "segment_sum: segment id 2 at [1] is out of range for a count of 2; it must be below 2."},
      {__LINE__, message_of<ShapeError>, [&] { segment_max(o.x, Tensor{0, 1, 1}, 2); },
       "segment_max: the data are [2, 3] and the segment ids [3]; the ids must have the data's leading sizes."},
      {__LINE__, message_of<ShapeError>, [&] { segment_sum(o.x, o.two, -1); },
       "segment_sum: the count is -1; it must be >= 0."},
      {__LINE__, message_of<DTypeError>, [&] { segment_min(o.flags, o.two, 2); }, "segment_min" + a_number},
      {__LINE__, message_of<DTypeError>, [&] { segment_mean(o.two, o.two, 2); },
       "segment_mean: the tensor is int32; it must be a floating type."},
      {__LINE__, message_of<DTypeError>, [&] { segment_sum(o.x, o.x, 2); },
       "segment_sum: the indices are float32" + integers},
  }, file);
}
