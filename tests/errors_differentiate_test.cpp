// Misuse of derivatives: the right exception, word for word, and nothing changed.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_differentiate_test.cpp";
const std::string defined = "the tensor is undefined; give it a value first.";

using Tensors = std::vector<Tensor>;

Tensor doubled(const Tensor& x) { return x * 2; }
Tensors three(const Tensors& g) { return {g[0], g[0], g[0]}; }

}  // namespace

TEST_CASE("Jacobians refuse what gradients refuse, and shapes that do not fit", "[errors][tape][jacobian]") {
  const Tensor x = {{1.0f, 2.0f}, {3.0f, 4.0f}}, stranger = {1.0f, 2.0f}, large = ones({1, 1, 1, 1, 1, 1, 2});
  const std::string jacobian = "GradientTape::jacobian: ", batch = "GradientTape::batch_jacobian: ";
  const auto ask = [&](auto question) { GradientTape tape; tape.watch({x, large}); question(tape); };
  check_errors({
      {__LINE__, message_of<TapeError>, [&] { ask([&](GradientTape& t) { t.jacobian(stranger, x); }); },
       jacobian + "the target of shape [2] is not on the tape; it must be computed, while the tape records, from a "
                  "watched tensor or a Parameter."},
      {__LINE__, message_of<DTypeError>, [&] { ask([&](GradientTape& t) { t.jacobian(argmax(x, 0), x); }); },
       jacobian + "a target is int64; gradients exist for floating types only."},
      {__LINE__, message_of<ShapeError>, [&] { ask([&](GradientTape& t) { t.jacobian(x * x, large * 2); }); },
       jacobian + "the target is [2, 2] and the source [1, 1, 1, 1, 1, 1, 2]; the result would have 9 axes, and a "
                  "tensor has at most 8."},
      {__LINE__, message_of<ShapeError>, [&] { ask([&](GradientTape& t) { t.batch_jacobian(sum(x), x); }); },
       batch + "the target is [] and the source [2, 2]; both must have a first axis, of one size."},
      {__LINE__, message_of<ShapeError>, [&] { ask([&](GradientTape& t) { t.batch_jacobian(x * x, large); }); },
       batch + "the target is [2, 2] and the source [1, 1, 1, 1, 1, 1, 2]; both must have a first axis, of one size."},
      {__LINE__, message_of<Error>, [&] { ask([&](GradientTape& t) { t.jacobian(Tensor(), x); }); }, jacobian + defined},
      {__LINE__, message_of<Error>, [&] { ask([&](GradientTape& t) { t.jacobian(x * x, Tensor()); }); }, jacobian + defined},
      {__LINE__, message_of<Error>, [&] { ask([&](GradientTape& t) { t.explain(Tensor(), x); }); }, "GradientTape::explain: " + defined},
      {__LINE__, message_of<Error>, [&] { ask([&](GradientTape& t) { t.follows(Tensor()); }); }, "GradientTape::follows: " + defined},
  }, file);
}

TEST_CASE("a Jacobian that is refused leaves the tape as it was", "[errors][tape][jacobian]") {
  const Tensor x = {{1.0f, 2.0f}, {3.0f, 4.0f}}, stranger = {1.0f, 2.0f};
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  const std::int64_t size = tape.size();
  CHECK_THROWS_AS(tape.jacobian(stranger, x), TapeError);
  CHECK_THROWS_AS(tape.batch_jacobian(y, Tensor(1.0f)), ShapeError);
  CHECK(tape.size() == size);
  CHECK(same(tape.gradient(y, x), 2 * x));
}

TEST_CASE("a moved-from tape refuses to explain and to differentiate", "[errors][tape]") {
  const Tensor x = {1.0f, 2.0f};
  GradientTape tape;
  const GradientTape elsewhere = std::move(tape);
  const std::string rest = ": the tape was moved from; only assigning to it and destroying it are allowed.";
  const auto hook = [](const Tensor&) {};
  check_errors({
      {__LINE__, message_of<TapeError>, [&] { tape.explain(x, x); }, "GradientTape::explain" + rest},
      {__LINE__, message_of<TapeError>, [&] { tape.follows(x); }, "GradientTape::follows" + rest},
      {__LINE__, message_of<TapeError>, [&] { tape.jacobian(x, x); }, "GradientTape::jacobian" + rest},
      {__LINE__, message_of<TapeError>, [&] { tape.batch_jacobian(x, x); }, "GradientTape::batch_jacobian" + rest},
      {__LINE__, message_of<TapeError>, [&] { tape.on_gradient(x, hook); }, "GradientTape::on_gradient" + rest},
  }, file);
  CHECK(tape.memory_by_line().empty());
}

