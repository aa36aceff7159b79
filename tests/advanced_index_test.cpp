// Index tensors and masks among the entries of an index: against NumPy's rules written out as loops, on random mixes of
// entries, shapes and views; and examples from NumPy's user guide, "Indexing on ndarrays".
#include "tests/support.hpp"

#include <algorithm>
#include <random>
#include <sstream>

using namespace capstan;
using namespace tests;

namespace {

using List = std::vector<std::int64_t>;

List list_of(const Tensor& t) { return t.to(DType::int64).to_vector<std::int64_t>(); }
List sizes_of(const Shape& shape) { return List(shape.begin(), shape.end()); }
std::int64_t product(const List& sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return count;
}

/// What one entry does, with masks and the ellipsis already taken apart.
struct Slot {
  enum Kind { slice, fresh, chosen } kind;
  List positions = {};      // slice: of the axis; chosen: the index array, row-major
  List array_shape = {};    // chosen
  bool of_integer = false;  // chosen, by a number
};

List slice_positions(const Range& r, std::int64_t size) {
  const auto clamped = [&](std::int64_t p) {
    if (p < 0) p += size;
    return r.step > 0 ? std::clamp<std::int64_t>(p, 0, size) : std::clamp<std::int64_t>(p, -1, size - 1);
  };
  const std::int64_t begin = r.begin == Range::kOpen ? (r.step > 0 ? 0 : size - 1) : clamped(r.begin);
  const std::int64_t end = r.end == Range::kOpen ? (r.step > 0 ? size : -1) : clamped(r.end);
  List positions;
  for (std::int64_t i = begin; r.step > 0 ? i < end : i > end; i += r.step) positions.push_back(i);
  return positions;
}

/// A mask is as many index arrays as it has axes: where it is true.
std::vector<Slot> slots_of_mask(const Tensor& mask) {
  const List flags = list_of(mask), sizes = sizes_of(mask.shape());
  std::vector<Slot> slots(sizes.size(), Slot{Slot::chosen});
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] == 0) continue;
    auto rest = static_cast<std::int64_t>(i);
    for (std::size_t axis = sizes.size(); axis-- > 0; rest /= sizes[axis])
      slots[axis].positions.push_back(rest % sizes[axis]);
  }
  for (Slot& slot : slots) slot.array_shape = {static_cast<std::int64_t>(slot.positions.size())};
  return slots;
}

std::vector<Slot> take_apart(const Shape& shape, const std::vector<Index>& indices) {
  int used = 0;
  for (const Index& index : indices) {
    if (index.kind() == Index::Kind::tensor) used += index.tensor().dtype() == DType::bool8 ? index.tensor().rank() : 1;
    used += index.kind() == Index::Kind::integer || index.kind() == Index::Kind::range ? 1 : 0;
  }
  std::vector<Slot> slots;
  int axis = 0;
  const auto whole = [&] { slots.push_back({Slot::slice, slice_positions({}, shape[axis++])}); };
  for (const Index& index : indices) {
    if (index.kind() == Index::Kind::new_axis) {
      slots.push_back({Slot::fresh});
    } else if (index.kind() == Index::Kind::dots) {
      for (int i = 0; i < shape.rank() - used; ++i) whole();
      if (shape.rank() == used) slots.push_back({Slot::slice, {}, {-1}});  // stands between, but for no axis
    } else if (index.kind() == Index::Kind::range) {
      slots.push_back({Slot::slice, slice_positions(index.as_range(), shape[axis++])});
    } else if (index.kind() == Index::Kind::integer) {
      slots.push_back({Slot::chosen, {index.integer()}, {}, true});
      ++axis;
    } else if (index.tensor().dtype() == DType::bool8) {
      for (Slot& slot : slots_of_mask(index.tensor())) slots.push_back(slot);
      axis += index.tensor().rank();
    } else {
      slots.push_back({Slot::chosen, list_of(index.tensor()), sizes_of(index.tensor().shape())});
      ++axis;
    }
  }
  while (axis < shape.rank()) whole();
  return slots;
}

bool stands_between(const Slot& slot) { return slot.kind == Slot::slice && !slot.array_shape.empty(); }

/// What index arrays of these shapes broadcast to.
List broadcast(const std::vector<Slot>& slots) {
  List sizes;
  for (const Slot& slot : slots) {
    if (slot.kind != Slot::chosen) continue;
    while (sizes.size() < slot.array_shape.size()) sizes.insert(sizes.begin(), 1);
    const std::size_t extra = sizes.size() - slot.array_shape.size();
    for (std::size_t i = 0; i < slot.array_shape.size(); ++i)
      if (slot.array_shape[i] != 1) sizes[extra + i] = slot.array_shape[i];
  }
  return sizes;
}

