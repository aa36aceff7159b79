// Bad input to sorting, searching, counting and running totals: the right exception, word for word, and nothing leaked.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_order_test.cpp";
const std::string no_axis = ": axis 2 is out of range for rank 2; it must be in [-2, 2).";
const std::string scalar_axis = ": axis -1 is out of range for rank 0; it must be in [0, 0).";
const std::string floating = "; it must be a floating type.";
const std::string a_number = ": the tensor is bool; it must be a number type, not bool.";
const std::string undefined = ": the tensor is undefined; give it a value first.";

/// Operands of the tables below, the same in each test.
struct Operands {
  Tensor x = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}};
  Tensor integers = {{1, 2, 3}, {4, 5, 6}};
  Tensor flags = {{true, false, true}, {false, false, true}};
  Tensor one{2.5f};
  Tensor none;

  ~Operands() {  // nothing may have changed them
    CHECK(same(x, {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}}));
    CHECK(x.version() == 0);
  }
};

}  // namespace

TEST_CASE("sorting and choosing by rank refuse axes and counts that are not there", "[errors]") {
  const Operands o;
  const Tensor single(2.5f);
  check_errors({
      {__LINE__, message_of<IndexError>, [&] { sort(o.x, 2); }, "sort" + no_axis},
      {__LINE__, message_of<IndexError>, [&] { argsort(o.x, 2); }, "argsort" + no_axis},
      {__LINE__, message_of<IndexError>, [&] { sort_with_indices(o.x, 2); }, "sort_with_indices" + no_axis},
      {__LINE__, message_of<IndexError>, [&] { sort(single); }, "sort" + scalar_axis},
      {__LINE__, message_of<IndexError>, [&] { topk(o.x, 1, 2); }, "topk" + no_axis},
      {__LINE__, message_of<IndexError>, [&] { kthvalue(o.x, 1, 2); }, "kthvalue" + no_axis},
      {__LINE__, message_of<Error>, [&] { sort(o.none); }, "sort" + undefined},
      {__LINE__, message_of<Error>, [&] { argsort(o.none); }, "argsort" + undefined},
      {__LINE__, message_of<Error>, [&] { sort_with_indices(o.none); }, "sort_with_indices" + undefined},
      {__LINE__, message_of<Error>, [&] { topk(o.none, 1); }, "topk" + undefined},
      {__LINE__, message_of<Error>, [&] { kthvalue(o.none, 1); }, "kthvalue" + undefined},
      {__LINE__, message_of<ShapeError>, [&] { topk(o.x, 4); },
       "topk: k is 4 for axis -1 of shape [2, 3]; it must be in [0, 3]."},
      {__LINE__, message_of<ShapeError>, [&] { topk(o.x, -1, 0); },
       "topk: k is -1 for axis 0 of shape [2, 3]; it must be in [0, 2]."},
      {__LINE__, message_of<ShapeError>, [&] { kthvalue(o.x, 0); },
       "kthvalue: k is 0 for axis -1 of shape [2, 3]; it must be in [1, 3]."},
      {__LINE__, message_of<ShapeError>, [&] { kthvalue(zeros({0, 3}), 1, 0); },
       "kthvalue: k is 1 for axis 0 of shape [0, 3]; it must be in [1, 0]."},
  }, file);
}

