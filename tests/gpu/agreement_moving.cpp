// Copies between layouts and types, filling, and whatever else only moves elements, on a GPU and on the CPU.
#include "tests/gpu/agreement.hpp"

using namespace capstan;

namespace tests {

namespace {

/// Values that every type has, and some that it has to clamp, round or cut.
Tensor mixed_numbers() {
  return from_vector(
      std::vector<double>{0.0,           -0.0,      1.0,        -1.0,    0.5,     -0.5,   2.5,          3.999,
                          -3.999,        100.25,    -100.25,    127.0,   128.0,   -128.0, -129.0,       255.0,
                          256.0,         32767.0,   -32769.0,   65504.0, 65536.0, 1e6,    2147483647.0, 2147483648.0,
                          -2147483649.0, 9.3e18,    -9.3e18,    1e30,    -1e30,   1e-6,   1e-39,        3.14159,
                          kNaN,          kInfinity, -kInfinity, 7.0},
      {4, 9});
}

Tensors all_casts(const Tensor& x) {
  Tensors list;
  for (const DType dtype : types_of(Types::every)) list.push_back(cast(x, dtype));
  return list;
}

void add_copies(AgreementCases& cases) {
  const Tensor x = random_in(-60, 60, {24, 20}, DType::float64, 1);
  cases.push_back({"copies of views",
                   {"copy"},
                   {x},
                   [](const Tensors& in) {
                     const Tensor &a = in[0], deep = reshape(a, {4, 6, 20});
                     return Tensors{transpose(a).copy(),
                                    flip(a).copy(),
                                    a.index({from(1, 2), from(-1, -3)}).copy(),
                                    broadcast_to(a[3], {5, 20}).copy(),
                                    broadcast_to(narrow(a, 1, 2, 1), {24, 7}).copy(),
                                    permute(deep, {2, 0, 1}).copy(),
                                    permute(deep, {1, 2, 0}).copy(),
                                    diagonal(a).copy(),
                                    sliding_window(a, 0, 5, 3).copy(),
                                    a[7].copy(),
                                    narrow(a, 0, 0, 0).copy()};
                   },
                   Nearness::exact,
                   Types::every});
  cases.push_back(
      {"matrices transposed by tiles",
       {"copy"},
       {random_in(-60, 60, {3, 40, 33}, DType::float64, 2), random_in(-60, 60, {65, 130}, DType::float64, 3)},
       [](const Tensors& in) {
         return Tensors{transpose(in[0], 1, 2).copy(), permute(in[0], {2, 0, 1}).copy(), transpose(in[1]).copy(),
                        transpose(narrow(in[1], 1, 1, 100)).copy()};
       },
       Nearness::exact,
       Types::every});
  cases.push_back({"casts between all types",
                   {"copy"},
                   {mixed_numbers()},
                   [](const Tensors& in) { return all_casts(in[0]); },
                   Nearness::exact,
                   Types::every});
  cases.push_back({"casts of views",
                   {"copy"},
                   {x},
                   [](const Tensors& in) {
                     Tensors list = all_casts(transpose(in[0]));
                     for (const Tensor& y : all_casts(in[0].index({all, from(3, 2)}))) list.push_back(y);
                     for (const Tensor& y : all_casts(broadcast_to(in[0][1], {3, 20}))) list.push_back(y);
                     return list;
                   },
                   Nearness::exact,
                   Types::every});
}

void add_filling(AgreementCases& cases) {
  const Tensor x = random_in(-60, 60, {24, 20}, DType::float64, 4);
  cases.push_back({"tensors full of a number",
                   {"fill"},
                   {x},
                   [](const Tensors& in) {
                     const NoGrad off;
                     Tensor whole = in[0].copy(), part = in[0].copy();
                     whole.fill(7);
                     part.index({from(0, 2), from(1, 3)}).fill(5);
                     part[3].fill(0);
                     return Tensors{whole,
                                    part,
                                    zeros_like(in[0]),
                                    ones_like(in[0]),
                                    full_like(in[0], 3),
                                    zeros({0, 4}, {in[0].dtype(), in[0].device()}),
                                    full({}, 2, {in[0].dtype(), in[0].device()})};
                   },
                   Nearness::exact,
                   Types::numbers});
  cases.push_back({"truth values of one kind",
                   {"fill"},
                   {cast(with_ties({5, 7}, 5), DType::bool8)},
                   [](const Tensors& in) {
                     Tensor part = in[0].copy();
                     part.index({all, from(1, 2)}).fill(true);
                     return Tensors{part, zeros_like(in[0]), ones_like(in[0]), isnan(in[0]), isfinite(in[0])};
                   },
                   Nearness::exact,
                   Types::given});
  cases.push_back({"ranges and identities",
                   {"copy", "fill"},
                   {x},
                   [](const Tensors& in) {
                     const TensorOptions like{in[0].dtype(), in[0].device()};
                     return Tensors{arange(0, 17, 3, like), eye(4, 6, like), zeros({3}, like)};
                   },
                   Nearness::exact,
                   Types::numbers});
}

void add_assignment(AgreementCases& cases) {
  cases.push_back({"assignment, broadcast and converted",
                   {"copy"},
                   {random_in(-60, 60, {6, 5, 4}, DType::float64, 6), random_in(-60, 60, {5, 1}, DType::float32, 7)},
                   [](const Tensors& in) {
                     const NoGrad off;
                     Tensor whole = in[0].copy(), part = in[0].copy(), own = in[0].copy();
                     whole.assign(in[1]);
                     transpose(part).index({from(0, 2)}).assign(in[1][2].index({newaxis, newaxis}));
                     own.index({range(1, 6)}).assign(own.index({range(0, 5)}));  // it overlaps
                     return Tensors{whole, part, own};
                   },
                   Nearness::exact,
                   Types::every});
  cases.push_back({"operators in place",
                   {"binary", "copy"},
                   {random_in(1, 9, {6, 5}, DType::float64, 8), random_in(1, 9, {5}, DType::float64, 9)},
                   [](const Tensors& in) {
                     const NoGrad off;
                     Tensor a = in[0].copy(), b = in[0].copy(), c = in[0].copy();
                     a += in[1];
                     a *= 2;
                     transpose(b).index({range(0, 2)}) -= in[0][0][0];
                     c -= c;
                     return Tensors{a, b, c};
                   },
                   Nearness::exact,
                   Types::numbers});
  cases.push_back({"gradients that add up", {"accumulate"}, {noise({33, 5}, 10)}, [](const Tensors& in) {
                     const Tensor& x = in[0];
                     return Tensors{square(x), x * 3, x + transpose(transpose(x)), narrow(x, 0, 3, 9), x[2]};
                   }});
}

void add_rearranging(AgreementCases& cases) {
  const Tensor x = random_in(-60, 60, {6, 10}, DType::float64, 11), y = random_in(-60, 60, {6, 10}, DType::float64, 12);
  cases.push_back({"joined, cut and turned",
                   {"copy"},
                   {x, y},
                   [](const Tensors& in) {
                     const Tensor &a = in[0], &b = in[1];
                     Tensors list = {concat({a, b}),
                                     concat({a, flip(b)}, 1),
                                     stack({a, b}, 1),
                                     tile(a, {2, 3}),
                                     repeat(a, 3, 1),
                                     roll(a, 4, 1),
                                     roll(a, {2, -3}, {0, 1}),
                                     reshape(transpose(a), {4, 15}),
                                     concat({a, narrow(b, 0, 0, 0)})};
                     for (const Tensor& part : array_split(a, 4, 1)) list.push_back(part.copy());
                     return list;
                   },
                   Nearness::exact,
                   Types::every});
  cases.push_back({"padding of all kinds",
                   {"copy", "fill"},
                   {x},
                   [](const Tensors& in) {
                     Tensors list;
                     for (const PadMode mode :
                          {PadMode::constant, PadMode::edge, PadMode::reflect, PadMode::symmetric, PadMode::wrap})
                       list.push_back(pad(in[0], {{2, 1}, {0, 3}}, mode));
                     return list;
                   },
                   Nearness::exact,
                   Types::every});
  cases.push_back({"layouts and pixels",
                   {"copy"},
                   {random_in(-60, 60, {2, 12, 3, 4}, DType::float64, 13)},
                   [](const Tensors& in) {
                     const Tensor& a = in[0];
                     return Tensors{nhwc_from_nchw(a).copy(),
                                    nchw_from_nhwc(a).copy(),
                                    conv_kernel_from_hwio(a).copy(),
                                    pixel_shuffle(a, 2),
                                    pixel_unshuffle(reshape(a, {2, 4, 6, 6}), 2),
                                    channel_shuffle(a, 3)};
                   },
                   Nearness::exact,
                   Types::every});
  cases.push_back({"triangles and diagonals",
                   {"triangle"},
                   {random_in(-60, 60, {2, 7, 5}, DType::float64, 14), random_in(-60, 60, {6}, DType::float64, 15)},
                   [](const Tensors& in) {
                     Tensors list;
                     for (const std::int64_t offset : {-9, -2, 0, 1, 4, 9}) {
                       list.push_back(tril(in[0], offset));
                       list.push_back(triu(in[0], offset));
                       list.push_back(tril(transpose(in[0], 1, 2), offset));
                     }
                     list.insert(list.end(), {diag(in[1]), diag(in[1], -2), diag(in[0][0], 1).copy()});
                     return list;
                   },
                   Nearness::exact,
                   Types::every});
}

}  // namespace

AgreementCases moving_agreement_cases() {
  AgreementCases cases;
  add_copies(cases);
  add_filling(cases);
  add_assignment(cases);
  add_rearranging(cases);
  return cases;
}

}  // namespace tests

TEST_CASE("GPU and CPU agree on what moves elements", "[gpu][agreement]") {
  tests::check_agreement(&tests::moving_agreement_cases);
}