/// The place of an index array that belongs to a place of the shape it broadcasts to.
std::int64_t array_value(const Slot& slot, const List& place) {
  std::int64_t flat = 0;
  const std::size_t extra = place.size() - slot.array_shape.size();
  for (std::size_t i = 0; i < slot.array_shape.size(); ++i)
    flat = flat * slot.array_shape[i] + (slot.array_shape[i] == 1 ? 0 : place[extra + i]);
  return slot.positions[static_cast<std::size_t>(flat)];
}

/// For each place of the result, in row-major order, the element of x, counted in row-major order too.
struct Reference {
  List shape, elements;

  Reference(const Shape& x, const std::vector<Index>& indices) {
    const std::vector<Slot> slots = take_apart(x, indices);
    const List together = broadcast(slots);
    const bool chooses = core_of(slots);
    // where the chosen elements' axes go
    std::size_t first = slots.size(), last = 0;
    for (std::size_t i = 0; i < slots.size(); ++i)
      if (slots[i].kind == Slot::chosen) first = std::min(first, i), last = i;
    bool apart = false;
    for (std::size_t i = first; i < last; ++i) apart = apart || slots[i].kind != Slot::chosen;
    apart = apart && chooses;
    // axes of the result: a slot, or -1 for the axes of the chosen elements
    std::vector<int> axes;
    if (apart) axes.push_back(-1);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].kind == Slot::chosen) {
        if (!apart && i == first) axes.push_back(-1);
      } else if (!stands_between(slots[i])) {
        axes.push_back(static_cast<int>(i));
      }
    }
    List begin_of(slots.size(), 0);
    std::size_t begin_together = 0;
    for (const int axis : axes) {
      if (axis < 0) {
        begin_together = shape.size();
        shape.insert(shape.end(), together.begin(), together.end());
      } else {
        const Slot& slot = slots[static_cast<std::size_t>(axis)];
        begin_of[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(shape.size());
        shape.push_back(slot.kind == Slot::fresh ? 1 : static_cast<std::int64_t>(slot.positions.size()));
      }
    }
    List place(shape.size(), 0);
    for (std::int64_t n = product(shape); n > 0; --n) {
      const auto from = place.begin() + static_cast<std::ptrdiff_t>(begin_together);
      const List in_together(from, from + static_cast<std::ptrdiff_t>(axes_has(axes) ? together.size() : 0));
      std::int64_t element = 0;
      int axis = 0;
      for (std::size_t i = 0; i < slots.size(); ++i) {
        if (slots[i].kind == Slot::fresh || stands_between(slots[i])) continue;
        const std::int64_t size = x[axis++];
        std::int64_t position =
            slots[i].kind == Slot::chosen
                ? array_value(slots[i], in_together)
                : slots[i].positions[static_cast<std::size_t>(place[static_cast<std::size_t>(begin_of[i])])];
        if (position < 0) position += size;
        element = element * size + position;
      }
      elements.push_back(element);
      for (std::size_t i = place.size(); i-- > 0;) {
        if (++place[i] < shape[i]) break;
        place[i] = 0;
      }
    }
  }

 private:
  static bool axes_has(const std::vector<int>& axes) { return std::find(axes.begin(), axes.end(), -1) != axes.end(); }
  /// Whether some entry is a tensor: integers alone do not move axes.
  static bool core_of(const std::vector<Slot>& slots) {
    return std::any_of(slots.begin(), slots.end(),
                       [](const Slot& slot) { return slot.kind == Slot::chosen && !slot.of_integer; });
  }
};

