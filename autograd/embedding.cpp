#include <capstan/ops/embedding.hpp>

#include <capstan/create.hpp>
#include <capstan/ops/index.hpp>
#include <capstan/ops/linalg.hpp>
#include <capstan/ops/order.hpp>
#include <capstan/tape.hpp>

#include "autograd/embedding.hpp"
#include "autograd/linalg.hpp"
#include "autograd/log.hpp"
#include "autograd/places.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::computing_type;
using autograd::listening;
using autograd::record;
using autograd::Replay;

namespace {

// --- what both check -------------------------------------------------------------------------------------------------

/// A table, and the indices into it as int32 or int64 (int64 if there is a padding index).
struct Ready {
  Tensor index;
  std::int64_t padding = -1;  // none
};

Ready make_ready(const char* op, const Tensor& indices, const Tensor& table, std::optional<std::int64_t> padding,
                 Where where) {
  const TensorImpl& impl = core::defined(op, table, where);
  autograd::require_floating(op, impl, where);
  if (impl.rank() != 2)
    base::fail<ShapeError>(where, op, ": the table is ", impl.shape, "; it must have two axes, [rows, width].");
  const std::int64_t rows = impl.shape[0];
  Ready ready{autograd::index_tensor(op, impl, indices, where)};
  autograd::require_inside(op, impl.shape, 0, ready.index, 0, rows, where);
  if (!padding) return ready;
  if (*padding < -rows || *padding >= rows)
    base::fail<IndexError>(where, op, ": the padding index is ", *padding, "; for a table of ", impl.shape,
                           " it must be in [", -rows, ", ", rows, ").");
  ready.padding = *padding < 0 ? *padding + rows : *padding;
  ready.index = autograd::converted(ready.index, DType::int64, where);
  return ready;
}

void check_norm(const char* op, const Tensor& table, std::optional<double> max_norm, double norm, Where where) {
  if (!max_norm) return;
  if (!(*max_norm > 0)) base::fail<Error>(where, op, ": max_norm is ", *max_norm, "; it must be above 0.");
  if (!(norm > 0)) base::fail<Error>(where, op, ": the order of the norm is ", norm, "; it must be above 0.");
  autograd::check_in_place(op, table, nullptr, where);
}

/// Rows that are looked up and longer than `most` are scaled to that length, in place.
void shorten_rows(const Tensor& table, const Tensor& index, double most, double norm, Where where) {
  const NoGrad off;
  const Tensor rows = unique(index, where), found = gather(table, rows, 0, where);
  const Tensor values = found.to(computing_type(found.dtype()), where);
  const Tensor lengths = vector_norm(values, norm, 1, {}, where), longer = greater(lengths, most, where);
  if (!any_of(longer, {}, {}, where).item<bool>(where)) return;
  const Tensor which[] = {rows, values, lengths};
  Tensor chosen[3];
  for (std::size_t i = 0; i < 3; ++i) chosen[i] = autograd::compress("compress", which[i], longer, where);
  const Tensor factor = mul(reciprocal(add(chosen[2], 1e-7, where), where), most, where);  // PyTorch's guard
  const Tensor shorter = mul(chosen[1], expand_dims(factor, 1, where), where);
  Tensor target = table;
  target.index_put({chosen[0]}, shorter.to(found.dtype(), where), {}, where);
}

// --- gradients of the table ------------------------------------------------------------------------------------------

/// The gradients of rows, divided by how often their index occurs.
Tensor by_frequency(const Tensor& values, const Tensor& index, Where where) {
  const DType wide = computing_type(values.dtype());
  const UniqueResult found = unique_all(index, where);
  const Tensor counts = cast(gather(found.counts, found.inverse_indices, 0, where), wide, where);
  return div(values.to(wide, where), expand_dims(counts, -1, where), where).to(values.dtype(), where);
}

/// Row slices for input 0: values [i..., width] for the rows index [i...].
void give_slices(Replay& r, const Tensor& values, const Tensor& index, const Shape& table) {
  const Where where = r.where();
  const bool own = values.impl()->contiguous && core::sole_owner(*values.impl());  // slices belong to nobody else
  const Tensor rows = own ? values : autograd::fresh_copy(values, values.dtype(), where);
  const Tensor places = autograd::fresh_copy(index, DType::int64, where);
  const std::int64_t sizes[] = {index.numel(), table[1]}, strides[] = {table[1], 1}, one = 1;
  r.give_rows(0,
              {core::make_view(*places.impl(), Shape({sizes[0]}, where), &one, 0, where),
               core::make_view(*rows.impl(), Shape(sizes, where), strides, 0, where)},
              table);
}

/// The gradient for a table, input 0. `kept` says which indices count; undefined for all.
void give_table(Replay& r, const Tensor& values, const Tensor& index, const Tensor& kept, const Shape& table) {
  const Where where = r.where();
  if (listening()) {
    const Tensor ids = kept.defined() ? capstan::where(kept, index, -1, where) : index;
    r.give(0, segment_sum(values, ids, table[0], where));
  } else if (kept.defined()) {
    give_slices(r, autograd::compress("compress", values, kept, where),
                autograd::compress("compress", index, kept, where), table);
  } else {
    give_slices(r, values, index, table);
  }
}

struct Lookup {
  Shape table;
  std::int64_t padding;
  bool by_frequency;
};

void give_rows_of(Replay& r, const Tensor& values, const Tensor& index, const Tensor& kept, const Lookup& lookup) {
  if (lookup.by_frequency) give_table(r, by_frequency(values, index, r.where()), index, kept, lookup.table);
  else give_table(r, values, index, kept, lookup.table);
}

void embedding_replay(Replay& r) {
  const auto lookup = r.attributes<Lookup>();
  const Tensor& index = r.saved(0);
  const Tensor kept = lookup.padding >= 0 ? not_equal(index, lookup.padding, r.where()) : Tensor();
  give_rows_of(r, r.grad(), index, kept, lookup);
}

/// The lookup itself, of checked indices; recorded.
Tensor look_up(const Tensor& table, const autograd::Selection& chosen, const Lookup& lookup, Where where) {
  const TensorImpl& impl = *table.impl();
  const autograd::Places& places = chosen.places;
  Tensor out = autograd::result_like(impl, places.result, impl.dtype, where);
  const Tensor from = core::make_view(impl, places.result, places.strides, 0, where);
  const Tensor at = core::make_view(*chosen.positions.impl(), places.result, places.position_strides, 0, where);
  backend_of(impl, where).take(*from.impl(), *at.impl(), places.rule, *out.impl());
  record("embedding", where, &embedding_replay, {&table}, {&out}, {&chosen.positions}, lookup);
  return out;
}

}  // namespace

