// Which matrices are multiplied with which, and how BLAS is to take them, beside plain loops.
#include <map>
#include <utility>

#include "cuda/product_plan.hpp"
#include "tests/gpu/paper.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace capstan::on_cuda;
using namespace tests;

namespace {

/// For each element of the result, where the elements of its row of x and its column of y lie.
using Factors = std::map<std::int64_t, std::pair<Numbers, Numbers>>;

Factors plain_factors(const PaperTensor& x, const PaperTensor& y, const PaperTensor& out) {
  Factors factors;
  const int rank = out.rank();
  const std::int64_t k = x.shape[x.rank() - 1];
  each_place(out.shape, [&](const std::int64_t* index) {
    std::int64_t left[kMaxRank] = {}, right[kMaxRank] = {};
    std::copy_n(index, rank, left);
    std::copy_n(index, rank, right);
    auto& [row, column] = factors[offset_at(out, rank, index)];
    for (std::int64_t i = 0; i < k; ++i) {
      left[rank - 1] = right[rank - 2] = i;
      row.push_back(offset_at(x, rank, left));
      column.push_back(offset_at(y, rank, right));
    }
  });
  return factors;
}

/// As one call of BLAS has them.
void add_call(const ProductPlan& plan, std::int64_t a, std::int64_t b, std::int64_t c, Factors& factors) {
  for (std::int64_t i = 0; i < plan.m; ++i)
    for (std::int64_t j = 0; j < plan.n; ++j) {
      auto& [row, column] = factors[c + i * plan.n + j];
      for (std::int64_t k = 0; k < plan.k; ++k) {
        row.push_back(a + (plan.a.transposed ? k * plan.a.lead + i : i * plan.a.lead + k));
        column.push_back(b + (plan.b.transposed ? j * plan.b.lead + k : k * plan.b.lead + j));
      }
    }
}
Factors planned_factors(const ProductPlan& plan) {
  Factors factors;
  for (std::int64_t i = 0; i < plan.batch.count; ++i) {
    std::int64_t at[3];
    plan.batch.find(i, at);
    add_call(plan, at[0], at[1], at[2], factors);
  }
  return factors;
}

/// Matrices that BLAS can take, behind leading axes that broadcast to `lead`.
PaperTensor matrices(PaperRandom& random, const Numbers& lead, std::int64_t rows, std::int64_t columns) {
  Numbers sizes, steps;
  for (const std::int64_t size : lead) sizes.push_back(random.one_in(4) ? 1 : size);
  const bool turned = random.one_in(2);
  const std::int64_t gap = random.one_in(3) ? 2 : 0;
  sizes.insert(sizes.end(), {rows, columns});
  steps.resize(sizes.size());
  steps[lead.size()] = turned ? 1 : columns + gap;
  steps[lead.size() + 1] = turned ? rows + gap : 1;
  std::int64_t step = turned ? columns * (rows + gap) : rows * (columns + gap);
  for (std::size_t axis = lead.size(); axis-- > 0; step *= sizes[axis]) steps[axis] = random.one_in(5) ? 0 : step;
  return PaperTensor(shape_of(sizes), steps);
}

}  // namespace

TEST_CASE("matrices are found where plain loops over leading axes find them", "[gpu][plans]") {
  PaperRandom random(25);
  for (int trial = 0; trial < 2000; ++trial) {
    const Shape shape = random.shape(6, 4, 400);
    if (shape.rank() < 2 || shape.numel() == 0) continue;
    Numbers lead;
    for (int axis = 0; axis + 2 < shape.rank(); ++axis) lead.push_back(shape[axis]);
    const PaperTensor out(shape), x = matrices(random, lead, shape[shape.rank() - 2], 3);
    const Leading<3> batch(shape, {&out, &x, nullptr});
    Numbers with_corner(lead);
    with_corner.insert(with_corner.end(), {1, 1});
    std::int64_t number = 0;
    each_place(shape_of(with_corner), [&](const std::int64_t* index) {
      std::int64_t at[3];
      batch.find(number++, at);
      REQUIRE(at[0] == offset_at(out, shape.rank(), index));
      REQUIRE(at[1] == offset_at(x, shape.rank(), index));
      REQUIRE(at[2] == 0);
    });
    REQUIRE(number == batch.count);
    for (int axis = 0; axis < batch.rank; ++axis) {
      const Leading<3> rest = batch.without(axis);
      REQUIRE(rest.count * batch.sizes[axis] == batch.count);
      REQUIRE(rest.rank == batch.rank - 1);
    }
  }
}

TEST_CASE("products of matrices have the factors that belong together", "[gpu][plans]") {
  PaperRandom random(26);
  int folded = 0;
  for (int trial = 0; trial < 2500; ++trial) {
    Numbers lead;
    const std::int64_t axes = random.below(4);
    for (std::int64_t axis = 0; axis < axes; ++axis) lead.push_back(1 + random.below(3));
    const std::int64_t m = 1 + random.below(4), n = 1 + random.below(4), k = 1 + random.below(4);
    Numbers sizes(lead);
    sizes.insert(sizes.end(), {m, n});
    const PaperTensor x = matrices(random, lead, m, k), y = matrices(random, lead, k, n), out(shape_of(sizes));
    REQUIRE(layout_of(x).fits);
    REQUIRE(layout_of(y).fits);
    const ProductPlan plan(x, y, out);
    REQUIRE((planned_factors(plan) == plain_factors(x, y, out)));
    folded += plan.m > m ? 1 : 0;
    const int along = plan.longest();
    REQUIRE((along >= 0) == (plan.batch.rank > 0));
    for (int axis = 0; axis < plan.batch.rank; ++axis) REQUIRE(plan.batch.sizes[axis] <= plan.batch.sizes[along]);
  }
  CHECK(folded > 20);  // some became one product
}

TEST_CASE("matrices that BLAS cannot take are known, and the others' rows are far enough apart", "[gpu][plans]") {
  for (const std::int64_t rows : {0, 1, 2, 5})
    for (const std::int64_t columns : {0, 1, 2, 5})
      for (const std::int64_t row : {-5, -1, 0, 1, 2, 5, 9})
        for (const std::int64_t column : {-5, -1, 0, 1, 2, 5, 9}) {
          const MatrixLayout layout = layout_of(rows, columns, row, column);
          INFO(rows << " x " << columns << ", strides " << row << " and " << column);
          if (!layout.fits) {
            CHECK(rows * columns != 1);
            continue;
          }
          CHECK(layout.lead >= std::max<std::int64_t>(layout.transposed ? rows : columns, 1));
          for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < columns; ++j)
              CHECK((layout.transposed ? j * layout.lead + i : i * layout.lead + j) == i * row + j * column);
        }
}
