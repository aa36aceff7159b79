// Uses of shaping and indexing operations whose gradients are checked. Each is followed by something that is not linear,
// or multiplied with itself, so that a second gradient has something to find.
#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;
using OneInput = Tensor (*)(const Tensor&);

struct Shaping {
  const char* op;
  const char* usage;
  OneInput function;
};

// Each takes x [2, 3, 4].
const Shaping shaping_rows[] = {
    {"reshape", "a view",
     [](const Tensor& x) {
       return square(reshape(x, {4, 6}));
     }},
    {"reshape", "a size left open",
     [](const Tensor& x) {
       return square(reshape(x, {3, -1, 2}));
     }},
    {"reshape", "a copy, of a transposed tensor",
     [](const Tensor& x) {
       return square(reshape(transpose(x), {6, 4}));
     }},
    {"flatten", "all axes", [](const Tensor& x) { return square(flatten(x)); }},
    {"flatten", "the last two", [](const Tensor& x) { return square(flatten(x, 1)); }},
    {"transpose", "all axes", [](const Tensor& x) { return square(transpose(x)); }},
    {"transpose", "two axes", [](const Tensor& x) { return square(transpose(x, 0, -1)); }},
    {"permute", "a rotation",
     [](const Tensor& x) {
       return square(permute(x, {2, 0, 1}));
     }},
    {"expand_dims", "in the middle", [](const Tensor& x) { return square(expand_dims(x, 1)); }},
    {"expand_dims", "at the end", [](const Tensor& x) { return square(expand_dims(x, -1)); }},
    {"squeeze", "all axes of size 1", [](const Tensor& x) { return square(squeeze(narrow(x, 1, 2, 1))); }},
    {"squeeze", "one axis", [](const Tensor& x) { return square(squeeze(narrow(x, -1, 2, 1), -1)); }},
    {"broadcast_to", "a new leading axis",
     [](const Tensor& x) {
       return square(broadcast_to(x, {5, 2, 3, 4}));
     }},
    {"broadcast_to", "an axis of size 1",
     [](const Tensor& x) {
       return square(broadcast_to(narrow(x, 1, 0, 1), {2, 3, 4}));
     }},
    {"broadcast_to", "to no elements",
     [](const Tensor& x) {
       return square(broadcast_to(narrow(x, 1, 0, 1), {2, 0, 4}));
     }},
    {"concat", "with itself",
     [](const Tensor& x) {
       return square(concat({x, x * x, x}, 1));
     }},
    {"concat", "with an empty part",
     [](const Tensor& x) {
       return square(concat({x, narrow(x, -1, 0, 0)}, -1));
     }},
    {"stack", "at the front",
     [](const Tensor& x) {
       return square(stack({x, x * x}));
     }},
    {"stack", "at the end",
     [](const Tensor& x) {
       return square(stack({x, x * x, x}, -1));
     }},
    {"unstack", "two parts of three used",
     [](const Tensor& x) {
       const auto p = unstack(x, 1);
       return p[0] * p[2];
     }},
    {"split", "two halves",
     [](const Tensor& x) {
       const auto p = split(x, 2, -1);
       return p[0] * p[1];
     }},
    {"split_sizes", "parts of sizes 1 and 3",
     [](const Tensor& x) {
       const auto p = split_sizes(x, {1, 3}, -1);
       return p[0] * p[1];
     }},
    {"slice", "a block",
     [](const Tensor& x) {
       return square(slice(x, {0, 1, 2}, {2, 1, -1}));
     }},
    {"narrow", "overlapping parts", [](const Tensor& x) { return narrow(x, 2, 0, 3) * narrow(x, 2, 1, 3); }},
    {"narrow", "no elements", [](const Tensor& x) { return square(narrow(x, 2, 4, 0)); }},
    {"index", "one row", [](const Tensor& x) { return square(x[1]); }},
    {"index", "a negative row", [](const Tensor& x) { return square(x[-1]); }},
    {"index", "backwards",
     [](const Tensor& x) {
       return x * x.index({all, all, from(-1, -1)});
     }},
    {"index", "every second backwards",
     [](const Tensor& x) {
       return square(x.index({all, all, from(-1, -2)}));
     }},
    {"index", "a range, a new axis and an integer",
     [](const Tensor& x) {
       return square(x.index({range(0, 2), newaxis, 1, until(3)}));
     }},
    {"index", "an ellipsis",
     [](const Tensor& x) {
       return square(x.index({ellipsis, 2}));
     }},
    {"index", "nothing left",
     [](const Tensor& x) {
       return square(x.index({all, range(2, 1)}));
     }},
    {"index", "a view of a view",
     [](const Tensor& x) {
       return square(transpose(x[1]).index({from(1, 2), all}));
     }},
    {"copy", "a copy", [](const Tensor& x) { return square(x.copy()); }},
    {"contiguous", "a transposed tensor", [](const Tensor& x) { return square(transpose(x).contiguous()); }},
    {"contiguous", "itself", [](const Tensor& x) { return square(x.contiguous()); }},
};

}  // namespace

std::vector<GradientCase> shaping_gradient_cases() {
  std::vector<GradientCase> cases;
  const Tensor x = random_in(-2, 2, {2, 3, 4}, DType::float64, 41);
  for (const Shaping& row : shaping_rows)
    cases.push_back({row.op, row.usage, [f = row.function](const Tensors& in) { return f(in[0]); }, {x}});

  const Tensor y = random_in(-2, 2, {2, 2, 4}, DType::float64, 42);
  cases.push_back({"concat",
                   "two tensors",
                   [](const Tensors& in) {
                     return square(concat({in[0], in[1], in[0]}, 1));
                   },
                   {x, y}});
  cases.push_back({"stack",
                   "two tensors",
                   [](const Tensors& in) {
                     return square(stack({in[0], in[1]}, 1));
                   },
                   {y, random_in(-2, 2, {2, 2, 4}, DType::float64, 43)}});

  const Tensor repeated = {{2, 0}, {2, -1}};  // fits every axis of size 3
  const Tensor none = zeros({0}, {.dtype = DType::int64});
  const std::pair<const char*, Tensor> choices[] = {{"repeated and negative indices", repeated}, {"no indices", none}};
  for (const auto& [usage, indices] : choices)
    for (const int axis : {0, 1, -1})
      cases.push_back({"gather",
                       std::string(usage) + ", axis " + std::to_string(axis),
                       [axis, i = indices](const Tensors& in) { return square(gather(in[0], i, axis)); },
                       {random_in(-2, 2, {3, 3, 3}, DType::float64, 44)}});
  const Tensor column = {{1, 0, 3}, {3, 3, 2}};
  cases.push_back(
      {"pick", "one element a row", [column](const Tensors& in) { return square(pick(in[0], column)); }, {x}});
  return cases;
}

}  // namespace tests
