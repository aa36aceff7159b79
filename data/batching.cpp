// Several elements as one: batches, buckets of lengths, windows.
#include <algorithm>
#include <deque>

#include "data/fail.hpp"
#include "data/retained.hpp"
#include "data/stage.hpp"

namespace capstan::data::detail {
namespace {

/// Several elements as element `number` of their stage.
Item joined(Collate collate, std::span<Item> items, const Joining& joining, std::int64_t number) {
  try {
    return collate(items, joining);
  } catch (...) { rethrow_at(joining.op, number); }
}

class Batched : public Stage {
 public:
  Batched(StageRef from, std::int64_t size, bool drop_rest, Collate collate, const Joining& joining)
      : Stage({std::move(from)}), size_(size), drop_rest_(drop_rest), collate_(collate), joining_(joining) {}
  std::unique_ptr<Cursor> open(const Pass& pass) const override {
    return std::make_unique<Batch>(*this, before().open(pass));
  }
  std::int64_t size() const override {
    const std::int64_t size = before().size();
    return is_known(size) ? batches(size) : size;
  }
  std::string name() const override { return joining_.op; }
  std::string name_if_counted() const override {
    return name() + "(" + std::to_string(size_) + (drop_rest_ ? ", full)" : ")");
  }

 private:
  class Batch : public Cursor {
   public:
    Batch(const Batched& stage, std::unique_ptr<Cursor> from) : stage_(stage), from_(std::move(from)) {}
    bool next(Item& item) override {
      items_.clear();
      for (Item one; static_cast<std::int64_t>(items_.size()) < stage_.size_ && from_->next(one);)
        items_.push_back(std::move(one));
      const bool full = static_cast<std::int64_t>(items_.size()) == stage_.size_;
      if (items_.empty() || (!full && stage_.drop_rest_)) return false;
      item = joined(stage_.collate_, items_, stage_.joining_, given_);
      items_.clear();
      ++given_;
      return true;
    }
    std::int64_t skip(std::int64_t count) override {
      if (count > kEndless / stage_.size_) return Cursor::skip(count);
      const std::int64_t passed = stage_.batches(from_->skip(count * stage_.size_));
      given_ += passed;
      return passed;
    }
    void save(State& state) const override {
      state.push_back(given_);
      from_->save(state);
    }
    void load(StateReader& state) override {
      given_ = state.take();
      from_->load(state);
    }

   private:
    const Batched& stage_;
    std::unique_ptr<Cursor> from_;
    std::vector<Item> items_;
    std::int64_t given_ = 0;
  };

  std::int64_t batches(std::int64_t elements) const {
    return elements / size_ + (!drop_rest_ && elements % size_ != 0);
  }
  std::int64_t size_;
  bool drop_rest_;
  Collate collate_;
  Joining joining_;
};

class Bucketed : public Stage {
 public:
  Bucketed(StageRef from, Length length, std::vector<std::int64_t> bounds, std::vector<std::int64_t> sizes,
           bool drop_rest, Collate collate, const Joining& joining)
      : Stage({std::move(from)}),
        length_(std::move(length)),
        bounds_(std::move(bounds)),
        sizes_(std::move(sizes)),
        drop_rest_(drop_rest),
        collate_(collate),
        joining_(joining) {}
  std::unique_ptr<Cursor> open(const Pass& pass) const override { return std::make_unique<Buckets>(*this, pass); }
  std::int64_t size() const override {
    const std::int64_t size = before().size();
    return is_known(size) && size > 0 ? kUnknownSize : size;
  }
  std::string name() const override {
    std::string text = "bucket_by_length(";
    for (const std::int64_t bound : bounds_) text += std::to_string(bound) + ",";
    for (const std::int64_t size : sizes_) text += " " + std::to_string(size);
    return text + ")";
  }
  bool counts() const noexcept override { return true; }

