// The operation that first makes a NaN or an infinity.
#include <capstan/debug.hpp>

#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "autograd/debug_text.hpp"
#include "autograd/debug_values.hpp"
#include "lib/base/text.hpp"
#include "lib/core/device_runtime.hpp"
#include "lib/core/observe.hpp"
#include "lib/kernels/op_list.hpp"

namespace capstan {
namespace autograd {
namespace {

enum Mode : std::uint8_t { kUnset, kOff, kAll, kOnlyNan };

constinit std::atomic<std::uint8_t> everywhere{kOff};
constinit thread_local std::uint8_t on_this_thread = kUnset;  // or what a scope says

// --- what the message says -------------------------------------------------------------------------------------

template <class... Ops>
bool names_one(std::string_view op, const std::tuple<Ops...>*) {
  return ((op == Ops::name) || ...);
}

/// Whether an element of the result depends on the elements at the same place only.
bool is_elementwise(std::string_view op) {
  for (const std::string_view other : {"where", "cast", "copy", "assign"})
    if (op == other) return true;
  return names_one(op, static_cast<const kernels::UnaryOps*>(nullptr)) ||
         names_one(op, static_cast<const kernels::BinaryOps*>(nullptr)) ||
         names_one(op, static_cast<const kernels::ParametricOps*>(nullptr)) ||
         names_one(op, static_cast<const kernels::LossOps*>(nullptr));
}

/// Operations that write a number which they were given.
bool writes_given_number(std::string_view op) {
  for (const std::string_view other : {"exchange_each", "one_hot", "pad", "threshold"})
    if (op == other) return true;
  return false;
}

/// The places of the bad values in a result.
struct Findings {
  std::int64_t nan = 0, positive = 0, negative = 0;
  std::int64_t index[kMaxRank] = {};  // of the first one

  Findings(const TensorImpl& x, Bad kind) {
    std::int64_t position = 0, first = -1;
    each_value(x, [&](double value) {
      const bool infinite = kind == Bad::nan_or_infinity && std::isinf(value);
      nan += std::isnan(value);
      positive += infinite && value > 0;
      negative += infinite && value < 0;
      if (first < 0 && (std::isnan(value) || infinite)) first = position;
      ++position;
    });
    for (int axis = x.rank() - 1; axis >= 0 && first >= 0; --axis) {
      index[axis] = first % x.shape[axis];
      first /= x.shape[axis];
    }
  }
  std::int64_t count() const { return nan + positive + negative; }

  std::string kinds() const {
    const int different = (nan > 0) + (positive > 0) + (negative > 0);
    if (different == 1) return nan > 0 ? "nan" : positive > 0 ? "inf" : "-inf";
    std::string text;
    const auto add = [&](std::int64_t number, const char* kind) {
      if (number > 0) text += (text.empty() ? "" : ", ") + std::to_string(number) + " " + kind;
    };
    add(nan, "nan");
    add(positive, "inf");
    add(negative, "-inf");
    return "not finite (" + text + ")";
  }
};

/// The element of x at a place of a result that x is broadcast to. False if x is not broadcast to it.
bool value_at(const TensorImpl& x, const Shape& result, const std::int64_t* index, double* value) {
  const int extra = result.rank() - x.rank();
  if (extra < 0) return false;
  std::int64_t offset = 0;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (x.shape[axis] != 1 && x.shape[axis] != result[axis + extra]) return false;
    if (x.shape[axis] != 1) offset += index[axis + extra] * x.strides[axis];
  }
  core::visit(x.dtype, [&]<class T>(core::Type<T>) { *value = static_cast<double>(x.as<T>()[offset]); });
  return true;
}

/// " (softmax at train.cpp:55)", or nothing if nobody knows.
std::string origin_text(const TensorImpl& x) {
  const core::Origin* origin = x.origin.load(std::memory_order_relaxed);
  if (origin == nullptr) return "";
  return base::join(" (", origin->backward ? "gradient of " : "", origin->op, " at ", base::to_string(origin->where),
                    ")");
}

/// "0 to 3"; a single number if all are that.
std::string range_text(const Tensor& x) {
  const Figures f = figures_of(x, Where::current());
  return f.low == f.high ? short_text(f.low) : short_text(f.low) + " to " + short_text(f.high);
}

/// Tensors of one kind that an operation read.
struct Operands {
  const char *one, *many;
  std::vector<Tensor> tensors = {};
};

/// "; its inputs there are 0 (exp at a.cpp:3) and 1". Where places do not correspond: "; its inputs hold 0 to 3 and 1".
void describe(std::string& text, const Operands& operands, bool places, const Shape& result,
              const std::int64_t* index) {
  constexpr std::size_t kMost = 4;
  const std::size_t count = operands.tensors.size();
  if (count == 0) return;
  double values[kMost] = {};
  for (std::size_t i = 0; i < count && i < kMost && places; ++i)
    places = value_at(*on_host(operands.tensors[i], Where::current()).impl(), result, index, &values[i]);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < count && i < kMost; ++i) {
    const Tensor& tensor = operands.tensors[i];
    parts.push_back((places ? short_text(values[i]) : range_text(tensor)) + origin_text(*tensor.impl()));
  }
  text += base::join("; ", count == 1 ? operands.one : operands.many,
                     places ? (count == 1 ? " there is " : " there are ") : (count == 1 ? " holds " : " hold "));
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : i + 1 == count ? " and " : ", ") + parts[i];
  if (count > kMost) text += base::join(" and ", count - kMost, " more");
}

