// Triangles of matrices.
#include <algorithm>

#include "cuda/backend.hpp"
#include "cuda/launch.cuh"
#include "cuda/words.hpp"

namespace capstan::on_cuda {
namespace {

__device__ inline std::int64_t within(std::int64_t place, std::int64_t most) {
  return place < 0 ? 0 : place < most ? place : most;
}

/// Zeros left of the diagonal, or right of it. A warp for each row of all matrices.
template <class Word>
__global__ void cut_kernel(bool upper, std::int64_t shift, std::int64_t lines, std::int64_t rows, std::int64_t columns,
                           Word* out) {
  for (std::int64_t line = first_index() / kWarp; line < lines; line += index_step() / kWarp) {
    const std::int64_t diagonal = line % rows + shift;  // its column
    const std::int64_t from = upper ? 0 : within(diagonal + 1, columns);
    const std::int64_t to = upper ? within(diagonal, columns) : columns;
    for (std::int64_t i = from + threadIdx.x % kWarp; i < to; i += kWarp) out[line * columns + i] = Word(0);
  }
}

}  // namespace

void triangle(bool upper, std::int64_t offset, const TensorImpl& x, TensorImpl& out) {
  if (out.numel() == 0) return;
  copy(x, out);
  const std::int64_t rows = out.shape[out.rank() - 2], columns = out.shape[out.rank() - 1];
  const std::int64_t shift = std::clamp(offset, -rows, columns);  // beyond these nothing changes any more
  const std::int64_t lines = out.numel() / columns;
  visit_unsigned(size_of(out.dtype), [&]<class Word>(core::Type<Word>) {
    launch(cut_kernel<Word>, shape_for(lines * kWarp), upper, shift, lines, rows, columns, out.as<Word>());
  });
}

}  // namespace capstan::on_cuda
