// 25_nan: a training loop whose loss stops being a number, and how to find out why.
// Shows: which operation makes the first infinity, how values grow from step to step, a step line by line, and where
//        its time and memory go.
// Prints: the step at which the loss is nan; the message that names the guilty line; the figures of the logits; a
//         trace; the loss after the remedy; tables of time and memory.
// Fails:  if training does not go wrong, if the message does not name the logarithm and its line, or if the remedy does
//         not help.
#include <capstan/capstan.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "samples/sample.hpp"

namespace cs = capstan;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Points on a line; those right of 0 are of the second class.
struct Problem {
  cs::Tensor x = cs::reshape(cs::linspace(-50, 50, 16), {16, 1});
  cs::Tensor right = cs::cast(x > 0, cs::DType::float32);
  cs::Tensor labels = cs::concat({1 - right, right}, 1);
};

struct Net {
  cs::Parameter weight{cs::zeros({1, 2})};
  cs::Tensor operator()(const cs::Tensor& x) const {
    const cs::Tensor logits = cs::matmul(x, weight);
    cs::debug::watch("logits", logits);
    return logits;
  }
};

using Loss = cs::Tensor (*)(const cs::Tensor& logits, const cs::Tensor& labels);

/// The formula as it stands in the book: an infinity for a class that is all but excluded, even if nobody asks for it.
cs::Tensor naive_loss(const cs::Tensor& logits, const cs::Tensor& labels) {
  const cs::Tensor probabilities = cs::softmax(logits);
  return -cs::mean(cs::sum(labels * cs::log(probabilities), 1));
}

/// The same without ever taking the logarithm of a number that was rounded to 0.
cs::Tensor sound_loss(const cs::Tensor& logits, const cs::Tensor& labels) {
  return -cs::mean(cs::sum(labels * cs::log_softmax(logits), 1));
}

/// The losses of up to `steps` steps; no more after one that is no number.
std::vector<float> train(const Problem& problem, Loss loss_of, int steps) {
  Net net;
  cs::optim::Sgd sgd(cs::nn::parameters(net), {.learning_rate = 0.1});
  std::vector<float> losses;
  for (int step = 0; step < steps; ++step) {
    cs::GradientTape tape;
    const cs::Tensor loss = loss_of(net(problem.x), problem.labels);
    losses.push_back(loss.item<float>());
    if (std::isnan(losses.back())) break;
    sgd.apply(tape.gradient(loss, sgd.parameters()));
  }
  return losses;
}

// 1. What happens: after a step or two the loss is nan, and the line that printed it is not the one to blame.
std::size_t without_help(const Problem& problem, sample::Checks& checks) {
  const std::vector<float> losses = train(problem, naive_loss, 20);
  const std::size_t step = losses.size() - 1;
  std::printf("the loss is %g in step %zu\n\n", static_cast<double>(losses.back()), step);
  checks.expect(step > 0 && std::isnan(losses.back()), "training goes wrong after the first step");
  return step;
}

// 2. Who begins: the first operation that turns finite numbers into others throws, and says what it was given.
void who_begins(const Problem& problem, sample::Checks& checks) {
  const cs::debug::NumericsScope watching;
  try {
    train(problem, naive_loss, 20);
    checks.expect(false, "an operation throws");
  } catch (const cs::NumericError& error) {
    const std::string text = error.what();
    std::cout << text << "\n\n";
    checks.expect(contains(text, "log at 25_nan.cpp:"), "the logarithm is named");
    checks.expect(contains(text, "of 32 values -inf; first at ["), "with what it made");
    checks.expect(contains(text, "its input there is 0 (softmax at 25_nan.cpp:"), "and what it was given");
  }
}

// 3. How it came to that: the logits grow at once to where the exponential of their difference is 0 in float32.
void how_it_came(const Problem& problem, sample::Checks& checks) {
  cs::debug::clear_watched();
  train(problem, naive_loss, 20);
  cs::debug::print_watched(std::cout);
  std::cout << '\n';
  const std::vector<cs::debug::WatchedRow> rows = cs::debug::history("logits");
  checks.expect(rows.front().max == 0, "logits begin at 0");
  checks.expect(rows.back().max - rows.back().min > 104, "e^-104 is 0 in float32");
}

// 4. What a step does, line by line; and the remedy.
float the_remedy(const Problem& problem, const sample::Flags& flags, sample::Checks& checks) {
  cs::debug::trace(std::cout);
  train(problem, sound_loss, 1);
  cs::debug::stop_trace();

  const cs::debug::NumericsScope watching;
  const std::vector<float> losses = train(problem, sound_loss, 20);
  std::printf("\nthe loss is %g in step %zu\n\n", static_cast<double>(losses.back()), losses.size() - 1);
  checks.expect(losses.size() == 20, "no step goes wrong");
  checks.expect(losses.back() < 0.01f, "the points are told apart");
  sample::Log log(flags);
  for (std::size_t step = 0; step < losses.size(); ++step)
    log.scalar("loss", static_cast<double>(losses[step]), static_cast<std::int64_t>(step));
  return losses.back();
}

// 5. Where time and memory go.
void what_it_costs(const Problem& problem, sample::Checks& checks) {
  const cs::debug::MemoryTimeline memory;
  const cs::debug::Profiler profiler;
  train(problem, sound_loss, 100);
  std::cout << profiler.report() << '\n' << memory.report() << '\n';
  checks.expect(memory.peak_bytes() > memory.current_bytes(), "a step needs memory and gives it back");
  std::int64_t count = 0;
  for (const cs::debug::ProfileRow& row : profiler.table())
    if (row.name == "log_softmax" && !row.backward) count += row.count;
  checks.expect(count == 100, "log_softmax runs once in every step");
}

int run(const sample::Flags& flags) {
  const Problem problem;
  sample::Checks checks;
  const std::size_t step = without_help(problem, checks);
  who_begins(problem, checks);
  how_it_came(problem, checks);
  const float loss = the_remedy(problem, flags, checks);
  what_it_costs(problem, checks);
  std::printf("result: nan in step %zu, found in one run; with the remedy the loss falls to %.2g\n", step,
              static_cast<double>(loss));
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  sample::Flags flags;
  return sample::run(argc, argv, "Finds out why a loss stops being a number.", flags, [&] { return run(flags); });
}
