#pragma once
// The operations that ran in a model, as a summary takes them down.
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include <capstan/debug.hpp>
#include <capstan/nn/outline.hpp>

namespace capstan::nn::detail {

/// An operation that ran.
struct Step {
  const char* name;
  Where where;
  std::vector<std::size_t> leaves = {};                           // among its operands
  std::vector<std::pair<std::size_t, std::size_t>> sources = {};  // the steps that made the others, and which result
  Shape output = {};
  std::int64_t operations = 0, bytes = 0;
  std::size_t part = kNoPart;      // whose parameters it uses
  std::size_t target = kNoPart;    // the module that it belongs to
  std::size_t previous = kNoPart;  // the module whose parameters were used before it
  std::size_t results = 0;
  bool in_call = false;  // of something that has parameters
  bool view = false, changes_buffer = false, alive = true;
};

/// Takes down operations as they run.
class Recorder {
 public:
  explicit Recorder(const Outline& outline);
  void see(const debug::Operation& op);

  std::vector<Step> steps;

 private:
  struct StandIn {
    Tensor tensor;  // held, so that its address stays its own
    std::size_t leaf;
  };

  bool was_made(const debug::Operation& op) const;
  std::size_t leaf_of(const Tensor& x) const;
  bool add_operand(Step& step, const Tensor& input) const;
  std::size_t part_of(const std::vector<std::size_t>& used) const;
  void add_results(Step& step, const debug::Operation& op) const;
  void forget(const debug::Operation& op);
  void stand_for(std::size_t leaf, const debug::Operation& op);

  const Outline& outline_;
  std::unordered_map<const TensorImpl*, std::size_t> leaves_;
  std::unordered_map<const TensorImpl*, StandIn> stand_ins_;
  std::unordered_map<const TensorImpl*, std::pair<std::size_t, std::size_t>> made_;  // step, number of the result
};

/// Removes what nobody but a buffer gets to see. After it `sources` mean nothing.
void remove_bookkeeping(std::vector<Step>& steps);

}  // namespace capstan::nn::detail