TEST_CASE("hooks are refused for what is not followed, and so is what they return if it does not fit",
          "[errors][tape][hooks]") {
  const Tensor x = {1.0f, 2.0f}, stranger = {1.0f};
  const std::string on_gradient = "GradientTape::on_gradient: ";
  const auto hook = [](const Tensor&) {};
  const auto shorter = [](const Tensor&) { return Tensor{1.0f}; };
  const auto finer = [](const Tensor& g) { return g.to(DType::float64); };
  check_errors({
      {__LINE__, message_of<TapeError>, [&] { GradientTape t; t.on_gradient(stranger, hook); },
       on_gradient + "the tape does not follow this tensor of shape [1]; watch it first, or compute it from a watched "
                     "tensor or a Parameter."},
      {__LINE__, message_of<TapeError>, [&] { GradientTape t; t.watch(x); t.gradient(x * 2, x); t.on_gradient(x, hook); },
       on_gradient + "the tape has computed its gradient and records no more; make it persistent, or reset it."},
      {__LINE__, message_of<Error>, [&] { GradientTape t; t.on_gradient(Tensor(), hook); }, on_gradient + defined},
      {__LINE__, message_of<ShapeError>, [&] { GradientTape t; t.watch(x); t.on_gradient(x, shorter); t.gradient(x * 2, x); },
       on_gradient + "the hook returned [1] for a gradient of [2]; the shapes must be equal."},
      {__LINE__, message_of<DTypeError>, [&] { GradientTape t; t.watch(x); t.on_gradient(x, finer); t.gradient(x * 2, x); },
       on_gradient + "the hook returned float64 for a gradient of float32; the types must be equal."},
      {__LINE__, message_of<TapeError>, [&] { GradientTape t; t.watch(x); t.on_gradient(x, [&](const Tensor&) { t.reset(); }); t.gradient(x * 2, x); },
       "GradientTape::reset: the tape is being replayed; reset it behind the gradient."},
  }, file);
  GradientTape tape;
  tape.watch(x);
  CHECK_THROWS_AS(tape.on_gradient(stranger, hook), TapeError);
  CHECK(same(tape.gradient(x * 2, x), {2.0f, 2.0f}));
}

TEST_CASE("custom_gradient refuses results and gradients that do not fit", "[errors][tape][custom]") {
  const Tensor x = {1.0f, 2.0f}, y = {3.0f, 4.0f};
  const std::string custom = "custom_gradient: ";
  const auto add_up = [](const Tensors& in) { return in[0] + in[1]; };
  const auto too_many = [](const Tensors& g, const Tensors&, const Tensors&) { return three(g); };
  const auto summed = [](const Tensor& g, const Tensor&, const Tensor&) { return sum(g); };
  const auto finer = [](const Tensor& g, const Tensor&, const Tensor&) { return g.to(DType::float64); };
  const auto none = [](const Tensors&) { return Tensors(); };
  const auto undefined = [](const Tensor&) { return Tensor(); };
  const auto ask = [&](auto compute) { GradientTape tape; tape.watch({x, y}); tape.gradient(compute(), x); };
  check_errors({
      {__LINE__, message_of<Error>, [&] { (void)custom_gradient(none, too_many, {x}); },
       custom + "the function returned nothing; it must return a tensor."},
      {__LINE__, message_of<Error>, [&] { (void)custom_gradient(x, undefined, summed); },
       custom + "the function returned an undefined tensor; give it a value first."},
      {__LINE__, message_of<Error>, [&] { (void)custom_gradient(Tensor(), doubled, summed); }, custom + defined},
      {__LINE__, message_of<ShapeError>, [&] { ask([&] { return custom_gradient(add_up, too_many, {x, y}); }); },
       custom + "the backward function returned 3 gradients for 2 inputs; return one for each, undefined for none."},
      {__LINE__, message_of<ShapeError>, [&] { ask([&] { return custom_gradient(x, doubled, summed); }); },
       custom + "gradient 0 is [] and its input [2]; the shapes must be equal."},
      {__LINE__, message_of<DTypeError>, [&] { ask([&] { return custom_gradient(x, doubled, finer); }); },
       custom + "gradient 0 is float64 and its input float32; the types must be equal."},
  }, file);
}

TEST_CASE("recompute refuses a second run that does something else", "[errors][tape][recompute]") {
  const Tensor x = {1.0f, 2.0f};
  const std::string recomputed = "recompute: ";
  const auto ask = [&](auto compute) { GradientTape tape; tape.watch(x); tape.gradient(compute(), x); };
  const auto shrinks = [n = 0](const Tensor& t) mutable { return n++ == 0 ? t * 2 : sum(t); };
  const auto widens = [n = 0](const Tensor& t) mutable { return n++ == 0 ? t * 2 : t.to(DType::float64); };
  const auto grows = [n = 0](const Tensor& t) mutable {
    Tensors list = {t * 2};
    if (n++ > 0) list.push_back(t);
    return list;
  };
  const auto none = [](const Tensor&) { return Tensors(); };
  check_errors({
      {__LINE__, message_of<Error>, [&] { (void)recompute(doubled, Tensor()); }, recomputed + defined},
      {__LINE__, message_of<Error>, [&] { (void)recompute(none, x); },
       recomputed + "the function returned nothing; it must return a tensor."},
      {__LINE__, message_of<ShapeError>, [&] { ask([&] { return recompute(shrinks, x); }); },
       recomputed + "result 0 of the second run is [] and of the first [2]; both must do the same."},
      {__LINE__, message_of<DTypeError>, [&] { ask([&] { return recompute(widens, x); }); },
       recomputed + "result 0 of the second run is float64 and of the first float32; both must do the same."},
      {__LINE__, message_of<ShapeError>, [&] { ask([&] { return recompute(grows, x)[0]; }); },
       recomputed + "the second run returned 2 tensors and the first 1; both must do the same."},
  }, file);
}

