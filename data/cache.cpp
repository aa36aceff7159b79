// Elements that are kept in memory.
#include <algorithm>
#include <mutex>

#include "data/stage.hpp"

namespace capstan::data::detail {
namespace {

/// What all passes share: the elements of one pass as far as they were asked for, and the cursor that makes more, which
/// is there only while a pass is.
class Memory {
 public:
  Memory(const Stage& from, Copy copy, const Pass& pass) : from_(from), copy_(copy), pass_(pass) {}

  const Pass& pass() const noexcept { return pass_; }
  void enter() {
    const std::scoped_lock lock(mutex_);
    ++passes_;
  }
  void leave() noexcept {
    const std::scoped_lock lock(mutex_);
    if (--passes_ == 0) cursor_.reset();  // and its threads
  }
  /// A copy of element `number`; false if there are not so many.
  bool get(std::int64_t number, Item& item) {
    const std::scoped_lock lock(mutex_);
    if (!reach(number + 1)) return false;
    item = copy_(items_[static_cast<std::size_t>(number)]);
    return true;
  }
  /// How many of the first `count` there are.
  std::int64_t available(std::int64_t count) {
    const std::scoped_lock lock(mutex_);
    reach(count);
    return std::min(count, static_cast<std::int64_t>(items_.size()));
  }

 private:
  bool reach(std::int64_t count) {
    while (static_cast<std::int64_t>(items_.size()) < count) {
      if (complete_) return false;
      try {
        if (!cursor_) {
          cursor_ = from_.open(pass_);
          cursor_->skip(static_cast<std::int64_t>(items_.size()));
        }
        Item item;
        if (cursor_->next(item)) {
          items_.push_back(std::move(item));
        } else {
          complete_ = true;
          cursor_.reset();
        }
      } catch (...) {
        cursor_.reset();
        throw;
      }
    }
    return true;
  }

  const Stage& from_;
  Copy copy_;
  Pass pass_;
  std::mutex mutex_;
  std::vector<Item> items_;
  std::unique_ptr<Cursor> cursor_;
  std::int64_t passes_ = 0;
  bool complete_ = false;
};

class Cached : public Stage {
 public:
  Cached(StageRef from, Copy copy) : Stage({std::move(from)}), copy_(copy) {}
  std::unique_ptr<Cursor> open(const Pass& pass) const override { return std::make_unique<Cache>(*this, pass); }
  std::int64_t size() const override { return before().size(); }
  std::string name() const override { return "cache"; }
  bool counts() const noexcept override { return true; }

 private:
  class Cache : public Cursor {
   public:
    Cache(const Cached& stage, const Pass& pass) : stage_(stage), memory_(stage.memory_of(pass)) { memory_->enter(); }
    ~Cache() override { memory_->leave(); }
    bool next(Item& item) override {
      if (!memory_->get(position_, item)) return false;
      ++position_;
      return true;
    }
    std::int64_t skip(std::int64_t count) override {
      const std::int64_t size = stage_.size();
      const std::int64_t reach = count > kEndless - position_ ? kEndless : position_ + count;
      const std::int64_t there = is_known(size) ? std::min(reach, size) : memory_->available(reach);
      const std::int64_t passed = std::max<std::int64_t>(there - position_, 0);
      position_ += passed;
      return passed;
    }
    void save(State& state) const override { state.push_back(position_); }
    void load(StateReader& state) override {
      const std::int64_t size = stage_.size();
      position_ = state.take(0, is_known(size) ? size : kEndless - 1);
    }

   private:
    const Cached& stage_;
    std::shared_ptr<Memory> memory_;
    std::int64_t position_ = 0;
  };

  /// The elements of pass 0, whichever pass is the first to ask: so one that is restored has those that it had.
  std::shared_ptr<Memory> memory_of(const Pass& pass) const {
    const std::scoped_lock lock(mutex_);
    if (!memory_ || !same(memory_->pass().seeds, pass.seeds))
      memory_ = std::make_shared<Memory>(before(), copy_, Pass{0, pass.seeds});
    return memory_;
  }
  static bool same(const std::shared_ptr<const Seeds>& a, const std::shared_ptr<const Seeds>& b) {
    return a == b || (a && b && *a == *b);
  }
  Copy copy_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<Memory> memory_;
};

}  // namespace

StageRef cached(StageRef from, Copy copy) { return make_stage<Cached>(std::move(from), copy); }

}  // namespace capstan::data::detail
