// A random order by a buffer.
#include <algorithm>
#include <utility>

#include "data/fail.hpp"
#include "data/stage.hpp"

namespace capstan::data::detail {
namespace {

/// Uniform in 0 .. count-1 by a multiplication (Lemire 2019); what would tip the balance is drawn again.
std::int64_t below(std::int64_t count, Rng& rng) {
  const auto bound = static_cast<std::uint64_t>(count);
  __extension__ using Wide = unsigned __int128;
  Wide product = Wide{rng.bits()} * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t least = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < least) product = Wide{rng.bits()} * bound;
  }
  return static_cast<std::int64_t>(product >> 64);
}

/// What the buffer holds of an element: itself, or where any can be had at once its number, which is less to keep and to
/// look at.
bool pull(Cursor& from, Item& held) { return from.next(held); }
bool pull(Cursor& from, std::int64_t& held) {
  held = from.position();
  return from.skip(1) == 1;
}
Item element_of(const Cursor&, Item&& held) { return std::move(held); }
Item element_of(const Cursor& from, std::int64_t held) { return from.at(held); }

class Shuffled : public Stage {
 public:
  Shuffled(StageRef from, std::int64_t buffer, const ShuffleOptions& options)
      : Stage({std::move(from)}),
        buffer_(buffer),
        anew_(options.every_pass_anew),
        seed_(options.seed ? *options.seed : drawn_seed()) {}
  std::unique_ptr<Cursor> open(const Pass& pass) const override {
    std::unique_ptr<Cursor> from = before().open(pass);
    if (from->position() >= 0) return std::make_unique<Shuffle<std::int64_t>>(*this, pass, std::move(from));
    return std::make_unique<Shuffle<Item>>(*this, pass, std::move(from));
  }
  std::int64_t size() const override { return before().size(); }
  std::string name() const override { return "shuffle(" + std::to_string(buffer_) + ")"; }
  bool counts() const noexcept override { return true; }
  const std::uint64_t* seed() const noexcept override { return &seed_; }

 private:
  /// Keeps no state but how many elements it has given since the pipeline before stood where it was opened: the draws are
  /// repeated with the numbers of the elements in their place, and only those that are still in the buffer are fetched.
  template <class Held>
  class Shuffle : public Cursor {
   public:
    Shuffle(const Shuffled& stage, const Pass& pass, std::unique_ptr<Cursor> from)
        : stage_(stage),
          pass_(pass),
          from_(std::move(from)),
          rng_(Rng(stage.seed_in(pass)).stream(stage.anew_ ? static_cast<std::uint64_t>(pass.number) : 0)) {
      from_->save(start_);
    }

    bool next(Item& item) override {
      if (!filled_) fill();
      if (buffer_.empty()) return false;
      Held& chosen = buffer_[static_cast<std::size_t>(below(static_cast<std::int64_t>(buffer_.size()), rng_))];
      item = element_of(*from_, std::move(chosen));
      ++given_;
      if (!ended_ && pull(*from_, chosen)) return true;
      ended_ = true;
      chosen = std::move(buffer_.back());
      buffer_.pop_back();
      return true;
    }
    std::int64_t skip(std::int64_t count) override {
      if (filled_ || count == 0) return Cursor::skip(count);
      const std::int64_t before = given_;
      return go_to(given_ + count) - before;
    }
    void save(State& state) const override {
      state.push_back(given_);
      state.insert(state.end(), start_.begin(), start_.end());
    }
    void load(StateReader& state) override {
      const std::int64_t given = state.take();
      from_->load(state);
      start_.clear();
      from_->save(start_);
      if (given > 0) go_to(given);
    }

   private:
    void fill() {
      filled_ = true;
      Held held{};
      while (static_cast<std::int64_t>(buffer_.size()) < stage_.buffer_ && pull(*from_, held))
        buffer_.push_back(std::move(held));
      ended_ = static_cast<std::int64_t>(buffer_.size()) < stage_.buffer_;
    }
    /// From the beginning to where so many are given, or to the end. How many there were.
    std::int64_t go_to(std::int64_t count) {
      const std::int64_t reach = count > kEndless - stage_.buffer_ ? kEndless : count + stage_.buffer_;
      const std::int64_t there = from_->skip(reach);  // a first walk, to see whether it ends before
      restart();
      if (there <= count) {
        given_ = from_->skip(there);
        filled_ = ended_ = true;
        return given_;
      }
      std::vector<std::pair<std::int64_t, std::size_t>> kept = replay(count, there);  // element, place in the buffer
      std::sort(kept.begin(), kept.end());
      buffer_.resize(kept.size());
      std::int64_t at = 0;
      for (const auto& [element, place] : kept) {
        at += from_->skip(element - at);
        if (!pull(*from_, buffer_[place]))
          throw Error("shuffle: the pipeline before it has fewer elements than it had before.");
        ++at;
      }
      from_->skip(std::min(there, reach) - at);  // elements that came in last and went out again
      given_ = count;
      filled_ = true;
      ended_ = there < reach;
      return count;
    }
    std::vector<std::pair<std::int64_t, std::size_t>> replay(std::int64_t count, std::int64_t there) {
      std::vector<std::int64_t> elements(static_cast<std::size_t>(std::min(stage_.buffer_, there)));
      std::int64_t next = 0;
      for (std::int64_t& element : elements) element = next++;
      for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t& chosen =
            elements[static_cast<std::size_t>(below(static_cast<std::int64_t>(elements.size()), rng_))];
        if (next < there) {
          chosen = next++;
        } else {
          chosen = elements.back();
          elements.pop_back();
        }
      }
      std::vector<std::pair<std::int64_t, std::size_t>> kept;
      for (std::size_t place = 0; place < elements.size(); ++place) kept.emplace_back(elements[place], place);
      return kept;
    }
    void restart() {
      from_ = stage_.before().open(pass_);
      StateReader reader(start_);
      from_->load(reader);
    }

    const Shuffled& stage_;
    Pass pass_;
    std::unique_ptr<Cursor> from_;
    State start_;
    Rng rng_;
    std::vector<Held> buffer_;
    std::int64_t given_ = 0;
    bool filled_ = false, ended_ = false;
  };

  std::int64_t buffer_;
  bool anew_;
  std::uint64_t seed_;
};

}  // namespace

StageRef shuffled(StageRef from, std::int64_t buffer, ShuffleOptions options, Where where) {
  if (buffer < 1) fail<Error>(where, "shuffle: the buffer has ", buffer, " elements; it must have 1 or more.");
  return make_stage<Shuffled>(std::move(from), buffer, options);
}

}  // namespace capstan::data::detail
