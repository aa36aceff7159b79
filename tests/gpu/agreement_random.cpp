// Random numbers and what is made with them on a GPU and on the CPU: the same bits.
#include "tests/gpu/agreement.hpp"

using namespace capstan;

namespace tests {

namespace {

/// Further tensors from where `rng` stands: what is drawn one after the other must not meet.
struct Drawing {
  Rng rng;
  TensorOptions options;
  Tensors results = {};
  void add(const Tensor& x) { results.push_back(x); }
};

void add_numbers(AgreementCases& cases) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{1023}, Shape{4, 257}, Shape{3, 0}}) {
    cases.push_back({"random numbers of " + to_string(shape),
                     {"random"},
                     {noise({1}, 1)},
                     [shape](const Tensors& in) {
                       Drawing d{Rng(7), {in[0].dtype(), in[0].device()}};
                       d.add(uniform(shape, -1.5, 2.5, d.rng, d.options));
                       d.add(normal(shape, 0.5, 3, d.rng, d.options));
                       d.add(normal(shape, d.rng, d.options));
                       d.add(truncated_normal(shape, -1, 2, d.rng, d.options));
                       d.add(exponential(shape, 1.5, d.rng, d.options));
                       d.add(gumbel(shape, 0.25, 2, d.rng, d.options));
                       return d.results;
                     },
                     Nearness::exact});
    cases.push_back({"random decisions of " + to_string(shape),
                     {"random"},
                     {noise({1}, 1)},
                     [shape](const Tensors& in) {
                       Drawing d{Rng(8), {in[0].dtype(), in[0].device()}};
                       for (const double p : {0.0, 0.3, 0.999, 1.0}) d.add(bernoulli(shape, p, d.rng, d.options));
                       return d.results;
                     },
                     Nearness::exact,
                     Types::every});
    cases.push_back({"random integers of " + to_string(shape),
                     {"random"},
                     {noise({1}, 1)},
                     [shape](const Tensors& in) {
                       Drawing d{Rng(9), {in[0].dtype(), in[0].device()}};
                       d.add(randint(0, 2, shape, d.rng, d.options));
                       d.add(randint(3, 120, shape, d.rng, d.options));
                       d.add(randint(5, 6, shape, d.rng, d.options));
                       return d.results;
                     },
                     Nearness::exact,
                     Types::integers});
  }
  cases.push_back(
      {"random integers from all there are",
       {"random"},
       {noise({1}, 1)},
       [](const Tensors& in) {
         Rng rng(10);
         const TensorOptions long_ones{DType::int64, in[0].device()}, short_ones{DType::int8, in[0].device()};
         return Tensors{randint(INT64_MIN, INT64_MAX, {65}, rng, long_ones),
                        randint(-3, std::int64_t{1} << 40, {65}, rng, long_ones),
                        randint(-128, 128, {65}, rng, short_ones)};
       },
       Nearness::exact,
       Types::given});
}

/// Numbers depend on the seed, the stream and the position alone.
void add_positions(AgreementCases& cases) {
  cases.push_back({"random numbers far along the stream",
                   {"random"},
                   {noise({1}, 1)},
                   [](const Tensors& in) {
                     Drawing d{Rng(0xFEDCBA9876543210u).stream(0x123456789ABCDEFu), {in[0].dtype(), in[0].device()}};
                     for (const std::uint64_t position :
                          {std::uint64_t{12345}, std::uint64_t{0xFFFFFFFF}, std::uint64_t{0xFFFFFFFFFFFFFFF0}}) {
                       d.rng.set_position(position);
                       d.add(uniform({130}, 0, 1, d.rng, d.options));
                       d.add(normal({3}, d.rng, d.options));
                       d.add(bernoulli({5}, 0.5, d.rng, d.options));
                     }
                     return d.results;
                   },
                   Nearness::exact});
  cases.push_back({"rows in random order",
                   {"random"},
                   {noise({50, 3}, 2), noise({1}, 3)},
                   [](const Tensors& in) {
                     Rng rng(11);
                     return Tensors{shuffle(in[0], rng), shuffle(transpose(in[0]), rng), shuffle(in[1], rng)};
                   },
                   Nearness::exact,
                   Types::every});
}