bool is_described(const Tensor& x, bool floating) {
  const TensorImpl* impl = x.impl();
  return impl != nullptr && impl->numel() > 0 && impl->dtype != DType::bool8 && is_floating(impl->dtype) == floating;
}

/// What the operation read, but for the tensor that it changed.
std::vector<Operands> operands_of(const core::Operation& operation, const TensorImpl* changed) {
  std::vector<Operands> list;
  if (operation.backward) {
    list.push_back(Operands{"the gradient", "the gradients"});
    list.push_back(Operands{"its saved value", "its saved values"});
  } else {
    list.push_back(Operands{"its input", "its inputs"});
  }
  for (const bool floating : {true, false}) {
    bool any = false;
    for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
      const Tensor& input = *operation.inputs[i];
      if (!is_described(input, floating) || input.impl() == changed) continue;
      list[operation.backward && i >= operation.incoming ? 1 : 0].tensors.push_back(input);
      any = true;
    }
    if (any) break;  // integers are worth a word only if there is nothing else
  }
  return list;
}

/// "2 of 5": which of several results it is.
std::string number_of(const core::Operation& operation, const Tensor& output) {
  std::size_t number = 1;
  while (number < operation.outputs.size() && !operation.outputs[number - 1]->is_same(output)) ++number;
  return base::join(number, " of ", operation.outputs.size());
}

std::string index_text(const std::int64_t* index, int rank) {
  std::string text = "[";
  for (int axis = 0; axis < rank; ++axis) text += (axis > 0 ? ", " : "") + std::to_string(index[axis]);
  return text + "]";
}

std::string message(const core::Operation& operation, const char* inside, const Tensor& output, Bad kind) {
  const Tensor host = on_host(output, operation.where);
  const Shape& shape = output.impl()->shape;
  const Findings found(*host.impl(), kind);
  std::string text = base::join(operation.backward ? "gradient of " : "", operation.op);
  if (inside != nullptr) text += base::join(", in the gradient of ", inside, ",");
  text += base::join(" at ", base::to_string(operation.where), " made ");
  const bool single = shape.numel() == 1;
  if (single) text += "its value " + found.kinds();
  else text += base::join(found.count(), " of ", shape.numel(), " values ", found.kinds());
  if (operation.outputs.size() > 1) text += base::join(" in result ", number_of(operation, output));
  if (!single) text += "; first at " + index_text(found.index, shape.rank());
  for (const Operands& operands : operands_of(operation, output.impl()))
    describe(text, operands, is_elementwise(operation.op), shape, found.index);
  return text;
}

// --- the check -------------------------------------------------------------------------------------------------

/// The operand of which a result only shows elements, or null.
const TensorImpl* shown_by(const TensorImpl& output, std::span<const Tensor* const> inputs) {
  for (const Tensor* input : inputs)
    if (const TensorImpl* impl = input->impl(); impl != nullptr && impl != &output && impl->storage == output.storage)
      return impl;
  return nullptr;
}

bool reads_something(const core::Operation& operation, const TensorImpl* changed) {
  for (const Tensor* input : operation.inputs)
    if (input->impl() != changed && (is_described(*input, true) || is_described(*input, false))) return true;
  return false;
}

/// Throws if a result is bad through this operation; of one that is not it takes a note.
void judge(const core::Operation& operation, const char* inside, const Tensor& output, Bad kind) {
  bool excused = writes_given_number(operation.op);
  for (const Tensor* input : operation.inputs)
    excused = excused ||
              (input->impl() != output.impl() && is_described(*input, true) && has_bad(*input, kind, operation.where));
  if (!excused) throw NumericError(message(operation, inside, output, kind));
  output.impl()->excused.store(true, std::memory_order_relaxed);
}