TEST_CASE("medians and quantiles refuse what they are not defined for", "[errors]") {
  const Operands o;
  const std::string nothing = ": shape [0, 3] has no elements to reduce; each reduced axis must have size 1 or more.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { median(o.none); }, "median" + undefined},
      {__LINE__, message_of<Error>, [&] { quantile(o.none, 0.5); }, "quantile" + undefined},
      {__LINE__, message_of<Error>, [&] { quantile(o.x, o.none); }, "quantile" + undefined},
      {__LINE__, message_of<Error>, [&] { quantile(o.none, o.x[0]); }, "quantile" + undefined},
      {__LINE__, message_of<DTypeError>, [&] { median(o.integers); }, "median: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { quantile(o.flags, 0.5); }, "quantile: the tensor is bool" + floating},
      {__LINE__, message_of<DTypeError>, [&] { quantile(o.x, Tensor{0, 1}); }, "quantile: q is int32" + floating},
      {__LINE__, message_of<ShapeError>, [&] { quantile(o.x, zeros({2, 2})); },
       "quantile: q is [2, 2]; it must have at most one axis."},
      {__LINE__, message_of<Error>, [&] { quantile(o.x, 1.5); }, "quantile: q is 1.5; it must be in [0, 1]."},
      {__LINE__, message_of<Error>, [&] { quantile(o.x, {0.5, kNaN}); }, "quantile: q is nan; it must be in [0, 1]."},
      {__LINE__, message_of<IndexError>, [&] { median(o.x, 2); }, "median" + no_axis},
      {__LINE__, message_of<ShapeError>, [&] { quantile(o.x, 0.5, {0, -2}); },
       "quantile: axis -2 is named twice for shape [2, 3]; name each once."},
      {__LINE__, message_of<ShapeError>, [&] { median(zeros({0, 3})); }, "median" + nothing},
      {__LINE__, message_of<ShapeError>, [&] { quantile(zeros({0, 3}), 0.5, 0); }, "quantile" + nothing},
  }, file);
}

TEST_CASE("searching refuses operands that do not go together", "[errors]") {
  const Operands o;
  const std::string rows = "; it must have one axis, or all axes but the last must be equal.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { unique(o.none); }, "unique" + undefined},
      {__LINE__, message_of<Error>, [&] { unique_all(o.none); }, "unique_all" + undefined},
      {__LINE__, message_of<Error>, [&] { searchsorted(o.none, o.x); }, "searchsorted" + undefined},
      {__LINE__, message_of<Error>, [&] { searchsorted(o.x, o.none); }, "searchsorted" + undefined},
      {__LINE__, message_of<Error>, [&] { bucketize(o.x, o.none); }, "bucketize" + undefined},
      {__LINE__, message_of<ShapeError>, [&] { searchsorted(Tensor(1.0f), o.x); },
       "searchsorted: the sorted tensor is []; it must have at least one axis."},
      {__LINE__, message_of<ShapeError>, [&] { searchsorted(o.x, zeros({3, 3})); },
       "searchsorted: the sorted tensor is [2, 3] and the values are [3, 3]" + rows},
      {__LINE__, message_of<ShapeError>, [&] { searchsorted(o.x, o.one); },
       "searchsorted: the sorted tensor is [2, 3] and the values are [1]" + rows},
      {__LINE__, message_of<ShapeError>, [&] { bucketize(o.x, o.x); },
       "bucketize: the boundaries are [2, 3]; they must have one axis."},
      {__LINE__, message_of<DTypeError>, [&] { searchsorted(o.x, o.integers); },
       "searchsorted: types do not mix: the sorted tensor is float32 and the values are int32; "
       "the Array API table has no common type for them. Convert one with x.to(dtype)."},
  }, file);
}

