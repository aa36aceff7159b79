// Distinct elements, searching, histograms, masks and lengths on a GPU and on the CPU.
#include "tests/gpu/agreement.hpp"

using namespace capstan;

namespace tests {

namespace {

Tensors distinct_parts(const Tensor& x) {
  const UniqueResult all_parts = unique_all(x);
  return {unique(x), all_parts.values, all_parts.indices, all_parts.inverse_indices, all_parts.counts};
}

void add_distinct(AgreementCases& cases) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{0, 3}, Shape{9, 20}, Shape{3000}})
    cases.push_back({"distinct elements of " + to_string(shape),
                     {"sort", "count_distinct", "distinct"},
                     {(with_ties(shape, 1) + 3) * 4},
                     [](const Tensors& in) { return distinct_parts(in[0]); },
                     Nearness::exact,
                     shape.numel() > 1000 ? Types::wide : Types::every});
  cases.push_back({"distinct elements of views, and every NaN by itself",
                   {"sort", "count_distinct", "distinct"},
                   {with_specials({6, 30}, 2)},
                   [](const Tensors& in) {
                     Tensors results = distinct_parts(in[0]);
                     for (const Tensor& y : distinct_parts(transpose(floor(in[0] * 3)))) results.push_back(y);
                     return results;
                   },
                   Nearness::exact});
}

void add_searching(AgreementCases& cases) {
  cases.push_back(
      {"places among sorted elements",
       {"searchsorted"},
       {sort((with_ties({40}, 3) + 3) * 4), (with_ties({7, 9}, 4) + 3) * 4, sort((with_ties({7, 30}, 5) + 3) * 4)},
       [](const Tensors& in) {
         return Tensors{searchsorted(in[0], in[1]),
                        searchsorted(in[0], in[1], {.right = true}),
                        searchsorted(in[2], in[1]),
                        searchsorted(in[2], in[1], {.right = true}),
                        bucketize(transpose(in[1]), in[0]),
                        searchsorted(narrow(in[0], 0, 0, 0), in[1]),
                        searchsorted(in[0], narrow(in[1], 0, 0, 0)),
                        searchsorted(in[0].index({from(0, 2)}), in[1])};
       },
       Nearness::exact,
       Types::numbers});
  cases.push_back({"places of values that are not finite",
                   {"searchsorted"},
                   {sort(with_specials({30}, 6)), with_specials({40}, 7)},
                   [](const Tensors& in) {
                     return Tensors{searchsorted(in[0], in[1]), searchsorted(in[0], in[1], {.right = true})};
                   },
                   Nearness::exact});
}

Tensors parts_of(const HistogramResult& result) { return {result.counts, result.edges}; }

void add_histograms(AgreementCases& cases) {
  cases.push_back({"histograms",
                   {"histogram", "reduce"},
                   {random_in(-30, 60, {7, 90}, DType::float64, 8)},
                   [](const Tensors& in) {
                     const NoGrad off;
                     Tensors results = parts_of(histogram(in[0], 10));
                     for (const HistogramResult& h :
                          {histogram(in[0], 7, 0.0, 50.0), histogram(transpose(in[0]), 1, 2.0, 2.0),
                           histogram(in[0], 5000, 0.0, 63.0), histogram(narrow(in[0], 0, 0, 0), 4)})
                       for (const Tensor& y : parts_of(h)) results.push_back(y);
                     return results;
                   },
                   Nearness::exact,
                   Types::wide});
  cases.push_back({"histograms of whole numbers, and in 16 bits",
                   {"histogram"},
                   {random_in(-30, 60, {7, 90}, DType::float64, 9)},
                   [](const Tensors& in) { return parts_of(histogram(in[0], 9, -16.0, 56.0)); },
                   Nearness::exact,
                   Types::numbers});
  cases.push_back({"histograms with weights, and of values that are not finite",
                   {"histogram"},
                   {with_specials({300}, 10), noise({300}, 11)},
                   [](const Tensors& in) {
                     const NoGrad off;
                     return parts_of(histogram(in[0], 6, -1.0, 1.0, in[1]));
                   },
                   Nearness::rounded,
                   Types::wide});
  cases.push_back({"numbers of whole numbers",
                   {"bincount", "reduce"},
                   {places_below(40, {7, 50}, 12), noise({7, 50}, 13), places_below(100, {300}, 14).to(DType::int8)},
                   [](const Tensors& in) {
                     const NoGrad off;
                     return Tensors{bincount(in[0]), bincount(in[0], 60),
                                    bincount(transpose(in[0]), 0, transpose(in[1])), bincount(in[2], 5000),
                                    bincount(narrow(in[0], 0, 0, 0), 3)};
                   },
                   Nearness::rounded});
}

