// Uses of choosing and writing by index tensors and masks whose gradients are checked. Each is followed by something
// that is not linear, so that a second gradient has something to find.
#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

struct Choosing {
  const char* op;
  const char* usage;
  Tensor (*function)(const Tensor&);
};

const Tensor& mask() {  // [2, 3]
  static const Tensor value = {{true, false, true}, {false, false, true}};
  return value;
}

// Each takes x [2, 3, 4].
const Choosing choosing_rows[] = {
    {"index", "an index tensor in the middle",
     [](const Tensor& x) {
       return square(x.index({all, Tensor{2, 0, 2}}));
     }},
    {"index", "index tensors side by side",
     [](const Tensor& x) {
       return square(x.index({all, Tensor{{0}, {2}}, Tensor{1, -1, 1}}));
     }},
    {"index", "index tensors apart",
     [](const Tensor& x) {
       return square(x.index({Tensor{1, 0, 1}, range(0, 2), Tensor{3, 3, 0}}));
     }},
    {"index", "an integer beside an index tensor",
     [](const Tensor& x) {
       return square(x.index({1, ellipsis, Tensor{0, 2, 2}}));
     }},
    {"index", "a new axis, backwards and an index tensor",
     [](const Tensor& x) {
       return square(x.index({newaxis, from(-1, -1), Tensor{1, 1}, from(-1, -2)}));
     }},
    {"index", "a mask of two axes", [](const Tensor& x) { return square(x.index({mask()})); }},
    {"index", "a mask of all elements", [](const Tensor& x) { return square(x[greater(stop_gradient(x), 0)]); }},
    {"index", "a mask in the middle",
     [](const Tensor& x) {
       return square(x.index({all, Tensor{true, false, true}}));
     }},
    {"index", "a mask beside an index tensor",
     [](const Tensor& x) {
       return square(x.index({mask(), Tensor{3, 0, 3}}));
     }},
    {"index", "no indices",
     [](const Tensor& x) {
       return square(x.index({all, zeros({0}, {.dtype = DType::int64}), 1}));
     }},
    {"index", "a mask without a true element",
     [](const Tensor& x) { return square(x.index({logical_and(mask(), logical_not(mask()))})); }},
    {"index", "index tensors on a transposed tensor",
     [](const Tensor& x) {
       return square(transpose(x).index({Tensor{3, 1, 3}, Tensor{0, 2, 0}}));
     }},
    {"index", "twice, of one tensor",
     [](const Tensor& x) {
       return x.index({all, Tensor{0, 1}}) * x.index({all, Tensor{1, 1}});
     }},
    {"take", "of the flattened tensor",
     [](const Tensor& x) {
       return square(take(x, Tensor{23, 0, -1}));
     }},
    {"take", "along the last axis",
     [](const Tensor& x) {
       return square(take(x, Tensor{{0, 3}, {3, 3}}, -1));
     }},
    {"take_along_axis", "along the last axis",
     [](const Tensor& x) {
       return square(take_along_axis(x, Tensor{{{0, 0}, {3, 1}, {2, 2}}, {{1, -1}, {0, 1}, {2, 3}}}));
     }},
    {"take_along_axis", "indices that broadcast, along the first axis",
     [](const Tensor& x) {
       return square(take_along_axis(x, Tensor{{{1}}, {{0}}, {{1}}}, 0));
     }},
    {"take_along_axis", "a tensor that broadcasts",
     [](const Tensor& x) {
       return square(take_along_axis(narrow(x, 0, 1, 1), Tensor{{{0, 3}}, {{1, 1}}, {{3, 3}}}, 2));
     }},
    {"take_along_axis", "a transposed tensor",
     [](const Tensor& x) {
       return square(take_along_axis(transpose(x), Tensor{{{2, 1}}, {{0, 0}}, {{1, 1}}, {{2, 2}}}, 1));
     }},
    {"gather_nd", "elements",
     [](const Tensor& x) {
       return square(gather_nd(x, Tensor{{0, 1, 2}, {1, -1, 3}, {0, 1, 2}}));
     }},
    {"gather_nd", "slices of a transposed tensor",
     [](const Tensor& x) {
       return square(gather_nd(transpose(x), Tensor{{{0, 2}}, {{3, 1}}}));
     }},
    {"gather_nd", "the whole tensor, twice",
     [](const Tensor& x) {
       return square(gather_nd(x, zeros({2, 0}, {.dtype = DType::int32})));
     }},
    {"masked_select", "a mask that broadcasts",
     [](const Tensor& x) {
       return square(masked_select(x, Tensor{true, false, true, true}));
     }},
    {"masked_select", "a tensor that broadcasts",
     [](const Tensor& x) {
       return square(masked_select(x[0][0], Tensor{{true, false, true, true}, {true, true, false, false}}));
     }},
    {"masked_fill", "a number", [](const Tensor& x) { return square(masked_fill(x, expand_dims(mask(), -1), 3)); }},
    {"scatter", "a number",
     [](const Tensor& x) {
       return square(scatter(x, Tensor{{{0, 2}, {1, 1}}}, 3, 2));
     }},
    {"scatter_add", "a number",
     [](const Tensor& x) {
       return square(scatter_add(x, Tensor{{{0, 0}, {1, 1}}}, 3, 0));
     }},
    {"index_set", "a number", [](const Tensor& x) { return square(index_set(x, {mask()}, 2)); }},
    {"index_add", "a number",
     [](const Tensor& x) {
       return square(index_add(x, {all, 1, from(-1, -2)}, 2));
     }},
    {"segment_sum", "rows left out, and a segment without rows",
     [](const Tensor& x) {
       return square(segment_sum(x, Tensor{{2, 0, 2}, {-1, 0, 2}}, 4));
     }},
    {"segment_sum", "along the first axis",
     [](const Tensor& x) {
       return square(segment_sum(x, Tensor{1, 1}, 2));
     }},
    {"segment_mean", "a segment without rows",
     [](const Tensor& x) {
       return square(segment_mean(x, Tensor{{2, 0, 2}, {-1, 0, 2}}, 4));
     }},
    {"segment_max", "rows left out",
     [](const Tensor& x) {
       return square(narrow(segment_max(x, Tensor{{1, 0, 1}, {-1, 0, 1}}, 2), 0, 0, 2));
     }},
    {"segment_min", "single elements",
     [](const Tensor& x) {
       return square(segment_min(flatten(x), flatten(broadcast_to(arange(4), {2, 3, 4})), 4));
     }},
};