autograd::LookedUp autograd::looked_up(const Tensor& x, std::int64_t most_rows, Where where) {
  const Log* log = listening() ? Log::of_this_thread_if_any() : nullptr;
  const std::uint32_t slot = log == nullptr ? kNoSlot : log->find(*x.impl());
  if (slot == kNoSlot || x.version(where) != 0) return {};
  const Entry* entry = log->maker(slot);
  if (entry == nullptr || entry->replay != &embedding_replay || (entry->tapes & recording) == 0) return {};
  const Saved& index = entry->saved_values()[0];
  Lookup lookup;
  std::memcpy(static_cast<void*>(&lookup), entry->attributes(), sizeof lookup);
  if (lookup.table[0] > most_rows || index.tensor.version(where) != index.version) return {};
  return {fresh_copy(index.tensor, DType::int64, where), lookup.table[0]};
}

std::optional<Replay> autograd::lookup_behind(const Replay& r, int input) {
  std::optional<Replay> lookup = r.behind(input, &embedding_replay);
  if (!lookup.has_value()) return lookup;
  const auto rule = lookup->attributes<Lookup>();
  return rule.by_frequency || rule.padding >= 0 ? std::nullopt : lookup;
}

Tensor embedding(const Tensor& indices, const Tensor& table, const EmbeddingOptions& options, Where where) {
  constexpr const char* op = "embedding";
  const Ready ready = make_ready(op, indices, table, options.padding_index, where);
  check_norm(op, table, options.max_norm, options.norm, where);
  const TensorImpl& impl = *table.impl();
  const autograd::Selection chosen = autograd::choose_slices(op, impl.shape, impl.strides, 0, ready.index, where);
  if (options.max_norm) shorten_rows(table, ready.index, *options.max_norm, options.norm, where);
  return look_up(table, chosen, {impl.shape, ready.padding, options.scale_by_frequency}, where);
}