Tensors masked(const Tensor& x, const Tensor& mask) {
  Tensors results = nonzero(mask);
  results.insert(results.end(),
                 {argwhere(mask), masked_select(x, mask), x.index({mask}), count_nonzero(x), argwhere(x)});
  return results;
}

void add_masks(AgreementCases& cases) {
  for (const Shape& shape : {Shape{1}, Shape{33}, Shape{6, 35}, Shape{0, 3}, Shape{2, 3, 4, 5}, Shape{20000}})
    cases.push_back({"elements where a mask " + to_string(shape) + " is true",
                     {"count_true", "true_positions", "compress", "expand", "unravel"},
                     {with_ties(shape, 15) * 4, noise(shape, 16) > 0.3},
                     [](const Tensors& in) { return masked(in[0], in[1]); },
                     Nearness::exact,
                     shape.numel() > 1000 ? Types::wide : Types::every});
  cases.push_back({"rows where a mask is true",
                   {"count_true", "compress", "expand", "take"},
                   {with_ties({30, 4, 3}, 17) * 4, noise({30}, 18) > 0, noise({30, 4}, 19) > 0},
                   [](const Tensors& in) {
                     const Tensor& x = in[0];
                     return Tensors{x.index({in[1]}),
                                    x.index({in[2]}),
                                    x.index({all, all, noise({3}, 20).to(x.device()) > 0}),
                                    masked_select(x, expand_dims(in[2], 2)),
                                    masked_select(transpose(x, 0, 2), in[1]),
                                    x.index({in[1] & !in[1]})};
                   },
                   Nearness::exact,
                   Types::every});
}

void add_lengths(AgreementCases& cases) {
  cases.push_back({"lengths",
                   {"compare", "take", "one_hot", "check_indices"},
                   {random_in(-40, 40, {4, 6, 3}, DType::float64, 21), places_below(7, {4}, 22),
                    places_below(4, {6}, 23).to(DType::int32)},
                   [](const Tensors& in) {
                     return Tensors{reverse_sequence(in[0], in[1]),
                                    sequence_mask(in[1], 8),
                                    sequence_mask(in[2]),
                                    sequence_mask(in[1], 5, DType::float32),
                                    repeat(in[0], in[1], 0),
                                    repeat(in[0], in[2], 1),
                                    one_hot(in[1], 7),
                                    one_hot(in[2], 5, 3, -1, DType::int16),
                                    one_hot(transpose(broadcast_to(in[1], {2, 4})), 6, 1, 0, DType::float64)};
                   },
                   Nearness::exact,
                   Types::every});
}

}  // namespace

AgreementCases counting_agreement_cases() {
  AgreementCases cases;
  add_distinct(cases);
  add_searching(cases);
  add_histograms(cases);
  add_masks(cases);
  add_lengths(cases);
  return cases;
}

}  // namespace tests

TEST_CASE("GPU and CPU agree on distinct elements, searching, counting and masks", "[gpu][agreement]") {
  tests::check_agreement(&tests::counting_agreement_cases);
}