 private:
  class Buckets : public Cursor {
   public:
    Buckets(const Bucketed& stage, const Pass& pass)
        : stage_(stage), from_(stage.before().open(pass)), buckets_(stage.sizes_.size()) {}
    bool next(Item& item) override {
      Item one;
      Retained::Ticket ticket;
      while (!ended_ && from_.next(one, ticket)) {
        const std::size_t number = bucket_of(one, ticket.number);
        Bucket& bucket = buckets_[number];
        bucket.add(std::move(one), std::move(ticket));
        if (static_cast<std::int64_t>(bucket.items.size()) < stage_.sizes_[number]) continue;
        item = bucket.take(stage_, given_++);
        return true;
      }
      ended_ = true;
      if (stage_.drop_rest_) return false;
      for (Bucket& bucket : buckets_) {
        if (bucket.items.empty()) continue;
        item = bucket.take(stage_, given_++);
        return true;
      }
      return false;
    }
    void save(State& state) const override {
      state.insert(state.end(), {given_, ended_});
      std::vector<const Retained::Ticket*> held;
      for (const Bucket& bucket : buckets_) {
        state.push_back(static_cast<std::int64_t>(bucket.items.size()));
        for (const Retained::Ticket& ticket : bucket.tickets) held.push_back(&ticket);
      }
      from_.save(state, held);
    }
    void load(StateReader& state) override {
      given_ = state.take();
      ended_ = state.take(0, 1) != 0;
      std::vector<std::int64_t> counts;
      for (const std::int64_t size : stage_.sizes_) counts.push_back(state.take(0, size));
      std::vector<std::pair<Item, Retained::Ticket>> held = from_.load(state);
      std::size_t at = 0;
      for (std::size_t number = 0; number < buckets_.size(); ++number)
        for (std::int64_t i = 0; i < counts[number] && at < held.size(); ++i, ++at)
          buckets_[number].add(std::move(held[at].first), std::move(held[at].second));
    }

   private:
    struct Bucket {
      std::vector<Item> items;
      std::vector<Retained::Ticket> tickets;
      void add(Item item, Retained::Ticket ticket) {
        items.push_back(std::move(item));
        tickets.push_back(std::move(ticket));
      }
      Item take(const Bucketed& stage, std::int64_t number) {
        Item batch = joined(stage.collate_, items, stage.joining_, number);
        items.clear();
        tickets.clear();
        return batch;
      }
    };
    std::size_t bucket_of(const Item& item, std::int64_t element) const {
      try {
        const std::int64_t length = stage_.length_(item);
        const auto bound = std::upper_bound(stage_.bounds_.begin(), stage_.bounds_.end(), length);
        return static_cast<std::size_t>(bound - stage_.bounds_.begin());
      } catch (...) { rethrow_at("bucket_by_length", element); }
    }
    const Bucketed& stage_;
    Retained from_;
    std::vector<Bucket> buckets_;
    std::int64_t given_ = 0;
    bool ended_ = false;
  };

  Length length_;
  std::vector<std::int64_t> bounds_, sizes_;
  bool drop_rest_;
  Collate collate_;
  Joining joining_;
};

class Windowed : public Stage {
 public:
  Windowed(StageRef from, std::int64_t size, const WindowOptions& options, Copy copy, Collate collate,
           const Joining& joining)
      : Stage({std::move(from)}), size_(size), options_(options), copy_(copy), collate_(collate), joining_(joining) {}
  std::unique_ptr<Cursor> open(const Pass& pass) const override { return std::make_unique<Windows>(*this, pass); }
  std::int64_t size() const override {
    const std::int64_t size = before().size(), whole = reach();
    if (!is_known(size)) return size;
    if (!options_.drop_rest) return size / options_.shift + (size % options_.shift != 0);
    return size < whole ? 0 : (size - whole) / options_.shift + 1;
  }
  std::string name() const override {
    return "window(" + std::to_string(size_) + "," + std::to_string(options_.shift) + "," +
           std::to_string(options_.stride) + ")";
  }
  bool counts() const noexcept override { return true; }