TEST_CASE("counting refuses bins, weights and elements that it cannot use", "[errors]") {
  const Operands o;
  const std::string limits = "; both and their difference must be finite, and low must not exceed high.";
  const Tensor negative = {3, -1, 2};
  check_errors({
      {__LINE__, message_of<Error>, [&] { histogram(o.none); }, "histogram" + undefined},
      {__LINE__, message_of<Error>, [&] { bincount(o.none); }, "bincount" + undefined},
      {__LINE__, message_of<DTypeError>, [&] { histogram(o.flags); }, "histogram" + a_number},
      {__LINE__, message_of<ShapeError>, [&] { histogram(o.x, 0); },
       "histogram: 0 bins were asked for; there must be at least 1."},
      {__LINE__, message_of<Error>, [&] { histogram(o.x, 3, 2, 1); }, "histogram: the limits are 2 and 1" + limits},
      {__LINE__, message_of<Error>, [&] { histogram(o.x, 3, 0, kInfinity); },
       "histogram: the limits are 0 and inf" + limits},
      {__LINE__, message_of<Error>, [&] { histogram(Tensor{1e17}, 3); },  // as in NumPy
       "histogram: 3 bins between 1e+17 and 1e+17 have no width in float64; take fewer, or wider limits."},
      {__LINE__, message_of<Error>, [&] { histogram(o.x, 4, 1, 1.0000001); },
       "histogram: 4 bins between 1 and 1.0000001 have no width in float32; take fewer, or wider limits."},
      {__LINE__, message_of<OutOfMemoryError>, [&] { histogram(o.x, INT64_MAX); },
       "allocate: [9223372036854775807] of int64 would take more than 2^63 bytes."},
      {__LINE__, message_of<Error>, [&] { histogram(Tensor{1.0, kInfinity}, 3); },
       "histogram: the elements reach from 1 to inf; "
       "both and their difference must be finite, or limits must be given."},
      {__LINE__, message_of<DTypeError>, [&] { histogram(o.x, 3, o.integers); },
       "histogram: the weights are int32; they must be of a floating type."},
      {__LINE__, message_of<ShapeError>, [&] { histogram(o.x, 3, 0, 1, o.one); },
       "histogram: the weights are [1] and the tensor [2, 3]; the shapes must be equal."},
      {__LINE__, message_of<DTypeError>, [&] { bincount(o.x); },
       "bincount: the tensor is float32; it must be an integer type."},
      {__LINE__, message_of<DTypeError>, [&] { bincount(o.flags); },
       "bincount: the tensor is bool; it must be an integer type."},
      {__LINE__, message_of<ShapeError>, [&] { bincount(o.integers, -1); },
       "bincount: minlength is -1; it must be >= 0."},
      {__LINE__, message_of<IndexError>, [&] { bincount(negative); },
       "bincount: element 1 is -1; it must be >= 0 and below 2^63 - 1."},
      {__LINE__, message_of<ShapeError>, [&] { bincount(o.integers, 0, o.one); },
       "bincount: the weights are [1] and the tensor [2, 3]; the shapes must be equal."},
  }, file);
}

TEST_CASE("running totals and differences refuse axes and types that they cannot use", "[errors]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<Error>, [&] { cumsum(o.none, 0); }, "cumsum" + undefined},
      {__LINE__, message_of<Error>, [&] { cumprod(o.none, 0); }, "cumprod" + undefined},
      {__LINE__, message_of<Error>, [&] { logcumsumexp(o.none, 0); }, "logcumsumexp" + undefined},
      {__LINE__, message_of<Error>, [&] { cummax(o.none, 0); }, "cummax" + undefined},
      {__LINE__, message_of<Error>, [&] { cummin(o.none, 0); }, "cummin" + undefined},
      {__LINE__, message_of<Error>, [&] { diff(o.none); }, "diff" + undefined},
      {__LINE__, message_of<Error>, [&] { argmin(o.none); }, "argmin" + undefined},
      {__LINE__, message_of<IndexError>, [&] { cumsum(o.x, 2); }, "cumsum" + no_axis},
      {__LINE__, message_of<IndexError>, [&] { cumprod(o.x, 2); }, "cumprod" + no_axis},
      {__LINE__, message_of<IndexError>, [&] { logcumsumexp(o.x, 2); }, "logcumsumexp" + no_axis},
      {__LINE__, message_of<IndexError>, [&] { cummax(o.x, 2); }, "cummax" + no_axis},
      {__LINE__, message_of<IndexError>, [&] { cummin(o.x, 2); }, "cummin" + no_axis},
      {__LINE__, message_of<IndexError>, [&] { diff(o.x, 1, 2); }, "diff" + no_axis},
      {__LINE__, message_of<IndexError>, [&] { argmin(o.x, 2); }, "argmin" + no_axis},
      {__LINE__, message_of<IndexError>, [&] { cumsum(Tensor(1.0f), -1); }, "cumsum" + scalar_axis},
      {__LINE__, message_of<DTypeError>, [&] { logcumsumexp(o.integers, 0); },
       "logcumsumexp: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { diff(o.flags); }, "diff" + a_number},
      {__LINE__, message_of<DTypeError>, [&] { argmin(o.flags); }, "argmin" + a_number},
      {__LINE__, message_of<ShapeError>, [&] { diff(o.x, -1); }, "diff: the order is -1; it must be >= 0."},
      {__LINE__, message_of<ShapeError>, [&] { argmin(zeros({0, 3}), 0); },
       "argmin: shape [0, 3] has no elements to reduce; each reduced axis must have size 1 or more."},
  }, file);
}
