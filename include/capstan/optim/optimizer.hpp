#pragma once
// What all optimizers have in common: parameters in groups, steps, learning rates and their schedules, saved state.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <capstan/nn/module.hpp>
#include <capstan/ops/update.hpp>
#include <capstan/optim/schedule.hpp>
#include <capstan/parameter.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace optim {

/// Parameters with options of their own: `optim::Group{nn::parameters(net.body), optim::AdamOptions{.beta2 = 0.99}}`.
template <class Options>
struct Group {
  std::vector<Tensor> parameters;
  Options options = {};
};
template <class Options>
Group(std::vector<Tensor>, Options) -> Group<Options>;

namespace detail {
class StateReader;  // hidden: nn/optimizer_state.hpp
}

/// The base of all optimizers. They hold handles to parameters and change them in place.
///
/// Copies are independent: a copied optimizer changes the same parameters, with a state of its own. It is no error to
/// use several on the same parameters.
///
/// After an exception parameters, states and numbers are as they were before the call. But who watches operations
/// (debug.hpp) sees a step when it has been taken: if that throws, parameters and states have moved, and the step does
/// not count; states of a parameter's first step begin anew.
class Optimizer {
 public:
  virtual ~Optimizer();

  /// One step. Gradients in the order of `parameters()`; undefined ones leave their parameter and its state alone, its
  /// count of steps included. Before the step, every group that has a schedule gets the learning rate
  /// schedule(steps()). Gradients held as row slices (sparse.hpp) are used as they are. Never recorded.
  ///
  /// Throws ShapeError, DTypeError, DeviceError for a wrong count, shape, type or device; Error for options out of
  ///        range; TapeError if a tape follows a parameter as the result of an operation
  void apply(std::span<const Tensor> gradients, Where where = Where::current());
  void apply(const std::vector<Tensor>& gradients, Where where = Where::current());

  const std::vector<Tensor>& parameters() const noexcept { return parameters_; }  ///< of all groups, in their order
  std::int64_t groups() const noexcept { return static_cast<std::int64_t>(schedules_.size()); }
  std::int64_t steps() const noexcept { return steps_; }  ///< that were taken
  virtual const char* name() const noexcept = 0;          ///< "Adam"; what errors and traces say

  /// Of a group, counted from 0; IndexError.
  double learning_rate(std::int64_t group = 0, Where where = Where::current()) const;
  /// Of all groups, or of one. Throws Error if the rate is negative or not finite, IndexError.
  void set_learning_rate(double rate, Where where = Where::current());
  void set_learning_rate(double rate, std::int64_t group, Where where = Where::current());
  /// Attaches a schedule to all groups, or to one (IndexError), in place of the one before; an empty one detaches.
  void attach(const Schedule& schedule);
  void attach(const Schedule& schedule, std::int64_t group, Where where = Where::current());

  /// All that later steps depend on besides options, parameters and schedules: copies, named, always in this order.
  /// Numbers are tensors without axes, int64 or float64.
  ///
  ///   step, group.G.learning_rate, and for each parameter I: I.step and, once it has taken one, I.STATE
  std::vector<NamedTensor> state(Where where = Where::current()) const;
  /// Continues where `state()` was taken, bit for bit, with an optimizer of the same kind, options and parameters.
  /// States that its options did not use at that time (velocities with a momentum of 0) begin anew if they come to.
  /// Throws Error       a name is missing, or there is one too many; a number is out of range
  ///        ShapeError  of another shape, DTypeError of another type than `state()` gives
  void load_state(std::span<const NamedTensor> state, Where where = Where::current());

 protected:
  Optimizer() = default;
  Optimizer(const Optimizer&) = default;
  Optimizer(Optimizer&&) noexcept = default;
  Optimizer& operator=(const Optimizer&) = default;
  Optimizer& operator=(Optimizer&&) noexcept = default;

  /// What a constructor does: adds its groups, then has everything checked.
  void add_group(std::vector<Tensor> parameters);
  void start(Where where) const;

  std::size_t group_index(std::int64_t group, Where where) const;  ///< IndexError
  std::size_t group_of(std::size_t parameter) const noexcept { return group_of_[parameter]; }

  /// Around a step: checks all options and sets the rates of schedules, which are put back unless it is finished.
  class Step {
   public:
    Step(Optimizer& optimizer, Where where);
    ~Step();
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    void finish() noexcept;

   private:
    Optimizer& optimizer_;
    std::vector<double> before_;
  };

