// Windows of three or five rows and columns that move one place at a time over planes that stand alone, as those of
// depthwise convolutions do. The planes are read where they lie, with zeros for what is beyond their borders: an input
// serves all rows of results of a tile that it reaches. Included by kernels_*.cpp behind pooling.hpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || (defined(__x86_64__) && !defined(__AVX2__))
constexpr int kPlaneRows = 2;  // which take half of the compiling, or of the room in the library
#else
constexpr int kPlaneRows = 4;  // of a tile: of 3 columns, 18 loads for 36 multiplications
#endif
constexpr std::int64_t kFlatProducts = 128;  // that a lane adds up before its sum goes to a double

/// Which inputs of a tile may lie beyond the plane.
enum class Border : std::uint8_t { none, columns, any };

/// The rows that `Rows` rows of results read, each from what column 0 reads first; null beyond the plane.
template <int Kernel, int Rows, class T> struct TileRows {
  static constexpr int kCount = Rows + Kernel - 1;
  const T* at[kCount];
  bool inside = true;

  CAPSTAN_INLINE TileRows(const Plane<T>& p, std::int64_t first) {
    unrolled<kCount>([&](auto i) __attribute__((always_inline)) {
      const std::int64_t row = first + p.first_row + i;
      const bool there = row >= 0 && row < p.rows;
      at[i] = there ? p.x + row * p.columns + p.first_column : nullptr;
      inside = inside && there;
    });
  }
};

/// Some lanes of a register, begin to end - 1. The others are loaded as zeros and not read.
template <class T> class LanesBetween {
 public:
  LanesBetween() = default;

#if defined(__AVX512F__)
  CAPSTAN_INLINE LanesBetween(std::int64_t begin, std::int64_t end) : mask_(((1u << end) - 1) & ~((1u << begin) - 1)) {}

  CAPSTAN_INLINE Lanes<T> load(const T* p) const {
    if constexpr (sizeof(T) == 4) return Lanes<T>(_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask_), p));
    else return Lanes<T>(_mm512_maskz_loadu_pd(static_cast<__mmask8>(mask_), p));
  }

 private:
  unsigned mask_;
#elif defined(__AVX2__)
  CAPSTAN_INLINE LanesBetween(std::int64_t begin, std::int64_t end)
      : mask_(_mm256_andnot_si256(first_lanes(kWords * begin), first_lanes(kWords * end))) {}

  CAPSTAN_INLINE Lanes<T> load(const T* p) const {
    if constexpr (sizeof(T) == 4) return Lanes<T>(_mm256_maskload_ps(p, mask_));
    else return Lanes<T>(_mm256_maskload_pd(p, mask_));
  }

 private:
  static constexpr std::int64_t kWords = sizeof(T) / 4;
  __m256i mask_;
#else
  CAPSTAN_INLINE LanesBetween(std::int64_t begin, std::int64_t end) : begin_(begin), end_(end) {}

  CAPSTAN_INLINE Lanes<T> load(const T* p) const {
    if (begin_ == 0 && end_ == Lanes<T>::size) return Lanes<T>::load(p);
    T part[Lanes<T>::size] = {};
    for (std::int64_t i = begin_; i < end_; ++i) part[i] = p[i];
    return Lanes<T>::load(part);
  }

 private:
  std::int64_t begin_, end_;
#endif
};

/// Fetches the part of the next plane that lies as this one's `count` values at p. Masked loads wait for one another
/// where they miss the caches, here two to three times as long as others take.
template <class T> CAPSTAN_INLINE void fetch_next(const T* p, std::int64_t plane, std::int64_t count) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  for (std::int64_t i = 0; i < count; i += kLine) __builtin_prefetch(p + plane + i);
}

/// Calls use(border, first column, columns) for the registers of a row of results.
template <int Kernel, class T, class Use>
CAPSTAN_INLINE void for_registers(const Plane<T>& p, bool rows_inside, std::int64_t columns, Use use) {
  constexpr std::int64_t size = Lanes<T>::size;
  for (std::int64_t column = 0; column < columns; column += size) {
    const std::int64_t left = columns - column, count = left < size ? left : size, first = column + p.first_column;
    const bool whole = count == size && first >= 0 && first + size + Kernel - 1 <= p.columns;
    if (!rows_inside) use(std::integral_constant<Border, Border::any>(), column, count);
    else if (!whole) use(std::integral_constant<Border, Border::columns>(), column, count);
    else use(std::integral_constant<Border, Border::none>(), column, count);
  }
}

/// Calls use(row of the tile's inputs, column of the window, its lanes), row by row. Lanes from `count` on are zero.
template <Border border, int Kernel, int Rows, class T, class Use>
CAPSTAN_INLINE void for_inputs(const Plane<T>& p, const TileRows<Kernel, Rows, T>& rows, std::int64_t column,
                               std::int64_t count, Use use) {
  using L = Lanes<T>;
  if constexpr (border == Border::none) {
    unrolled<TileRows<Kernel, Rows, T>::kCount>([&](auto i) __attribute__((always_inline)) {
      unrolled<Kernel>([&](auto k) __attribute__((always_inline)) { use(i, k, L::load(rows.at[i] + column + k)); });
    });
  } else {
    LanesBetween<T> inside[Kernel];
    unrolled<Kernel>([&](auto k) __attribute__((always_inline)) {
      const std::int64_t first = p.first_column + column + k, last = p.columns - first;
      const std::int64_t begin = first >= 0 ? 0 : -first < L::size ? -first : L::size;
      const std::int64_t end = last < 0 ? 0 : last < count ? last : count;
      inside[k] = LanesBetween<T>(begin, end);
    });
    unrolled<TileRows<Kernel, Rows, T>::kCount>([&](auto i) __attribute__((always_inline)) {
      const bool beyond = border == Border::any && rows.at[i] == nullptr;
      unrolled<Kernel>([&](auto k) __attribute__((always_inline)) {
        use(i, k, beyond ? L(0) : inside[k].load(rows.at[i] + column + k));
      });
    });
  }
}

