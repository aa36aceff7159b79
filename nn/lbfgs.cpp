#include <capstan/optim/lbfgs.hpp>

#include <algorithm>
#include <cmath>

#include <capstan/create.hpp>
#include <capstan/ops/elementwise.hpp>
#include <capstan/ops/reduce.hpp>
#include <capstan/ops/shaping.hpp>
#include <capstan/tape.hpp>

#include "nn/line_search.hpp"
#include "nn/optimizer_state.hpp"

namespace capstan::optim {
namespace {

constexpr double kLeastCurvature = 1e-10;

// The arithmetic of flat vectors. No tape sees it; the function to be minimized, which makes tapes, runs outside.

double number_of(const Tensor& x, Where where) { return x.to(DType::float64, where).item<double>(where); }

double dot(const Tensor& a, const Tensor& b, Where where) {
  const NoGrad off;
  return number_of(sum(mul(a, b, where), {}, {}, where), where);
}
double largest(const Tensor& x, Where where) {
  const NoGrad off;
  return number_of(max(abs(x, where), {}, {}, where), where);
}
/// a + scale * b
Tensor along(const Tensor& a, double scale, const Tensor& b, Where where) {
  const NoGrad off;
  return add(a, mul(b, scale, where), where);
}

/// What all is computed in.
DType type_of(const std::vector<Tensor>& parameters, Where where) {
  for (const Tensor& p : parameters)
    if (p.dtype(where) == DType::float64) return DType::float64;
  return DType::float32;
}

std::int64_t count_of(const std::vector<Tensor>& parameters, Where where) {
  std::int64_t count = 0;
  for (const Tensor& p : parameters) count += p.numel(where);
  return count;
}

/// One vector of one tensor for each parameter, zeros for those that are undefined. Elements of its own.
Tensor flat(const std::vector<Tensor>& parameters, std::span<const Tensor> list, Where where) {
  const NoGrad off;
  const DType dtype = type_of(parameters, where);
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor part = list[i].defined() ? list[i] : zeros_like(parameters[i], where);
    parts.push_back(reshape(part, {-1}, where).to(dtype, where));
  }
  return concat(std::span<const Tensor>(parts), 0, where);
}

/// Puts the parameters where a flat vector says.
void place(const std::vector<Tensor>& parameters, const Tensor& point, Where where) {
  const NoGrad off;
  std::int64_t begin = 0;
  for (const Tensor& p : parameters) {
    Tensor target = p;
    const std::int64_t size = p.numel(where);
    target.assign(reshape(narrow(point, 0, begin, size, where), p.shape(where), where), where);
    begin += size;
  }
}

/// Puts the parameters back where they were if an exception leaves the scope.
class Restore {
 public:
  Restore(const std::vector<Tensor>& parameters, Where where) : parameters_(parameters), where_(where) {
    const NoGrad off;
    for (const Tensor& p : parameters) before_.push_back(p.copy(where));
  }
  ~Restore() {
    const NoGrad off;
    for (std::size_t i = 0; i < before_.size(); ++i) {
      try {
        Tensor target = parameters_[i];
        target.assign(before_[i], where_);
      } catch (...) {  // it cannot be written to, and so has not been; or somebody who watches threw behind the write
      }
    }
  }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;
  void dismiss() noexcept { before_.clear(); }

 private:
  const std::vector<Tensor>& parameters_;
  std::vector<Tensor> before_;
  Where where_;
};

}  // namespace

Lbfgs::Lbfgs(std::vector<Tensor> parameters, LbfgsOptions options, Where where) : options_(options) {
  add_group(std::move(parameters));
  start(where);
  if (this->parameters().empty()) base::fail<Error>(where, name(), ": there are no parameters; give at least one.");
  const Device device = this->parameters()[0].device(where);
  for (std::size_t i = 1; i < this->parameters().size(); ++i)
    if (this->parameters()[i].device(where) != device)
      base::fail<DeviceError>(where, name(), ": parameter 0 is on ", device, " and parameter ", i, " on ",
                              this->parameters()[i].device(where), "; they must be on one device.");
}

double Lbfgs::rate(std::size_t) const noexcept { return options_.learning_rate; }
void Lbfgs::set_rate(std::size_t, double rate) noexcept { options_.learning_rate = rate; }

