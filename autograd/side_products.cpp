#include "autograd/side_products.hpp"

#include <algorithm>

#include "lib/core/backend.hpp"

namespace capstan::autograd {

namespace {

/// Multiplications: of fewer nothing is gained, more are split among the threads.
constexpr std::int64_t kLeast = 1 << 16, kMost = 1 << 19;
/// Elements of an operand, which is kept for a while.
constexpr std::int64_t kLargestOperand = 1 << 16;
constexpr int kLongestPause = 64;

bool is_worth_it(const TensorImpl& a, const TensorImpl& b) {
  if (a.rank() != 2 || b.rank() != 2 || a.device().kind != DeviceKind::cpu || is_half(a.dtype)) return false;
  const std::int64_t multiplications = a.numel() * b.shape[1];
  return multiplications >= kLeast && multiplications < kMost && a.numel() <= kLargestOperand &&
         b.numel() <= kLargestOperand;
}

void compute(const Tensor& a, const Tensor& b, TensorImpl& sum, bool accumulate) {
  core::cpu_backend().matmul(*a.impl(), *b.impl(), nullptr, sum, accumulate);
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

bool SideProducts::takes(const Tensor& a, const Tensor& b) {
  if (!is_worth_it(*a.impl(), *b.impl()) || !open()) return false;
  late_ = queue_->given() - queue_->done() == base::JobQueue::kRoom;
  if (late_ || failed_.load(std::memory_order_relaxed) != nullptr) finish();
  return !late_;
}

void SideProducts::give(const Tensor& a, const Tensor& b, TensorImpl& sum, bool accumulate) noexcept {
  Product& product = products_[queue_->given() % base::JobQueue::kRoom];
  product = {a, b, &sum, accumulate, this};
  queue_->give(
      [](void* context) noexcept {
        const auto& job = *static_cast<const Product*>(context);
        job.owner->try_it(job);
      },
      &product);
}

void SideProducts::try_it(const Product& product) noexcept {
  if (failed_.load(std::memory_order_relaxed) != nullptr) return;
  const core::BlockCache::Use own_blocks(*blocks_);
  try {
    compute(product.a, product.b, *product.sum, product.accumulate);
  } catch (...) { failed_.store(&product, std::memory_order_relaxed); }
}

void SideProducts::drop() noexcept {
  for (Product& product : products_) product.a = product.b = Tensor();
}

void SideProducts::finish() {
  if (!queue_) return;
  queue_->finish();
  // This thread has blocks that the worker cannot have. A product that fails has written nothing.
  if (const Product* failed = failed_.exchange(nullptr, std::memory_order_relaxed); failed != nullptr) {
    const std::uint32_t first = static_cast<std::uint32_t>(failed - products_);
    const std::uint32_t count = (queue_->given() - 1 - first) % base::JobQueue::kRoom + 1;
    for (std::uint32_t i = 0; i < count; ++i) {
      const Product& product = products_[(first + i) % base::JobQueue::kRoom];
      compute(product.a, product.b, *product.sum, product.accumulate);
    }
  }
  drop();
}

void SideProducts::end() noexcept {
  if (queue_) {
    queue_->finish();
    drop();
    pause_ = late_ ? next_pause_ : 0;
    next_pause_ = late_ ? std::min(2 * next_pause_, kLongestPause) : 1;
    queue_.reset();
    failed_.store(nullptr, std::memory_order_relaxed);
  }
  tried_ = late_ = false;
}

}  // namespace capstan::autograd
