// 01_values: tensors hold values, and operations on them run at once.
// Shows: making tensors, a product, printing, reading one value, views, assignment through an index; numbers in a row,
//        joining and cutting, choosing and writing rows, the sizes of convolutions, softmax and its losses.
// Prints: each value with the expression that it comes from.
// Fails:  if one of them is not the one that its comment, or a book, says.
#include <capstan/capstan.hpp>

#include <cstdio>
#include <iostream>
#include <vector>

namespace cs = capstan;

namespace {

int wrong = 0;

void expect(bool right, const char* what) {
  if (right) return;
  std::printf("wrong: %s\n", what);
  ++wrong;
}

/// Prints a value, and compares it with what it should be.
void fact(const char* what, const cs::Tensor& value, const cs::Tensor& expected, double tolerance = 1e-6) {
  std::cout << what << '\n' << value << "\n\n";
  expect(cs::all_close(value, expected, tolerance, tolerance), what);
}

void first_look() {
  cs::Tensor x = {{1.0f, 2.0f}, {3.0f, 4.0f}};
  cs::Tensor y = cs::matmul(x, cs::transpose(x)) + 1;
  std::cout << y << '\n';
  std::cout << y.describe() << "\n\n";

  expect(cs::array_equal(y, {{6.0f, 12.0f}, {12.0f, 26.0f}}), "x times its transpose, plus 1");
  expect(y.describe() == "[2, 2] float32 cpu  min 6  max 26  mean 14  std 7.35  nan 0  inf 0", "description");
  expect(y.at<float>(0, 1) == 12, "one value");

  cs::Tensor row = y[0];  // a view: no copy
  expect(row.shares_storage(y), "a row shares the elements");
  cs::Tensor part = y.index({cs::all, cs::range(0, 1)});
  expect(cs::array_equal(part, {{6.0f}, {12.0f}}), "the first column");

  y.index_put({0, cs::all}, 7);
  expect(cs::array_equal(row, {7.0f, 7.0f}), "a view sees what is written to its base");

  const std::vector<float> host = y.to_vector<float>();
  for (const float value : host) std::cout << value << ' ';
  std::cout << "\n\n";
  expect(host == std::vector<float>{7, 7, 12, 26}, "all values");
}

void numbers_in_a_row() {
  fact("linspace(10, 12, 3)", cs::linspace(10, 12, 3), {10.0f, 11.0f, 12.0f});
  fact("arange(3, 18, 3)", cs::arange(3, 18, 3), {3, 6, 9, 12, 15});

  const cs::Tensor x = {{1, 5, 3}, {4, 2, 6}};
  fact("where each column of [[1 5 3] [4 2 6]] is largest: argmax(x, 0)", cs::argmax(x, 0), {1, 0, 1});
  fact("and each row: argmax(x, 1)", cs::argmax(x, 1), {1, 2});
}

void joining_and_cutting() {
  const cs::Tensor a = {1, 4}, b = {2, 5}, c = {3, 6};
  fact("concat({a, b, c})", cs::concat({a, b, c}), {1, 4, 2, 5, 3, 6});
  const cs::Tensor rows = cs::stack({a, b, c}), columns = cs::stack({a, b, c}, 1);
  fact("stack({a, b, c})", rows, {{1, 4}, {2, 5}, {3, 6}});
  fact("stack({a, b, c}, 1)", columns, {{1, 2, 3}, {4, 5, 6}});
  fact("unstack(rows)[1]", cs::unstack(rows)[1], b);
  fact("split(columns, 3, 1)[2]", cs::split(columns, 3, 1)[2], {{3}, {6}});
  fact("from [1, 0] on, 1 row of 2: slice(columns, {1, 0}, {1, 2})", cs::slice(columns, {1, 0}, {1, 2}), {{4, 5}});

  const cs::Tensor small = {{1, 2}, {1, 2}};
  fact("pad(small, {{1, 1}, {1, 1}})", cs::pad(small, {{1, 1}, {1, 1}}),
       {{0, 0, 0, 0}, {0, 1, 2, 0}, {0, 1, 2, 0}, {0, 0, 0, 0}});
  const cs::Tensor image = cs::expand_dims(small, 0);
  expect(image.shape() == cs::Shape{1, 2, 2}, "expand_dims(small, 0)");
  expect(cs::squeeze(image).shape() == cs::Shape{2, 2}, "squeeze(image)");
}

void choosing_and_writing() {
  const cs::Tensor table = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}, {7.0f, 8.0f, 9.0f}};
  const cs::Tensor rows = {0, 2}, words = {{1, 2}, {0, 1}};
  fact("gather(table, [0 2])", cs::gather(table, rows), {{1, 2, 3}, {7, 8, 9}});
  fact("embedding([[1 2] [0 1]], table)", cs::embedding(words, table),
       {{{4, 5, 6}, {7, 8, 9}}, {{1, 2, 3}, {4, 5, 6}}});

  const cs::Tensor first_two = {0, 1}, updates = {{1.0f, 1.0f, 0.0f, 0.0f}, {1.0f, 0.0f, 4.0f, 0.0f}};
  fact("rows 0 and 1 of zeros replaced", cs::index_set(cs::zeros({2, 4}), {first_two}, updates), updates);

  const cs::Tensor sentences = cs::tile(cs::arange(1, 9), {4, 1});  // four times 1 to 8
  fact("the first 7, 2, 3 and 5 turned around: reverse_sequence", cs::reverse_sequence(sentences, {7, 2, 3, 5}),
       {{7, 6, 5, 4, 3, 2, 1, 8}, {2, 1, 3, 4, 5, 6, 7, 8}, {3, 2, 1, 4, 5, 6, 7, 8}, {5, 4, 3, 2, 1, 6, 7, 8}});
}

