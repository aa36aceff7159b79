// Comparisons, predicates, logic, bits, and what is chosen by a condition, on a GPU and on the CPU.
#include "tests/gpu/agreement.hpp"

using namespace capstan;

namespace tests {

namespace {

Tensor truths(const Shape& shape, std::uint64_t seed) { return noise(shape, seed) > 0.2; }

Tensors all_comparisons(const Tensor& a, const Tensor& b) {
  return {equal(a, b), not_equal(a, b), less(a, b), less_equal(a, b), greater(a, b), greater_equal(a, b)};
}

void add_comparisons(AgreementCases& cases) {
  cases.push_back({"comparisons with ties",
                   {"compare"},
                   {with_ties({7, 33}, 1) * 4, with_ties({7, 33}, 2) * 4},
                   [](const Tensors& in) { return all_comparisons(in[0], in[1]); },
                   Nearness::exact,
                   Types::numbers});
  cases.push_back({"comparisons that broadcast, of views, and with numbers",
                   {"compare"},
                   {with_ties({20, 33}, 3) * 4, with_ties({20, 1}, 4) * 4},
                   [](const Tensors& in) {
                     Tensors list = all_comparisons(in[0], in[1]);
                     for (const Tensor& y : all_comparisons(transpose(in[0]), flip(transpose(in[0]), 1)))
                       list.push_back(y);
                     list.insert(list.end(), {(in[0] == 2), (in[0] < 1), (in[0] >= 0), (narrow(in[0], 0, 0, 0) > 1)});
                     return list;
                   },
                   Nearness::exact,
                   Types::numbers});
  cases.push_back({"comparisons with NaN, infinities and zeros of both signs",
                   {"compare", "predicate"},
                   {with_specials({9, 13}, 5), flip(with_specials({9, 13}, 6)),
                    from_vector(std::vector<double>{0.0, -0.0, kNaN, kInfinity, -kInfinity, 1e-40})},
                   [](const Tensors& in) {
                     Tensors list = all_comparisons(in[0], in[1]);
                     for (const Tensor& y : all_comparisons(in[2], expand_dims(in[2], 1))) list.push_back(y);
                     list.insert(list.end(), {isnan(in[0]), isinf(in[0]), isfinite(in[0]), isnan(transpose(in[1])),
                                              isinf(in[1].index({all, from(0, 2)})), isfinite(flip(in[1]))});
                     return list;
                   },
                   Nearness::exact});
  cases.push_back({"integers are finite",
                   {"predicate"},
                   {with_ties({5, 4}, 7) * 4},
                   [](const Tensors& in) {
                     return Tensors{isnan(in[0]), isinf(in[0]), isfinite(in[0])};
                   },
                   Nearness::exact,
                   Types::every});
  cases.push_back({"numbers that are close",
                   {"compare", "select"},
                   {with_specials({50}, 8), with_specials({50}, 8) * (1 + 1e-5 * noise({50}, 9))},
                   [](const Tensors& in) {
                     return Tensors{is_close(in[0], in[1]), is_close(in[0], in[1], 1e-3, 1e-3, true)};
                   },
                   Nearness::exact,
                   Types::wide});
}

void add_logic(AgreementCases& cases) {
  cases.push_back({"truth values",
                   {"logical", "compare", "bitwise"},
                   {truths({6, 35}, 11), truths({6, 35}, 12), truths({6, 1}, 13)},
                   [](const Tensors& in) {
                     const Tensor &a = in[0], &b = in[1], &c = in[2];
                     return Tensors{logical_and(a, b),
                                    logical_or(a, c),
                                    logical_xor(a, b),
                                    logical_not(a),
                                    equal(a, b),
                                    not_equal(a, c),
                                    a & b,
                                    a | c,
                                    a ^ b,
                                    logical_not(transpose(a)),
                                    logical_and(flip(a), b),
                                    logical_or(a.index({all, from(0, 2)}), c),
                                    logical_xor(narrow(a, 0, 0, 0), narrow(b, 0, 0, 0))};
                   },
                   Nearness::exact,
                   Types::given});
  cases.push_back({"bits and shifts",
                   {"bitwise"},
                   {random_in(-120, 120, {5, 40}, DType::float64, 14), random_in(-3, 12, {5, 40}, DType::float64, 15),
                    random_in(0, 100, {40}, DType::float64, 16)},
                   [](const Tensors& in) {
                     const Tensor &a = in[0], &b = in[1], &c = in[2];
                     return Tensors{a & b,  a | c,         a ^ b,       ~a,
                                    a << b, a >> b,        a >> c,      a << 3,
                                    a >> 2, ~transpose(a), flip(a) & b, transpose(a) << transpose(b)};
                   },
                   Nearness::exact,
                   Types::integers});
}

void add_choices(AgreementCases& cases) {
  cases.push_back({"where",
                   {"select"},
                   {truths({6, 35}, 21), random_in(-60, 60, {6, 35}, DType::float64, 22),
                    random_in(-60, 60, {35}, DType::float64, 23), truths({6, 1}, 24)},
                   [](const Tensors& in) {
                     const Tensor &condition = in[0], &a = in[1], &b = in[2];
                     return Tensors{
                         where(condition, a, b), where(in[3], a, b),
                         where(transpose(condition), transpose(a), transpose(flip(a))),
                         where(condition.index({all, from(0, 3)}), b.index({from(0, 3)}), a.index({all, from(0, 3)})),
                         where(narrow(condition, 0, 0, 0), narrow(a, 0, 0, 0), b)};
                   },
                   Nearness::exact,
                   Types::every});
  cases.push_back({"where with numbers, clip and masked_fill",
                   {"select"},
                   {truths({6, 35}, 25), with_ties({6, 35}, 26) * 4},
                   [](const Tensors& in) {
                     return Tensors{where(in[0], in[1], 1), where(in[0], 2, in[1]), clip(in[1], 1, 5),
                                    masked_fill(in[1], in[0], 3), masked_fill(transpose(in[1]), transpose(in[0]), 4)};
                   },
                   Nearness::exact,
                   Types::numbers});
  cases.push_back({"a gradient through masked_fill for the value",
                   {"select", "reduce"},
                   {truths({6, 35}, 27), noise({6, 35}, 28), noise({35}, 29)},
                   [](const Tensors& in) { return Tensors{masked_fill(in[1], in[0], in[2])}; }});
}

void add_watching(AgreementCases& cases) {
  cases.push_back({"numbers that are watched",
                   {"any_bad"},
                   {noise({9, 13}, 31), zeros({0, 4}, {DType::float64})},
                   [](const Tensors& in) {
                     const debug::NumericsScope watched;
                     GradientTape tape;
                     tape.watch(in[0]);
                     const Tensor y = exp(in[0]);
                     const Tensor slope = tape.gradient(y, in[0], {.output_gradient = full_like(y, 2)});
                     return Tensors{y, slope, transpose(in[0]) * 2, in[1] + 1, sum(in[0])};
                   }});
}

}  // namespace

AgreementCases question_agreement_cases() {
  AgreementCases cases;
  add_comparisons(cases);
  add_logic(cases);
  add_choices(cases);
  add_watching(cases);
  return cases;
}

}  // namespace tests

TEST_CASE("GPU and CPU agree on questions and their answers", "[gpu][agreement]") {
  tests::check_agreement(&tests::question_agreement_cases);
}
