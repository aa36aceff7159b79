// Elements that are made ahead on a thread of their own, and on the device where they will be used.
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include <capstan/stream.hpp>

#include "data/fail.hpp"
#include "data/stage.hpp"
#include "lib/base/signals.hpp"

namespace capstan::data::detail {
namespace {

class Prefetched : public Stage {
 public:
  Prefetched(StageRef from, std::int64_t count, std::optional<Device> device, MoveTo move, Where where)
      : Stage({std::move(from)}), count_(count), device_(device), move_(move), where_(where) {}
  std::unique_ptr<Cursor> open(const Pass& pass) const override {
    return std::make_unique<Prefetch>(*this, before().open(pass));
  }
  std::int64_t size() const override { return before().size(); }
  std::string name() const override { return "prefetch"; }

 private:
  class Prefetch : public Cursor {
   public:
    Prefetch(const Prefetched& stage, std::unique_ptr<Cursor> from) : stage_(stage), from_(std::move(from)) {}
    ~Prefetch() override {
      {
        const std::scoped_lock lock(mutex_);
        stopped_ = true;
      }
      room_.notify_one();
      if (thread_.joinable()) thread_.join();
    }

    bool next(Item& item) override {
      if (!thread_.joinable()) start();
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [&] { return !queue_.empty() || ended_; });
      if (queue_.empty()) {
        if (error_) std::rethrow_exception(error_);
        return false;
      }
      item = std::move(queue_.front().item);
      after_.swap(queue_.front().after);
      queue_.pop_front();
      lock.unlock();
      room_.notify_one();
      return true;
    }
    std::int64_t skip(std::int64_t count) override {
      return thread_.joinable() ? Cursor::skip(count) : from_->skip(count);
    }
    void save(State& state) const override {
      if (thread_.joinable()) state.insert(state.end(), after_.begin(), after_.end());
      else from_->save(state);
    }
    void load(StateReader& state) override { from_->load(state); }

   private:
    struct Made {
      Item item;
      State after;  // where the pipeline before stands behind it
    };
    void start() {
      from_->save(after_);
      try {
        const base::NoSignals none;
        thread_ = std::thread([this, device = default_device()] { work(device); });
      } catch (const std::system_error& error) {
        fail<BackendError>(stage_.where_, "prefetch: no thread can be started: ", error.what(),
                           "; one more must be possible.");
      }
    }
    void work(Device device) {
      std::exception_ptr error;
      try {
        const DeviceScope on(device);
        if (stage_.device_) {
          const StreamScope beside(Stream::create(*stage_.device_, {}, stage_.where_), stage_.where_);
          fetch();
        } else {
          fetch();
        }
      } catch (...) { error = std::current_exception(); }
      {
        const std::scoped_lock lock(mutex_);
        ended_ = true;
        error_ = error;
      }
      ready_.notify_one();
    }
    void fetch() {
      while (true) {
        {
          std::unique_lock lock(mutex_);
          room_.wait(lock, [&] { return stopped_ || static_cast<std::int64_t>(queue_.size()) < stage_.count_; });
          if (stopped_) return;
        }
        Made made;
        if (!from_->next(made.item)) return;
        if (stage_.device_) stage_.move_(made.item, *stage_.device_, stage_.where_);
        from_->save(made.after);
        {
          const std::scoped_lock lock(mutex_);
          queue_.push_back(std::move(made));
        }
        ready_.notify_one();
      }
    }

    const Prefetched& stage_;
    std::unique_ptr<Cursor> from_;  // of the thread, once there is one
    State after_;                   // behind the element that was given out last
    std::thread thread_;
    std::mutex mutex_;
    std::condition_variable ready_, room_;
    std::deque<Made> queue_;
    std::exception_ptr error_;
    bool ended_ = false, stopped_ = false;
  };

  std::int64_t count_;
  std::optional<Device> device_;
  MoveTo move_;
  Where where_;
};

}  // namespace

StageRef prefetched(StageRef from, std::int64_t count, std::optional<Device> device, MoveTo move, Where where) {
  if (count < 1) fail<Error>(where, "prefetch: count is ", count, "; it must be 1 or more.");
  return make_stage<Prefetched>(std::move(from), count, device, move, where);
}

}  // namespace capstan::data::detail
