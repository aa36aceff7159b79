// Elements written by positions, also where positions meet, and segments on a GPU and on the CPU.
#include "tests/gpu/agreement.hpp"

using namespace capstan;

namespace tests {

namespace {

/// Places of which several are equal, in [-8, 8).
Tensor meeting_places() { return places_below(16, {5, 6}, 1) - 8; }

void add_scattering(AgreementCases& cases) {
  const Tensor x = random_in(-30, 30, {5, 8}, DType::float64, 2),
               updates = random_in(-30, 30, {5, 6}, DType::float64, 3);
  cases.push_back(
      {"elements replaced by index",
       {"scatter", "find_last", "select"},
       {x, updates, meeting_places(), places_below(5, {4, 8}, 4), random_in(-30, 30, {4, 8}, DType::float64, 5)},
       [](const Tensors& in) {
         const Tensor &to = in[0], &values_of = in[1], &at = in[2];
         return Tensors{scatter(to, at, values_of, 1),
                        scatter(to, in[3], in[4], 0),
                        scatter(transpose(to), transpose(at), transpose(values_of), 0),
                        scatter(to, narrow(at, 0, 1, 3), narrow(values_of, 0, 1, 3), 1),
                        scatter(broadcast_to(to[1], {5, 8}), at, values_of, 1),
                        scatter(to, narrow(at, 1, 0, 0), narrow(values_of, 1, 0, 0), 1)};
       },
       Nearness::exact,
       Types::every});
  cases.push_back({"a number written by index",
                   {"scatter"},
                   {x, meeting_places()},
                   [](const Tensors& in) {
                     return Tensors{scatter(in[0], in[1], 7), scatter_add(in[0], in[1], 1, 1)};
                   },
                   Nearness::exact,
                   Types::numbers});
  const auto combined = [](const Tensors& in) {
    return Tensors{scatter_add(in[0], in[2], in[1], 1), scatter_min(in[0], in[2], in[1], 1),
                   scatter_max(in[0], in[2], in[1], 1),
                   scatter_add(transpose(in[0]), transpose(in[2]), transpose(in[1]), 0)};
  };
  cases.push_back({"elements combined by index", {"scatter", "take"}, {x, updates, meeting_places()}, combined});
  cases.push_back({"whole elements combined by index",
                   {"scatter"},
                   {x, updates, meeting_places()},
                   combined,
                   Nearness::exact,
                   Types::integers});
  cases.push_back({"NaN and infinities combined by index",
                   {"scatter"},
                   {with_specials({5, 8}, 6), flip(with_specials({5, 6}, 7)), meeting_places()},
                   [](const Tensors& in) {
                     const NoGrad off;
                     return Tensors{scatter_min(in[0], in[2], in[1], 1), scatter_max(in[0], in[2], in[1], 1)};
                   },
                   Nearness::exact});
}

void add_positions(AgreementCases& cases) {
  const Tensor places = places_below(4, {6, 2}, 8), few = places_below(4, {6, 1}, 9);
  cases.push_back({"slices at positions",
                   {"combine", "scatter", "locate", "find_last"},
                   {random_in(-30, 30, {4, 5, 3}, DType::float64, 10), random_in(-30, 30, {6, 3}, DType::float64, 11),
                    random_in(-30, 30, {6, 5, 3}, DType::float64, 12), places, few},
                   [](const Tensors& in) {
                     return Tensors{scatter_nd_update(in[0], in[3], in[1]), scatter_nd_update(in[0], in[4], in[2])};
                   },
                   Nearness::exact,
                   Types::every});
  const auto added = [](const Tensors& in) {
    return Tensors{scatter_nd_add(in[0], in[3], in[1]), scatter_nd(in[3], in[1], {4, 5, 3}),
                   scatter_nd(in[4], in[2], {7, 5, 3})};
  };
  const Tensors operands = {random_in(-30, 30, {4, 5, 3}, DType::float64, 13),
                            random_in(-30, 30, {6, 3}, DType::float64, 14),
                            random_in(-30, 30, {6, 5, 3}, DType::float64, 15), places, few};
  cases.push_back({"slices added at positions", {"combine", "locate", "take"}, operands, added});
  cases.push_back({"whole slices added at positions", {"combine"}, operands, added, Nearness::exact, Types::integers});
}

void add_index_puts(AgreementCases& cases) {
  const Tensor places = places_below(6, {7}, 16), mask = noise({6, 5}, 17) > 0;
  const Tensors operands = {random_in(-30, 30, {6, 5}, DType::float64, 18),
                            random_in(-30, 30, {7, 5}, DType::float64, 19), places, mask,
                            random_in(-30, 30, {5}, DType::float64, 20)};
  cases.push_back({"elements set in NumPy's notation",
                   {"combine", "scatter", "copy", "find_last"},
                   operands,
                   [](const Tensors& in) {
                     const Tensor &x = in[0], &rows = in[1], &at = in[2], &flags = in[3], &row = in[4];
                     Tensors results = {index_set(x, {at}, rows), index_set(x, {at}, row),
                                        index_set(x, {flags}, row[0]), index_set(x, {from(1, 2), 3}, row[1]),
                                        index_set(x, {all, at % 5}, row[2])};
                     const NoGrad off;
                     Tensor whole = x.copy(), turned = x.copy(), masked = x.copy();
                     whole.index_put({at}, rows);
                     transpose(turned).index_put({all, at}, transpose(rows));
                     masked.index_put({flags}, row[0]);
                     masked.index_put({range(0, 2), at % 5}, row[3]);
                     results.insert(results.end(), {whole, turned, masked});
                     return results;
                   },
                   Nearness::exact,
                   Types::every});
  const auto added = [](const Tensors& in) {
    const Tensor &x = in[0], &rows = in[1], &at = in[2], &flags = in[3], &row = in[4];
    Tensors results = {index_add(x, {at}, rows), index_add(x, {flags}, row[0]), index_add(x, {from(1, 2)}, row),
                       index_add(x, {all, at % 5}, 2)};
    const NoGrad off;
    Tensor whole = x.copy(), turned = x.copy();
    whole.index_put({at}, rows, {.accumulate = true});
    transpose(turned).index_put({all, at}, transpose(rows), {.accumulate = true});
    results.insert(results.end(), {whole, turned});
    return results;
  };
  cases.push_back({"elements added in NumPy's notation", {"combine", "scatter", "take"}, operands, added});
  cases.push_back({"whole elements added in NumPy's notation",
                   {"combine", "scatter"},
                   operands,
                   added,
                   Nearness::exact,
                   Types::integers});
  cases.push_back({"many values for few places",
                   {"combine", "find_last"},
                   {noise({9}, 21), noise({5000}, 22), places_below(9, {5000}, 23)},
                   [](const Tensors& in) {
                     return Tensors{index_set(in[0], {in[2]}, in[1]), index_add(in[0], {in[2]}, in[1])};
                   },
                   Nearness::summed,
                   Types::wide});
  cases.push_back(
      {"few values for very many places",
       {"combine", "find_last"},
       {zeros({300000}, {DType::float32}), random_in(-1, 1, {40}, DType::float32, 24), places_below(300000, {40}, 25)},
       [](const Tensors& in) {
         const NoGrad off;
         return Tensors{index_set(in[0], {concat({in[2], flip(in[2])})}, concat({in[1], in[1]}))};
       },
       Nearness::exact,
       Types::given});
}

void add_segments(AgreementCases& cases) {
  const Tensor ids = places_below(7, {20}, 26) - 1, grid = places_below(4, {4, 5}, 27);
  const auto sums = [](const Tensors& in) {
    return Tensors{segment_sum(in[0], in[1], 8), segment_sum(reshape(in[0], {4, 5, 3}), in[2], 4),
                   segment_sum(narrow(in[0], 0, 0, 0), narrow(in[1], 0, 0, 0), 2)};
  };
  cases.push_back(
      {"sums of segments", {"combine", "take", "check_indices"}, {with_ties({20, 3}, 28), ids, grid}, sums});
  cases.push_back({"whole sums of segments",
                   {"combine"},
                   {random_in(-30, 30, {20, 3}, DType::float64, 29), ids, grid},
                   sums,
                   Nearness::exact,
                   Types::integers});
  cases.push_back({"extremes of segments, some of which are empty",
                   {"combine", "fill"},
                   {(with_ties({20, 3}, 31) + 3) * 4, ids},
                   [](const Tensors& in) {
                     return Tensors{segment_max(in[0], in[1], 8), segment_min(in[0], in[1], 7)};
                   },
                   Nearness::exact,
                   Types::numbers});
  cases.push_back({"means of segments", {"combine"}, {noise({20, 3}, 30), ids}, [](const Tensors& in) {
                     return Tensors{segment_mean(in[0], in[1], 8)};
                   }});
}

}  // namespace

AgreementCases writing_agreement_cases() {
  AgreementCases cases;
  add_scattering(cases);
  add_positions(cases);
  add_index_puts(cases);
  add_segments(cases);
  return cases;
}

}  // namespace tests

TEST_CASE("GPU and CPU agree on what is written by positions", "[gpu][agreement]") {
  tests::check_agreement(&tests::writing_agreement_cases);
}
