// Triangles of matrices.
#include <algorithm>
#include <cstring>

#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"

namespace capstan::on_cpu {

void triangle(bool upper, std::int64_t offset, const TensorImpl& x, TensorImpl& out) {
  if (out.numel() == 0) return;
  copy(x, out);
  const int r = out.rank();
  const std::int64_t rows = out.shape[r - 2], columns = out.shape[r - 1], element = size_of(out.dtype);
  const std::int64_t shift = std::clamp(offset, -rows, columns);  // beyond these nothing changes any more
  base::parallel_for(out.numel() / columns, kCheapGrain / columns + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      // the diagonal is at this column; zero what is left of it, or right of it
      const std::int64_t diagonal = row % rows + shift;
      const std::int64_t from = upper ? 0 : std::clamp<std::int64_t>(diagonal + 1, 0, columns);
      const std::int64_t to = upper ? std::clamp<std::int64_t>(diagonal, 0, columns) : columns;
      std::memset(out.data + (row * columns + from) * element, 0, static_cast<std::size_t>((to - from) * element));
    }
  });
}

}  // namespace capstan::on_cpu