 private:
  class Windows : public Cursor {
   public:
    Windows(const Windowed& stage, const Pass& pass) : stage_(stage), from_(stage.before().open(pass)) {}
    bool next(Item& item) override {
      drop_passed();
      fill();
      const std::int64_t stride = stage_.options_.stride;
      const auto held = static_cast<std::int64_t>(held_.size());
      if (held == 0 || (stage_.options_.drop_rest && held < stage_.reach())) return false;
      std::vector<Item> items;
      for (std::int64_t i = 0; i < held && i < stage_.reach(); i += stride) {
        // what no later window has is moved
        Item& one = held_[static_cast<std::size_t>(i)].first;
        items.push_back(i < stage_.options_.shift ? std::move(one) : stage_.copy_(one));
      }
      item = joined(stage_.collate_, items, stage_.joining_, first_ / stage_.options_.shift);
      first_ += stage_.options_.shift;
      return true;
    }
    void save(State& state) const override {
      std::vector<const Retained::Ticket*> held;
      for (const auto& [item, ticket] : held_)
        if (ticket.number >= first_) held.push_back(&ticket);
      state.push_back(first_);
      from_.save(state, held);
    }
    void load(StateReader& state) override {
      first_ = state.take(0, INT64_MAX);
      bool whole = true;  // held is what was pulled and is not passed
      for (auto& held : from_.load(state)) {
        whole = whole && held.second.number - first_ == static_cast<std::int64_t>(held_.size());
        held_.push_back(std::move(held));
      }
      const std::int64_t expected = std::max<std::int64_t>(from_.pulled() - first_, 0);
      if (!whole || static_cast<std::int64_t>(held_.size()) != expected)
        throw BadState{"the elements of a window do not follow each other in the state"};
    }

   private:
    /// Elements before the window that comes.
    void drop_passed() {
      while (!held_.empty() && held_.front().second.number < first_) held_.pop_front();
      if (from_.pulled() < first_) from_.skip(first_ - from_.pulled());
    }
    void fill() {
      std::pair<Item, Retained::Ticket> one;
      while (static_cast<std::int64_t>(held_.size()) < stage_.reach() && from_.next(one.first, one.second))
        held_.push_back(std::move(one));
    }
    const Windowed& stage_;
    Retained from_;
    std::deque<std::pair<Item, Retained::Ticket>> held_;  // elements that follow each other
    std::int64_t first_ = 0;                              // the element that the next window begins with
  };

  /// Elements from the first of a window to its last.
  std::int64_t reach() const { return (size_ - 1) * options_.stride + 1; }
  std::int64_t size_;
  WindowOptions options_;
  Copy copy_;
  Collate collate_;
  Joining joining_;
};

void check_size(const Joining& joining, const char* what, std::int64_t size) {
  if (size < 1) fail<Error>(joining.where, joining.op, ": ", what, " is ", size, "; it must be 1 or more.");
}

}  // namespace

StageRef batched(StageRef from, std::int64_t size, bool drop_rest, Collate collate, Joining joining) {
  check_size(joining, "size", size);
  check_size(joining, "multiple_of", joining.multiple_of);
  return make_stage<Batched>(std::move(from), size, drop_rest, collate, joining);
}

StageRef bucketed(StageRef from, Length length, std::vector<std::int64_t> bounds, std::vector<std::int64_t> sizes,
                  bool drop_rest, Collate collate, Joining joining) {
  check_size(joining, "multiple_of", joining.multiple_of);
  for (std::size_t i = 1; i < bounds.size(); ++i)
    if (bounds[i] <= bounds[i - 1])
      fail<Error>(joining.where, "bucket_by_length: bounds ", bounds[i - 1], " and ", bounds[i],
                  " follow each other; they must be ascending.");
  if (sizes.size() == 1) sizes.resize(bounds.size() + 1, sizes.front());
  if (sizes.size() != bounds.size() + 1)
    fail<Error>(joining.where, "bucket_by_length: there are ", sizes.size(), " sizes and ", bounds.size(),
                " bounds; there must be one size, or one more than bounds.");
  for (const std::int64_t size : sizes) check_size(joining, "a size", size);
  return make_stage<Bucketed>(std::move(from), std::move(length), std::move(bounds), std::move(sizes), drop_rest,
                              collate, joining);
}

StageRef windowed(StageRef from, std::int64_t size, WindowOptions options, Copy copy, Collate collate,
                  Joining joining) {
  check_size(joining, "size", size);
  check_size(joining, "shift", options.shift);
  check_size(joining, "stride", options.stride);
  if (size - 1 > (kEndless - 1) / options.stride)
    fail<Error>(joining.where, "window: size ", size, " and stride ", options.stride, " reach over 2^63 elements.");
  return make_stage<Windowed>(std::move(from), size, options, copy, collate, joining);
}

}  // namespace capstan::data::detail