// --- bags ------------------------------------------------------------------------------------------------------------

namespace {

constexpr const char* kBag = "embedding_bag";

/// All elements as [n], contiguous; no tape sees it.
Tensor flat(const Tensor& x, Where where) {
  const Tensor whole = autograd::dense(x, where);
  const std::int64_t one = 1;
  return core::make_view(*whole.impl(), Shape({whole.impl()->numel()}, where), &one, 0, where);
}

void check_offsets(const Tensor& offsets, std::int64_t count, bool with_end, Where where) {
  const std::vector<std::int64_t> list = offsets.to_vector<std::int64_t>(where);
  if (list.empty() && (with_end || count > 0))
    base::fail<ShapeError>(where, kBag, ": there are no offsets, and ", count,
                           " indices; the first offset must be there and be 0.");
  for (std::size_t i = 0; i < list.size(); ++i)
    if (i == 0 ? list[0] != 0 : list[i] < list[i - 1] || list[i] > count)
      base::fail<IndexError>(where, kBag, ": offset ", i, " is ", list[i], "; offsets must ascend from 0 to at most ",
                             count, ", the number of indices.");
}

/// Where each bag begins and the last one ends: int64 [bags + 1].
Tensor bounds_of(const TensorImpl& index, const EmbeddingBagOptions& options, Where where) {
  const TensorOptions type{DType::int64, index.device()};
  if (!options.offsets.defined()) {
    if (index.rank() != 2)
      base::fail<ShapeError>(where, kBag, ": the indices are ", index.shape,
                             "; without offsets they must be [bags, length].");
    return mul(arange(0, index.shape[0] + 1, 1, type, where), index.shape[1], where);
  }
  const TensorImpl& given = core::defined(kBag, options.offsets, where);
  if (!is_integer(given.dtype))
    base::fail<DTypeError>(where, kBag, ": the offsets are ", given.dtype, "; they must be integers.");
  const Tensor offsets = autograd::index_tensor(kBag, index, options.offsets, where);
  if (index.rank() != 1 || offsets.rank() != 1)
    base::fail<ShapeError>(where, kBag, ": the indices are ", index.shape, " and the offsets ", offsets.shape(),
                           "; both must have one axis.");
  const Tensor begins = flat(autograd::converted(offsets, DType::int64, where), where);
  check_offsets(begins, index.numel(), options.include_last_offset, where);
  if (options.include_last_offset) return begins;
  return concat({begins, full(Shape({1}), index.numel(), type, where)}, 0, where);
}

void check_weights(const TensorImpl& table, const TensorImpl& index, const EmbeddingBagOptions& options, Where where) {
  const bool largest = options.mode == BagMode::max;
  if (largest && options.scale_by_frequency)
    base::fail<Error>(where, kBag, ": scale_by_frequency goes with sums and means, and the mode is max.");
  if (!options.weights.defined()) return;
  if (options.mode != BagMode::sum)
    base::fail<Error>(where, kBag, ": weights go with sums, and the mode is ", largest ? "max" : "mean", ".");
  const TensorImpl& impl = core::defined(kBag, options.weights, where);
  autograd::require_same_type(kBag, table, options.weights, "weights", where);
  if (impl.shape != index.shape)
    base::fail<ShapeError>(where, kBag, ": the weights are ", impl.shape, " and the indices ", index.shape,
                           "; the shapes must be equal.");
}

/// The bag of every index, int64 [n]; -1 for those in none: padding, and what stands behind the last bag.
Tensor bag_of_each(const Tensor& ids, const Tensor& bounds, std::int64_t padding, Where where) {
  const std::int64_t count = ids.numel(), bags = bounds.numel() - 1;
  const Tensor places = arange(0, count, 1, {DType::int64, ids.device()}, where);
  const Tensor bag = sub(searchsorted(bounds, places, {.right = true}, where), 1, where);
  Tensor inside = less(bag, bags, where);
  if (padding >= 0) inside = logical_and(inside, not_equal(ids, padding, where), where);
  return capstan::where(inside, bag, -1, where);
}

/// How many indices each bag has, in a floating type, [bags].
Tensor sizes_of(const Tensor& bag, std::int64_t bags, DType dtype, Where where) {
  return segment_sum(full(bag.shape(), 1, {dtype, bag.device()}, where), bag, bags, where);
}

struct Bag {
  Lookup lookup;
  bool mean;
  bool complete;  // every index is in a bag
};

/// Saved: the indices [n], the bounds, and with weights these [n] and the table.
void bag_replay(Replay& r) {
  const Where where = r.where();
  const auto [lookup, mean, complete] = r.attributes<Bag>();
  const Tensor &ids = r.saved(0), &weights = r.saved(2);
  const std::int64_t bags = r.saved(1).numel() - 1;
  const DType dtype = r.grad().dtype(), wide = computing_type(dtype);
  if (bags == 0) {
    if (r.needs(0)) r.give(0, zeros(lookup.table, {dtype, ids.device()}, where));
    if (r.needs(1)) r.give(1, zeros_like(weights, where));
    return;
  }
  const Tensor bag = bag_of_each(ids, r.saved(1), lookup.padding, where);
  const Tensor kept = complete ? Tensor() : greater_equal(bag, 0, where);
  Tensor grad = r.grad();
  if (mean) {
    const Tensor sizes = maximum(sizes_of(bag, bags, wide, where), 1, where);
    grad = div(grad.to(wide, where), expand_dims(sizes, 1, where), where).to(dtype, where);
  }
  const Tensor each = gather(grad, bag, 0, where);  // of those in no bag anything: they are left out below
  if (r.needs(1)) {
    const Tensor products = sum(mul(each, gather(r.saved(3), ids, 0, where), where), 1, {}, where);
    r.give(1, kept.defined() ? capstan::where(kept, products, 0, where) : products);
  }
  if (!r.needs(0)) return;
  if (weights.defined()) give_rows_of(r, mul(each, expand_dims(weights, 1, where), where), ids, kept, lookup);
  else give_rows_of(r, each, ids, kept, lookup);
}

/// The largest values of each bag, 0 for one without indices.
Tensor largest_of(const Tensor& ids, const Tensor& table, const Tensor& bounds, std::int64_t padding, Where where) {
  const std::int64_t bags = bounds.numel() - 1;
  const TensorImpl& impl = *table.impl();
  const autograd::Selection chosen = autograd::choose_slices(kBag, impl.shape, impl.strides, 0, ids, where);
  const Tensor rows = look_up(table, chosen, {impl.shape, padding, false}, where);
  const Tensor bag = bag_of_each(ids, bounds, padding, where);
  const Tensor some = greater(sizes_of(bag, bags, DType::float64, where), 0, where);
  return capstan::where(expand_dims(some, 1, where), segment_max(rows, bag, bags, where), 0, where);
}

}  // namespace

