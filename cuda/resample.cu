// Resampling along axes. What the places of each axis read is found out first, one axis by itself; then places sum up
// products of that, in double.
#include "cuda/backend.hpp"
#include "cuda/context.hpp"
#include "cuda/elements.cuh"
#include "cuda/launch.cuh"
#include "cuda/planes.hpp"
#include "cuda/taps.hpp"
#include "cuda/words.hpp"

namespace capstan::on_cuda {
namespace {

/// Of one axis of the result: what each of its places reads.
struct TapTable {
  TapRule rule;
  std::int64_t places = 1, width = 1;
  std::int64_t* spans = nullptr;  // [places, 2]: the first place, and how many
  double* weights = nullptr;      // [places, width]
};
struct TapTables {
  TapTable axis[3];

  PlaceSizes places() const { return {{axis[0].places, axis[1].places, axis[2].places}}; }
};

__device__ void fill_place(const TapTable& t, bool adjoint, std::int64_t place) {
  const TapSpan span = adjoint ? t.rule.readers(place) : t.rule.reads(place);
  const std::int64_t all = span.end - span.begin, count = all < 0 ? 0 : all < t.width ? all : t.width;
  t.spans[2 * place] = span.begin;
  t.spans[2 * place + 1] = count;
  double total = adjoint ? 1.0 : t.rule.total(place);
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t reader = adjoint ? span.begin + k : place, read = adjoint ? place : span.begin + k;
    if (adjoint) total = t.rule.total(reader);
    t.weights[place * t.width + k] = t.rule.weight(reader, read) / total;
  }
}

/// A thread for each place of each axis.
__global__ void tables_kernel(TapTables tables, bool adjoint) {
  for (int a = 0; a < 3; ++a)
    for (std::int64_t place = first_index(); place < tables.axis[a].places; place += index_step())
      fill_place(tables.axis[a], adjoint, place);
}

/// The taps of one place along one axis.
struct PlaceTaps {
  std::int64_t begin, count;
  const double* weights;

  __device__ PlaceTaps(const TapTable& t, std::int64_t place)
      : begin(t.spans[2 * place]), count(t.spans[2 * place + 1]), weights(t.weights + place * t.width) {}
};

/// What lies at the same place of all planes.
struct ResampleTask {
  std::int64_t channels, planes;
  PlaceSizes places;  // of the result
  PlaneStrides x;

  __device__ std::int64_t plane(std::int64_t number) const {
    const std::int64_t sample = number / channels;
    return sample * x.batch + (number - sample * channels) * x.channel;
  }
};

__global__ void __launch_bounds__(kThreads)
    resample_kernel(ResampleTask task, TapTables tables, const void* x, DType dtype, void* out) {
  const std::int64_t count = task.places.count();
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const PlaceOf place = task.places.place(i);
    const PlaceTaps depth(tables.axis[0], place.axis[0]), rows(tables.axis[1], place.axis[1]),
        columns(tables.axis[2], place.axis[2]);
    const std::int64_t corner = task.x.at({{depth.begin, rows.begin, columns.begin}});
    for (std::int64_t plane = blockIdx.y; plane < task.planes; plane += gridDim.y) {
      const std::int64_t from = task.plane(plane) + corner;
      double sum = 0;
      // what has no weight is not read: 0 times infinity would be NaN
      for (std::int64_t a = 0; a < depth.count; ++a) {
        if (depth.weights[a] == 0) continue;
        for (std::int64_t b = 0; b < rows.count; ++b) {
          const double weight = depth.weights[a] * rows.weights[b];
          if (rows.weights[b] == 0) continue;
          const std::int64_t line = from + a * task.x.axis[0] + b * task.x.axis[1];
          for (std::int64_t c = 0; c < columns.count; ++c)
            if (columns.weights[c] != 0)
              sum += weight * columns.weights[c] * read_real(x, dtype, line + c * task.x.axis[2]);
        }
      }
      write_real(out, dtype, plane * count + i, sum);
    }
  }
}

/// The same where each place reads one other as it is.
template <class Word>
__global__ void __launch_bounds__(kThreads) pick_kernel(ResampleTask task, TapTables tables, const Word* x, Word* out) {
  const std::int64_t count = task.places.count();
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const PlaceOf place = task.places.place(i);
    const std::int64_t from =
        task.x.at({{tables.axis[0].spans[2 * place.axis[0]], tables.axis[1].spans[2 * place.axis[1]],
                    tables.axis[2].spans[2 * place.axis[2]]}});
    for (std::int64_t plane = blockIdx.y; plane < task.planes; plane += gridDim.y)
      out[plane * count + i] = x[task.plane(plane) + from];
  }
}

/// The tables, and their memory.
struct Plan {
  TapTables tables;
  Tensor spans, weights;

  explicit Plan(const core::Resample& task) {
    std::int64_t places = 0, longest = 1, numbers = 0;
    for (int i = 0; i < 3; ++i) {
      TapTable& t = tables.axis[i];
      const int own = i - (3 - task.axes);
      if (own >= 0) t.rule = TapRule(task, task.axis[own]);
      t.places = own < 0 ? 1 : task.adjoint ? t.rule.in : t.rule.out;
      t.width = t.rule.most(task.adjoint);
      places += t.places;
      longest = t.places > longest ? t.places : longest;
      numbers += t.places * t.width;
    }
    spans = workspace(2 * places, DType::int64);
    weights = workspace(numbers, DType::float64);
    auto* span = spans.impl()->as<std::int64_t>();
    auto* weight = weights.impl()->as<double>();
    for (TapTable& t : tables.axis) {
      t.spans = span;
      t.weights = weight;
      span += 2 * t.places;
      weight += t.places * t.width;
    }
    launch(tables_kernel, shape_for(longest), tables, task.adjoint);
  }
};

}  // namespace

void resample(const TensorImpl& x, const core::Resample& task, TensorImpl& out) {
  if (out.numel() == 0) return;
  const Plan plan(task);
  const ResampleTask at{x.shape[1], x.shape[0] * x.shape[1], plan.tables.places(), PlaneStrides(x)};
  const PlaneGrid grid(at.places.count(), at.planes);
  const dim3 blocks(grid.places, grid.planes), threads(kThreads);
  const bool nearest = task.mode == InterpolateMode::nearest || task.mode == InterpolateMode::nearest_exact;
  if (!nearest || task.adjoint) {
    launch(resample_kernel, blocks, threads, at, plan.tables, x.data, x.dtype, out.data);
    return;
  }
  visit_unsigned(size_of(x.dtype), [&]<class Word>(core::Type<Word>) {
    launch(pick_kernel<Word>, blocks, threads, at, plan.tables, x.as<Word>(), out.as<Word>());
  });
}

}  // namespace capstan::on_cuda
