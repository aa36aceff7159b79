// Attention on a GPU and on the CPU: tiles that are full, ragged and empty, masks, biases, views.
#include "tests/gpu/agreement.hpp"

using namespace capstan;

namespace tests {

namespace {

const std::vector<std::string> kSlots = {"attention", "attention_backward"};

struct Extent {
  std::int64_t queries, keys, features, values;
};

Tensors operands(const std::vector<std::int64_t>& lead, const Extent& s, std::uint64_t seed) {
  const auto shaped = [&](std::int64_t rows, std::int64_t columns) {
    std::vector<std::int64_t> sizes(lead);
    sizes.insert(sizes.end(), {rows, columns});
    return Shape(std::span<const std::int64_t>(sizes));
  };
  return {noise(shaped(s.queries, s.features), seed) * 2, noise(shaped(s.keys, s.features), seed + 1) * 2,
          noise(shaped(s.keys, s.values), seed + 2)};
}

Tensor attended(const Tensors& in, const AttentionOptions& options) {
  return scaled_dot_product_attention(in[0], in[1], in[2], options);
}

void add_sizes(AgreementCases& cases) {
  for (const Extent& s :
       {Extent{1, 1, 1, 1}, Extent{5, 7, 8, 6}, Extent{16, 64, 16, 64}, Extent{17, 65, 17, 65}, Extent{40, 33, 20, 130},
        Extent{70, 5, 3, 4}, Extent{0, 5, 4, 3}, Extent{4, 0, 4, 3}, Extent{4, 5, 4, 0}}) {
    const std::string text = std::to_string(s.queries) + " queries, " + std::to_string(s.keys) + " keys, " +
                             std::to_string(s.features) + " features, " + std::to_string(s.values) + " values";
    for (const bool causal : {false, true})
      cases.push_back({"attention of " + text + (causal ? ", causal" : ""), kSlots, operands({2, 3}, s, 1),
                       [causal](const Tensors& in) { return Tensors{attended(in, {.causal = causal})}; },
                       Nearness::summed, s.queries > 30 ? Types::wide : Types::floating});
  }
}

void add_masks(AgreementCases& cases) {
  Tensors in = operands({2, 3}, {20, 70, 8, 5}, 11);
  in.push_back(noise({2, 1, 20, 70}, 14) > -0.3);
  in.push_back(noise({20, 70}, 15));
  in.push_back((noise({20, 1}, 16) > 0) & (noise({1, 70}, 17) > -2));  // whole queries may attend to nothing
  in.push_back(where(noise({2, 3, 20, 70}, 18) > 0.5, -kInfinity, noise({2, 3, 20, 70}, 19)));
  cases.push_back({"attention with masks", kSlots, in,
                   [](const Tensors& o) {
                     return Tensors{attended(o, {.mask = o[3]}), attended(o, {.mask = o[5]}),
                                    attended(o, {.mask = o[3], .causal = true}),
                                    attended(o, {.mask = broadcast_to(o[3], {2, 3, 20, 70}), .scale = 0.2})};
                   },
                   Nearness::summed});
  cases.push_back({"attention with biases",
                   {"attention", "attention_backward", "softmax", "matmul"},
                   in,
                   [](const Tensors& o) {
                     return Tensors{attended(o, {.bias = o[4]}),
                                    attended(o, {.mask = o[3], .bias = stop_gradient(o[6])}),
                                    attended(o, {.bias = stop_gradient(o[4]), .causal = true})};
                   },
                   Nearness::summed,
                   Types::wide});
  cases.push_back(
      {"attention with dropout, and with its weights",
       {"softmax", "softmax_backward", "matmul", "dropout", "keep"},
       operands({2}, {9, 11, 8, 5}, 21),
       [](const Tensors& o) {
         Rng rng(5);
         const AttentionResult both = attention_with_weights(o[0], o[1], o[2], {.causal = true}, rng);
         return Tensors{scaled_dot_product_attention(o[0], o[1], o[2], {.keep = 0.7}, rng), both.output, both.weights};
       },
       Nearness::summed});
}

void add_views(AgreementCases& cases) {
  // heads from the middle: [batch, places, heads, features]
  cases.push_back({"attention of heads that are views, and of heads that broadcast",
                   kSlots,
                   {noise({2, 20, 3, 8}, 31), noise({2, 33, 3, 8}, 32), noise({2, 33, 3, 6}, 33),
                    noise({1, 3, 33, 8}, 34), noise({33, 6}, 35)},
                   [](const Tensors& in) {
                     const Tensor q = transpose(in[0], 1, 2), k = transpose(in[1], 1, 2), v = transpose(in[2], 1, 2);
                     return Tensors{scaled_dot_product_attention(q, k, v), scaled_dot_product_attention(q, in[3], v),
                                    scaled_dot_product_attention(q, k, in[4]),
                                    scaled_dot_product_attention(q[0][0], k[0][0], in[4]),
                                    scaled_dot_product_attention(flip(q), k, v)};
                   },
                   Nearness::summed});
  cases.push_back({"scores that are enormous", kSlots, operands({2}, {5, 70, 4, 3}, 36),
                   [](const Tensors& in) {
                     const NoGrad off;
                     return Tensors{scaled_dot_product_attention(in[0] * 100, in[1] * 100, in[2], {.scale = 1.0})};
                   },
                   Nearness::summed, Types::wide});
}

void add_positions(AgreementCases& cases) {
  cases.push_back({"rotated positions",
                   {"binary", "take"},
                   {noise({2, 7, 8}, 41), places_below(30, {7}, 42)},
                   [](const Tensors& in) {
                     return Tensors{rotary_embedding(in[0]),
                                    rotary_embedding(in[0], {.offset = 5, .interleaved = false}),
                                    rotary_embedding(in[0], {.positions = in[1]})};
                   },
                   Nearness::summed});
}

}  // namespace

AgreementCases attention_agreement_cases() {
  AgreementCases cases;
  add_sizes(cases);
  add_masks(cases);
  add_views(cases);
  add_positions(cases);
  return cases;
}

}  // namespace tests

TEST_CASE("GPU and CPU agree on attention", "[gpu][agreement]") {
  tests::check_agreement(&tests::attention_agreement_cases);
}
