// Uses of recurrent operations whose gradients are checked, for all operands: the fused kernels by differences of their
// values, and the rule that takes over where a tape follows the gradient by differences of theirs.
#include "tests/gradient_check.hpp"
#include "tests/recurrent_use.hpp"

using namespace capstan;

namespace tests {

namespace {

using core::RecurrentKind;
using Tensors = std::vector<Tensor>;

Tensor random(const Shape& shape, std::uint64_t seed) { return random_in(-1, 1, shape, DType::float64, seed); }

/// Which results are used, a bit for each in their order.
struct Wanted {
  unsigned bits = 7;
  const char* text = "";
};
const Wanted kFirst = {1, ", the first result alone"}, kSecond = {2, ", the second result alone"},
             kThird = {4, ", the third result alone"};

/// The squares of the results in one vector.
Tensor joined(const Tensors& results, unsigned wanted) {
  Tensors parts;
  for (std::size_t i = 0; i < results.size(); ++i)
    if ((wanted >> i & 1u) != 0) parts.push_back(flatten(square(results[i])));
  return concat(parts);
}

void add(std::vector<GradientCase>& cases, const RecurrentUse& use, const Wanted& wanted = {}) {
  const Tensors operands = recurrent_operands(use, 400);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (operands[i].defined()) places.push_back(i);
  cases.push_back({use.op(), use.text() + wanted.text,
                   [use, places, bits = wanted.bits](const Tensors& in) {
                     Tensors given(8);
                     for (std::size_t i = 0; i < places.size(); ++i) given[places[i]] = in[i];
                     return joined(run_recurrent(use, given), bits);
                   },
                   existing(operands)});
}

/// What all kinds have. `base` says which one, with sizes of 2 or so.
void add_every(std::vector<GradientCase>& cases, const RecurrentUse& base) {
  RecurrentUse use = base;
  use.cell = true;
  add(cases, use);
  use.b = use.bn = false;
  add(cases, use);

  use = base;
  add(cases, use);
  add(cases, use, kFirst);
  add(cases, use, kSecond);
  use.time = 1;
  add(cases, use);
  use.time = 2;
  use.time_major = true;
  use.b = false;
  add(cases, use);

  use = base;
  use.batch = 3;
  use.lengths = {3, 0, 2};
  add(cases, use);
  use.reverse = use.time_major = true;
  add(cases, use);
  use.lengths.clear();
  use.time_major = false;
  add(cases, use);

  use = base;
  use.batch = 0;
  add(cases, use);
}

void add_lstm(std::vector<GradientCase>& cases) {
  RecurrentUse use{.hidden = 2};
  add(cases, use, kThird);
  use.cell = true;
  add(cases, use, kFirst);
  add(cases, use, kSecond);
  use.projection = 3;  // to more units than there are
  add(cases, use);
  add(cases, use, kSecond);  // which the projection does not reach
  use.cell = false;
  add(cases, use, kThird);
}

/// Operands that are views, and one tensor for several operands.
void add_views(std::vector<GradientCase>& cases) {
  cases.push_back({"gru",
                   "a transposed x, one state for all rows, transposed weights",
                   [](const Tensors& in) {
                     const RnnResult result =
                         gru(transpose(in[0], 0, 1), broadcast_to(in[1], {2, 2}), {transpose(in[2]), transpose(in[3])});
                     return joined({result.outputs, result.last}, 7);
                   },
                   {random({3, 2, 2}, 301), random({1, 2}, 302), random({6, 2}, 303), random({6, 2}, 304)}});
  cases.push_back({"rnn",
                   "a state as x, one tensor for both weights",
                   [](const Tensors& in) {
                     const RnnResult result = rnn(expand_dims(in[0], 1), in[0], {in[1], in[1]});
                     return joined({result.outputs, result.last}, 7);
                   },
                   {random({2, 2}, 305), random({2, 2}, 306)}});
  cases.push_back({"lstm",
                   "one tensor as h0 and c0, another as wx and wh",
                   [](const Tensors& in) {
                     const LstmResult result = lstm(in[0], in[1], in[1], {in[2], in[2]});
                     return joined({result.outputs, result.last.h, result.last.c}, 7);
                   },
                   {random({2, 3, 2}, 311), random({2, 2}, 312), random({2, 8}, 313)}});
  cases.push_back({"gru_cell",
                   "its state as x",
                   [](const Tensors& in) {
                     return gru_cell(in[0], in[0], {in[1], in[2]});
                   },
                   {random({2, 2}, 314), random({2, 6}, 315), random({2, 6}, 316)}});
}

}  // namespace

std::vector<GradientCase> recurrent_gradient_cases() {
  std::vector<GradientCase> cases;
  for (const RecurrentKind kind : {RecurrentKind::rnn_tanh, RecurrentKind::rnn_relu})
    add_every(cases, {.kind = kind, .hidden = 2});
  for (const bool reset_after : {true, false})
    add_every(cases, {.kind = RecurrentKind::gru, .hidden = 2, .reset_after = reset_after});
  add_every(cases, {.kind = RecurrentKind::lstm, .hidden = 2});
  add_every(cases, {.kind = RecurrentKind::lstm, .hidden = 3, .projection = 2});
  add_lstm(cases);
  add_views(cases);
  return cases;
}

}  // namespace tests
