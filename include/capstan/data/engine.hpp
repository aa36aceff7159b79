#pragma once
// What pipelines of all types run on. Stages are the recipe of a pipeline; a run is one pass over it.
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <capstan/callback.hpp>
#include <capstan/data/item.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace data {

/// The size of a pipeline that ends never, and of one that is only known by walking it.
inline constexpr std::int64_t kEndless = INT64_MAX, kUnknownSize = -1;

struct MapOptions {
  int workers = 0;  ///< threads that the function is called on; 0: the one that asks for elements
};
struct ShuffleOptions {
  std::optional<std::uint64_t> seed = std::nullopt;  ///< drawn from the default generator if there is none
  bool every_pass_anew = true;                       ///< whether each pass has an order of its own
};
struct BatchOptions {
  bool drop_rest = false;  ///< whether the last batch is left out if it has fewer elements
};
struct PaddedBatchOptions {
  double value = 0;              ///< what is put behind the end
  std::int64_t multiple_of = 1;  ///< padded sizes are multiples of it
  bool drop_rest = false;
};
struct BucketOptions {
  double value = 0;
  std::int64_t multiple_of = 1;
  bool drop_rest = false;  ///< whether batches that are not full at the end are left out
};
struct WindowOptions {
  std::int64_t shift = 1;   ///< elements from the beginning of a window to that of the next; >= 1
  std::int64_t stride = 1;  ///< elements from one of a window to its next; >= 1
  bool drop_rest = true;    ///< whether windows that reach over the end are left out
};
struct InterleaveOptions {
  std::int64_t cycle = 1;  ///< pipelines that are open at once; >= 1
  std::int64_t block = 1;  ///< elements that are taken from one at a time; >= 1
};

namespace detail {

class Stage;
class Run;
struct Progress;

/// Shares a stage, which never changes.
class StageRef {
 public:
  explicit StageRef(const Stage* stage) noexcept : stage_(stage) {}  // takes over one reference
  StageRef(const StageRef& other) noexcept;
  StageRef(StageRef&& other) noexcept : stage_(std::exchange(other.stage_, nullptr)) {}
  StageRef& operator=(StageRef other) noexcept {
    std::swap(stage_, other.stage_);
    return *this;
  }
  ~StageRef();
  const Stage& operator*() const noexcept { return *stage_; }
  const Stage* operator->() const noexcept { return stage_; }

 private:
  const Stage* stage_;
};

using Function = Callback<Item(Item&&)>;
using Predicate = Callback<bool(const Item&)>;
using Length = Callback<std::int64_t(const Item&)>;
using ItemAt = Callback<Item(std::int64_t)>;
using Producer = Callback<bool(Item&)>;                     // false at the end
using Collate = Item (*)(std::span<Item>, const Joining&);  // leaves nothing in the items
using Copy = Item (*)(const Item&);
using MoveTo = void (*)(Item&, Device, Where);

StageRef indexed(std::int64_t size, ItemAt at);
StageRef generated(std::int64_t size, ItemAt at, Where where);
StageRef walked(Callback<Producer()> make);
StageRef mapped(StageRef from, Function function, MapOptions options, Where where);
StageRef filtered(StageRef from, Predicate wanted);
StageRef shuffled(StageRef from, std::int64_t buffer, ShuffleOptions options, Where where);
StageRef batched(StageRef from, std::int64_t size, bool drop_rest, Collate collate, Joining joining);
StageRef bucketed(StageRef from, Length length, std::vector<std::int64_t> bounds, std::vector<std::int64_t> sizes,
                  bool drop_rest, Collate collate, Joining joining);
StageRef windowed(StageRef from, std::int64_t size, WindowOptions options, Copy copy, Collate collate, Joining joining);
StageRef repeated(StageRef from, std::int64_t count, Where where);
StageRef taken(StageRef from, std::int64_t count, Where where);
StageRef skipped(StageRef from, std::int64_t count, Where where);
StageRef cached(StageRef from, Copy copy);
StageRef prefetched(StageRef from, std::int64_t count, std::optional<Device> device, MoveTo move, Where where);
StageRef zipped(std::vector<StageRef> from, Callback<Item(std::span<Item>)> join);
StageRef interleaved(StageRef from, Callback<StageRef(Item&&)> open, InterleaveOptions options, Where where);

/// A pipeline without the type of its elements: its recipe, and where it stands. Error if it was moved from.
class PipelineBase {
 public:
  /// Elements of a pass; kEndless, or kUnknownSize if only a pass can tell.
  std::int64_t size(Where where = Where::current()) const;

  /// Where the pipeline stands, as a short text: which pass, which elements of it were given out, and the seeds. In a loop:
  /// behind the element that its body has. After a loop that was left early: behind the last one. It does not grow with
  /// what buffers and caches hold, but with the elements in unfinished buckets and windows.
  std::string state(Where where = Where::current()) const;
  /// Continues there: the next loop has the remaining elements of that pass, exactly those and in that order; loops after
  /// it begin the passes that follow. The pipeline must be made of the same stages; numbers of workers and of elements
  /// that are fetched ahead may differ, and sizes of batches, unless the state has a number of batches: of those that
  /// `shuffle`, `cache`, `window`, `bucket_by_length` or `interleave` behind them took, or that were given out before
  /// an error. A loop that is running goes on as it was.
  /// Throws Error for a text that is no state, or that of other stages.
  void restore(std::string_view state, Where where = Where::current());

  const StageRef& stage(Where where = Where::current()) const;  ///< for the library itself

 protected:
  explicit PipelineBase(StageRef stage);
  PipelineBase(const PipelineBase& other);
  PipelineBase(PipelineBase&& other) noexcept;
  PipelineBase& operator=(const PipelineBase& other);
  PipelineBase& operator=(PipelineBase&& other) noexcept;
  ~PipelineBase();
  Run* start(Where where);

 private:
  StageRef stage_;
  Progress* progress_;  // shared with runs
};

/// The next element of a run; false at its end.
bool advance(Run* run, Item& item);
/// Ends a run and all threads that it has started.
void finish(Run* run) noexcept;

}  // namespace detail
}  // namespace data
}  // namespace capstan
