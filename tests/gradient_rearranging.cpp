// Uses of operations that repeat, move and pad, and of grids and windows, whose gradients are checked. Each is followed
// by something that is not linear, so that a second gradient has something to find.
#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

struct Rearranging {
  const char* op;
  const char* usage;
  Tensor (*function)(const Tensor&);
};

// Each takes x [2, 3, 4].
const Rearranging repeating_rows[] = {
    {"tile", "a count for each axis",
     [](const Tensor& x) {
       return square(tile(x, {2, 1, 3}));
     }},
    {"tile", "fewer counts than axes", [](const Tensor& x) { return square(tile(x, {2})); }},
    {"tile", "more counts than axes",
     [](const Tensor& x) {
       return square(tile(x, {2, 1, 1, 2}));
     }},
    {"tile", "once",
     [](const Tensor& x) {
       return square(tile(x, {1, 1}));
     }},
    {"tile", "not at all",
     [](const Tensor& x) {
       return square(tile(x, {0, 1}));
     }},
    {"tile", "a transposed tensor",
     [](const Tensor& x) {
       return square(tile(transpose(x), {2, 1, 2}));
     }},
    {"repeat", "axis 0", [](const Tensor& x) { return square(repeat(x, 3, 0)); }},
    {"repeat", "axis -1", [](const Tensor& x) { return square(repeat(x, 2, -1)); }},
    {"repeat", "not at all", [](const Tensor& x) { return square(repeat(x, 0, 1)); }},
    {"repeat", "a transposed tensor", [](const Tensor& x) { return square(repeat(transpose(x), 2, 1)); }},
    {"repeat", "a count for each place",
     [](const Tensor& x) {
       return square(repeat(x, Tensor{2, 0, 3}, 1));
     }},
    {"repeat", "one count for all", [](const Tensor& x) { return square(repeat(x, Tensor{2}, -1)); }},
    {"flip", "one axis", [](const Tensor& x) { return x * flip(x, -1); }},
    {"flip", "two axes",
     [](const Tensor& x) {
       return square(flip(x, {0, 2}));
     }},
    {"flip", "all axes", [](const Tensor& x) { return x * flip(x); }},
    {"roll", "forwards", [](const Tensor& x) { return x * roll(x, 1, 1); }},
    {"roll", "backwards and further than the axis", [](const Tensor& x) { return x * roll(x, -7, -1); }},
    {"roll", "two axes",
     [](const Tensor& x) {
       return x * roll(x, {1, 3}, {0, 2});
     }},
    {"roll", "by nothing", [](const Tensor& x) { return x * roll(x, 4, -1); }},
    {"pad", "a constant",
     [](const Tensor& x) {
       return square(pad(x, {{1, 0}, {0, 2}, {1, 1}}));
     }},
    {"pad", "a constant that is not 0",
     [](const Tensor& x) {
       return square(pad(transpose(x), {{0, 1}, {0, 0}, {2, 0}}, PadMode::constant, 1.5));
     }},
    {"pad", "a constant around nothing",
     [](const Tensor& x) {
       return square(pad(narrow(x, 1, 0, 0), {{1, 0}, {1, 1}, {0, 0}}));
     }},
    {"pad", "edge",
     [](const Tensor& x) {
       return square(pad(x, {{1, 2}, {0, 0}, {0, 5}}, PadMode::edge));
     }},
    {"pad", "reflect",
     [](const Tensor& x) {
       return square(pad(x, {{1, 1}, {2, 0}, {0, 3}}, PadMode::reflect));
     }},
    {"pad", "symmetric",
     [](const Tensor& x) {
       return square(pad(x, {{2, 1}, {3, 0}, {0, 4}}, PadMode::symmetric));
     }},
    {"pad", "wrap",
     [](const Tensor& x) {
       return square(pad(x, {{3, 0}, {0, 7}, {1, 1}}, PadMode::wrap));
     }},
    {"pad", "by nothing",
     [](const Tensor& x) {
       return square(pad(x, {{0, 0}, {0, 0}, {0, 0}}, PadMode::edge));
     }},
    {"reverse_sequence", "axis 1 of a batch in axis 0",
     [](const Tensor& x) {
       return x * reverse_sequence(x, Tensor{3, 2});
     }},
    {"reverse_sequence", "axis 2 of a batch in axis 1",
     [](const Tensor& x) {
       return x * reverse_sequence(x, Tensor{0, 4, 3}, 2, 1);
     }},
    {"reverse_sequence", "axis 0 of a batch in the last",
     [](const Tensor& x) {
       return x * reverse_sequence(x, Tensor{1, 2, 2, 0}, 0, -1);
     }},
};