void convolutions() {
  const cs::Tensor image = {{4.0f, 3.0f, 1.0f, 0.0f},  //
                            {2.0f, 1.0f, 0.0f, 1.0f},
                            {1.0f, 2.0f, 4.0f, 1.0f},
                            {3.0f, 1.0f, 0.0f, 2.0f}};
  const cs::Tensor kernel = {{1.0f, 0.0f, 1.0f}, {2.0f, 1.0f, 0.0f}, {0.0f, 0.0f, 1.0f}};
  const cs::Tensor result = cs::conv2d(cs::reshape(image, {1, 1, 4, 4}), cs::reshape(kernel, {1, 1, 3, 3}));
  fact("an image of 4 by 4 under a kernel of 3 by 3, no padding", cs::squeeze(result), {{14, 6}, {6, 12}});

  // The size of the result: ceil((5 - 3 + 1) / 2) without padding, ceil(5 / 2) with `same`.
  const cs::Tensor line = cs::ones({1, 1, 5}), taps = cs::ones({1, 1, 3});
  expect(cs::conv1d(line, taps, {}, {.stride = 2}).size(2) == 2, "valid: ceil((in - kernel + 1) / stride)");
  expect(cs::conv1d(line, taps, {}, {.stride = 2, .padding = cs::nn::same}).size(2) == 3, "same: ceil(in / stride)");
  const cs::Tensor two_taps = cs::ones({1, 1, 2});
  fact("one place to pad, which goes to the end: sums of two of five ones",
       cs::squeeze(cs::conv1d(line, two_taps, {}, {.padding = cs::nn::same})), {2, 2, 2, 2, 1});

  // Convolutions of 5x5 and of 6x6 give 3x3, so both may be asked of the transpose; others may not.
  const cs::Tensor x = cs::ones({1, 1, 3, 3}), weight = cs::ones({1, 3, 2, 2});
  const auto grow = [&](const cs::Sizes& size) {
    return cs::conv_transpose2d(x, weight, {}, {.stride = 2, .padding = cs::nn::same, .output_size = size});
  };
  expect(grow(5).shape() == cs::Shape{1, 3, 5, 5}, "3x3 grows to 5x5");
  expect(grow(6).shape() == cs::Shape{1, 3, 6, 6}, "3x3 grows to 6x6");
  try {
    grow(7);
    expect(false, "a size that no convolution comes from is an error");
  } catch (const cs::ShapeError& error) { std::cout << error.what() << "\n\n"; }
}

void softmax_and_losses() {
  fact("softmax([1 2 3])", cs::softmax({1.0f, 2.0f, 3.0f}), {0.09003057f, 0.24472848f, 0.66524094f});
  fact("softmax([.1 .2 .3 .4 .1 .2 .3])", cs::softmax({0.1f, 0.2f, 0.3f, 0.4f, 0.1f, 0.2f, 0.3f}),
       {0.125f, 0.138f, 0.153f, 0.169f, 0.125f, 0.138f, 0.153f}, 5e-4);

  const cs::Tensor three_rows = cs::tile(cs::Tensor{1.0f, 2.0f, 3.0f}, {3, 1});
  fact("the cross entropy of class 2, of three such rows together",
       cs::sum(cs::sparse_softmax_cross_entropy(three_rows, {2, 2, 2})), cs::Tensor(1.22282f), 1e-5);

  const cs::Tensor labels = {{0.2f, 0.3f, 0.5f}, {0.1f, 0.6f, 0.3f}}, logits = {{2.0f, 0.5f, 1.0f}, {0.1f, 1.0f, 3.0f}};
  fact("softmax_cross_entropy(logits, labels)", cs::softmax_cross_entropy(logits, labels), {1.41436887f, 1.66425455f});
  fact("the mistake of giving it probabilities instead", cs::softmax_cross_entropy(cs::softmax(logits), labels),
       {1.17185783f, 1.17571414f});
  fact("sparse_softmax_cross_entropy(logits, [0 2])", cs::sparse_softmax_cross_entropy(logits, {0, 2}),
       {0.46436879f, 0.17425454f});
}

}  // namespace

int main() {
  first_look();
  numbers_in_a_row();
  joining_and_cutting();
  choosing_and_writing();
  convolutions();
  softmax_and_losses();
  std::printf("result: %d values are wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}