template <int Kernel, int Rows, class T>
CAPSTAN_INLINE void slide_rows(const SlidePlane<T>& s, const Lanes<T> (&w)[Kernel * Kernel], std::int64_t row) {
  using L = Lanes<T>;
  const TileRows<Kernel, Rows, T> rows(s.in, row);
  T* const out = s.out + row * s.columns;
  fetch_next(s.in.x + row * s.in.columns, s.in.rows * s.in.columns, Rows * s.in.columns);
  const auto tile = [&](auto border, std::int64_t column, std::int64_t count) __attribute__((always_inline)) {
    L sums[Rows];
    unrolled<Rows>([&](auto j) __attribute__((always_inline)) { sums[j] = L(s.start); });
    const auto add = [&](auto i, auto k, L x) __attribute__((always_inline)) {
      unrolled<Rows>([&](auto j) __attribute__((always_inline)) {
        constexpr int kTap = decltype(i)::value - decltype(j)::value, kColumn = decltype(k)::value;
        if constexpr (kTap >= 0 && kTap < Kernel) sums[j] = fma(w[kTap * Kernel + kColumn], x, sums[j]);
      });
    };
    for_inputs<decltype(border)::value>(s.in, rows, column, count, add);
    unrolled<Rows>([&](auto j) __attribute__((always_inline)) {
      if constexpr (decltype(border)::value == Border::none) sums[j].store(out + j * s.columns + column);
      else store_lanes(sums[j], out + j * s.columns + column, count);
    });
  };
  for_registers<Kernel>(s.in, rows.inside, s.columns, tile);
}

template <int Kernel, class T> void slide_plane_as(const SlidePlane<T>& s) {
  Lanes<T> w[Kernel * Kernel];
  unrolled<Kernel * Kernel>([&](auto k) __attribute__((always_inline)) { w[k] = Lanes<T>(s.w[k]); });
  std::int64_t row = s.begin;
  for (; row + kPlaneRows <= s.end; row += kPlaneRows) slide_rows<Kernel, kPlaneRows>(s, w, row);
  for (; row < s.end; ++row) slide_rows<Kernel, 1>(s, w, row);
}

template <class T> void slide_plane(const SlidePlane<T>& s) {
  if (s.in.kernel == 3) slide_plane_as<3>(s);
  else slide_plane_as<5>(s);
}

template <int Kernel, int Rows, class T>
CAPSTAN_INLINE void overlap_rows(const OverlapPlane<T>& o, std::int64_t row, Lanes<T> (&totals)[Kernel * Kernel]) {
  using L = Lanes<T>;
  const TileRows<Kernel, Rows, T> rows(o.in, row);
  const T* const grad = o.grad + row * o.columns;
  fetch_next(grad, o.rows * o.columns, Rows * o.columns);
  fetch_next(o.in.x + row * o.in.columns, o.in.rows * o.in.columns, Rows * o.in.columns);
  const auto tile = [&](auto border, std::int64_t column, std::int64_t count) __attribute__((always_inline)) {
    L g[Rows];
    unrolled<Rows>([&](auto j) __attribute__((always_inline)) {
      const T* const from = grad + j * o.columns + column;
      if constexpr (decltype(border)::value == Border::none) g[j] = L::load(from);
      else g[j] = load_part(from, count);
    });
    const auto add = [&](auto i, auto k, L x) __attribute__((always_inline)) {
      unrolled<Rows>([&](auto j) __attribute__((always_inline)) {
        constexpr int kTap = decltype(i)::value - decltype(j)::value, kAt = kTap * Kernel + decltype(k)::value;
        if constexpr (kTap >= 0 && kTap < Kernel) totals[kAt] = fma(g[j], x, totals[kAt]);
      });
    };
    for_inputs<decltype(border)::value>(o.in, rows, column, count, add);
  };
  for_registers<Kernel>(o.in, rows.inside, o.columns, tile);
}

template <int Kernel, class T> void overlap_plane_as(const OverlapPlane<T>& o) {
  using L = Lanes<T>;
  const std::int64_t registers = (o.columns + L::size - 1) / L::size;
  const std::int64_t tiles = kFlatProducts / (registers * kPlaneRows);
  const std::int64_t most = (tiles > 1 ? tiles : 1) * kPlaneRows;  // rows between additions in double
  for (std::int64_t row = 0; row < o.rows;) {
    const std::int64_t end = o.rows - row < most ? o.rows : row + most;
    L totals[Kernel * Kernel];
    unrolled<Kernel * Kernel>([&](auto k) __attribute__((always_inline)) { totals[k] = L(0); });
    for (; row + kPlaneRows <= end; row += kPlaneRows) overlap_rows<Kernel, kPlaneRows>(o, row, totals);
    for (; row < end; ++row) overlap_rows<Kernel, 1>(o, row, totals);
    unrolled<Kernel * Kernel>([&](auto k) __attribute__((always_inline)) {
      o.sums[k] += static_cast<double>(add_lanes(totals[k]));
    });
  }
}

template <class T> void overlap_plane(const OverlapPlane<T>& o) {
  if (o.in.kernel == 3) overlap_plane_as<3>(o);
  else overlap_plane_as<5>(o);
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
