// Elements that are opened as pipelines, several of them in turn.
#include <algorithm>

#include "data/fail.hpp"
#include "data/retained.hpp"
#include "data/stage.hpp"

namespace capstan::data::detail {
namespace {

class Interleaved : public Stage {
 public:
  Interleaved(StageRef from, Callback<StageRef(Item&&)> open, const InterleaveOptions& options)
      : Stage({std::move(from)}), open_(std::move(open)), options_(options), seed_(drawn_seed()) {}
  std::unique_ptr<Cursor> open(const Pass& pass) const override { return std::make_unique<Interleave>(*this, pass); }
  std::int64_t size() const override { return before().size() == 0 ? 0 : kUnknownSize; }
  std::string name() const override {
    return "interleave(" + std::to_string(options_.cycle) + "," + std::to_string(options_.block) + ")";
  }
  bool counts() const noexcept override { return true; }
  const std::uint64_t* seed() const noexcept override { return &seed_; }

 private:
  class Interleave : public Cursor {
   public:
    Interleave(const Interleaved& stage, const Pass& pass)
        : stage_(stage), pass_(pass), seed_(stage.seed_in(pass)), from_(stage.before().open(pass)) {}

    bool next(Item& item) override {
      return walk([&](Cursor& cursor, std::int64_t) -> std::int64_t { return cursor.next(item); }, 1) == 1;
    }
    std::int64_t skip(std::int64_t count) override {
      return walk([](Cursor& cursor, std::int64_t most) { return cursor.skip(most); }, count);
    }
    void save(State& state) const override {
      state.insert(state.end(), {turn_, given_, ended_});
      std::vector<const Retained::Ticket*> held;
      for (const auto& slot : slots_) held.push_back(&slot->ticket);
      from_.save(state, held);
      for (const auto& slot : slots_) slot->cursor->save(state);
    }
    void load(StateReader& state) override {
      turn_ = state.take(0, stage_.options_.cycle);
      given_ = state.take(0, stage_.options_.block - 1);
      ended_ = state.take(0, 1) != 0;
      for (auto& [item, ticket] : from_.load(state)) slots_.push_back(open(std::move(item), std::move(ticket)));
      for (const auto& slot : slots_) slot->cursor->load(state);
    }

   private:
    struct Slot {
      Retained::Ticket ticket;
      StageRef stage;
      std::unique_ptr<Cursor> cursor;  // gone before its stage is
    };
    std::unique_ptr<Slot> open(Item item, Retained::Ticket ticket) {
      const std::int64_t number = ticket.number;
      const ElementRng rng(seed_, pass_, number);
      try {
        StageRef stage = stage_.open_(std::move(item));
        std::unique_ptr<Cursor> cursor = stage->open(pass_.inner(number));
        return std::make_unique<Slot>(Slot{std::move(ticket), std::move(stage), std::move(cursor)});
      } catch (...) { rethrow_at("interleave", number); }
    }
    /// The next one, or null if there is none.
    std::unique_ptr<Slot> open_next() {
      Item item;
      Retained::Ticket ticket;
      if (!ended_) ended_ = !from_.next(item, ticket);
      return ended_ ? nullptr : open(std::move(item), std::move(ticket));
    }
    /// Opens as many as there may be.
    void fill() {
      while (!ended_ && static_cast<std::int64_t>(slots_.size()) < stage_.options_.cycle)
        if (std::unique_ptr<Slot> slot = open_next()) slots_.push_back(std::move(slot));
    }
    /// Up to `count` elements by `step(cursor, most)`, which says how many it has had. How many there were.
    template <class Step>
    std::int64_t walk(const Step& step, std::int64_t count) {
      std::int64_t done = 0;
      while (done < count) {
        fill();
        if (slots_.empty()) break;
        if (turn_ >= static_cast<std::int64_t>(slots_.size())) turn_ = 0;
        const std::int64_t most = std::min(count - done, stage_.options_.block - given_);
        const std::int64_t had = step(*slots_[static_cast<std::size_t>(turn_)]->cursor, most);
        done += had;
        given_ += had;
        if (had < most) {  // that one is at its end: the next of them all takes its place, its neighbour the turn
          if (std::unique_ptr<Slot> slot = open_next()) slots_[static_cast<std::size_t>(turn_++)] = std::move(slot);
          else slots_.erase(slots_.begin() + turn_);
          given_ = 0;
        } else if (given_ == stage_.options_.block) {
          ++turn_;
          given_ = 0;
        }
      }
      return done;
    }

    const Interleaved& stage_;
    Pass pass_;
    std::uint64_t seed_;
    Retained from_;
    std::vector<std::unique_ptr<Slot>> slots_;
    std::int64_t turn_ = 0, given_ = 0;  // whose turn it is, and what that one has given in it
    bool ended_ = false;
  };

  Callback<StageRef(Item&&)> open_;
  InterleaveOptions options_;
  std::uint64_t seed_;
};

}  // namespace

StageRef interleaved(StageRef from, Callback<StageRef(Item&&)> open, InterleaveOptions options, Where where) {
  if (options.cycle < 1 || options.block < 1)
    fail<Error>(where, "interleave: cycle is ", options.cycle, " and block ", options.block,
                "; both must be 1 or more.");
  return make_stage<Interleaved>(std::move(from), std::move(open), options);
}

}  // namespace capstan::data::detail