 private:
  virtual double rate(std::size_t group) const noexcept = 0;
  virtual void set_rate(std::size_t group, double rate) noexcept = 0;
  virtual void check_group(std::size_t group, Where where) const = 0;  ///< Error for options out of range
  virtual void step(std::span<const Tensor> gradients, Where where) = 0;
  virtual void save(std::vector<NamedTensor>& all, Where where) const = 0;
  /// Reads everything and has the reader finish before it changes anything.
  virtual void load(detail::StateReader& reader) = 0;

  std::vector<Tensor> parameters_;
  std::vector<std::size_t> group_of_;  // of each parameter
  std::vector<Schedule> schedules_;    // of each group; may be empty
  std::int64_t steps_ = 0;
};

namespace detail {

/// A number that a parameter takes to its next step, from 1 on.
struct CarriedNumber {
  const char* name = nullptr;  // null: there is none
  double least = 0, most = 0;  // every value of it is in [least, most]
};

/// What one step does to one parameter.
struct StepPlan {
  UpdateRule rule = UpdateRule::sgd;
  UpdateNumbers numbers = {};
  const char* states[kMostStates] = {};  // their names, as many as the rule has
  double starts[kMostStates] = {};       // the values that they begin with
  bool starts_as_parameter = false;      // but the first with the parameter's own
  bool whole_start = false;              // where the first state is new, numbers.share is 1
  bool lazy = false;
  CarriedNumber carry = {};
  double carried = 1;  // its new value
};

/// Optimizers whose step is one fused rule.
class FusedOptimizer : public Optimizer {
 public:
  ~FusedOptimizer() override;

 protected:
  FusedOptimizer() = default;
  FusedOptimizer(const FusedOptimizer&) = default;
  FusedOptimizer(FusedOptimizer&&) noexcept = default;
  FusedOptimizer& operator=(const FusedOptimizer& other);
  FusedOptimizer& operator=(FusedOptimizer&&) noexcept = default;

  void add_parameters(std::vector<Tensor> parameters);
  /// A state of a parameter; undefined if it has none of that name.
  Tensor state_of(std::size_t parameter, const char* state) const;

 private:
  struct State {
    const char* name;
    Buffer value;
    std::int64_t made_at;  // how many steps the parameter had taken then; -1 for one that was loaded
  };
  struct Slot {  // of a parameter
    std::int64_t steps = 0;
    double carried = 1;
    std::vector<State> states;
  };

  /// `step` counts from 1, for each parameter by itself.
  virtual StepPlan plan(std::size_t group, std::int64_t step, double carried) const = 0;
  static const State* find(const Slot& slot, const char* state);
  static bool is_new(const Slot& slot, const char* state);
  void make_states(std::size_t parameter, const StepPlan& plan, Where where);

  void step(std::span<const Tensor> gradients, Where where) final;
  void save(std::vector<NamedTensor>& all, Where where) const final;
  void load(StateReader& reader) final;

  std::vector<Slot> slots_;
};

/// The same with the options of each group.
template <class Options>
class Fused : public FusedOptimizer {
 public:
  /// Of a group, counted from 0 (IndexError). They may be changed between steps, and are checked by the next.
  Options& options(std::int64_t group = 0, Where where = Where::current()) {
    return options_[group_index(group, where)];
  }
  const Options& options(std::int64_t group = 0, Where where = Where::current()) const {
    return options_[group_index(group, where)];
  }

 protected:
  Fused(std::vector<Tensor> parameters, const Options& options) : options_(1, options) {
    add_parameters(std::move(parameters));
  }
  explicit Fused(std::vector<Group<Options>> groups) {
    for (Group<Options>& group : groups) {
      add_parameters(std::move(group.parameters));
      options_.push_back(group.options);
    }
  }

 private:
  double rate(std::size_t group) const noexcept final { return options_[group].learning_rate; }
  void set_rate(std::size_t group, double rate) noexcept final { options_[group].learning_rate = rate; }
  void check_group(std::size_t group, Where where) const final { check_options(options_[group], where); }
  StepPlan plan(std::size_t group, std::int64_t step, double carried) const final {
    return plan_step(options_[group], step, carried);
  }
  virtual void check_options(const Options& options, Where where) const = 0;
  virtual StepPlan plan_step(const Options& options, std::int64_t step, double carried) const = 0;

  std::vector<Options> options_;
};

}  // namespace detail
}  // namespace optim
}  // namespace capstan
