#pragma once
// Callback: a callable of any kind behind one small type.
#include <cstddef>
#include <type_traits>
#include <utility>

#include <capstan/visibility.hpp>

namespace capstan CAPSTAN_PUBLIC {

template <class Signature>
class Callback;

/// Owns any callable that takes Args and gives R: a lambda, a function, an object. Empty if made from nothing or from a
/// null pointer; calling an empty one is undefined. Copies share the callable, and with it the state that it changes.
///
/// Threads: copies may be made and destroyed on any thread; calls are as safe as the callable itself.
template <class R, class... Args>
class Callback<R(Args...)> {
 public:
  using result_type = R;
  constexpr Callback() noexcept = default;  // an empty one may be part of a constant expression
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Callback> && std::is_invocable_r_v<R, std::decay_t<F>&, Args...>)
      Callback(F&& function) {
    if constexpr (std::is_pointer_v<std::remove_cvref_t<F>>)
      if (function == nullptr) return;
    held_ = new Holding<std::decay_t<F>>(std::forward<F>(function));
  }

  constexpr Callback(const Callback& other) noexcept : held_(other.held_) {
    if (held_ != nullptr) __atomic_fetch_add(&held_->references, std::size_t{1}, __ATOMIC_RELAXED);
  }
  constexpr Callback(Callback&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  Callback& operator=(Callback other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  constexpr ~Callback() {
    if (held_ != nullptr && __atomic_sub_fetch(&held_->references, std::size_t{1}, __ATOMIC_ACQ_REL) == 0)
      held_->destroy(held_);
  }

  explicit operator bool() const noexcept { return held_ != nullptr; }
  R operator()(Args... args) const { return held_->call(*held_, std::forward<Args>(args)...); }

 private:
  struct Held {
    std::size_t references;
    R (*call)(Held&, Args...);
    void (*destroy)(Held*) noexcept;
  };
  template <class F>
  struct Holding : Held {
    template <class G>
    explicit Holding(G&& other) : Held{1, &invoke, &drop}, function(std::forward<G>(other)) {}
    static R invoke(Held& held, Args... args) {
      F& callable = static_cast<Holding&>(held).function;
      if constexpr (std::is_void_v<R>) static_cast<void>(callable(std::forward<Args>(args)...));
      else return callable(std::forward<Args>(args)...);
    }
    static void drop(Held* held) noexcept { delete static_cast<Holding*>(held); }
    F function;
  };

  Held* held_ = nullptr;
};

}  // namespace capstan
