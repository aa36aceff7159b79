// 03_lines: a line through noisy points, and a plane through exact ones, both found by gradient descent.
// Shows: parameters in a plain struct, a tape, a step of SGD, one point at a time and all points at once.
// Prints: the line after 100 single-point steps, near 3 x - 1; the plane after 201 steps, [0.1, 0.2] x + 0.3. Draws the
//         points and the line.
// Fails:  if the line is off by more than 0.06, several times the noise, or the plane by more than 0.002.
#include <capstan/capstan.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "samples/sample.hpp"
#include "tools/chart.hpp"

namespace cs = capstan;
namespace data = capstan::data;

struct Line {
  cs::Parameter slope{0.0f}, intercept{0.0f};

  cs::Tensor operator()(const cs::Tensor& x) const { return slope * x + intercept; }
};

struct Plane {
  cs::Parameter weight{cs::uniform({2}, -1, 1)}, bias{0.0f};

  cs::Tensor operator()(const cs::Tensor& x) const { return cs::matmul(x, weight) + bias; }  // [points, 2] -> [points]
};

namespace {

constexpr std::int64_t kPoints = 100, kEarly = 3, kPlaneSteps = 201;
constexpr double kRate = 0.5, kNoise = 0.01;
constexpr double kLineTolerance = 0.06, kPlaneTolerance = 0.002;

struct Points {
  cs::Tensor x, y;
};

float number(const cs::Tensor& x) { return x.item<float>(); }

tools::Series series_of(const char* name, const Points& points, bool dots) {
  const std::vector<float> x = points.x.to_vector<float>(), y = points.y.to_vector<float>();
  return {.name = name, .x = {x.begin(), x.end()}, .y = {y.begin(), y.end()}, .dots = dots};
}

tools::Series series_of(const char* name, const Line& line) {
  const cs::Tensor ends = {-1.0f, 1.0f};
  return series_of(name, {ends, line(ends)}, false);
}

Line fit_line(const sample::Flags& flags, sample::Log& log, sample::Checks& checks) {
  const cs::Tensor x = cs::uniform({kPoints}, -1, 1);
  const Points points{x, 3 * x - 1 + cs::normal({kPoints}, 0, kNoise)};

  Line line;
  cs::optim::Sgd sgd(cs::nn::parameters(line), {.learning_rate = kRate});
  tools::Panel picture{.label = "y", .series = {series_of("points", points, true)}};
  for (const auto& [px, py] : data::from(points)) {
    cs::GradientTape tape;
    const cs::Tensor loss = cs::square(line(px) - py);
    sgd.apply(tape.gradient(loss, sgd.parameters()));
    log.scalar("line/loss", number(loss), sgd.steps());
    if (sgd.steps() == kEarly) picture.series.push_back(series_of("the line after 3 points", line));
  }

  const double slope = number(line.slope), intercept = number(line.intercept);
  std::printf("the line after %lld single points: %.3f x %+.3f\n", static_cast<long long>(sgd.steps()), slope,
              intercept);
  checks.expect(std::abs(slope - 3) < kLineTolerance, "the slope is near 3");
  checks.expect(std::abs(intercept + 1) < kLineTolerance, "the intercept is near -1");
  if (flags.picture.empty()) return line;
  picture.series.push_back(series_of("after 100", line));
  tools::write_svg(flags.picture, {"y = 3 x - 1 from noisy points", "x", {std::move(picture)}});
  std::printf("the points and the line are in %s\n", flags.picture.c_str());
  return line;
}

Plane fit_plane(sample::Log& log, sample::Checks& checks) {
  const cs::Tensor truth = {0.1f, 0.2f};
  const cs::Tensor x = cs::uniform({kPoints, 2}, 0, 1), y = cs::matmul(x, truth) + 0.3;

  Plane plane;
  cs::optim::Sgd sgd(cs::nn::parameters(plane), {.learning_rate = kRate});
  for (std::int64_t step = 0; step < kPlaneSteps; ++step) {
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mean(cs::square(plane(x) - y));
    sgd.apply(tape.gradient(loss, sgd.parameters()));
    if (step % 20 != 0) continue;
    const double loss_value = number(loss);
    std::printf("step %3lld: loss %.2e, [%.4f, %.4f] x + %.4f\n", static_cast<long long>(step), loss_value,
                number(plane.weight[0]), number(plane.weight[1]), number(plane.bias));
    log.scalar("plane/loss", loss_value, step);
  }
  checks.expect(cs::all_close(plane.weight, truth, 0, kPlaneTolerance), "the plane's slopes are 0.1 and 0.2");
  checks.expect(std::abs(number(plane.bias) - 0.3) < kPlaneTolerance, "the plane's height is 0.3");
  return plane;
}

}  // namespace

int main(int argc, char** argv) {
  sample::Flags flags;
  return sample::run(
      argc, argv, "Fits a line and a plane by gradient descent; --quick changes nothing.", flags,
      [&](sample::CommandLine& line) { line.add_picture("lines.svg"); },
      [&] {
        sample::Log log(flags);
        sample::Checks checks;
        const Line line = fit_line(flags, log, checks);
        const Plane plane = fit_plane(log, checks);
        std::printf("result: line %.3f x %+.3f; plane [%.3f, %.3f] x + %.3f\n", number(line.slope),
                    number(line.intercept), number(plane.weight[0]), number(plane.weight[1]), number(plane.bias));
        return checks.exit_code();
      });
}
