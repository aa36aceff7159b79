// Elements read by positions, rows of tables, and bags of them on a GPU and on the CPU.
#include "tests/gpu/agreement.hpp"

using namespace capstan;

namespace tests {

namespace {

/// In [-count, count).
Tensor signed_places(std::int64_t count, const Shape& shape, std::uint64_t seed) {
  return places_below(2 * count, shape, seed) - count;
}

void add_gathering(AgreementCases& cases) {
  cases.push_back({"slices along each axis",
                   {"take", "locate", "gather_backward", "combine"},
                   {random_in(-60, 60, {7, 5, 6}, DType::float64, 1), signed_places(5, {4, 3}, 2),
                    signed_places(5, {9}, 3).to(DType::int32)},
                   [](const Tensors& in) {
                     const Tensor &x = in[0], &at = in[1], &few = in[2];
                     return Tensors{gather(x, at),
                                    gather(x, few, 1),
                                    gather(x, at, 2),
                                    take(x, few, 1),
                                    take(x, at),
                                    gather(transpose(x), few, 1),
                                    gather(x, transpose(at), 1),
                                    gather(x, narrow(few, 0, 0, 0)),
                                    gather(flip(x), few, 2)};
                   },
                   Nearness::exact,
                   Types::every});
  cases.push_back({"an index for each element",
                   {"take", "combine"},
                   {random_in(-60, 60, {6, 8}, DType::float64, 4), signed_places(8, {6, 5}, 5),
                    signed_places(6, {3, 8}, 6), signed_places(8, {1, 4}, 7), places_below(8, {6}, 8)},
                   [](const Tensors& in) {
                     const Tensor& x = in[0];
                     return Tensors{take_along_axis(x, in[1], 1), take_along_axis(x, in[2], 0),
                                    take_along_axis(x, in[3], 1), take_along_axis(transpose(x), transpose(in[1]), 0),
                                    pick(x, in[4])};
                   },
                   Nearness::exact,
                   Types::every});
  cases.push_back({"positions side by side",
                   {"take", "locate", "check_indices", "combine"},
                   {random_in(-60, 60, {4, 5, 6}, DType::float64, 9), places_below(4, {7, 3}, 10),
                    places_below(4, {3, 2, 2}, 11), places_below(4, {5, 1}, 12)},
                   [](const Tensors& in) {
                     const Tensor& x = in[0];
                     return Tensors{gather_nd(x, in[1]), gather_nd(x, in[2]), gather_nd(x, in[3]),
                                    gather_nd(transpose(x), in[1]), gather_nd(x, narrow(in[1], 1, 0, 0))};
                   },
                   Nearness::exact,
                   Types::every});
}

void add_indexing(AgreementCases& cases) {
  cases.push_back({"index tensors among ranges and integers",
                   {"take", "locate", "combine", "true_positions"},
                   {random_in(-60, 60, {4, 5, 6}, DType::float64, 13), signed_places(4, {3}, 14),
                    signed_places(4, {2, 1}, 15), noise({4, 5}, 16) > 0},
                   [](const Tensors& in) {
                     const Tensor &x = in[0], &a = in[1], &b = in[2];
                     return Tensors{x.index({all, a}),
                                    x.index({b, a}),
                                    x.index({a, range(1, 4), a}),
                                    x.index({2, ellipsis, a}),
                                    x.index({newaxis, from(-1, -1), a, from(-1, -2)}),
                                    x.index({in[3]}),
                                    x.index({in[3], 1}),
                                    transpose(x).index({a, b}),
                                    x.index({a, a, a}),
                                    x.index({a.to(DType::int8)}),
                                    x[a]};
                   },
                   Nearness::exact,
                   Types::every});
  cases.push_back({"one row looked up very often, and gradients that meet in one tensor",
                   {"take", "gather_backward", "locate", "accumulate"},
                   {noise({11, 3}, 17), places_below(11, {2500}, 18), zeros({300}, {DType::int64})},
                   [](const Tensors& in) {
                     return Tensors{gather(in[0], in[1]), gather(in[0], in[2]), square(in[0]), gather(in[0], in[2])};
                   },
                   Nearness::summed,
                   Types::wide});
  cases.push_back({"wide rows",
                   {"take", "gather_backward"},
                   {noise({6, 600}, 19), places_below(6, {9}, 20)},
                   [](const Tensors& in) {
                     return Tensors{gather(in[0], in[1]), take(in[0], in[1], 1)};
                   },
                   Nearness::exact});
}

void add_embeddings(AgreementCases& cases) {
  cases.push_back({"rows of tables",
                   {"take", "gather_backward", "check_indices"},
                   {noise({12, 5}, 21), places_below(12, {3, 4}, 22)},
                   [](const Tensors& in) {
                     return Tensors{embedding(in[1], in[0]), embedding(in[1], in[0], {.padding_index = 3}),
                                    embedding(in[1], in[0], {.scale_by_frequency = true}),
                                    embedding(narrow(in[1], 0, 0, 0), in[0])};
                   }});
  cases.push_back({"rows of tables, many of them",
                   {"take", "gather_backward"},
                   {noise({12, 130}, 24), places_below(12, {2600}, 25)},
                   [](const Tensors& in) { return Tensors{embedding(in[1], in[0])}; },
                   Nearness::summed,
                   Types::wide});
  cases.push_back({"rows of tables that are shortened first",
                   {"take", "compress", "combine"},
                   {noise({12, 5}, 26), places_below(12, {3, 4}, 27)},
                   [](const Tensors& in) {
                     const NoGrad off;
                     const Tensor table = in[0].copy();
                     const Tensor rows = embedding(in[1], table, {.max_norm = 0.9});
                     return Tensors{rows, table};
                   }});
  cases.push_back({"bags of rows",
                   {"embedding_bag", "searchsorted", "gather_backward"},
                   {noise({12, 6}, 28), places_below(12, {5, 4}, 29), places_below(12, {17}, 30), Tensor{0, 4, 4, 9},
                    noise({17}, 31), noise({12, 16}, 32)},
                   [](const Tensors& in) {
                     const Tensor &table = in[0], &grid = in[1], &list = in[2], &offsets = in[3];
                     return Tensors{
                         embedding_bag(grid, table),
                         embedding_bag(grid, table, {.mode = BagMode::sum}),
                         embedding_bag(grid, table, {.mode = BagMode::max}),
                         embedding_bag(list, table, {.offsets = offsets}),
                         embedding_bag(list, table, {.offsets = offsets, .weights = in[4], .mode = BagMode::sum}),
                         embedding_bag(list, table, {.offsets = offsets, .padding_index = 2}),
                         embedding_bag(list, table, {.offsets = offsets, .include_last_offset = true}),
                         embedding_bag(list, in[5], {.offsets = offsets, .scale_by_frequency = true})};
                   }});
}

}  // namespace

AgreementCases choosing_agreement_cases() {
  AgreementCases cases;
  add_gathering(cases);
  add_indexing(cases);
  add_embeddings(cases);
  return cases;
}

}  // namespace tests

TEST_CASE("GPU and CPU agree on what positions choose", "[gpu][agreement]") {
  tests::check_agreement(&tests::choosing_agreement_cases);
}
