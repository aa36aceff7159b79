#include "autograd/side_products.hpp"

#include <algorithm>
#include <utility>

#include "lib/core/backend.hpp"

namespace capstan::autograd {

namespace {

/// Multiplications: of fewer nothing is gained, more are split among the threads.
constexpr std::int64_t kLeast = 1 << 16, kMost = 1 << 19;
/// Elements of a gradient, which is kept until its product is done.
constexpr std::int64_t kLargestGradient = 1 << 16;
constexpr int kLongestPause = 64;

bool is_worth_it(const TensorImpl& a, const TensorImpl& b) {
  if (a.rank() != 2 || b.rank() != 2 || a.device().kind != DeviceKind::cpu || is_half(a.dtype)) return false;
  const std::int64_t multiplications = a.numel() * b.shape[1];
  return multiplications >= kLeast && multiplications < kMost && b.numel() <= kLargestGradient;
}

}  // namespace

bool SideProducts::open() {
  if (tried_) return queue_ && !late_;
  tried_ = true;
  if (pause_ > 0) return --pause_, false;
  queue_.emplace();
  if (!queue_->has_worker()) queue_.reset();
  else if (!blocks_) blocks_.emplace();
  return queue_.has_value();
}

bool SideProducts::give(const Tensor& a, const Tensor& b, TensorImpl& sum, bool accumulate) {
  if (!is_worth_it(*a.impl(), *b.impl()) || !open()) return false;
  late_ = queue_->given() - queue_->done() == base::JobQueue::kRoom;
  if (late_) {
    finish();
    return false;
  }
  Product& product = products_[queue_->given() % base::JobQueue::kRoom];
  product = {a, b, &sum, accumulate, this};
  queue_->give(
      [](void* context) noexcept {
        const auto& job = *static_cast<const Product*>(context);
        job.owner->compute(job);
      },
      &product);
  return true;
}

void SideProducts::compute(const Product& x) noexcept {
  const core::BlockCache::Use own_blocks(*blocks_);
  try {
    if (!failure_) core::cpu_backend().matmul(*x.a.impl(), *x.b.impl(), nullptr, *x.sum, x.accumulate);
  } catch (...) { failure_ = std::current_exception(); }
}

void SideProducts::drop() noexcept {
  for (Product& product : products_) product.a = product.b = Tensor();
}

void SideProducts::finish() {
  if (!queue_) return;
  queue_->finish();
  drop();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void SideProducts::end() noexcept {
  if (queue_) {
    queue_->finish();
    drop();
    pause_ = late_ ? next_pause_ : 0;
    next_pause_ = late_ ? std::min(2 * next_pause_, kLongestPause) : 1;
    queue_.reset();
    failure_ = nullptr;
  }
  tried_ = late_ = false;
}

}  // namespace capstan::autograd