/// Random tensors and indices.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : bits_(seed) {}

  std::int64_t roll(std::int64_t low, std::int64_t high) {  // [low, high]
    return low + static_cast<std::int64_t>(bits_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return roll(1, 100) <= percent; }

  /// A view of 0, 1, 2, ...: transposed, reversed, with steps, or none of it.
  Tensor view() {
    const int rank = static_cast<int>(roll(1, 4));
    List sizes;
    std::vector<Index> cut;
    for (int i = 0; i < rank; ++i) {
      const std::int64_t size = chance(5) ? 0 : roll(1, 4);
      const std::int64_t kind = roll(0, 3);
      sizes.push_back(kind == 2 ? 2 * size : size);
      if (kind == 1) cut.push_back(from(-1, -1));
      else if (kind == 2) cut.push_back(from(0, 2));
      else cut.push_back(all);
    }
    const Shape shape(sizes);
    Tensor x = reshape(arange(shape.numel()), shape);
    if (chance(60)) x = x.index(cut);
    if (chance(50)) x = transpose(x);
    return x;
  }

  std::vector<Index> index_for(const Shape& shape) {
    together_.clear();
    for (std::int64_t i = roll(0, 2); i > 0; --i) together_.push_back(chance(10) ? 0 : roll(1, 3));
    std::vector<Index> list;
    bool dots = false;
    for (int axis = 0; axis < shape.rank();) {
      if (chance(15)) list.push_back(newaxis);
      if (!dots && chance(15)) {
        dots = true;
        list.push_back(ellipsis);
        axis += static_cast<int>(roll(0, shape.rank() - axis));
        continue;
      }
      if (chance(10)) break;
      axis = add_entry(list, shape, axis);
    }
    // an ellipsis stands for what is left out: entries behind it count from the end
    return fits(list, shape) ? list : std::vector<Index>{};
  }

 private:
  int add_entry(std::vector<Index>& list, const Shape& shape, int axis) {
    const std::int64_t size = shape[axis], kind = roll(0, 9);
    if (kind <= 1) {
      list.push_back(all);
    } else if (kind <= 3) {
      list.push_back(Range{roll(-5, 5), roll(-5, 5), chance(50) ? roll(1, 3) : -roll(1, 3)});
    } else if (kind == 4 && size > 0) {
      list.push_back(roll(-size, size - 1));
    } else if (kind == 5) {
      const int axes = static_cast<int>(roll(1, std::min(2, shape.rank() - axis)));
      list.push_back(mask(shape, axis, axes));
      return axis + axes;
    } else {
      list.push_back(index_tensor(size));
    }
    return axis + 1;
  }

  /// So many true elements that it broadcasts with the index tensors.
  Tensor mask(const Shape& shape, int axis, int axes) {
    List sizes(shape.begin() + axis, shape.begin() + axis + axes);
    const std::int64_t count = product(sizes);
    const std::int64_t wanted = std::min(count, together_.empty() || chance(20) ? 1 : together_.back());
    std::vector<double> flags(static_cast<std::size_t>(count), 0.0);
    std::fill_n(flags.begin(), wanted, 1.0);
    std::shuffle(flags.begin(), flags.end(), bits_);
    return from_doubles(flags, Shape(sizes), DType::bool8);
  }

  Tensor index_tensor(std::int64_t size) {
    List sizes(together_.begin() + static_cast<std::ptrdiff_t>(roll(0, static_cast<std::int64_t>(together_.size()))),
               together_.end());
    for (std::int64_t& s : sizes)
      if (chance(25)) s = 1;
    if (size == 0) sizes = {0};
    const DType types[] = {DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8};
    const DType type = types[roll(0, 4)];
    std::vector<double> positions;
    for (std::int64_t n = product(sizes); n > 0; --n)
      positions.push_back(static_cast<double>(roll(type == DType::uint8 ? 0 : -size, size - 1)));
    const Tensor index = from_doubles(positions, Shape(sizes), type);
    return chance(30) ? strided(index) : index;
  }

  /// Whether the index arrays broadcast, the axes suffice and each index and mask fits the axis it will meet.
  static bool fits(const std::vector<Index>& list, const Shape& shape) {
    try {
      (void)zeros(shape).index(list);
      return true;
    } catch (const Error&) { return false; }
  }

  std::mt19937_64 bits_;
  List together_;
};

std::string text_of(const Tensor& x, const std::vector<Index>& indices) {
  std::ostringstream out;
  out << "x " << to_string(x.shape()) << (x.is_contiguous() ? "" : ", strided") << ", index";
  for (const Index& index : indices) {
    const Range& r = index.as_range();
    switch (index.kind()) {
      case Index::Kind::integer: out << " " << index.integer(); break;
      case Index::Kind::range: out << " " << r.begin << ":" << r.end << ":" << r.step; break;
      case Index::Kind::new_axis: out << " newaxis"; break;
      case Index::Kind::dots: out << " ..."; break;
      case Index::Kind::tensor: out << " " << to_string(index.tensor()); break;
    }
  }
  return out.str();
}