TEST_CASE("a function that throws in recompute leaves default_rng and the tape as they were", "[errors][tape]") {
  const Tensor x = {1.0f, 2.0f};
  GradientTape tape;
  tape.watch(x);
  const std::uint64_t position = default_rng().position();
  const auto fails = [](const Tensor& t) { return matmul(dropout(t, 0.5), ones({3, 3})); };
  CHECK_THROWS_AS(recompute(fails, x), ShapeError);
  CHECK(default_rng().position() == position);
  CHECK(tape.size() == 0);
  CHECK(tape.recording());
  CHECK(same(tape.gradient(x * x, x), {2.0f, 4.0f}));
}

TEST_CASE("products refuse vectors that do not fit", "[errors][products]") {
  const Tensor x = {1.0f, 2.0f}, fine = {1.0, 2.0}, longer = {1.0f, 2.0f, 3.0f}, integers = {1, 2};
  const auto doubles = [](const Tensor& t) { return t * 2; };
  const auto first = [](const Tensors& in) { return in[0]; };
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { (void)jvp(first, {x}, {x, x}); },
       "jvp: there are 2 tangents and 1 inputs; give one for each, undefined for zeros."},
      {__LINE__, message_of<ShapeError>, [&] { (void)jvp(doubles, x, longer); },
       "jvp: tangent 0 is [3] and its input [2]; the shapes must be equal."},
      {__LINE__, message_of<DTypeError>, [&] { (void)jvp(doubles, x, fine); },
       "jvp: tangent 0 is float64 and its input float32; the types must be equal."},
      {__LINE__, message_of<DTypeError>, [&] { (void)jvp(doubles, integers, integers); },
       "jvp: input 0 is int32; it must be a floating type. Capture other tensors in the function."},
      {__LINE__, message_of<ShapeError>, [&] { (void)vjp(doubles, x, longer); },
       "vjp: cotangent 0 is [3] and its result [2]; the shapes must be equal."},
      {__LINE__, message_of<ShapeError>, [&] { (void)vjp(first, {x}, {x, x}); },
       "vjp: there are 2 cotangents and 1 results; give one for each, undefined for zeros."},
      {__LINE__, message_of<ShapeError>, [&] { (void)hvp(doubles, x, x); },
       "hvp: the function returned 1 tensors, the first of shape [2]; it must return one value. Reduce it first, for "
       "example with sum."},
      {__LINE__, message_of<DTypeError>, [&] { (void)hvp(doubles, x, fine); },
       "hvp: vector 0 is float64 and its input float32; the types must be equal."},
      {__LINE__, message_of<Error>, [&] { (void)hvp(doubles, Tensor(), x); }, "hvp: " + defined},
  }, file);
}

TEST_CASE("check_gradient refuses short numbers and senseless options", "[errors][check_gradient]") {
  const Tensor x = {1.0, 2.0}, coarse = {1.0f, 2.0f};
  const std::string check = "check_gradient: ";
  const auto doubles = [](const Tensor& t) { return t * 2; };
  const auto coarser = [](const Tensor& t) { return t.to(DType::float32); };
  check_errors({
      {__LINE__, message_of<DTypeError>, [&] { (void)check_gradient(doubles, coarse); },
       check + "input 0 is float32; it must be float64: differences of shorter numbers say little."},
      {__LINE__, message_of<DTypeError>, [&] { (void)check_gradient(coarser, x); },
       check + "result 0 is float32; it must be float64."},
      {__LINE__, message_of<ShapeError>, [&] { auto more = [n = 0](const Tensor& t) mutable { return Tensors(n++ == 0 ? 1u : 2u, t * 2); }; (void)check_gradient(more, x); },
       check + "the function returned 2 tensors and before 1; every run must do the same."},
      {__LINE__, message_of<Error>, [&] { (void)check_gradient(doubles, x, {.step = 0}); },
       check + "the step is 0, the tolerances are 1e-06 and 1e-06; the step must be positive, and no tolerance "
               "negative."},
      {__LINE__, message_of<Error>, [&] { (void)check_gradient(doubles, x, {.order = 3}); },
       check + "the order is 3; it must be 1 or 2."},
  }, file);
}
