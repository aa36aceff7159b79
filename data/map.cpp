// Functions of elements, on the thread that asks or on workers.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>

#include "data/fail.hpp"
#include "data/stage.hpp"
#include "lib/base/signals.hpp"

namespace capstan::data::detail {
namespace {

class Mapped : public Stage {
 public:
  Mapped(StageRef from, Function function, const MapOptions& options, Where where)
      : Stage({std::move(from)}),
        function_(std::move(function)),
        workers_(options.workers),
        seed_(drawn_seed()),
        where_(where) {}
  std::unique_ptr<Cursor> open(const Pass& pass) const override;
  std::int64_t size() const override { return before().size(); }
  std::string name() const override { return "map"; }
  const std::uint64_t* seed() const noexcept override { return &seed_; }

  int workers() const noexcept { return workers_; }
  Where place() const noexcept { return where_; }
  Item call(Item&& item, const Pass& pass, std::uint64_t seed, std::int64_t element) const {
    const ElementRng rng(seed, pass, element);
    try {
      return function_(std::move(item));
    } catch (...) { rethrow_at("map", element); }
  }

 private:
  Function function_;
  int workers_;
  std::uint64_t seed_;
  Where where_;
};

/// Both kinds of cursor have the same state: elements given, how many of them came behind the place in the pipeline
/// before (none, but restored states may have some), and that place.
class MapHere : public Cursor {
 public:
  MapHere(const Mapped& stage, const Pass& pass)
      : stage_(stage), pass_(pass), seed_(stage.seed_in(pass)), from_(stage.before().open(pass)) {}
  bool next(Item& item) override {
    Item argument;
    if (!from_->next(argument)) return false;
    item = stage_.call(std::move(argument), pass_, seed_, given_);
    ++given_;
    return true;
  }
  std::int64_t skip(std::int64_t count) override {
    const std::int64_t passed = from_->skip(count);
    given_ += passed;
    return passed;
  }
  void save(State& state) const override {
    state.insert(state.end(), {given_, 0});
    from_->save(state);
  }
  void load(StateReader& state) override {
    given_ = state.take();
    const std::int64_t behind = state.take();
    from_->load(state);
    from_->skip(behind);
  }

 private:
  const Mapped& stage_;
  Pass pass_;
  std::uint64_t seed_;
  std::unique_ptr<Cursor> from_;
  std::int64_t given_ = 0;
};

/// Workers take turns at pulling some elements from the pipeline before, and work on them side by side; the loop gets the
/// pieces in the order in which they were pulled.
class MapOnWorkers : public Cursor {
 public:
  MapOnWorkers(const Mapped& stage, const Pass& pass)
      : stage_(stage), pass_(pass), seed_(stage.seed_in(pass)), from_(stage.before().open(pass)) {}
  ~MapOnWorkers() override {
    {
      const std::scoped_lock lock(mutex_);
      stopped_ = true;
    }
    room_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  bool next(Item& item) override {
    if (threads_.empty()) start();
    while (true) {
      if (piece_ && at_ < piece_->items.size()) {
        item = std::move(piece_->items[at_++]);
        ++given_;
        return true;
      }
      if (piece_ && piece_->error) std::rethrow_exception(piece_->error);
      if (piece_ && piece_->last) return false;
      take_piece();
    }
  }
  std::int64_t skip(std::int64_t count) override {
    if (!threads_.empty()) return Cursor::skip(count);
    const std::int64_t passed = from_->skip(count);
    given_ += passed;
    return passed;
  }
  void save(State& state) const override {
    state.insert(state.end(), {given_, 0});
    if (piece_) {
      const std::span<const std::int64_t> place = piece_->place_of(at_);
      state.insert(state.end(), place.begin(), place.end());
    } else if (!threads_.empty()) {
      state.insert(state.end(), before_.begin(), before_.end());
    } else {
      from_->save(state);
    }
  }
  void load(StateReader& state) override {
    given_ = state.take();
    const std::int64_t behind = state.take();
    from_->load(state);
    from_->skip(behind);
  }

 private:
  struct Piece {
    std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();  // before its elements were pulled
    State places;                   // of the pipeline before: where its elements begin, and behind each of them
    std::vector<std::size_t> ends;  // of each of these places
    std::int64_t first = 0;         // the number of its first element
    std::vector<Item> items;        // arguments, then results, then, behind the loop, nothing
    std::exception_ptr error;       // behind the items
    bool last = false;              // whether the pipeline before is at its end
    bool done = false;

    void mark(const Cursor& from) {
      from.save(places);
      ends.push_back(places.size());
    }
    /// Behind so many elements.
    std::span<const std::int64_t> place_of(std::size_t count) const {
      const std::size_t begin = count == 0 ? 0 : ends[count - 1];
      return std::span(places).subspan(begin, ends[count] - begin);
    }
  };
  static constexpr std::size_t kMost = 64;  // elements of a piece
  static constexpr std::chrono::microseconds kLongEnough{100};

  void start() {
    from_->save(before_);
    pulled_ = given_;
    const Device device = default_device();
    try {
      const base::NoSignals none;
      for (int i = 0; i < stage_.workers(); ++i) threads_.emplace_back([this, device] { work(device); });
    } catch (const std::system_error& error) {  // the system has no more threads: go on with those there are
      if (threads_.empty())
        fail<BackendError>(stage_.place(), "map: no thread can be started: ", error.what(), "; one must be possible.");
    } catch (...) {  // or no memory for them
      if (threads_.empty()) throw;
    }
  }

  void take_piece() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return broken_ || (!pieces_.empty() && pieces_.front()->done); });
    if (broken_) std::rethrow_exception(broken_);
    piece_ = std::move(pieces_.front());
    pieces_.pop_front();
    at_ = 0;
    lock.unlock();
    room_.notify_one();
  }