void Lbfgs::check_group(std::size_t, Where where) const {
  const detail::OptionCheck check{name(), where};
  const auto at_least = [&](const char* option, std::int64_t value, std::int64_t least) {
    check.that(value >= least, option, static_cast<double>(value), least == 0 ? ">= 0" : ">= 1");
  };
  check.amount("learning_rate", options_.learning_rate);
  at_least("max_iterations", options_.max_iterations, 1);
  at_least("max_evaluations", options_.max_evaluations, 0);
  check.amount("gradient_tolerance", options_.gradient_tolerance);
  check.amount("change_tolerance", options_.change_tolerance);
  at_least("history", options_.history, 1);
}

// --- iterations ---

Lbfgs::Point Lbfgs::evaluate(const Function& function, Memory& memory, Where where) const {
  const Evaluation found = function();
  check_gradients(name(), parameters(), found.gradients, where);
  if (found.loss.numel(where) != 1)
    base::fail<ShapeError>(where, name(), ": the loss is ", found.loss.shape(where), "; it must be one number.");
  ++memory.evaluations;
  const NoGrad off;
  return {found.loss, flat(parameters(), found.gradients, where), number_of(found.loss, where)};
}

/// Keeps how far the last step went, and how the gradient changed over it.
void Lbfgs::remember(Memory& memory, const Tensor& gradient, Where where) const {
  const NoGrad off;
  const Tensor difference = sub(gradient, memory.gradient, where);
  const Tensor change = mul(memory.direction, memory.length, where);
  const double curvature = dot(difference, change, where);
  if (!(curvature > kLeastCurvature)) return;
  while (static_cast<std::int64_t>(memory.pairs.size()) >= options_.history) memory.pairs.erase(memory.pairs.begin());
  memory.pairs.push_back({change, difference, 1 / curvature});
  memory.scale = curvature / dot(difference, difference, where);
}

/// The next direction, and the length of the step along it; gives the slope there.
double Lbfgs::choose_direction(Memory& memory, const Tensor& gradient, Where where) const {
  const NoGrad off;
  Tensor direction = neg(gradient, where);
  double length = options_.learning_rate;
  if (memory.iterations == 0) {
    length *= std::min(1.0, 1 / number_of(sum(abs(gradient, where), {}, {}, where), where));
  } else {
    remember(memory, gradient, where);
    std::vector<double> weights(memory.pairs.size());
    for (std::size_t i = weights.size(); i-- > 0;) {
      const Pair& pair = memory.pairs[i];
      weights[i] = pair.weight * dot(pair.change, direction, where);
      direction = along(direction, -weights[i], pair.difference, where);
    }
    direction = mul(direction, memory.scale, where);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const Pair& pair = memory.pairs[i];
      const double weight = pair.weight * dot(pair.difference, direction, where);
      direction = along(direction, weights[i] - weight, pair.change, where);
    }
  }
  ++memory.iterations;
  memory.direction = direction;
  memory.gradient = gradient;
  memory.length = length;
  return dot(gradient, direction, where);
}

/// Goes along the direction: `now` becomes the point that it arrives at. Gives the evaluations that this took.
std::int64_t Lbfgs::walk(Memory& memory, Point& now, double slope, const Function& function, bool last,
                         Where where) const {
  const Tensor from = flat(parameters(), parameters(), where), direction = memory.direction;
  if (options_.line_search == LineSearch::none) {
    place(parameters(), along(from, memory.length, direction, where), where);
    if (last) return 0;
    now = evaluate(function, memory, where);
    return 1;
  }
  const Callback<Trial(double)> at = [&](double step) {
    place(parameters(), along(from, step, direction, where), where);
    const Point there = evaluate(function, memory, where);
    return Trial{step, there.value, dot(there.gradient, direction, where), there.gradient};
  };
  const LineResult found = search_strong_wolfe({.at = at,
                                                .start = {0, now.value, slope, now.gradient},
                                                .first = memory.length,
                                                .size = largest(direction, where)});
  memory.length = found.best.step;
  now.value = found.best.loss;
  now.gradient = found.best.gradient;
  place(parameters(), along(from, memory.length, direction, where), where);
  return found.evaluations;
}