struct Writing {
  const char* op;
  const char* usage;
  Shape updates;
  Tensor (*function)(const Tensor&, const Tensor&);
};

// Each takes x [2, 3, 4] and updates.
const Writing writing_rows[] = {
    {"masked_fill",
     "a tensor",
     {},
     [](const Tensor& x, const Tensor& u) { return square(masked_fill(x, expand_dims(mask(), -1), u)); }},
    {"masked_fill",
     "a tensor that broadcasts",
     {3, 1},
     [](const Tensor& x, const Tensor& u) { return square(masked_fill(x, expand_dims(mask(), -1), u)); }},
    {"scatter",
     "places that meet",
     {2, 3, 2},
     [](const Tensor& x, const Tensor& u) {
       return square(scatter(x, Tensor{{{0, 0}, {1, 3}, {2, 2}}, {{3, 1}, {-1, 3}, {0, 2}}}, u));
     }},
    {"scatter",
     "fewer indices than updates",
     {3, 3, 4},
     [](const Tensor& x, const Tensor& u) {
       return square(scatter(x, Tensor{{{0, 1}}, {{1, 0}}, {{1, 1}}}, u, 0));
     }},
    {"scatter",
     "nothing",
     {2, 3, 0},
     [](const Tensor& x, const Tensor& u) {
       return square(scatter(x, zeros({2, 3, 0}, {.dtype = DType::int64}), u));
     }},
    {"scatter_add",
     "places that meet",
     {2, 3, 2},
     [](const Tensor& x, const Tensor& u) {
       return square(scatter_add(x, Tensor{{{0, 0}, {1, 3}, {2, 2}}, {{3, 1}, {-1, 3}, {0, 2}}}, u));
     }},
    {"scatter_add",
     "along the middle axis",
     {2, 4, 4},
     [](const Tensor& x, const Tensor& u) {
       return square(scatter_add(x, broadcast_to(Tensor{{0}, {2}, {2}, {1}}, {2, 4, 4}), u, 1));
     }},
    {"scatter_add",
     "to a transposed tensor",
     {4, 3, 2},
     [](const Tensor& x, const Tensor& u) {
       return square(scatter_add(transpose(x), zeros({4, 3, 2}, {.dtype = DType::int32}), u, -2));
     }},
    {"scatter_min",
     "places that meet",
     {2, 3, 2},
     [](const Tensor& x, const Tensor& u) {
       return square(scatter_min(x, Tensor{{{0, 0}, {1, 3}, {2, 2}}, {{3, 1}, {-1, 3}, {0, 2}}}, u));
     }},
    {"scatter_max",
     "places that meet",
     {2, 3, 2},
     [](const Tensor& x, const Tensor& u) {
       return square(scatter_max(x, Tensor{{{0, 0}, {1, 3}, {2, 2}}, {{3, 1}, {-1, 3}, {0, 2}}}, u));
     }},
    {"index_set",
     "without index tensors",
     {3, 1},
     [](const Tensor& x, const Tensor& u) {
       return square(index_set(x, {all, all, from(-1, -2)}, u));
     }},
    {"index_set",
     "a place named twice",
     {4},
     [](const Tensor& x, const Tensor& u) {
       return square(index_set(x, {all, Tensor{2, 0, 2}}, u));
     }},
    {"index_set", "a mask", {3, 4}, [](const Tensor& x, const Tensor& u) { return square(index_set(x, {mask()}, u)); }},
    {"index_add",
     "without index tensors",
     {2, 1},
     [](const Tensor& x, const Tensor& u) {
       return square(index_add(x, {ellipsis, range(0, 3, 2)}, reshape(u, {2, 1, 1})));
     }},
    {"index_add",
     "a place named twice",
     {3},
     [](const Tensor& x, const Tensor& u) {
       return square(index_add(x, {1, all, Tensor{2, 0, 2}}, u));
     }},
    {"scatter_nd",
     "places that meet",
     {3, 4},
     [](const Tensor& x, const Tensor& u) {
       return sum(x) * square(scatter_nd(Tensor{{0, 2}, {1, -1}, {0, 2}}, u, {2, 3, 4}));
     }},
    {"scatter_nd_update",
     "places that meet",
     {3, 4},
     [](const Tensor& x, const Tensor& u) {
       return square(scatter_nd_update(x, Tensor{{0, 2}, {1, -1}, {0, 2}}, u));
     }},
    {"scatter_nd_add",
     "rows",
     {3, 3, 4},
     [](const Tensor& x, const Tensor& u) {
       return square(scatter_nd_add(x, Tensor{{1}, {0}, {1}}, u));
     }},
};

}  // namespace

std::vector<GradientCase> index_gradient_cases() {
  std::vector<GradientCase> cases;
  const Tensor x = random_in(-2, 2, {2, 3, 4}, DType::float64, 71);
  for (const Choosing& row : choosing_rows)
    cases.push_back({row.op, row.usage, [f = row.function](const Tensors& in) { return f(in[0]); }, {x}});
  for (const Writing& row : writing_rows)
    cases.push_back({row.op,
                     row.usage,
                     [f = row.function](const Tensors& in) { return f(in[0], in[1]); },
                     {x, random_in(-2, 2, row.updates, DType::float64, 72)}});
  return cases;
}

}  // namespace tests