void add_choices(AgreementCases& cases) {
  cases.push_back({"decisions with a probability each",
                   {"bernoulli"},
                   {random_in(0, 1, {5, 41}, DType::float64, 4), from_vector(std::vector<double>{0, 1, 0.5}, {3}),
                    zeros({0, 4}, {.dtype = DType::float64, .device = cpu()})},
                   [](const Tensors& in) {
                     const NoGrad off;
                     Rng rng(12);
                     Tensors results;
                     for (const Tensor& p : in) results.push_back(bernoulli(p, rng));
                     results.push_back(bernoulli(transpose(in[0]), rng));
                     results.push_back(bernoulli(broadcast_to(in[1], {4, 3}), rng));
                     return results;
                   },
                   Nearness::exact});
  for (const Shape& shape : {Shape{3, 1}, Shape{4, 10}, Shape{2, 32}, Shape{2, 33}, Shape{3, 300}, Shape{1, 2100},
                             Shape{1, 33000}, Shape{0, 5}})
    cases.push_back({"classes of " + to_string(shape),
                     {"categorical"},
                     {noise(shape, 5) * 3},
                     [](const Tensors& in) {
                       const NoGrad off;
                       Rng rng(13);
                       return Tensors{categorical(in[0], 1, rng), categorical(in[0], 67, rng),
                                      categorical(in[0], 0, rng), categorical(flip(in[0]), 5, rng)};
                     },
                     Nearness::exact,
                     shape.numel() > 10000 ? Types::given : Types::floating});
  cases.push_back({"classes of which some are impossible",
                   {"categorical"},
                   {where(noise({4, 9}, 6) > -0.3, noise({4, 9}, 7), -kInfinity),
                    where(noise({2, 70}, 8) > 0.7, 800.0, noise({2, 70}, 9))},
                   [](const Tensors& in) {
                     const NoGrad off;
                     Rng rng(14);
                     return Tensors{categorical(in[0], 40, rng), categorical(in[1], 40, rng)};
                   },
                   Nearness::exact});
}

// --- noise for training ----------------------------------------------------------------------------------------------

void add_dropout(AgreementCases& cases) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{1023}, Shape{4, 257}, Shape{0, 3}})
    cases.push_back({"dropout of " + to_string(shape),
                     {"dropout", "keep"},
                     {noise(shape, 20)},
                     [](const Tensors& in) {
                       Rng rng(15);
                       return Tensors{dropout(in[0], 0.7, rng), dropout(in[0], 0.25, rng), dropout(in[0], 1, rng)};
                     },
                     Nearness::exact});
  cases.push_back({"dropout of views",
                   {"dropout", "keep"},
                   {noise({9, 14}, 21)},
                   [](const Tensors& in) {
                     Rng rng(16);
                     const Tensor& x = in[0];
                     return Tensors{dropout(transpose(x), 0.6, rng), dropout(flip(x), 0.6, rng),
                                    dropout(x.index({from(1, 2)}), 0.6, rng),
                                    dropout(broadcast_to(x[0], {3, 14}), 0.6, rng),
                                    dropout(narrow(x, 1, 1, 7), 0.6, rng)};
                   },
                   Nearness::exact});
  cases.push_back({"dropout of what is not finite",
                   {"dropout"},
                   {with_specials({60}, 22)},
                   [](const Tensors& in) {
                     Rng rng(17);
                     return Tensors{dropout(in[0], 0.5, rng), alpha_dropout(in[0], 0.5, rng)};
                   },
                   Nearness::exact});
  cases.push_back({"dropout of whole channels",
                   {"dropout", "keep", "random"},
                   {noise({3, 5, 7}, 23), noise({2, 3, 4, 5}, 24), noise({2, 3, 2, 2, 3}, 25), noise({5, 9}, 26),
                    noise({2, 0, 4}, 27)},
                   [](const Tensors& in) {
                     Rng rng(18);
                     return Tensors{dropout1d(in[0], 0.6, rng), dropout1d(in[3], 0.6, rng),
                                    dropout2d(in[1], 0.6, rng), dropout2d(in[0], 0.6, rng),
                                    dropout3d(in[2], 0.6, rng), dropout1d(in[4], 0.6, rng),
                                    drop_path(in[1], 0.5, rng), drop_path(transpose(in[3]), 0.5, rng)};
                   },
                   Nearness::exact});
  cases.push_back({"dropout that keeps moments",
                   {"dropout", "keep", "random"},
                   {noise({4, 33}, 28), noise({3, 5, 7}, 29)},
                   [](const Tensors& in) {
                     Rng rng(19);
                     return Tensors{alpha_dropout(in[0], 0.8, rng),         alpha_dropout(transpose(in[0]), 0.3, rng),
                                    feature_alpha_dropout(in[1], 0.6, rng), gaussian_dropout(in[0], 0.8, rng),
                                    gaussian_noise(in[0], 0.5, rng),        gaussian_noise(in[1], 0, rng)};
                   },
                   Nearness::exact});
}

}  // namespace

AgreementCases random_agreement_cases() {
  AgreementCases cases;
  add_numbers(cases);
  add_positions(cases);
  add_choices(cases);
  add_dropout(cases);
  return cases;
}

}  // namespace tests

TEST_CASE("GPU and CPU agree on random numbers", "[gpu][agreement]") {
  tests::check_agreement(&tests::random_agreement_cases);
}
