#pragma once
// The inside of pipelines. A Stage is one step of the recipe and never changes; a Cursor walks it once.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <capstan/data/engine.hpp>
#include <capstan/random.hpp>

namespace capstan::data::detail {

/// Where a cursor stands: numbers that its stages write and read in the same order.
using State = std::vector<std::int64_t>;

/// A state that cannot be gone to. The run that tries says where it came from.
struct BadState {
  std::string text;
};

class StateReader {
 public:
  explicit StateReader(const State& state) : state_(state) {}
  /// Throws BadState if there is none left, or it is not within. From what is within one can count on.
  std::int64_t take(std::int64_t least = 0, std::int64_t most = INT64_MAX / 2);
  bool at_end() const noexcept { return at_ == state_.size(); }

 private:
  const State& state_;
  std::size_t at_ = 0;
};

/// The seeds of the stages that draw: those that they were made with, unless a state was restored that has others.
using Seeds = std::vector<std::pair<const Stage*, std::uint64_t>>;

/// What a pass depends on besides the recipe.
struct Pass {
  std::int64_t number = 0;
  std::shared_ptr<const Seeds> seeds;  // may be null

  /// A pass within this one: of a pipeline that is repeated, or opened for an element.
  Pass inner(std::int64_t index) const;
};

class Cursor {
 public:
  virtual ~Cursor() = default;
  /// The next element, or false at the end. If it throws, the cursor must not be used any more.
  virtual bool next(Item& item) = 0;
  /// Passes over up to `count` elements. How many there were.
  virtual std::int64_t skip(std::int64_t count);
  /// The number of the next element, if any can be had at once by its number; else -1.
  virtual std::int64_t position() const { return -1; }
  virtual Item at(std::int64_t) const { return {}; }
  /// Appends where it stands: `load` on a new cursor of the same pass goes there.
  virtual void save(State& state) const = 0;
  virtual void load(StateReader& state) = 0;
};

class Stage {
 public:
  explicit Stage(std::vector<StageRef> from = {}) : from_(std::move(from)) {}
  virtual ~Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  virtual std::unique_ptr<Cursor> open(const Pass& pass) const = 0;
  virtual std::int64_t size() const = 0;
  /// "shuffle(1000)": its name and whatever its numbers in a state depend on.
  virtual std::string name() const = 0;
  /// The same, where numbers of a later stage depend on how many elements of this one there were.
  virtual std::string name_if_counted() const { return name(); }
  /// Whether states have numbers of elements of the stages before, which is where cursors go to by passing over them.
  virtual bool counts() const noexcept { return false; }
  /// Null for stages that draw no random numbers.
  virtual const std::uint64_t* seed() const noexcept { return nullptr; }
  std::uint64_t seed_in(const Pass& pass) const noexcept;

  const std::vector<StageRef>& from() const noexcept { return from_; }
  const Stage& before() const noexcept { return *from_.front(); }
  void retain() const noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() const noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  std::vector<StageRef> from_;
  mutable std::atomic<std::int64_t> references_{1};
};

template <class S, class... Args>
StageRef make_stage(Args&&... args) {
  return StageRef(new S(std::forward<Args>(args)...));
}

/// A generator for one element: as long as it lives, the thread's default generator is that of the element.
class ElementRng {
 public:
  ElementRng(std::uint64_t seed, const Pass& pass, std::int64_t element);
  ~ElementRng() { default_rng().restore(before_); }
  ElementRng(const ElementRng&) = delete;
  ElementRng& operator=(const ElementRng&) = delete;

 private:
  RngState before_;
};

/// Throws what is being handled again, with the stage and the element's number before its text. To be called in a handler.
[[noreturn]] void rethrow_at(const char* stage, std::int64_t element);

/// A seed for a stage that was given none.
inline std::uint64_t drawn_seed() { return default_rng().bits(); }

inline bool is_known(std::int64_t size) noexcept { return size != kUnknownSize && size != kEndless; }

}  // namespace capstan::data::detail
