// Regions that the tape runs again instead of keeping what they need.
#include <capstan/autocast.hpp>
#include <capstan/differentiate.hpp>
#include <capstan/random.hpp>
#include <capstan/tape.hpp>

#include <algorithm>
#include <optional>

#include "autograd/owner.hpp"
#include "autograd/scopes.hpp"
#include "lib/base/text.hpp"

namespace capstan::detail {

namespace {

using autograd::Replay;

constexpr const char* kOp = "recompute";

/// What the entry owns. It saves the owner, the inputs, and the tensors from outside that the function used.
struct Recomputed {
  Function function;
  Rng rng;                        // where default_rng stood
  std::optional<DType> autocast;  // what it was
  std::size_t inputs, used;
  std::vector<Shape> shapes;  // of the results
  std::vector<DType> dtypes;
};

constinit thread_local int second_runs = 0;  // that this thread is in, one inside another

class SecondRun {
 public:
  SecondRun() noexcept { ++second_runs; }
  ~SecondRun() { --second_runs; }
  SecondRun(const SecondRun&) = delete;
  SecondRun& operator=(const SecondRun&) = delete;
};

/// Another state of default_rng for a while.
class RngFrom {
 public:
  explicit RngFrom(const Rng& rng) noexcept : before_(default_rng()) { default_rng() = rng; }
  ~RngFrom() { default_rng() = before_; }
  RngFrom(const RngFrom&) = delete;
  RngFrom& operator=(const RngFrom&) = delete;

 private:
  Rng before_;
};

Tensors run_again(const Recomputed& region, const Tensors& inputs, Where where) {
  const SecondRun counted_before;
  const RngFrom numbers_as_before(region.rng);
  const AutocastScope types_as_before(region.autocast.value_or(DType::float16), region.autocast.has_value(), where);
  Tensors results = autograd::checked_results(kOp, region.function(inputs), where);
  if (results.size() != region.shapes.size())
    base::fail<ShapeError>(where, kOp, ": the second run returned ", results.size(), " tensors and the first ",
                           region.shapes.size(), "; both must do the same.");
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].shape() != region.shapes[i])
      base::fail<ShapeError>(where, kOp, ": result ", i, " of the second run is ", results[i].shape(),
                             " and of the first ", region.shapes[i], "; both must do the same.");
    if (results[i].dtype() != region.dtypes[i])
      base::fail<DTypeError>(where, kOp, ": result ", i, " of the second run is ", results[i].dtype(),
                             " and of the first ", region.dtypes[i], "; both must do the same.");
  }
  return results;
}

void recompute_replay(Replay& r) {
  const Where where = r.where();
  const Recomputed region = autograd::owned<Recomputed>(r.saved(0));  // a copy: the function may end the tape
  Tensors inputs, sources;
  std::vector<int> needed;
  for (std::size_t i = 0; i < region.inputs + region.used; ++i) {
    const Tensor& tensor = r.saved(static_cast<int>(1 + i));
    if (i < region.inputs) inputs.push_back(tensor);
    const auto same = [&](const Tensor& other) { return other.is_same(tensor); };
    if (!r.needs(static_cast<int>(i)) || std::any_of(sources.begin(), sources.end(), same)) continue;
    sources.push_back(tensor);
    needed.push_back(static_cast<int>(i));
  }
  const autograd::Awake awake;
  GradientTape inner({.watch_parameters = false}, where);
  for (const Tensor& source : sources) inner.watch(source, where);
  r.settle();
  const Tensors results = run_again(region, inputs, where);
  Tensors targets, seeds;
  int floating = 0;
  for (const Tensor& result : results) {
    if (!is_floating(result.dtype())) continue;
    const Tensor& gradient = r.grad(floating++);
    if (!gradient.defined() || !inner.follows(result, where)) continue;
    targets.push_back(result);
    seeds.push_back(gradient);
  }
  if (targets.empty()) return;
  Tensors gradients = inner.gradient(targets, sources, seeds, Unconnected::undefined, where);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined()) r.give(needed[i], std::move(gradients[i]));
}

struct FirstRun {
  Tensors results, used;
};

FirstRun first_run(const Function& function, const Tensors& inputs, Where where) {
  autograd::Probe probe(inputs, where);
  FirstRun run;
  run.results = autograd::checked_results(kOp, function(inputs), where);
  for (const Tensor& result : run.results) {  // one may come straight from outside
    const Tensor* tensor = &result;
    probe.see({&tensor, 1});
  }
  run.used = std::move(probe.found());
  return run;
}

}  // namespace

bool recomputing() noexcept { return second_runs > 0; }

Tensors recompute(const Function& function, std::span<const Tensor> inputs, Where where) {
  Tensors given(inputs.begin(), inputs.end());
  for (const Tensor& input : given) core::defined(kOp, input, where);
  const Rng start = default_rng();
  try {
    if (!autograd::listening()) return autograd::checked_results(kOp, function(given), where);
    FirstRun run = first_run(function, given, where);
    Recomputed region{function, start, autocast_dtype(), given.size(), run.used.size(), {}, {}};
    for (const Tensor& result : run.results) {
      region.shapes.push_back(result.shape());
      region.dtypes.push_back(result.dtype());
    }
    given.insert(given.end(), run.used.begin(), run.used.end());
    const Tensor owner = autograd::owning(std::move(region), where);
    autograd::record_owning({kOp, where, &recompute_replay, owner, given, /*saves_outputs=*/false}, run.results);
    return std::move(run.results);
  } catch (...) {
    default_rng() = start;
    throw;
  }
}

}  // namespace capstan::detail
