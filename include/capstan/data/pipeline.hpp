#pragma once
// Pipelines: elements of one type, one after another, made as a loop asks for them.
//
//     auto batches = data::from(train) | data::shuffle(60000) | data::repeat() | data::batch(50) | data::prefetch(2);
//     for (auto [images, labels] : batches) { ... }
//
// sources.hpp has what they begin with, stages.hpp what they go on with. A pipeline is a recipe and the place where it
// stands. Each loop is a pass: the first has number 0, and orders and random numbers of a pass depend on its number and on
// the seeds alone, never on the number of workers. Leaving a loop early ends all threads that it has started, and so does
// an exception; the next loop is the next pass, unless `restore` says otherwise.
//
// Elements may be of any type that can be moved. What batches of them are: of tensors a tensor with one more axis, of
// numbers a tensor, of pairs and tuples such of the batches of their parts, of plain structs with nothing but tensors the
// same struct; of all others a std::vector.
//
// Threads   A pipeline is used from one thread at a time; copies of it are pipelines of their own, which share functions,
//     memory and caches. No thread is started but by `map` with workers and by `prefetch`. Functions of a `map` with
//     workers are called on several threads at once. These threads block the signals that are sent to the process. One
//     that forks inside a loop with threads keeps them for itself: the child ends by exec or _exit, and does not leave
//     the loop, which would wait for them.
// Errors    What is thrown in a worker is thrown in the loop, when the elements before it have been given out; errors of
//     Capstan keep their type. The text begins with the stage and the element's number in its pass: "map: element 17: ...".
//     Other exceptions are nested in an Error (std::rethrow_if_nested). `state()` then is that before the element.
// Defined in data/.
#include <cstdint>
#include <utility>

#include <capstan/data/engine.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace data {

template <class T>
class Pipeline : public detail::PipelineBase {
 public:
  using value_type = T;

  struct End {};
  /// One pass; it owns what the pass holds. Behind an error it is at its end.
  class Iterator {
   public:
    using value_type = T;
    explicit Iterator(detail::Run* run) : run_(run) { step(); }
    Iterator(Iterator&& other) noexcept : run_(std::exchange(other.run_, nullptr)), item_(std::move(other.item_)) {}
    Iterator& operator=(Iterator&& other) noexcept {
      std::swap(run_, other.run_);
      std::swap(item_, other.item_);
      return *this;
    }
    ~Iterator() { stop(); }

    T& operator*() noexcept { return item_.template as<T>(); }
    T* operator->() noexcept { return &item_.template as<T>(); }
    Iterator& operator++() {
      item_.reset();
      step();
      return *this;
    }
    friend bool operator==(const Iterator& at, End) noexcept { return at.run_ == nullptr; }

   private:
    void step() {
      try {
        if (!detail::advance(run_, item_)) stop();
      } catch (...) {
        stop();
        throw;
      }
    }
    void stop() noexcept {
      if (run_ != nullptr) detail::finish(std::exchange(run_, nullptr));
    }
    detail::Run* run_;
    detail::Item item_;
  };

  explicit Pipeline(detail::StageRef stage) : PipelineBase(std::move(stage)) {}

  /// Begins the next pass, or the one that was restored.
  Iterator begin(Where where = Where::current()) { return Iterator(start(where)); }
  End end() noexcept { return {}; }

  /// The pipeline with another stage behind it: `from(x) | batch(32)`. It stands at the beginning of pass 0.
  template <class Next>
  auto operator|(Next next) const -> decltype(next(*this)) {
    return next(*this);
  }
};

}  // namespace data
}  // namespace capstan