Tensor embedding_bag(const Tensor& indices, const Tensor& table, const EmbeddingBagOptions& options, Where where) {
  const Ready ready = make_ready(kBag, indices, table, options.padding_index, where);
  check_norm(kBag, table, options.max_norm, options.norm, where);
  const TensorImpl &impl = *table.impl(), &index = *ready.index.impl();
  check_weights(impl, index, options, where);
  const Tensor bounds = bounds_of(index, options, where), ids = flat(ready.index, where);
  const autograd::Rollback rollback;
  if (options.max_norm) shorten_rows(table, ids, *options.max_norm, options.norm, where);
  if (options.mode == BagMode::max) return largest_of(ids, table, bounds, ready.padding, where);
  const Tensor weights = options.weights.defined() ? reshape(options.weights, {index.numel()}, where) : options.weights;
  const Tensor packed = autograd::dense(table, where);
  const Tensor factors = weights.defined() ? autograd::dense(weights, where) : weights;
  const bool mean = options.mode == BagMode::mean;
  Tensor out = autograd::result_like(impl, Shape({bounds.numel() - 1, impl.shape[1]}, where), impl.dtype, where);
  backend_of(impl, where)
      .embedding_bag(*packed.impl(), *ids.impl(), *bounds.impl(), factors.impl(), ready.padding, mean, *out.impl());
  const bool complete = ready.padding < 0 && !options.include_last_offset;
  const Tensor* const rows = weights.defined() ? &table : &weights;  // for their gradient
  record(kBag, where, &bag_replay, {&table, &weights}, {&out}, {&ids, &bounds, &weights, rows},
         Bag{{impl.shape, ready.padding, options.scale_by_frequency}, mean, complete});
  return out;
}

}  // namespace capstan