/// Writes through the index, in place and out of place, with values that tell their places.
void check_writing(const Tensor& x, const std::vector<Index>& indices, const Reference& expected) {
  const List before = list_of(x);
  const Tensor values = reshape(arange(product(expected.shape)) + 1000, Shape(expected.shape));
  List set = before, sum = before;
  for (std::size_t i = 0; i < expected.elements.size(); ++i) {
    const auto element = static_cast<std::size_t>(expected.elements[i]);
    set[element] = 1000 + static_cast<std::int64_t>(i);
    sum[element] += 1000 + static_cast<std::int64_t>(i);
  }
  CHECK(list_of(index_set(x, indices, values)) == set);
  CHECK(list_of(index_add(x, indices, values)) == sum);
  for (const bool accumulate : {false, true}) {
    Tensor y = strided(x.copy());  // in place, through strides
    y.index_put(indices, values, {.accumulate = accumulate});
    CHECK(list_of(y) == (accumulate ? sum : set));
  }
}

/// The gradient of a sum of chosen elements is how often each was chosen.
void check_gradient_counts(const Tensor& x, const std::vector<Index>& indices, const Reference& expected) {
  const Tensor real = x.is_contiguous() ? x.to(DType::float64) : strided(x.to(DType::float64));
  std::vector<double> counts(static_cast<std::size_t>(x.numel()), 0.0);
  for (const std::int64_t element : expected.elements) counts[static_cast<std::size_t>(element)] += 1;
  GradientTape tape;
  tape.watch(real);
  const Tensor gradient = tape.gradient(real.index(indices), real, {.unconnected = Unconnected::zeros});
  CHECK(same(gradient, from_doubles(counts, x.shape())));
}

}  // namespace

TEST_CASE("random mixes of index tensors, masks, integers, ranges and new axes follow NumPy's rules",
          "[index][errors]") {
  Dice dice(20240607);
  int ran = 0, with_tensors = 0;
  for (int round = 0; round < 6000; ++round) {
    const Tensor x = dice.view();
    const std::vector<Index> indices = dice.index_for(x.shape());
    if (indices.empty()) continue;
    const Reference expected(x.shape(), indices);
    const Tensor actual = x.index(indices);
    const List all_elements = list_of(x);
    List elements;
    for (const std::int64_t element : expected.elements)
      elements.push_back(all_elements[static_cast<std::size_t>(element)]);
    INFO(text_of(x, indices));
    REQUIRE(sizes_of(actual.shape()) == expected.shape);
    REQUIRE(list_of(actual) == elements);
    check_writing(x, indices, expected);
    check_gradient_counts(x, indices, expected);
    ++ran;
    for (const Index& index : indices)
      if (index.kind() == Index::Kind::tensor) {
        ++with_tensors;
        break;
      }
  }
  CHECK(ran > 3000);  // the dice really made indices
  CHECK(with_tensors > 1500);
}

TEST_CASE("index tensors choose as in NumPy's user guide", "[index]") {
  const Tensor x = reshape(arange(35), {5, 7});
  CHECK(list_of(x.index({Tensor{0, 2, 4}, Tensor{0, 1, 2}})) == List{0, 15, 30});
  CHECK(list_of(x.index({Tensor{0, 2, 4}, 1})) == List{1, 15, 29});
  CHECK(x.index({Tensor{0, 2, 4}}).shape() == Shape{3, 7});
  CHECK(list_of(x.index({Tensor{0, 2, 4}, range(1, 3)})) == List{1, 2, 15, 16, 29, 30});
  CHECK(list_of(x.index({greater(x, 30)})) == List{31, 32, 33, 34});
  const Tensor b = greater(x, 20);
  CHECK(list_of(x[b.index({all, 5})]) == List{21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34});
  const Tensor corners = reshape(arange(12), {4, 3});
  CHECK(same(corners.index({Tensor{{0, 0}, {3, 3}}, Tensor{{0, 2}, {0, 2}}}), from_vector(List{0, 2, 9, 11}, {2, 2})));
  const Tensor rows = {0, 3};
  CHECK(same(corners.index({rows.index({all, newaxis}), Tensor{0, 2}}), from_vector(List{0, 2, 9, 11}, {2, 2})));
}

TEST_CASE("the axes of chosen elements stay where they stand side by side, and come first where they do not",
          "[index]") {
  const Tensor x = reshape(arange(120), {2, 3, 4, 5}), i = {0, 1}, j = {{0}, {1}, {1}};
  CHECK(x.index({all, i, i}).shape() == Shape{2, 2, 5});
  CHECK(x.index({all, i, j}).shape() == Shape{2, 3, 2, 5});  // they broadcast to [3, 2]
  CHECK(x.index({all, i, all, i}).shape() == Shape{2, 2, 4});
  CHECK(x.index({i, all, i}).shape() == Shape{2, 3, 5});
  CHECK(x.index({all, i, newaxis, i}).shape() == Shape{2, 2, 1, 5});  // the first 2 is of the chosen elements
  CHECK(x.index({all, 1, i}).shape() == Shape{2, 2, 5});
  CHECK(x.index({0, all, i}).shape() == Shape{2, 3, 5});  // an integer beside an index tensor is one too
  CHECK(x.index({ellipsis, i, 0}).shape() == Shape{2, 3, 2});
  CHECK(x.index({0, ellipsis, i}).shape() == Shape{2, 3, 4});
  CHECK(x.index({0, all, 1}).shape() == Shape{3, 5});  // without a tensor nothing moves
  CHECK(x.index({all, all, Tensor(1), Tensor(2)}).shape() == Shape{2, 3});
  CHECK(same(x.index({all, all, Tensor(1), Tensor(2)}), x.index({all, all, 1, 2})));
}

