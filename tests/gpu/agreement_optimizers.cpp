// Steps of every optimizer on a GPU and on the CPU.
#include <capstan/optim/optimizers.hpp>

#include "tests/gpu/agreement.hpp"

using namespace capstan;

namespace tests {

namespace {

using GradientsAt = std::function<Tensors(int)>;

/// An optimizer with options. Its results are the parameters, and what else it makes of them.
struct Kind {
  std::string name;
  std::function<Tensors(const Tensors& parameters, const GradientsAt& gradients, bool lazy)> train;
};

template <class Optimizer, class Options>
Kind kind_of(const char* name, const Options& options, int steps = 3) {
  return {name, [options, steps](const Tensors& parameters, const GradientsAt& gradients, [[maybe_unused]] bool lazy) {
            Options own = options;
            if constexpr (requires { own.lazy; }) own.lazy = lazy;
            Optimizer optimizer(parameters, own);
            for (int t = 0; t < steps; ++t) optimizer.apply(gradients(t));
            Tensors results = parameters;
            if constexpr (requires { optimizer.averages(); })
              for (const Tensor& x : optimizer.averages()) results.push_back(x);
            return results;
          }};
}

std::vector<Kind> kinds() {
  using namespace optim;
  return {
      kind_of<Sgd>("Sgd", SgdOptions{.learning_rate = 0.05}),
      kind_of<Sgd>("Sgd with decay", SgdOptions{.learning_rate = 0.05, .weight_decay = 0.1, .maximize = true}),
      kind_of<Sgd>("Sgd with momentum", SgdOptions{.learning_rate = 0.05, .momentum = 0.9}),
      kind_of<Sgd>("Sgd with dampening", SgdOptions{.learning_rate = 0.05, .momentum = 0.8, .dampening = 0.3}),
      kind_of<Sgd>("Sgd with Nesterov's momentum",
                   SgdOptions{.learning_rate = 0.05, .momentum = 0.9, .nesterov = true, .weight_decay = 0.1}),
      kind_of<Asgd>("Asgd", AsgdOptions{.learning_rate = 0.05, .lambda = 0.1, .start = 0}),
      kind_of<Lion>("Lion", LionOptions{.learning_rate = 0.02, .weight_decay = 0.1}),
      kind_of<Rprop>("Rprop", RpropOptions{.learning_rate = 0.02, .smallest = 0.011, .largest = 0.023}),
      kind_of<Adagrad>("Adagrad",
                       AdagradOptions{.learning_rate = 0.05, .learning_rate_decay = 0.1, .initial_accumulator = 0.1}),
      kind_of<Adadelta>("Adadelta", AdadeltaOptions{.epsilon = 1e-3, .weight_decay = 0.1}),
      kind_of<RmsProp>("RmsProp", RmsPropOptions{.learning_rate = 0.02, .alpha = 0.9}),
      kind_of<RmsProp>("RmsProp with momentum", RmsPropOptions{.learning_rate = 0.02, .alpha = 0.9, .momentum = 0.8}),
      kind_of<RmsProp>("centered RmsProp", RmsPropOptions{.learning_rate = 0.02, .alpha = 0.9, .centered = true}),
      kind_of<RmsProp>("centered RmsProp with momentum",
                       RmsPropOptions{.learning_rate = 0.02, .alpha = 0.9, .momentum = 0.8, .centered = true}),
      kind_of<Adam>("Adam", AdamOptions{.learning_rate = 0.05, .weight_decay = 0.1}),
      kind_of<Adam>("Adam with the largest squares", AdamOptions{.learning_rate = 0.05, .beta2 = 0.5, .amsgrad = true}),
      kind_of<AdamW>("AdamW", AdamWOptions{.learning_rate = 0.05, .weight_decay = 0.2, .maximize = true}),
      kind_of<AdamW>("AdamW with the largest squares",
                     AdamWOptions{.learning_rate = 0.05, .beta2 = 0.5, .amsgrad = true}),
      kind_of<Adamax>("Adamax", AdamaxOptions{.learning_rate = 0.05, .beta2 = 0.5}),
      kind_of<Nadam>("Nadam", NadamOptions{.learning_rate = 0.05, .weight_decay = 0.1}),
      kind_of<RAdam>("RAdam", RAdamOptions{.learning_rate = 0.05, .beta2 = 0.9}, 8),  // squares count from step 6 on
      kind_of<Lamb>("Lamb", LambOptions{.learning_rate = 0.05, .weight_decay = 0.1})};
}

/// Of step t, from one tensor: small, negative and other numbers, in strides of all kinds.
Tensor gradient_at(const Tensor& g, int t) {
  switch (t % 3) {
    case 0: return g;
    case 1: return flip(g) * 0.5;
    default: return g * -0.7 + 0.1;
  }
}
Tensors copies_of(const Tensors& list, std::size_t count) {
  Tensors copies;
  for (std::size_t i = 0; i < count; ++i) copies.push_back(list[i].copy());
  return copies;
}
/// Parameters, then as many gradients.
Tensors with_gradients(const std::vector<Shape>& shapes) {
  Tensors inputs;
  for (const Shape& shape : shapes) inputs.push_back(noise(shape, 100 + inputs.size()));
  for (const Shape& shape : shapes) inputs.push_back(noise(shape, 100 + inputs.size()));
  return inputs;
}

Use trained(const Kind& kind) {
  return [kind](const Tensors& in) {
    const NoGrad off;
    const std::size_t count = in.size() / 2;
    const auto gradients = [&](int t) {
      Tensors list;
      for (std::size_t i = 0; i < count; ++i) list.push_back(gradient_at(in[count + i], t));
      if (t == 1) list[0] = Tensor();  // it takes one step less
      return list;
    };
    return kind.train(copies_of(in, count), gradients, false);
  };
}

void add_every_kind(AgreementCases& cases) {
  for (const Kind& kind : kinds()) {
    cases.push_back({"steps of " + kind.name,
                     {"optimizer_steps"},
                     with_gradients({{7}, {4, 5}, {}, {0, 3}, {66}}),
                     trained(kind),
                     Nearness::chained});
    cases.push_back(
        {"steps of " + kind.name + " for places in a larger tensor",
         {"optimizer_steps"},
         {noise({3, 40}, 1), noise({21}, 2), noise({3, 7}, 3)},
         [kind](const Tensors& in) {
           const NoGrad off;
           const Tensor whole = in[0].copy();
           const Tensors parameters = {narrow(whole[0], 0, 1, 21), reshape(narrow(whole[2], 0, 3, 21), {3, 7})};
           Tensors results = kind.train(
               parameters,
               [&](int t) {
                 return Tensors{gradient_at(in[1], t), gradient_at(in[2], t)};
               },
               false);
           results.push_back(whole);
           return results;
         },
         Nearness::chained});
  }
}

void add_long_lists(AgreementCases& cases) {
  const std::vector<Kind> every = kinds();
  std::vector<Shape> many;
  for (std::int64_t i = 0; i < 95; ++i) many.push_back({1 + i % 6});
  for (const Kind& kind : every)
    if (kind.name == "Sgd" || kind.name == "Adam" || kind.name == "Lamb") {
      cases.push_back({"steps of " + kind.name + " for many parameters",
                       {"optimizer_steps"},
                       with_gradients(many),
                       trained(kind),
                       Nearness::chained,
                       Types::wide});
      cases.push_back({"steps of " + kind.name + " for long parameters",
                       {"optimizer_steps"},
                       with_gradients({{3}, {20001}, {2, 8192}, {4}}),
                       trained(kind),
                       Nearness::chained,
                       Types::wide});
    }
  cases.push_back(
      {"steps of parameters of several types and groups",
       {"optimizer_steps"},
       {noise({5}, 4).to(DType::float32), noise({6}, 5).to(DType::float16), noise({7}, 6),
        noise({8}, 7).to(DType::float32), noise({9}, 8).to(DType::bfloat16), noise({10}, 9).to(DType::float16)},
       [](const Tensors& in) {
         const NoGrad off;
         const Tensors p = copies_of(in, in.size());
         using AdamGroup = optim::Group<optim::AdamOptions>;
         optim::Adam adam({AdamGroup{{p[0], p[1]}, {.learning_rate = 0.1}},
                           AdamGroup{{p[2], p[3], p[4], p[5]}, {.learning_rate = 0.02}}});
         for (int t = 0; t < 3; ++t) {
           Tensors gradients;
           for (const Tensor& x : in) gradients.push_back(gradient_at(flip(x), t));
           adam.apply(gradients);
         }
         return p;
       },
       Nearness::chained,
       Types::given});
  cases.push_back({"steps whose gradients are parameters",
                   {"optimizer_steps"},
                   {noise({9}, 10), noise({9}, 11)},
                   [](const Tensors& in) {
                     const NoGrad off;
                     const Tensors p = copies_of(in, 2);
                     optim::Sgd sgd(p, {.learning_rate = 0.1, .momentum = 0.5});
                     for (int t = 0; t < 3; ++t) sgd.apply(Tensors{p[1], flip(p[0])});
                     return p;
                   },
                   Nearness::chained});
}

// --- gradients of a few rows -----------------------------------------------------------------------------------------

/// Rows of which some are given twice, and none.
Tensors rows_at(const Tensors& in, int t) {
  const Tensor places = t == 1 ? flip(in[2]) : in[2];
  return {from_row_slices({places, gradient_at(in[3], t)}, in[0].shape()),
          from_row_slices({places, gradient_at(in[4], t)}, in[1].shape()),
          from_row_slices({narrow(places, 0, 0, 0), narrow(in[4], 0, 0, 0)}, in[1].shape())};
}

void add_rows(AgreementCases& cases) {
  const Tensors inputs = {noise({12, 8}, 12), noise({12, 5}, 13), places_below(12, {6}, 14), noise({6, 8}, 15),
                          noise({6, 5}, 16)};
  for (const Kind& kind : kinds())
    for (const bool lazy : {false, true})
      cases.push_back({"steps of " + kind.name + (lazy ? ", lazy, for a few rows" : " for a few rows"),
                       {"optimizer_rows", "optimizer_steps"},
                       inputs,
                       [kind, lazy](const Tensors& in) {
                         const NoGrad off;
                         return kind.train(
                             {in[0].copy(), in[1].copy(), in[1].copy()}, [&](int t) { return rows_at(in, t); }, lazy);
                       },
                       Nearness::chained});
  cases.push_back({"steps by rows of a rule that moves all",
                   {"optimizer_rows"},
                   inputs,
                   [](const Tensors& in) {
                     const NoGrad off;
                     const UpdateNumbers numbers{
                         .decay = 0.1, .rate = 0.05, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-6};
                     const Tensors p = {in[0].copy(), in[1].copy()};
                     std::vector<ParameterUpdate> updates;
                     for (const Tensor& x : p)
                       updates.push_back({.rule = UpdateRule::lamb,
                                          .parameter = x,
                                          .gradient = {},
                                          .states = {zeros_like(x), zeros_like(x)},
                                          .numbers = numbers,
                                          .lazy = true});
                     for (int t = 0; t < 3; ++t) {
                       const Tensors gradients = rows_at(in, t);
                       for (std::size_t i = 0; i < p.size(); ++i) updates[i].gradient = gradients[i];
                       apply_updates("Lamb", updates);
                     }
                     return Tensors{p[0], p[1], updates[0].states[0], updates[1].states[1]};
                   },
                   Nearness::chained,
                   Types::wide});
}

void add_whole_batches(AgreementCases& cases) {
  for (const optim::LineSearch search : {optim::LineSearch::none, optim::LineSearch::strong_wolfe})
    cases.push_back({search == optim::LineSearch::none ? "a step of Lbfgs" : "a step of Lbfgs with a line search",
                     {"binary", "reduce"},
                     {noise({3, 2}, 17), noise({3, 2}, 18), random_in(0.5, 2, {3, 2}, DType::float64, 19)},
                     [search](const Tensors& in) {
                       const NoGrad off;
                       const Tensor p = in[0].copy();
                       optim::Lbfgs lbfgs({p}, {.max_iterations = 4, .line_search = search});
                       const Tensor loss = lbfgs.minimize([&] {
                         const Tensor away = p - in[1];
                         return optim::Evaluation{sum(square(away) * in[2]), {away * in[2] * 2}};
                       });
                       return Tensors{p, loss};
                     },
                     Nearness::chained,
                     Types::given});
}

}  // namespace

AgreementCases optimizer_agreement_cases() {
  AgreementCases cases;
  add_every_kind(cases);
  add_long_lists(cases);
  add_rows(cases);
  add_whole_batches(cases);
  return cases;
}

}  // namespace tests

TEST_CASE("GPU and CPU agree on steps of optimizers", "[gpu][agreement]") {
  tests::check_agreement(&tests::optimizer_agreement_cases);
}