const Rearranging view_rows[] = {
    {"move_axis", "one axis", [](const Tensor& x) { return square(move_axis(x, 0, -1)); }},
    {"move_axis", "two axes",
     [](const Tensor& x) {
       return square(move_axis(x, {0, 1}, {-1, 0}));
     }},
    {"unflatten", "the last axis",
     [](const Tensor& x) {
       return square(unflatten(x, -1, {2, 2}));
     }},
    {"unflatten", "a size left open",
     [](const Tensor& x) {
       return square(unflatten(transpose(x), 0, {-1, 2, 1}));
     }},
    {"array_split", "unequal parts",
     [](const Tensor& x) {
       const Tensors parts = array_split(x, 3, -1);
       return narrow(parts[0], 2, 1, 1) * parts[1] * parts[2];
     }},
    {"broadcast_tensors", "rows and columns",
     [](const Tensor& x) {
       const Tensors views = broadcast_tensors({narrow(x, 0, 0, 1), narrow(x, 1, 2, 1)});
       return views[0] * views[1];
     }},
    {"meshgrid", "as matrices are drawn",
     [](const Tensor& x) {
       const Tensors grid = meshgrid({flatten(narrow(x, 0, 0, 1)), x.index({1, 0, all})});
       return grid[0] * grid[1];
     }},
    {"meshgrid", "each along its own axis",
     [](const Tensor& x) {
       const Tensors grid = meshgrid({x.index({0, 0, all}), x.index({1, all, 0}), x.index({0, 0, 1})}, GridOrder::ij);
       return grid[0] * grid[1] * grid[2];
     }},
    {"sliding_window", "windows that overlap", [](const Tensor& x) { return square(sliding_window(x, -1, 3)); }},
    {"sliding_window", "windows that overlap, two apart",
     [](const Tensor& x) { return square(sliding_window(flatten(x), 0, 5, 2)); }},
    {"sliding_window", "windows side by side", [](const Tensor& x) { return square(sliding_window(x, 2, 2, 2)); }},
    {"sliding_window", "windows with gaps",
     [](const Tensor& x) { return square(sliding_window(flatten(x), 0, 2, 5)); }},
    {"sliding_window", "of a transposed tensor",
     [](const Tensor& x) { return square(sliding_window(transpose(x), 0, 2)); }},
};

}  // namespace

std::vector<GradientCase> rearranging_gradient_cases() {
  std::vector<GradientCase> cases;
  const Tensor x = random_in(-2, 2, {2, 3, 4}, DType::float64, 45);
  const auto add = [&](const Rearranging& row) {
    cases.push_back({row.op, row.usage, [f = row.function](const Tensors& in) { return f(in[0]); }, {x}});
  };
  for (const Rearranging& row : repeating_rows) add(row);
  for (const Rearranging& row : view_rows) add(row);
  cases.push_back({"reverse_sequence",
                   "of nothing",
                   [](const Tensors& in) {
                     return square(reverse_sequence(in[0], Tensor{0, 0}));
                   },
                   {zeros({2, 0, 3}, {.dtype = DType::float64})}});
  cases.push_back({"broadcast_tensors",
                   "a vector and a column",
                   [](const Tensors& in) {
                     const Tensors views = broadcast_tensors(in);
                     return views[0] * views[1] * views[1];
                   },
                   {random_in(-2, 2, {4}, DType::float64, 46), random_in(-2, 2, {3, 1}, DType::float64, 47)}});
  return cases;
}

}  // namespace tests
