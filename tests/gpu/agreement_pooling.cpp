// Pooling of all kinds on a GPU and on the CPU.
#include "tests/gpu/agreement.hpp"

using namespace capstan;

namespace tests {

namespace {

const std::vector<std::string> kMax = {"max_pool", "max_pool_scatter"};
const std::vector<std::string> kMeans = {"avg_pool", "avg_pool_scatter"};

template <class Options>
struct Setting {
  const char* text;
  Options options = {};
};

/// All kinds of windows over [2, 3, 19], [2, 3, 11, 14] and [2, 2, 6, 7, 8].
Tensors pooled(const Tensors& in, const MaxPoolOptions& options) {
  return {max_pool1d(in[0], 3, options), max_pool2d(in[1], {3, 2}, options), max_pool3d(in[2], {2, 3, 2}, options)};
}
Tensors pooled(const Tensors& in, const AvgPoolOptions& options) {
  return {avg_pool1d(in[0], 3, options), avg_pool2d(in[1], {3, 2}, options), avg_pool3d(in[2], {2, 3, 2}, options)};
}
Tensors planes_with_ties() {
  return {(with_ties({2, 3, 19}, 1) + 3) * 4, (with_ties({2, 3, 11, 14}, 2) + 3) * 4,
          (with_ties({2, 2, 6, 7, 8}, 3) + 3) * 4};
}
Tensors planes() { return {noise({2, 3, 19}, 4), noise({2, 3, 11, 14}, 5), noise({2, 2, 6, 7, 8}, 6)}; }

void add_largest(AgreementCases& cases) {
  const Setting<MaxPoolOptions> settings[] = {{"side by side", {}},
                                              {"overlapping", {.stride = 1}},
                                              {"apart", {.stride = 4}},
                                              {"padded", {.stride = 2, .padding = 1}},
                                              {"dilated", {.stride = 2, .padding = 1, .dilation = 2}},
                                              {"reaching beyond", {.stride = 3, .ceil = true}},
                                              {"SAME", {.stride = 2, .padding = PaddingRule::same}}};
  for (const auto& [text, options] : settings)
    cases.push_back({std::string("largest of windows ") + text, kMax, planes_with_ties(),
                     [o = options](const Tensors& in) { return pooled(in, o); }, Nearness::exact, Types::numbers});
  cases.push_back({"largest of windows with their places",
                   {"max_pool", "max_pool_positions", "max_pool_scatter"},
                   planes_with_ties(),
                   [](const Tensors& in) {
                     Tensors results;
                     for (const MaxPoolResult& r :
                          {max_pool1d_with_indices(in[0], 3, {.stride = 2, .padding = 1}),
                           max_pool2d_with_indices(in[1], {3, 2}, {.stride = {1, 2}, .dilation = 2}),
                           max_pool3d_with_indices(in[2], 2),
                           max_pool2d_with_indices(transpose(in[1], 2, 3), 3, {.padding = {{1, 0}, {2, 1}}})})
                       results.insert(results.end(), {r.values, r.indices});
                     return results;
                   },
                   Nearness::exact,
                   Types::numbers});
  cases.push_back({"largest of windows among values that are not finite",
                   {"max_pool"},
                   {with_specials({2, 3, 40}, 7), with_specials({1, 2, 12, 13}, 8)},
                   [](const Tensors& in) {
                     const MaxPoolResult a = max_pool1d_with_indices(in[0], 5, {.stride = 2}),
                                         b = max_pool2d_with_indices(in[1], 3);
                     return Tensors{a.values, a.indices, b.values, b.indices};
                   },
                   Nearness::exact});
  cases.push_back(
      {"largest of large windows",
       {"max_pool", "max_pool_positions", "max_pool_scatter"},
       {noise({2, 3, 40, 41}, 9), noise({3, 2, 2100}, 10)},
       [](const Tensors& in) {
         const MaxPoolResult a = max_pool2d_with_indices(in[0], {20, 17}, {.stride = 5});
         return Tensors{a.values, a.indices, max_pool1d(in[1], 1500, {.stride = 100}), max_pool2d(in[0], {1, 41})};
       },
       Nearness::exact,
       Types::wide});
  cases.push_back({"largest values put back to their places",
                   {"max_pool", "scatter"},
                   planes_with_ties(),
                   [](const Tensors& in) {
                     const MaxPoolResult a = max_pool1d_with_indices(in[0], 3),
                                         b = max_pool2d_with_indices(in[1], {3, 2}, {.stride = 2}),
                                         c = max_pool3d_with_indices(in[2], 2);
                     return Tensors{max_unpool1d(a.values, a.indices, 3, {.output_size = 19}),
                                    max_unpool2d(b.values, b.indices, {3, 2}, {.stride = 2}),
                                    max_unpool3d(c.values, c.indices, 2, {.output_size = {6, 7, 8}})};
                   },
                   Nearness::exact,
                   Types::numbers});
  cases.push_back({"gradients of gradients of pooling",
                   {"max_pool", "max_pool_gather", "max_pool_scatter"},
                   {noise({2, 3, 11, 14}, 11)},
                   [](const Tensors& in) {
                     GradientTape inner;
                     inner.watch(in[0]);
                     const Tensor y = sum(square(max_pool2d(in[0], {3, 2}, {.stride = 2})));
                     return Tensors{inner.gradient(y, in[0])};
                   }});
}

void add_means(AgreementCases& cases) {
  const Setting<AvgPoolOptions> settings[] = {
      {"side by side", {}},
      {"overlapping", {.stride = 1}},
      {"apart", {.stride = 4}},
      {"padded", {.stride = 2, .padding = 1}},
      {"padded, without what is beyond", {.stride = 2, .padding = 1, .ceil = true, .count_include_pad = false}},
      {"reaching beyond", {.stride = 3, .padding = 1, .ceil = true}},
      {"divided by a number", {.stride = 2, .padding = 1, .divisor_override = 5}},
      {"SAME", {.stride = 2, .padding = PaddingRule::same}}};
  for (const auto& [text, options] : settings)
    cases.push_back({std::string("means of windows ") + text, kMeans, planes(),
                     [o = options](const Tensors& in) { return pooled(in, o); }, Nearness::summed});
  cases.push_back({"means of views and of large windows",
                   kMeans,
                   {noise({2, 3, 11, 14}, 12), noise({2, 2, 40, 41}, 13), noise({0, 2, 9}, 14)},
                   [](const Tensors& in) {
                     return Tensors{avg_pool2d(transpose(in[0], 2, 3), 2), avg_pool2d(in[0][1], {3, 2}),
                                    avg_pool2d(in[1], {20, 17}, {.stride = 5}), avg_pool2d(in[1], {40, 41}),
                                    avg_pool1d(in[2], 2)};
                   },
                   Nearness::summed});
  cases.push_back(
      {"norms of windows",
       {"avg_pool", "unary"},
       {random_in(0.2, 2, {2, 3, 19}, DType::float64, 15), random_in(0.2, 2, {2, 3, 11, 14}, DType::float64, 16)},
       [](const Tensors& in) {
         return Tensors{lp_pool1d(in[0], 2, 3), lp_pool2d(in[1], 3, {3, 2}, {.stride = 2, .ceil = true})};
       },
       Nearness::summed,
       Types::wide});
}

void add_adaptive(AgreementCases& cases) {
  cases.push_back({"means of a given number", kMeans, planes(),
                   [](const Tensors& in) {
                     return Tensors{adaptive_avg_pool1d(in[0], 7),
                                    adaptive_avg_pool1d(in[0], 30),
                                    adaptive_avg_pool2d(in[1], {4, 5}),
                                    adaptive_avg_pool2d(in[1], {-1, 1}),
                                    adaptive_avg_pool3d(in[2], {2, 7, 3}),
                                    global_avg_pool(in[1]),
                                    global_avg_pool(in[2], {.keepdims = true})};
                   },
                   Nearness::summed});
  cases.push_back({"largest of a given number", kMax, planes_with_ties(),
                   [](const Tensors& in) {
                     const MaxPoolResult a = adaptive_max_pool1d_with_indices(in[0], 7),
                                         b = adaptive_max_pool2d_with_indices(in[1], {4, 20}),
                                         c = adaptive_max_pool3d_with_indices(in[2], {2, 1, 3});
                     return Tensors{a.values,
                                    a.indices,
                                    b.values,
                                    b.indices,
                                    c.values,
                                    c.indices,
                                    adaptive_max_pool2d(in[1], {-1, 3}),
                                    global_max_pool(in[1]),
                                    global_max_pool(in[2], {.keepdims = true})};
                   },
                   Nearness::exact, Types::numbers});
}

}  // namespace

AgreementCases pooling_agreement_cases() {
  AgreementCases cases;
  add_largest(cases);
  add_means(cases);
  add_adaptive(cases);
  return cases;
}

}  // namespace tests

TEST_CASE("GPU and CPU agree on pooling", "[gpu][agreement]") {
  tests::check_agreement(&tests::pooling_agreement_cases);
}
