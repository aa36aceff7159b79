// Sources whose elements are known by their number, and those that can only be walked.
#include <capstan/data/sources.hpp>

#include <algorithm>

#include "data/fail.hpp"
#include "data/stage.hpp"

namespace capstan::data {
namespace detail {
namespace {

class Indexed : public Stage {
 public:
  Indexed(std::int64_t size, ItemAt at, bool draws)
      : size_(size), at_(std::move(at)), draws_(draws), seed_(draws ? drawn_seed() : 0) {}

  std::unique_ptr<Cursor> open(const Pass& pass) const override { return std::make_unique<At>(*this, pass); }
  std::int64_t size() const override { return size_; }
  std::string name() const override { return draws_ ? "generate" : "from"; }
  const std::uint64_t* seed() const noexcept override { return draws_ ? &seed_ : nullptr; }

 private:
  class At : public Cursor {
   public:
    At(const Indexed& stage, const Pass& pass)
        : stage_(stage), pass_(pass), seed_(stage.draws_ ? stage.seed_in(pass) : 0) {}
    bool next(Item& item) override {
      if (position_ >= stage_.size_) return false;
      item = at(position_);
      ++position_;
      return true;
    }
    std::int64_t position() const override { return position_; }
    Item at(std::int64_t position) const override {
      if (!stage_.draws_) return stage_.at_(position);
      const ElementRng rng(seed_, pass_, position);
      try {
        return stage_.at_(position);
      } catch (...) { rethrow_at("generate", position); }
    }
    std::int64_t skip(std::int64_t count) override {
      const std::int64_t passed = std::min(count, stage_.size_ - position_);
      position_ += passed;
      return passed;
    }
    void save(State& state) const override { state.push_back(position_); }
    void load(StateReader& state) override { position_ = state.take(0, stage_.size_); }

   private:
    const Indexed& stage_;
    Pass pass_;
    std::uint64_t seed_;
    std::int64_t position_ = 0;
  };

  std::int64_t size_;
  ItemAt at_;
  bool draws_;
  std::uint64_t seed_;
};

class Walked : public Stage {
 public:
  explicit Walked(Callback<Producer()> make) : make_(std::move(make)), seed_(drawn_seed()) {}

  std::unique_ptr<Cursor> open(const Pass& pass) const override { return std::make_unique<Walk>(*this, pass); }
  std::int64_t size() const override { return kUnknownSize; }
  std::string name() const override { return "generator"; }
  const std::uint64_t* seed() const noexcept override { return &seed_; }

 private:
  class Walk : public Cursor {
   public:
    Walk(const Walked& stage, const Pass& pass) : stage_(stage), pass_(pass), seed_(stage.seed_in(pass)) {}
    bool next(Item& item) override {
      if (ended_) return false;
      const ElementRng rng(seed_, pass_, position_);
      try {
        if (!produce_) produce_ = stage_.make_();
        ended_ = !produce_(item);
      } catch (...) { rethrow_at("generator", position_); }
      position_ += !ended_;
      return !ended_;
    }
    void save(State& state) const override { state.push_back(position_); }
    void load(StateReader& state) override { skip(state.take()); }

   private:
    const Walked& stage_;
    Pass pass_;
    std::uint64_t seed_;
    Producer produce_;
    std::int64_t position_ = 0;
    bool ended_ = false;
  };

  Callback<Producer()> make_;
  std::uint64_t seed_;
};

}  // namespace

StageRef indexed(std::int64_t size, ItemAt at) { return make_stage<Indexed>(size, std::move(at), false); }
StageRef generated(std::int64_t size, ItemAt at, Where where) {
  if (size < 0) fail<ShapeError>(where, "generate: count is ", size, "; it must be 0 or more.");
  return make_stage<Indexed>(size, std::move(at), true);
}
StageRef walked(Callback<Producer()> make) { return make_stage<Walked>(std::move(make)); }

}  // namespace detail

Pipeline<std::pair<Tensor, Tensor>> from(std::pair<Tensor, Tensor> tensors, Where where) {
  const std::int64_t rows =
      detail::rows_of(tensors.second, detail::rows_of(tensors.first, detail::kUnknownRows, where), where);
  return Pipeline<std::pair<Tensor, Tensor>>(detail::indexed(rows, [tensors = std::move(tensors)](std::int64_t i) {
    return detail::Item::of(std::pair(detail::row(tensors.first, i), detail::row(tensors.second, i)));
  }));
}

Pipeline<Tensor> from(const Tensor& x, Where where) {
  const std::int64_t rows = detail::rows_of(x, detail::kUnknownRows, where);
  return Pipeline<Tensor>(detail::indexed(rows, [x](std::int64_t i) { return detail::Item::of(detail::row(x, i)); }));
}

Pipeline<std::int64_t> range(std::int64_t count, Where where) {
  if (count < 0) fail<ShapeError>(where, "range: count is ", count, "; it must be 0 or more.");
  return Pipeline<std::int64_t>(detail::indexed(count, [](std::int64_t i) { return detail::Item::of(i); }));
}

}  // namespace capstan::data
