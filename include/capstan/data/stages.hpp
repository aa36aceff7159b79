#pragma once
// What pipelines go on with: `from(x) | shuffle(1000) | map(f) | batch(32)`.
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/data/pipeline.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace data {

/// Each element replaced by `f(element)`, in their order. With workers f is called on that many threads, ahead of the
/// loop by some elements for each; it must then allow for calls at the same time. While it runs, the default generator
/// (`default_rng()`) is one of the element's own, so that `uniform(...)` in it gives the same numbers with any number of
/// workers; the default device is that of the loop's thread. Its other scopes (autocast, streams, tapes, numeric checks) do
/// not reach workers: open them in f. Error for negative workers.
template <class F>
auto map(F f, MapOptions options = {}, Where where = Where::current()) {
  return [f = std::move(f), options, where]<class T>(const Pipeline<T>& from) {
    using Result = std::decay_t<std::invoke_result_t<F&, T&&>>;
    static_assert(!std::is_void_v<Result>, "capstan: a function for map must return the new element");
    return Pipeline<Result>(detail::mapped(
        from.stage(where),
        [f](detail::Item&& item) mutable { return detail::Item::of<Result>(f(std::move(item.as<T>()))); }, options,
        where));
  };
}

/// The elements for which `wanted(element)` is true. Inside, the default generator is one of the element's own, as in
/// `map`.
template <class F>
auto filter(F wanted, Where where = Where::current()) {
  return [wanted = std::move(wanted), where]<class T>(const Pipeline<T>& from) {
    static_assert(std::is_invocable_r_v<bool, F&, const T&>, "capstan: filter takes a function of an element to bool");
    return Pipeline<T>(detail::filtered(
        from.stage(where), [wanted](const detail::Item& item) mutable -> bool { return wanted(item.as<T>()); }));
  };
}

/// A random order, by a buffer of `buffer` elements: each is drawn from those in it with equal chances, and its place
/// taken by the next. With a buffer as large as the pipeline every order has the same chance (Fisher-Yates). Each pass
/// has an order of its own. Error unless buffer >= 1.
inline auto shuffle(std::int64_t buffer, ShuffleOptions options = {}, Where where = Where::current()) {
  return [=]<class T>(const Pipeline<T>& from) {
    return Pipeline<T>(detail::shuffled(from.stage(where), buffer, options, where));
  };
}

/// `size` elements as one, see pipeline.hpp; the last batch may have fewer. Error unless size >= 1; in the loop
/// ShapeError and DTypeError for tensors that do not fit together. On the CPU not recorded by tapes.
inline auto batch(std::int64_t size, BatchOptions options = {}, Where where = Where::current()) {
  return [=]<class T>(const Pipeline<T>& from) {
    return Pipeline<typename detail::Batching<T>::type>(detail::batched(
        from.stage(where), size, options.drop_rest, &detail::collate<T>, {.op = "batch", .where = where}));
  };
}

/// The same of tensors whose sizes differ (not their ranks): each is padded behind its end to the largest of its batch.
/// `value` is converted to each tensor's type, and must fit it (DTypeError). Not recorded by tapes on any device.
inline auto padded_batch(std::int64_t size, PaddedBatchOptions options = {}, Where where = Where::current()) {
  return [=]<class T>(const Pipeline<T>& from) {
    return Pipeline<typename detail::Batching<T>::type>(detail::batched(from.stage(where), size, options.drop_rest,
                                                                        &detail::collate<T>,
                                                                        {.op = "padded_batch",
                                                                         .where = where,
                                                                         .pad = true,
                                                                         .value = options.value,
                                                                         .multiple_of = options.multiple_of}));
  };
}

/// Padded batches of elements of similar lengths, as TensorFlow's bucket_by_sequence_length: bucket i has lengths from
/// bounds[i-1] up to, not including, bounds[i], and one more bucket those from the last bound on. When a bucket has its
/// `sizes[i]` elements they are the next batch; at the end what is left, from the shortest on. `sizes` has one number, or
/// one for each bucket. Holds at most the elements of unfinished batches. Error unless bounds are ascending and sizes fit.
template <class LengthOf>
auto bucket_by_length(LengthOf length, std::vector<std::int64_t> bounds, std::vector<std::int64_t> sizes,
                      BucketOptions options = {}, Where where = Where::current()) {
  return [length = std::move(length), bounds = std::move(bounds), sizes = std::move(sizes), options,
          where]<class T>(const Pipeline<T>& from) {
    return Pipeline<typename detail::Batching<T>::type>(detail::bucketed(
        from.stage(where),
        [length](const detail::Item& item) mutable { return static_cast<std::int64_t>(length(item.as<T>())); }, bounds,
        sizes, options.drop_rest, &detail::collate<T>,
        {.op = "bucket_by_length",
         .where = where,
         .pad = true,
         .value = options.value,
         .multiple_of = options.multiple_of}));
  };
}

/// `size` elements that follow each other as one, like a batch, and again from `shift` elements later on. Error unless
/// size, shift and stride are >= 1.
inline auto window(std::int64_t size, WindowOptions options = {}, Where where = Where::current()) {
  return [=]<class T>(const Pipeline<T>& from) {
    static_assert(std::is_copy_constructible_v<T>, "capstan: elements of windows must have copies");
    return Pipeline<typename detail::Batching<T>::type>(detail::windowed(
        from.stage(where), size, options, &detail::copy_of<T>, &detail::collate<T>, {.op = "window", .where = where}));
  };
}

/// The passes 0 .. count-1 of the pipeline before, one after another; without an end if no count is given. Error for a
/// negative count; in the loop for a pipeline without elements that is repeated without an end.
inline auto repeat(std::int64_t count = kEndless, Where where = Where::current()) {
  return
      [=]<class T>(const Pipeline<T>& from) { return Pipeline<T>(detail::repeated(from.stage(where), count, where)); };
}

/// The first `count` elements, or all but these. Error for a negative count.
inline auto take(std::int64_t count, Where where = Where::current()) {
  return [=]<class T>(const Pipeline<T>& from) { return Pipeline<T>(detail::taken(from.stage(where), count, where)); };
}
inline auto skip(std::int64_t count, Where where = Where::current()) {
  return
      [=]<class T>(const Pipeline<T>& from) { return Pipeline<T>(detail::skipped(from.stage(where), count, where)); };
}

/// Keeps the elements of pass 0 in memory; all passes have copies of these, in the same order. A copy of a tensor is
/// one more handle: a loop that changes it in place changes the cache.
inline auto cache(Where where = Where::current()) {
  return [where]<class T>(const Pipeline<T>& from) {
    static_assert(std::is_copy_constructible_v<T>, "capstan: elements of a cache must have copies");
    return Pipeline<T>(detail::cached(from.stage(where), &detail::copy_of<T>));
  };
}

/// Makes up to `count` elements ahead on a thread of its own, while the loop works on those before. With a device their
/// tensors are moved to it, on a stream of its own beside the loop's: elements that are tensors, and those in pairs,
/// tuples, vectors and structs of nothing but tensors. The stages before it run on that thread, functions of a `map`
/// without workers as well: as with workers, the default device is that of the loop's thread, and its other scopes
/// (autocast, streams, tapes, numeric checks) do not reach them. Error unless count >= 1.
inline auto prefetch(std::int64_t count, std::optional<Device> device = std::nullopt, Where where = Where::current()) {
  return [=]<class T>(const Pipeline<T>& from) {
    return Pipeline<T>(detail::prefetched(from.stage(where), count, device, &detail::move_to<T>, where));
  };
}

/// Elements of several pipelines side by side, as tuples; as many as the shortest has.
template <class... T>
Pipeline<std::tuple<T...>> zip(const Pipeline<T>&... from) {
  static_assert(sizeof...(T) > 0, "capstan: zip takes pipelines");
  return Pipeline<std::tuple<T...>>(detail::zipped({from.stage()...}, [](std::span<detail::Item> items) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return detail::Item::of(std::tuple<T...>(std::move(items[I].template as<T>())...));
    }
    (std::index_sequence_for<T...>{});
  }));
}

/// Every element opened as a pipeline of its own, `f(element)`; `cycle` of them are open at once, and give `block`
/// elements each in turn. One that is at its end leaves its place to the next that is opened, and the turn to its
/// neighbour: TensorFlow's order. With a cycle of 1 one after another: `files("data/*.txt") | interleave(read)`.
/// Seeds of pipelines that f makes are drawn anew for each element, and are the same after `restore`; those of pipelines
/// that were made outside of it are not in `state()`.
template <class F>
auto interleave(F f, InterleaveOptions options = {}, Where where = Where::current()) {
  return [f = std::move(f), options, where]<class T>(const Pipeline<T>& from) {
    using Inner = std::decay_t<std::invoke_result_t<F&, T&&>>;
    return Pipeline<typename Inner::value_type>(detail::interleaved(
        from.stage(where),
        [f, where](detail::Item&& item) mutable { return Inner(f(std::move(item.as<T>()))).stage(where); }, options,
        where));
  };
}

}  // namespace data
}  // namespace capstan