/// Results that are not looked at take over what is known of the operands.
void pass_excuses(const core::Operation& operation) {
  for (const Tensor* input : operation.inputs) {
    if (!input->defined() || !input->impl()->excused.load(std::memory_order_relaxed)) continue;
    for (const Tensor* output : operation.outputs)
      if (output->defined()) output->impl()->excused.store(true, std::memory_order_relaxed);
  }
}

/// The name of an operation in reports that come later; it lives as long as the program.
const char* lasting_name(const core::Operation& operation) {
  if (!operation.backward) return operation.op;
  static std::mutex mutex;
  static auto* const names = new std::map<std::string, std::string>;
  const std::lock_guard lock(mutex);
  return names->try_emplace(operation.op, base::join("gradient of ", operation.op)).first->second.c_str();
}

/// Leaves it to the GPU to look, and to tell whoever waits for it next. False if the host has to look by itself.
bool watched_by_device(const core::Operation& operation, const TensorImpl& x, bool infinite) {
  if (host_looks(x)) return false;
  if (const Tensor rows = core::sliced_values(x); rows.defined())
    return watched_by_device(operation, *rows.impl(), infinite);
  if (!x.contiguous) return false;
  if (writes_given_number(operation.op)) return true;
  std::vector<const TensorImpl*> inputs;
  std::vector<Tensor> rows;  // of inputs that are held so
  for (const Tensor* input : operation.inputs) {
    if (input->impl() == &x || !is_described(*input, true) || input->impl()->device() != x.device()) continue;
    rows.push_back(core::sliced_values(*input->impl()));
    inputs.push_back(rows.back().defined() ? rows.back().impl() : input->impl());
  }
  core::cuda_runtime()->watch_numbers(lasting_name(operation), operation.where, x, inputs.data(), inputs.size(),
                                      infinite);
  return true;
}

void check_results(const core::Operation& operation, const char* inside) {
  std::uint8_t mode = on_this_thread;
  if (mode == kUnset) mode = everywhere.load(std::memory_order_relaxed);
  if (mode != kAll && mode != kOnlyNan) return;
  // slices add their gradients into one sum, which is not read again for each of them
  if (operation.backward && std::string_view(operation.op) == "index") return pass_excuses(operation);
  const Bad kind = mode == kAll ? Bad::nan_or_infinity : Bad::nan;
  for (const Tensor* output : operation.outputs) {
    TensorImpl* impl = output->impl();
    if (impl == nullptr || impl->numel() == 0 || !is_floating(impl->dtype)) continue;
    if (const TensorImpl* base = shown_by(*impl, operation.inputs); base != nullptr) {
      if (base->excused.load(std::memory_order_relaxed)) impl->excused.store(true, std::memory_order_relaxed);
      continue;
    }
    // the gradient may be a sum, whose other part was bad before
    if (operation.backward && impl->excused.load(std::memory_order_relaxed)) continue;
    if (!reads_something(operation, impl)) return;
    if (watched_by_device(operation, *impl, kind == Bad::nan_or_infinity)) continue;
    if (has_bad(*output, kind, operation.where)) judge(operation, inside, *output, kind);
  }
}

/// Has results checked as long as anybody asks for it.
class Switch {
 public:
  void everywhere_is(std::uint8_t mode) {
    const std::lock_guard lock(mutex_);
    everywhere.store(mode, std::memory_order_relaxed);
    refresh();
  }
  void add_scopes(int count) {
    const std::lock_guard lock(mutex_);
    scopes_ += count;
    refresh();
  }

 private:
  void refresh() {
    const bool wanted = scopes_ > 0 || everywhere.load(std::memory_order_relaxed) != kOff;
    core::set_result_check(wanted ? &check_results : nullptr);
  }

  std::mutex mutex_;
  int scopes_ = 0;
};

Switch& the_switch() {
  static auto* const instance = new Switch;  // never destroyed: operations run until the end
  return *instance;
}

std::uint8_t mode_of(bool on, debug::NumericsOptions options) {
  return !on ? kOff : options.allow_infinity ? kOnlyNan : kAll;
}

}  // namespace
}  // namespace autograd

namespace debug {

void check_numerics(bool on, NumericsOptions options) {
  autograd::the_switch().everywhere_is(autograd::mode_of(on, options));
}

NumericsScope::NumericsScope(bool on, NumericsOptions options) : before_(autograd::on_this_thread), on_(on) {
  if (on_) autograd::the_switch().add_scopes(1);
  autograd::on_this_thread = autograd::mode_of(on, options);
}

NumericsScope::~NumericsScope() {
  autograd::on_this_thread = before_;
  if (on_) autograd::the_switch().add_scopes(-1);
}

}  // namespace debug
}  // namespace capstan
