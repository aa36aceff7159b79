#pragma once
// Products for gradients that nobody reads before the replay ends, of weights: a worker does them while the replay goes
// on. Where it takes long to get the operands (threads whose processors share no cache) it falls behind, and is left
// alone for some replays. Results are the same either way, to the bit.
#include <atomic>
#include <cstdint>
#include <optional>

#include <capstan/tensor.hpp>

#include "lib/base/parallel.hpp"
#include "lib/core/allocator.hpp"

namespace capstan::autograd {

class SideProducts {
 public:
  /// Whether the product a @ b is of a kind that gains by it, and a worker has time. Throws what `finish` does.
  bool takes(const Tensor& a, const Tensor& b);
  /// Adds such a product to `sum`, or makes it that if `accumulate` is false, some time before `finish` returns. The sum
  /// must go on existing, and nobody may touch it. The operands of the last kRoom products are kept, done or not, so
  /// that the memory that a loop needs does not depend on who is faster.
  void give(const Tensor& a, const Tensor& b, TensorImpl& sum, bool accumulate) noexcept;
  /// All are done. Throws OutOfMemoryError.
  void finish();
  /// The replay is over: finishes, and gives the worker back.
  void end() noexcept;

 private:
  struct Product {
    Tensor a, b;
    TensorImpl* sum;
    bool accumulate;
    SideProducts* owner;
  };
  bool open();
  void try_it(const Product& product) noexcept;
  void drop() noexcept;

  bool tried_ = false;                   // in this replay
  bool late_ = false;                    // the worker, in this replay
  std::optional<base::JobQueue> queue_;  // has a worker
  Product products_[base::JobQueue::kRoom];
  std::optional<core::BlockCache> blocks_;       // of the products, whichever thread does them
  std::atomic<const Product*> failed_{nullptr};  // the first for which there was no memory: none behind it is done
  int pause_ = 0;                                // replays that go without a worker, since it was late
  int next_pause_ = 1;
};

}  // namespace capstan::autograd
