// Copies between layouts, and filling. Copies to another type are in convert_*.cu.
#include <cstring>

#include "cuda/backend.hpp"
#include "cuda/convert.hpp"
#include "cuda/map.cuh"
#include "cuda/words.hpp"
#include "lib/core/scalars.hpp"

namespace capstan::on_cuda {
namespace {

template <class Word>
struct MoveRule {
  using Numbers = NoNumbers;
  static constexpr bool kLong = false;
  __device__ static Word apply(const Numbers&, Word x) { return x; }
};
template <class Word>
struct FillRule {
  using Numbers = Word;
  static constexpr bool kLong = false;
  __device__ static Word apply(const Numbers& value) { return value; }
};

/// Sides of tiles: a warp reads and writes 64 bytes in a row at least, of single bytes 32.
template <class Word>
inline constexpr int kSide = sizeof(Word) >= 4 ? 32 : 64;
/// Elements behind each row of a tile, so that columns lie in different banks.
template <class Word>
inline constexpr int kPad = sizeof(Word) >= 4 ? 1 : 4 / static_cast<int>(sizeof(Word));

template <class Word>
__global__ void transpose_kernel(Transposition task, Word* out, const Word* in) {
  constexpr int kS = kSide<Word>;
  __shared__ Word tile[kS][kS + kPad<Word>];  // [column][row]
  for (std::int64_t number = blockIdx.x; number < task.tiles; number += gridDim.x) {
    const Transposition::Tile t = task.tile(static_cast<std::int32_t>(number), kS);
    CAPSTAN_UNROLL
    for (int i = 0; i < kS * kS; i += static_cast<int>(kThreads)) {
      const int own = i + static_cast<int>(threadIdx.x), row = own % kS, column = own / kS;
      if (t.row + row < task.rows && t.column + column < task.columns)
        tile[column][row] = in[t.in + t.row + row + (t.column + column) * task.in_column];
    }
    __syncthreads();
    CAPSTAN_UNROLL
    for (int i = 0; i < kS * kS; i += static_cast<int>(kThreads)) {
      const int own = i + static_cast<int>(threadIdx.x), row = own / kS, column = own % kS;
      if (t.row + row < task.rows && t.column + column < task.columns)
        out[t.out + (t.row + row) * task.out_row + t.column + column] = tile[column][row];
    }
    __syncthreads();  // before the next tile comes
  }
}

template <class Word>
void copy_words(const Walk<2>& walk, const TensorImpl& x, TensorImpl& out) {
  in_small_parts(walk, [&](const Walk<2>& part, const std::int64_t(&begin)[2]) {
    const int axis = transposed_axis(part);
    if (axis < 0) return row_of<MoveRule<Word>, Word, Word>().run_part({}, {&out, &x}, part, begin);
    const Transposition task(part, axis, kSide<Word>);
    launch(transpose_kernel<Word>, block_each(task.tiles), task, out.as<Word>() + begin[0], x.as<Word>() + begin[1]);
  });
}

}  // namespace

void copy(const TensorImpl& x, TensorImpl& out) {
  if (out.numel() == 0) return;
  if (x.dtype != out.dtype) {
    core::visit(x.dtype, [&]<class From>(core::Type<From>) { convert_from<From>(x, out); });
    return;
  }
  const Walk<2> walk(out.shape, {&out, &x});
  const std::int64_t element = size_of(out.dtype);
  if (walk.all_dense()) {
    const auto bytes = static_cast<std::size_t>(out.numel() * element);
    check(cudaMemcpyAsync(out.data, x.data, bytes, cudaMemcpyDeviceToDevice, call().stream), "cudaMemcpyAsync");
    return;
  }
  visit_unsigned(element, [&]<class Word>(core::Type<Word>) { copy_words<Word>(walk, x, out); });
}

void fill(TensorImpl& out, Scalar value) {
  const core::Element element = core::to_element("fill", value, out.dtype, Where::current());
  visit_unsigned(size_of(out.dtype), [&]<class Word>(core::Type<Word>) {
    Word word;
    std::memcpy(&word, element.bytes, sizeof word);
    row_of<FillRule<Word>, Word>().run(word, {&out});
  });
}

}  // namespace capstan::on_cuda
