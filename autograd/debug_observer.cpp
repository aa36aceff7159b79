// Operations as the program itself sees them.
#include <capstan/debug.hpp>

#include <utility>

#include "lib/base/text.hpp"
#include "lib/core/observe.hpp"

namespace capstan::debug {

struct ObserverState final : core::Watcher {
  explicit ObserverState(Callback<void(const Operation&)> callback) : function(std::move(callback)) {}

  void see(const core::Event& event) override {
    if (event.thread != thread) return;
    const core::Operation& seen = event.operation;
    function({.name = seen.op,
              .where = seen.where,
              .inputs = seen.inputs,
              .outputs = seen.outputs,
              .backward = seen.backward || event.inside != nullptr,
              .composed = event.composed,
              .reads = event.reads});
  }

  const int thread = core::thread_number();
  Callback<void(const Operation&)> function;
};

Observer::Observer(Callback<void(const Operation&)> see, Where where) {
  if (!see) base::fail<Error>(where, "Observer: the function is empty; give it one that can be called.");
  state_ = new ObserverState(std::move(see));
  try {
    core::add_watcher(*state_);
  } catch (...) {
    delete state_;
    throw;
  }
}

Observer::~Observer() {
  core::remove_watcher(*state_);
  delete state_;
}

}  // namespace capstan::debug
