// What a tape lists of the operations that it has recorded.
#include "tests/support.hpp"

#include <thread>

using namespace capstan;
using namespace tests;

namespace {

std::string at(int line) { return "tape_operations_test.cpp:" + std::to_string(line); }

std::vector<std::int64_t> ids(const std::vector<RecordedValue>& values) {
  std::vector<std::int64_t> result;
  for (const RecordedValue& value : values) result.push_back(value.id);
  return result;
}

using Ids = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("operations lists what was recorded in its order, with names, lines, shapes and types", "[tape]") {
  const Tensor x = zeros({4, 3}, {.dtype = DType::float64});
  GradientTape tape;
  tape.watch(x);
  const int line = __LINE__ + 1;
  const Tensor h = exp(x);
  const Tensor y = h * x;
  const Tensor loss = sum(y);
  const std::vector<RecordedOperation> operations = tape.operations();
  REQUIRE(operations.size() == 3);
  CHECK(operations[0].name == "exp");
  CHECK(operations[1].name == "mul");
  CHECK(operations[2].name == "sum");
  CHECK(operations[0].where == at(line));
  CHECK(operations[2].where == at(line + 2));

  CHECK(ids(operations[0].inputs) == Ids{tape.id_of(x)});
  CHECK(ids(operations[0].outputs) == Ids{tape.id_of(h)});
  CHECK(ids(operations[1].inputs) == Ids{tape.id_of(h), tape.id_of(x)});
  CHECK(ids(operations[2].inputs) == Ids{tape.id_of(y)});
  CHECK(ids(operations[2].outputs) == Ids{tape.id_of(loss)});
  CHECK(tape.id_of(x) >= 0);
  CHECK(tape.id_of(x) != tape.id_of(h));

  CHECK(operations[0].inputs[0].shape == Shape{4, 3});  // of the watched tensor
  CHECK(operations[2].inputs[0].shape == Shape{4, 3});
  CHECK(operations[2].outputs[0].shape == Shape{});
  CHECK(operations[2].outputs[0].dtype == DType::float64);
}

TEST_CASE("operations knows Parameters by their first use, and data not at all", "[tape]") {
  Parameter w(ones({3, 2})), unused(ones({2}));
  const Tensor data = ones({5, 3});
  GradientTape tape;
  CHECK(tape.id_of(w) == -1);  // not used yet
  const Tensor y = matmul(data, w);
  const std::vector<RecordedOperation> operations = tape.operations();
  REQUIRE(operations.size() == 1);
  CHECK(ids(operations[0].inputs) == Ids{-1, tape.id_of(w)});
  CHECK(tape.id_of(w) >= 0);
  CHECK(tape.id_of(unused) == -1);
  CHECK(tape.id_of(data) == -1);
  CHECK(operations[0].inputs[1].shape == Shape{3, 2});
}

TEST_CASE("operations lists all results of an operation, and knows the shapes that somebody kept", "[tape]") {
  const Tensor x = ones({4, 3});
  GradientTape tape;
  tape.watch(x);
  const Moments both = moments(x, 0);
  const Tensor y = both.variance * both.variance;  // keeps its operands
  const std::vector<RecordedOperation> operations = tape.operations();
  REQUIRE(operations.size() == 2);
  CHECK(ids(operations[0].outputs) == Ids{tape.id_of(both.mean), tape.id_of(both.variance)});
  CHECK(operations[0].outputs[0].shape == Shape{3});
  CHECK(operations[0].outputs[1].shape == Shape{3});
  CHECK(ids(operations[1].inputs) == Ids{tape.id_of(both.variance), tape.id_of(both.variance)});
}

TEST_CASE("operations leaves out what no gradient flows through and what other tapes recorded", "[tape]") {
  const Tensor x = {1.0f, 2.0f}, z = {3.0f};
  GradientTape tape, other;
  tape.watch(x);
  other.watch(z);
  const Tensor cut = stop_gradient(x);
  const Tensor elsewhere = exp(z);
  const Tensor y = x * cut;
  const std::vector<RecordedOperation> operations = tape.operations();
  REQUIRE(operations.size() == 1);
  CHECK(operations[0].name == "mul");
  CHECK(ids(operations[0].inputs) == Ids{tape.id_of(x), -1});
  CHECK(operations[0].inputs[1].shape == Shape{2});  // where the chain ended it is known
  CHECK(tape.id_of(elsewhere) == -1);
  CHECK(other.id_of(elsewhere) >= 0);
  CHECK(other.operations().size() == 1);
}

TEST_CASE("operations is empty on a spent tape, and full on a persistent one", "[tape]") {
  const Tensor x = {1.0f, 2.0f};
  for (const bool persistent : {false, true}) {
    GradientTape tape{{.persistent = persistent}};
    CHECK(tape.operations().empty());
    tape.watch(x);
    const Tensor y = sum(x * x);
    CHECK(tape.operations().size() == 2);
    tape.gradient(y, x);
    CHECK(tape.operations().size() == (persistent ? 2u : 0u));
    tape.reset();
    CHECK(tape.operations().empty());
  }
}

TEST_CASE("operations and id_of are errors on tapes of others, moved ones, and for undefined tensors", "[tape]") {
  GradientTape tape;
  CHECK_THROWS_AS(tape.id_of(Tensor()), Error);
  std::string text;
  std::thread([&] { text = message_of<TapeError>([&] { tape.operations(); }); }).join();
  CHECK(text.find("GradientTape::operations: the tape was made on another thread") == 0);
  const GradientTape moved = std::move(tape);
  CHECK_THROWS_AS(tape.operations(), TapeError);  // NOLINT: what is moved from says so
  CHECK(moved.operations().empty());
}