TEST_CASE("masks without axes add one, as True and False do in NumPy", "[index]") {
  const Tensor x = reshape(arange(6), {2, 3});
  CHECK(x.index({Tensor(true)}).shape() == Shape{1, 2, 3});
  CHECK(x.index({Tensor(false)}).shape() == Shape{0, 2, 3});
  CHECK(x.index({all, Tensor(true)}).shape() == Shape{2, 1, 3});
  CHECK(x.index({Tensor(true), Tensor{1, 0, 1}}).shape() == Shape{3, 3});
  CHECK(same(Tensor(7)[Tensor(true)], {7}));
}

TEST_CASE("a tensor in brackets chooses rows, a mask elements", "[index]") {
  const Tensor x = {{1.0f, 2.0f}, {3.0f, 4.0f}, {5.0f, 6.0f}};
  CHECK(same(x[Tensor{2, 0}], {{5.0f, 6.0f}, {1.0f, 2.0f}}));
  CHECK(same(x[x > 2], {3.0f, 4.0f, 5.0f, 6.0f}));
  CHECK(same(x[Tensor{false, true, false}], {{3.0f, 4.0f}}));
  CHECK(same(x[0], {1.0f, 2.0f}));
  CHECK_FALSE(x[Tensor{0}].shares_storage(x));
}

TEST_CASE("an index entry keeps the tensor it was made from", "[index]") {
  const Tensor x = {1, 2, 3};
  std::vector<Index> list;
  list.push_back(x > 1);  // the mask itself is gone after this line
  CHECK(same(x.index(list), {2, 3}));
}

TEST_CASE("index_put reads indices and values before it writes, even from the tensor itself", "[index]") {
  Tensor x = {2, 0, 1};
  x.index_put({x}, Tensor{10, 20, 30});
  CHECK(same(x, {20, 30, 10}));
  Tensor y = {1, 2, 3, 4};
  y.index_put({Tensor{3, 2, 1, 0}}, y);
  CHECK(same(y, {4, 3, 2, 1}));
  Tensor z = {1.0f, -2.0f, 3.0f, -4.0f};
  z.index_put({z < 0}, 0);
  CHECK(same(z, {1.0f, 0.0f, 3.0f, 0.0f}));
  z.index_put({Tensor{0, 0, 2}}, Tensor{1.5, 2.5, 3.5});  // converted as `to` does; the last one stays
  CHECK(same(z, {2.5f, 0.0f, 3.5f, 0.0f}));
  z.index_put({from(2)}, 1, {.accumulate = true});
  CHECK(same(z, {2.5f, 0.0f, 4.5f, 1.0f}));
}

TEST_CASE("accumulating in sixteen bits rounds once", "[index]") {
  for (const DType type : {DType::float16, DType::bfloat16}) {
    Tensor x = zeros({2}, {.dtype = type});
    x.index_put({zeros({5000}, {.dtype = DType::int64})}, Tensor(1.0f), {.accumulate = true});
    CHECK(same(x, Tensor{5000.0f, 0.0f}.to(type)));  // one by one, float16 would stop at 2048 and bfloat16 at 256
    CHECK(same(index_add(zeros({2}, {.dtype = type}), {zeros({5000}, {.dtype = DType::int64})}, 1),
               Tensor{5000.0f, 0.0f}.to(type)));
  }
}

TEST_CASE("writing through index tensors does not go past a tape", "[index][tape]") {
  const Tensor x = {1.0, 2.0, 3.0};
  GradientTape tape;
  tape.watch(x);
  Tensor y = x * 2, other = zeros({3}, {.dtype = DType::float64});
  CHECK_THROWS_AS(y.index_put({Tensor{0}}, 1), TapeError);
  CHECK_THROWS_AS(other.index_put({Tensor{0}}, y[0]), TapeError);
  other.index_put({Tensor{0, 2}}, 5);
  CHECK(same(other, {5.0, 0.0, 5.0}));
}
