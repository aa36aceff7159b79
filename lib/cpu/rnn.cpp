// A whole recurrent sequence: rows of the batch are independent, so each thread takes some through all steps, and their
// states stay in its cache. Sums over the batch are taken in blocks of fixed size, in order.
#include <cstring>

#include "lib/core/allocator.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {
namespace {

constexpr std::int64_t kBlockRows = 36;  // a multiple of the product kernel's rows

struct Sizes {
  std::int64_t batch, time, inputs, hidden, blocks;
  explicit Sizes(const TensorImpl& x, const TensorImpl& wh)
      : batch(x.shape[0]),
        time(x.shape[1]),
        inputs(x.shape[2]),
        hidden(wh.shape[0]),
        blocks((batch + kBlockRows - 1) / kBlockRows) {}
  std::int64_t first(std::int64_t block) const { return block * kBlockRows; }
  std::int64_t rows(std::int64_t block) const {
    return batch - first(block) < kBlockRows ? batch - first(block) : kBlockRows;
  }
};

template <class T>
void transpose(const T* from, std::int64_t rows, std::int64_t columns, T* to) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
}

}  // namespace

void rnn_forward(const RnnForward& task, TensorImpl& out) {
  const Sizes s(task.x, task.wh);
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    base::parallel_for(s.blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t first = s.first(block);
        RnnRows<T> r{};
        r.rows = s.rows(block), r.time = s.time, r.inputs = s.inputs, r.hidden = s.hidden, r.relu = task.relu;
        r.x = task.x.as<T>() + first * s.time * s.inputs;
        r.h0 = task.h0.as<T>() + first * s.hidden;
        r.wx = task.wx.as<T>(), r.wh = task.wh.as<T>(), r.b = task.b.as<T>();
        r.out = out.as<T>() + first * s.time * s.hidden;
        simd().of<T>().rnn_forward(r);
      }
    });
  });
}

void rnn_backward(const RnnBackward& task) {
  const Sizes s(task.x, task.wh);
  core::visit_floating(task.h.dtype, [&]<class T>(core::Type<T>) {
    const std::int64_t nx = s.inputs * s.hidden, nh = s.hidden * s.hidden, sums = nx + nh + s.hidden;
    const std::int64_t scratch = 2 * kBlockRows * s.hidden;
    core::Scratch<T> transposed(nx + nh, core::calling_place()), partial(2 * s.blocks * sums, core::calling_place()),
        work(s.blocks * scratch, core::calling_place());
    transpose(task.wx.as<T>(), s.inputs, s.hidden, transposed.data());
    transpose(task.wh.as<T>(), s.hidden, s.hidden, transposed.data() + nx);
    base::parallel_for(s.blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t first = s.first(block), steps = first * s.time;
        T* totals = partial.data() + 2 * block * sums;
        std::memset(totals, 0, sizeof(T) * static_cast<std::size_t>(2 * sums));
        RnnRows<T> r{};
        r.rows = s.rows(block), r.time = s.time, r.inputs = s.inputs, r.hidden = s.hidden, r.relu = task.relu;
        r.x = task.x.as<T>() + steps * s.inputs;
        r.h0 = task.h0.as<T>() + first * s.hidden;
        r.h = task.h.as<T>() + steps * s.hidden;
        r.grad = task.grad != nullptr ? task.grad->as<T>() + steps * s.hidden : nullptr;
        r.grad_last = task.grad_last != nullptr ? task.grad_last->as<T>() + first * s.hidden : nullptr;
        r.wx_t = transposed.data(), r.wh_t = transposed.data() + nx;
        r.dx = task.dx != nullptr ? task.dx->as<T>() + steps * s.inputs : nullptr;
        r.dh0 = task.dh0.as<T>() + first * s.hidden;
        r.totals = totals, r.sums = totals + sums;
        r.pre = work.data() + block * scratch, r.carry = r.pre + kBlockRows * s.hidden;
        simd().of<T>().rnn_backward(r);
      }
    });
    T* const targets[] = {task.dwx.as<T>(), task.dwh.as<T>(), task.db.as<T>()};
    const std::int64_t counts[] = {nx, nh, s.hidden};
    std::int64_t from = 0;
    for (int part = 0; part < 3; from += counts[part++])
      for (std::int64_t i = 0; i < counts[part]; ++i) {
        double total = 0;
        for (std::int64_t block = 0; block < s.blocks; ++block)
          total += static_cast<double>(partial[2 * block * sums + from + i]);
        targets[part][i] = static_cast<T>(total);
      }
  });
}

}  // namespace capstan::on_cpu
