// debugging: a training loop whose loss stops being a number, and how to find out why.
// Shows: which operation makes the first infinity, how values grow from step to step, a step line by line, and where
//        its time and memory go.
// Prints: the step at which the loss is nan; the message that names the guilty line; the figures of the logits; a
//         trace; the loss after the remedy; tables of time and memory
#include <capstan/capstan.hpp>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

namespace cs = capstan;

namespace {

bool expect(bool right, const char* what) {
  if (!right) std::printf("wrong: %s\n", what);
  return right;
}

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
bool without_help(const Problem& problem) {
  const std::vector<float> losses = train(problem, naive_loss, 20);
  std::printf("the loss is %g in step %d\n\n", static_cast<double>(losses.back()), static_cast<int>(losses.size()) - 1);
  return expect(losses.size() > 1 && std::isnan(losses.back()), "training goes wrong after the first step");
}

// 2. Who begins: the first operation that turns finite numbers into others throws, and says what it was given.
bool who_begins(const Problem& problem) {
  const cs::debug::NumericsScope watching;
  try {
    train(problem, naive_loss, 20);
  } catch (const cs::NumericError& error) {
    std::cout << error.what() << "\n\n";
    const std::string text = error.what();
    return expect(contains(text, "log at debugging.cpp:"), "the logarithm is named") &
           expect(contains(text, "of 32 values -inf; first at ["), "with what it made") &
           expect(contains(text, "its input there is 0 (softmax at debugging.cpp:"), "and what it was given");
  }
  return expect(false, "an operation throws");
}

// 3. How it came to that: the logits grow at once to where the exponential of their difference is 0 in float32.
bool how_it_came(const Problem& problem) {
  cs::debug::clear_watched();
  train(problem, naive_loss, 20);
  cs::debug::print_watched(std::cout);
  std::cout << '\n';
  const std::vector<cs::debug::WatchedRow> rows = cs::debug::history("logits");
  return expect(rows.front().max == 0, "logits begin at 0") &
         expect(rows.back().max - rows.back().min > 104, "e^-104 is 0 in float32");
}

// 4. What a step does, line by line; and the remedy.
bool the_remedy(const Problem& problem) {
  cs::debug::trace(std::cout);
  train(problem, sound_loss, 1);
  cs::debug::stop_trace();

  const cs::debug::NumericsScope watching;
  const std::vector<float> losses = train(problem, sound_loss, 20);
  std::printf("\nthe loss is %g in step %d\n\n", static_cast<double>(losses.back()),
              static_cast<int>(losses.size()) - 1);
  return expect(losses.size() == 20, "no step goes wrong") & expect(losses.back() < 0.01f, "the points are told apart");
}

// 5. Where time and memory go.
bool what_it_costs(const Problem& problem) {
  const cs::debug::MemoryTimeline memory;
  const cs::debug::Profiler profiler;
  train(problem, sound_loss, 100);
  std::cout << profiler.report() << '\n' << memory.report();
  bool right = expect(memory.peak_bytes() > memory.current_bytes(), "a step needs memory and gives it back");
  for (const cs::debug::ProfileRow& row : profiler.table())
    if (row.name == "log_softmax" && !row.backward) right &= expect(row.count == 100, "once in every step");
  return right;
}

}  // namespace

int main() {
  const Problem problem;
  bool right = without_help(problem);
  right &= who_begins(problem);
  right &= how_it_came(problem);
  right &= the_remedy(problem);
  right &= what_it_costs(problem);
  return right ? 0 : 1;
}
