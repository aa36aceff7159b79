// What training does with whole lists of tensors, on a GPU and on the CPU: clipping, scaling, sums, averages.
#include <capstan/ops/lists.hpp>
#include <capstan/optim/accumulate.hpp>
#include <capstan/optim/clip.hpp>
#include <capstan/optim/ema.hpp>
#include <capstan/optim/loss_scale.hpp>

#include "tests/gpu/agreement.hpp"

using namespace capstan;

namespace tests {

namespace {

/// A number of the host as a result.
Tensor told(bool value, const Tensor& like) { return full({}, value, {DType::bool8, like.device()}); }
Tensor told(double value, const Tensor& like) { return full({}, value, {DType::float64, like.device()}); }
void append(Tensors& results, const Tensors& more) { results.insert(results.end(), more.begin(), more.end()); }

/// A list of gradients, one of which is undefined.
Tensors a_list() {
  return {noise({37}, 1), noise({4, 5}, 2) * 2, noise({}, 3), Tensor(), noise({0, 3}, 4), noise({3, 2, 4}, 5)};
}
Tensors copies_of(const Tensors& list) {
  Tensors copies;
  for (const Tensor& x : list) copies.push_back(x.defined() ? x.copy() : x);
  return copies;
}

void add_clipping(AgreementCases& cases) {
  cases.push_back({"elements limited", {"parametric", "parametric_backward"}, a_list(), [](const Tensors& in) {
                     Tensors results = optim::clip_by_value(in, 0.4);
                     append(results, optim::clip_by_value(in, -0.7, 0.1));
                     return results;
                   }});
  for (const double order : {1.0, 2.0, 3.5, 0.5, kInfinity})
    cases.push_back({"common norms of order " + std::to_string(order),
                     {"add_powers", "scale"},
                     a_list(),
                     [order](const Tensors& in) {
                       const optim::ClippedGradients less = optim::clip_by_global_norm(
                                                         in, 0.3, {.order = order, .epsilon = 1e-6}),
                                                     all_of_it = optim::clip_by_global_norm(in, 1e6, {.order = order});
                       Tensors results = {optim::global_norm(in, order), less.norm, all_of_it.norm};
                       append(results, less.gradients);
                       append(results, all_of_it.gradients);
                       append(results, optim::clip_by_norm(in, 0.5, {.order = order}));
                       results.push_back(optim::clip_by_norm(in[1], 0.5, {.order = order}));
                       return results;
                     },
                     Nearness::summed});
  cases.push_back({"norms of lists without elements, and of long ones",
                   {"add_powers"},
                   {noise({0}, 6), noise({30001}, 7), noise({3, 2}, 8)},
                   [](const Tensors& in) {
                     const NoGrad off;
                     Tensors results;
                     for (const double order : {1.0, 2.0, 3.0, kInfinity}) {
                       results.push_back(optim::global_norm({in[0]}, order));
                       results.push_back(optim::global_norm({in[1], in[2]}, order));
                       results.push_back(optim::global_norm({narrow(in[1], 0, 1, 20000), transpose(in[2])}, order));
                     }
                     return results;
                   },
                   Nearness::summed});
  cases.push_back(
      {"norms that are not finite",
       {"add_powers", "scale"},
       {from_vector(std::vector<double>{0.5, -kInfinity, 1}, {3}),
        from_vector(std::vector<double>{0.5, kNaN, kInfinity}, {3}), noise({4}, 9)},
       [](const Tensors& in) {
         const NoGrad off;
         Tensors results;
         for (const double order : {1.0, 2.0, 3.0, kInfinity})
           for (const Tensor& x : {in[0], in[1]}) {
             const optim::ClippedGradients clipped = optim::clip_by_global_norm({x, in[2]}, 0.3, {.order = order});
             append(results, clipped.gradients);
             results.push_back(clipped.norm);
           }
         return results;
       }});
  cases.push_back({"gradients clipped where they are",
                   {"add_powers", "scale"},
                   a_list(),
                   [](const Tensors& in) {
                     const NoGrad off;
                     Tensors results = optim::clip_by_global_norm(copies_of(in), 0.7).gradients;
                     append(results, optim::clip_by_norm(copies_of(in), 0.7));
                     append(results, optim::clip_by_value(copies_of(in), 0.2));
                     return results;
                   },
                   Nearness::summed});
}

void add_scaling(AgreementCases& cases) {
  cases.push_back({"lists times a factor",
                   {"scale"},
                   a_list(),
                   [](const Tensors& in) {
                     Tensors results;
                     for (const double factor : {0.37, -1.0, 0.0, 1.0, 1024.0}) {
                       const ScaledResult scaled = scale_each(in, factor);
                       append(results, scaled.tensors);
                       results.push_back(told(scaled.finite, in[0]));
                     }
                     return results;
                   },
                   Nearness::exact});
  cases.push_back({"lists times a factor where they are",
                   {"scale"},
                   {with_specials({40}, 10), noise({1030}, 11), noise({3, 7}, 12)},
                   [](const Tensors& in) {
                     const NoGrad off;
                     const Tensor whole = in[1].copy();
                     const ScaledResult some = scale_each(copies_of(in), 3.3),
                                        fine = scale_each({in[1].copy(), transpose(in[2])}, 0.3),
                                        part = scale_each({narrow(whole, 0, 1, 1001), flip(in[2])}, 0.3);
                     Tensors results = some.tensors;
                     append(results, fine.tensors);
                     append(results, part.tensors);
                     append(results, {told(some.finite, whole), told(fine.finite, whole), told(part.finite, whole)});
                     return results;
                   },
                   Nearness::exact});
  cases.push_back(
      {"losses that are scaled",
       {"scale"},
       {noise({9}, 13), noise({40}, 14), with_specials({40}, 15)},
       [](const Tensors& in) {
         optim::LossScaler scaler({.scale = 1024, .growth = 4, .interval = 1});
         Tensors results = {scaler.scale(in[0])};
         const NoGrad off;
         for (const std::size_t which : {std::size_t{1}, std::size_t{2}, std::size_t{1}}) {
           const optim::UnscaledGradients unscaled = scaler.unscale({in[0].copy(), Tensor(), in[which].copy()});
           scaler.update();
           append(results, unscaled.gradients);
           append(results, {told(unscaled.finite, in[0]), told(scaler.scale(), in[0])});
         }
         return results;
       },
       Nearness::exact});
}

void add_sums(AgreementCases& cases) {
  Tensors inputs = a_list();
  append(inputs,
         {noise({37}, 16), noise({4, 5}, 17), noise({}, 18), noise({5}, 19), noise({0, 3}, 20), noise({4, 2, 3}, 21)});
  cases.push_back({"lists added up", {"accumulate", "copy"}, inputs, [](const Tensors& in) {
                     Tensors totals(in.begin(), in.begin() + 6);
                     const Tensors more(in.begin() + 6, in.end() - 1);
                     for (int i = 0; i < 2; ++i) {
                       Tensors added = more;
                       added[1] = i == 0 ? Tensor() : flip(more[1]);
                       added.push_back(permute(in.back(), {2, 1, 0}));
                       add_each(totals, added);
                     }
                     return totals;
                   }});
  cases.push_back({"gradients of small batches", {"accumulate", "scale"}, inputs, [](const Tensors& in) {
                     const NoGrad off;
                     Tensors results;
                     for (const bool mean_of_them : {true, false}) {
                       optim::GradientAccumulator accumulator({.batches = 3, .mean = mean_of_them});
                       for (int i = 0; i < 3; ++i) {
                         Tensors list = copies_of(Tensors(in.begin() + 6, in.end()));
                         if (i == 1) list[2] = Tensor();
                         list[3] = Tensor();
                         accumulator.add(list);
                       }
                       append(results, accumulator.take());
                     }
                     return results;
                   }});
}

// --- averages --------------------------------------------------------------------------------------------------------

void add_averages(AgreementCases& cases) {
  cases.push_back({"averages that follow",
                   {"blend", "copy"},
                   {noise({37}, 22), noise({4, 5}, 23), noise({0}, 24), noise({37}, 25), noise({5, 4}, 26),
                    noise({0}, 27), places_below(9, {6}, 28)},
                   [](const Tensors& in) {
                     const NoGrad off;
                     const Tensors averages = copies_of({in[0], in[1], in[2], zeros_like(in[6])});
                     const Tensors towards = {in[3], transpose(in[4]), in[5], in[6]};
                     Tensors results;
                     for (const double weight : {0.1, 0.75, 1.0}) {
                       blend_each(averages, towards, weight);
                       append(results, copies_of(averages));
                     }
                     blend_each(averages, averages, 0.3);
                     append(results, averages);
                     return results;
                   }});
  cases.push_back({"lists that change places",
                   {"exchange"},
                   {random_in(-60, 60, {37}, DType::float64, 29), random_in(-60, 60, {4, 5}, DType::float64, 30),
                    noise({0}, 31), random_in(-60, 60, {1500}, DType::float64, 32)},
                   [](const Tensors& in) {
                     const NoGrad off;
                     const Tensors a = copies_of(in), b = copies_of({flip(in[0]), flip(in[1]), in[2], flip(in[3])});
                     exchange_each(a, b);
                     const Tensor whole = in[3].copy(), other = flip(in[3]).copy();
                     exchange_each(Tensors{narrow(whole, 0, 1, 701)}, Tensors{narrow(other, 0, 750, 701)});
                     Tensors results = a;
                     append(results, b);
                     append(results, {whole, other});
                     return results;
                   },
                   Nearness::exact,
                   Types::every});
  struct Way {
    const char* name;
    optim::EmaOptions options;
  };
  for (const Way& way :
       {Way{"", {.decay = 0.9}}, Way{", warmed up", {.decay = 0.9, .warm_up = true}},
        Way{", without the start", {.decay = 0.9, .debias = true}}, Way{", all equal", {.equal = true}}})
    cases.push_back({std::string("averages of parameters") + way.name,
                     {"blend", "exchange"},
                     {noise({37}, 33), noise({4, 5}, 34), places_below(9, {6}, 35)},
                     [options = way.options](const Tensors& in) {
                       const NoGrad off;
                       const Tensors parameters = copies_of(in);
                       optim::Ema ema(parameters, options);
                       Tensors results;
                       for (int i = 0; i < 3; ++i) {
                         for (Tensor p : parameters) p += 1;
                         ema.update();
                         append(results, copies_of(ema.averages()));
                       }
                       {
                         const optim::Ema::Swap swapped = ema.swap();
                         append(results, copies_of(parameters));
                       }
                       append(results, copies_of(parameters));
                       ema.copy_to(parameters);
                       append(results, parameters);
                       return results;
                     }});
}

/// Gradients of a few rows stay what they are.
void add_rows(AgreementCases& cases) {
  cases.push_back({"lists of a few rows",
                   {"add_powers", "scale", "accumulate"},
                   {places_below(9, {5}, 36), noise({5, 4}, 37), noise({9, 4}, 38)},
                   [](const Tensors& in) {
                     const NoGrad off;
                     const auto rows = [&] { return from_row_slices({in[0], in[1].copy()}, {9, 4}); };
                     const optim::ClippedGradients clipped = optim::clip_by_global_norm({rows(), in[2]}, 0.5);
                     Tensors results = clipped.gradients;
                     results.push_back(clipped.norm);
                     append(results, optim::clip_by_value({rows()}, 0.5));
                     append(results, scale_each({rows()}, 0.3).tensors);
                     Tensors totals = {rows(), in[2].copy(), Tensor()};
                     add_each(totals, {rows(), rows(), rows()});
                     append(results, totals);
                     optim::GradientAccumulator accumulator({.batches = 2});
                     accumulator.add({rows(), rows()});
                     accumulator.add({rows(), in[2].copy()});
                     append(results, accumulator.take());
                     return results;
                   },
                   Nearness::summed});
}

}  // namespace

AgreementCases training_agreement_cases() {
  AgreementCases cases;
  add_clipping(cases);
  add_scaling(cases);
  add_sums(cases);
  add_averages(cases);
  add_rows(cases);
  return cases;
}

}  // namespace tests

TEST_CASE("GPU and CPU agree on the tools of training", "[gpu][agreement]") {
  tests::check_agreement(&tests::training_agreement_cases);
}