Tensor Lbfgs::iterate(Memory& memory, const Function& function, Where where) const {
  const LbfgsOptions& o = options_;
  const std::int64_t more = o.max_iterations / 4;
  const std::int64_t most =
      o.max_evaluations > 0 ? o.max_evaluations : std::min(o.max_iterations, INT64_MAX - more) + more;
  Point now = evaluate(function, memory, where);
  const Tensor loss = now.loss;
  if (count_of(parameters(), where) == 0 || largest(now.gradient, where) <= o.gradient_tolerance) return loss;
  std::int64_t evaluations = 1;
  for (std::int64_t n = 1; n <= o.max_iterations; ++n) {
    const double slope = choose_direction(memory, now.gradient, where), before = now.value;
    if (slope > -o.change_tolerance) break;
    evaluations += walk(memory, now, slope, function, n == o.max_iterations, where);
    if (evaluations >= most || largest(now.gradient, where) <= o.gradient_tolerance ||
        largest(memory.direction, where) * std::fabs(memory.length) <= o.change_tolerance ||
        std::fabs(now.value - before) < o.change_tolerance)
      break;
  }
  return loss;
}

Tensor Lbfgs::minimize(const Function& function, Where where) {
  if (!function) base::fail<Error>(where, name(), ": the function to be minimized is empty; give one.");
  Step scope(*this, where);
  Restore restore(parameters(), where);
  Memory memory = memory_;
  const Tensor loss = iterate(memory, function, where);
  restore.dismiss();
  memory_ = std::move(memory);
  scope.finish();
  return loss;
}

void Lbfgs::step(std::span<const Tensor> gradients, Where where) {
  if (options_.line_search != LineSearch::none)
    base::fail<Error>(where, name(), ": a line search has to evaluate the loss; call minimize with a function.");
  const Tensor gradient = flat(parameters(), gradients, where);
  if (gradient.numel(where) == 0 || largest(gradient, where) <= options_.gradient_tolerance) return;
  Restore restore(parameters(), where);
  Memory memory = memory_;
  const double slope = choose_direction(memory, gradient, where);
  if (!(slope > -options_.change_tolerance)) {
    const Tensor from = flat(parameters(), parameters(), where);
    place(parameters(), along(from, memory.length, memory.direction, where), where);
  }
  restore.dismiss();
  memory_ = std::move(memory);
}

// --- saved state ---

void Lbfgs::save(std::vector<NamedTensor>& all, Where where) const {
  all.push_back({"iterations", detail::whole_number(memory_.iterations, where)});
  all.push_back({"evaluations", detail::whole_number(memory_.evaluations, where)});
  if (memory_.iterations == 0) return;
  all.push_back({"direction", memory_.direction.copy(where)});
  all.push_back({"gradient", memory_.gradient.copy(where)});
  all.push_back({"length", detail::real_number(memory_.length, where)});
  all.push_back({"scale", detail::real_number(memory_.scale, where)});
  all.push_back({"pairs", detail::whole_number(static_cast<std::int64_t>(memory_.pairs.size()), where)});
  for (std::size_t i = 0; i < memory_.pairs.size(); ++i) {
    const std::string front = "pair." + std::to_string(i) + ".";
    all.push_back({front + "change", memory_.pairs[i].change.copy(where)});
    all.push_back({front + "difference", memory_.pairs[i].difference.copy(where)});
  }
}

void Lbfgs::load(detail::StateReader& reader) {
  const Where where = Where::current();
  const Shape shape({count_of(parameters(), where)});
  const DType dtype = type_of(parameters(), where);
  const Device device = parameters()[0].device(where);
  Memory memory;
  memory.iterations = reader.whole("iterations");
  memory.evaluations = reader.whole("evaluations");
  if (memory.iterations > 0) {
    memory.direction = reader.tensor("direction", shape, dtype, device);
    memory.gradient = reader.tensor("gradient", shape, dtype, device);
    memory.length = reader.finite("length");
    memory.scale = reader.finite("scale");
    const std::int64_t pairs = reader.whole("pairs");
    for (std::int64_t i = 0; i < pairs; ++i) {
      const std::string front = "pair." + std::to_string(i) + ".";
      const Tensor change = reader.tensor(front + "change", shape, dtype, device);
      const Tensor difference = reader.tensor(front + "difference", shape, dtype, device);
      memory.pairs.push_back({change, difference, 1 / dot(difference, change, where)});
    }
  }
  reader.finish();
  memory_ = std::move(memory);
}

}  // namespace capstan::optim