  void work(Device device) {
    try {
      const DeviceScope on(device);
      while (Piece* piece = pull()) work_on(*piece);
    } catch (...) {  // no memory for a piece
      const std::scoped_lock lock(mutex_);
      broken_ = std::current_exception();
      ready_.notify_one();
    }
  }
  void work_on(Piece& piece) {
    const std::size_t count = piece.items.size();
    std::size_t i = 0;
    try {
      for (; i < count && !stopped_; ++i)
        piece.items[i] =
            stage_.call(std::move(piece.items[i]), pass_, seed_, piece.first + static_cast<std::int64_t>(i));
    } catch (...) {
      piece.error = std::current_exception();
      piece.items.resize(i);
    }
    const std::scoped_lock lock(mutex_);
    // Short work in larger pieces, so that handing over costs little; work is also what the pipeline before has to do.
    if (count == size_) {
      const auto took = std::chrono::steady_clock::now() - piece.begun;
      if (took < kLongEnough && size_ < kMost) size_ *= 2;
      else if (took > 4 * kLongEnough && size_ > 1) size_ /= 2;
    }
    piece.done = true;
    if (pieces_.front().get() == &piece) ready_.notify_one();
  }

  /// The next elements, in a piece of their own at the end of the queue; null if there is no more to do.
  Piece* pull() {
    const std::scoped_lock turn(turn_);
    std::size_t size;
    {
      std::unique_lock lock(mutex_);
      room_.wait(lock, [&] { return stopped_ || pieces_.size() < 2 * threads_most(); });
      if (stopped_ || ended_) return nullptr;
      size = size_;
    }
    auto piece = std::make_unique<Piece>();
    piece->mark(*from_);
    piece->first = pulled_;
    piece->items.reserve(size);
    try {
      Item item;
      while (piece->items.size() < size && !stopped_) {
        piece->last = !from_->next(item);
        if (piece->last) break;
        piece->mark(*from_);
        piece->items.push_back(std::move(item));
      }
    } catch (...) { piece->error = std::current_exception(); }
    pulled_ += static_cast<std::int64_t>(piece->items.size());
    ended_ = piece->last || piece->error;
    Piece* made = piece.get();
    const std::scoped_lock lock(mutex_);
    pieces_.push_back(std::move(piece));
    return made;
  }
  std::size_t threads_most() const noexcept { return static_cast<std::size_t>(stage_.workers()); }

  const Mapped& stage_;
  Pass pass_;
  std::uint64_t seed_;
  // Of the loop's thread.
  std::unique_ptr<Piece> piece_;  // the one that is being given out
  std::size_t at_ = 0;
  std::int64_t given_ = 0;
  State before_;  // where the threads began
  std::vector<std::thread> threads_;
  // Of the worker whose turn it is.
  std::mutex turn_;
  std::unique_ptr<Cursor> from_;
  std::int64_t pulled_ = 0;
  bool ended_ = false;
  // Of all.
  std::mutex mutex_;
  std::condition_variable ready_, room_;
  std::deque<std::unique_ptr<Piece>> pieces_;  // in the order of the elements
  std::size_t size_ = 1;                       // of the next piece
  std::exception_ptr broken_;                  // why a worker is gone
  std::atomic<bool> stopped_ = false;
};

std::unique_ptr<Cursor> Mapped::open(const Pass& pass) const {
  if (workers_ == 0) return std::make_unique<MapHere>(*this, pass);
  return std::make_unique<MapOnWorkers>(*this, pass);
}

}  // namespace

StageRef mapped(StageRef from, Function function, MapOptions options, Where where) {
  if (options.workers < 0) fail<Error>(where, "map: workers is ", options.workers, "; it must be 0 or more.");
  return make_stage<Mapped>(std::move(from), std::move(function), options, where);
}

}  // namespace capstan::data::detail
