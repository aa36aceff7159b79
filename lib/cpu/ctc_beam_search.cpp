// Prefix beam search over connectionist temporal classification (Graves 2012, 7.5; Hannun et al. 2014).
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/along.hpp"

namespace capstan::on_cpu {
namespace {

constexpr double kLogZero = -std::numeric_limits<double>::infinity();
constexpr double kMostLog = 1e30;  // larger ones, and NaN, are no logarithms of anything

double log_add(double a, double b) {
  if (a < b) std::swap(a, b);
  return b == kLogZero ? a : a + std::log1p(std::exp(b - a));
}

/// Labels: those of the parent and one more. The first node has none.
struct Node {
  std::int64_t parent, token;
  std::int64_t beam;  // where it stands among the beams, or -1
};

/// Labels that are followed, and the log-probabilities of their paths that end with a blank, with a label, and of both.
struct Beam {
  std::int64_t node;
  double blank, label, total;
};

/// What may be followed next: a node with one more token, or with none if that is -1.
struct Candidate {
  std::int64_t node, token;
  double blank, label, total;
  std::int64_t order;
};
bool better(const Candidate& a, const Candidate& b) {
  return a.total > b.total || (a.total == b.total && a.order < b.order);
}

/// How much room a search needs, and where in it each part begins. All parts are of 8-byte elements.
struct Room {
  std::int64_t classes, width, nodes, slots;

  explicit Room(const core::CtcDecodeTask& task) : classes(task.x.shape[2]), width(1) {
    std::int64_t steps = 0;
    for (std::int64_t b = 0; b < task.x.shape[0]; ++b) steps = std::max(steps, task.steps.as<std::int64_t>()[b]);
    // no more than there are lists of up to `steps` labels
    double lists = 1, longest = 1;
    for (std::int64_t t = 0; t < steps && lists < static_cast<double>(task.beams); ++t) {
      longest *= static_cast<double>(classes - 1);
      lists += longest;
    }
    width = lists < static_cast<double>(task.beams) ? static_cast<std::int64_t>(lists) : task.beams;
    nodes = steps * width + 1;
    slots = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(2 * nodes)));
  }
  /// No more than 2^50, which no machine has: a view may have so many classes that integers overflow.
  std::int64_t bytes() const {
    const auto of = [](std::int64_t count, std::size_t size) {
      return static_cast<double>(count) * static_cast<double>(size);
    };
    const double all = of(nodes, sizeof(Node)) + of(width, sizeof(Beam) + sizeof(Candidate)) +
                       of(slots, sizeof(std::int64_t)) + of(classes, sizeof(std::int64_t) + sizeof(double));
    return static_cast<std::int64_t>(std::min(all, 0x1p50));
  }
};

/// The search through one sequence after another, in memory of its own.
class Search {
 public:
  Search(const Room& room, std::int64_t blank, std::byte* memory)
      : classes_(room.classes), width_(room.width), slots_(room.slots), blank_(blank) {
    nodes_ = part<Node>(memory, room.nodes);
    beams_ = part<Beam>(memory, room.width);
    heap_ = part<Candidate>(memory, room.width);
    table_ = part<std::int64_t>(memory, room.slots);
    order_ = part<std::int64_t>(memory, room.classes);
    logs_ = part<double>(memory, room.classes);
  }

  void begin() {
    std::fill(table_, table_ + slots_, std::int64_t{-1});
    nodes_[0] = {-1, -1, -1};
    node_count_ = 1;
    beams_[0] = {0, 0, kLogZero, 0};
    beam_count_ = 1;
    std::int64_t at = 0;
    for (std::int64_t c = 0; c < classes_; ++c)
      if (c != blank_) order_[at++] = c;
  }

  template <class T>
  void step(const T* x, std::int64_t stride) {
    for (std::int64_t c = 0; c < classes_; ++c) {
      const auto value = static_cast<double>(x[c * stride]);
      logs_[c] = value <= kMostLog ? value : kLogZero;
    }
    // of one beam at most `width` longer ones stay, and one of its classes repeats its last label
    const std::int64_t others = classes_ - 1, count = std::min(others, width_ + 1);
    std::partial_sort(order_, order_ + count, order_ + others, [this](std::int64_t a, std::int64_t b) {
      return logs_[a] > logs_[b] || (logs_[a] == logs_[b] && a < b);
    });
    offered_ = heap_count_ = 0;
    for (std::int64_t k = 0; k < beam_count_; ++k) nodes_[beams_[k].node].beam = k;
    for (std::int64_t k = 0; k < beam_count_; ++k) offer_same(beams_[k]);
    for (std::int64_t k = 0; k < beam_count_; ++k) offer_longer(beams_[k], count);
    for (std::int64_t k = 0; k < beam_count_; ++k) nodes_[beams_[k].node].beam = -1;
    choose();
  }

  std::int64_t beam_count() const { return beam_count_; }
  double total(std::int64_t k) const { return beams_[k].total; }
  /// The labels of a beam, and how many they are.
  std::int64_t read(std::int64_t k, std::int64_t* to) const {
    std::int64_t count = 0;
    for (std::int64_t n = beams_[k].node; n != 0; n = nodes_[n].parent) to[count++] = nodes_[n].token;
    std::reverse(to, to + count);
    return count;
  }

 private:
  template <class P>
  static P* part(std::byte*& memory, std::int64_t count) {
    auto* const begin = reinterpret_cast<P*>(memory);
    memory += count * static_cast<std::int64_t>(sizeof(P));
    return begin;
  }

  /// Log-probability of the beam's paths that this label makes longer by one.
  double longer(const Beam& beam, std::int64_t token) const {
    return (nodes_[beam.node].token == token ? beam.blank : beam.total) + logs_[token];
  }

  /// The same labels after a blank, after the last one again, or reached from the beam that has all but the last.
  void offer_same(const Beam& beam) {
    const Node& node = nodes_[beam.node];
    const double blank = beam.total + logs_[blank_];
    double label = kLogZero;
    if (node.token >= 0) {
      label = beam.label + logs_[node.token];
      const std::int64_t shorter = nodes_[node.parent].beam;
      if (shorter >= 0) label = log_add(label, longer(beams_[shorter], node.token));
    }
    offer({beam.node, -1, blank, label, log_add(blank, label), offered_++});
  }

  void offer_longer(const Beam& beam, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t token = order_[i];
      if (heap_count_ == width_ && beam.total + logs_[token] <= heap_[0].total) return;  // nor do those behind it
      const std::int64_t known = find(beam.node, token);
      if (known >= 0 && nodes_[known].beam >= 0) continue;  // offered as itself
      const double label = longer(beam, token);
      offer({beam.node, token, kLogZero, label, label, offered_++});
    }
  }

  /// Keeps it if it is among the best; the worst of those stands in front.
  void offer(const Candidate& candidate) {
    if (candidate.total == kLogZero) return;
    if (heap_count_ == width_) {
      if (!better(candidate, heap_[0])) return;
      std::pop_heap(heap_, heap_ + heap_count_, &better);
      --heap_count_;
    }
    heap_[heap_count_++] = candidate;
    std::push_heap(heap_, heap_ + heap_count_, &better);
  }

  void choose() {
    std::sort(heap_, heap_ + heap_count_, &better);
    beam_count_ = heap_count_;
    for (std::int64_t k = 0; k < beam_count_; ++k) {
      const Candidate& c = heap_[k];
      beams_[k] = {c.token < 0 ? c.node : child(c.node, c.token), c.blank, c.label, c.total};
    }
  }

  // Nodes by their parents and tokens: the same labels are one node, though they were dropped in between.
  std::int64_t slot_of(std::int64_t parent, std::int64_t token) const {
    std::uint64_t bits = static_cast<std::uint64_t>(parent) * 0x9E3779B97F4A7C15u;
    bits = (bits ^ (bits >> 32) ^ static_cast<std::uint64_t>(token)) * 0xD6E8FEB86659FD93u;
    const auto mask = static_cast<std::uint64_t>(slots_ - 1);
    auto slot = static_cast<std::int64_t>((bits ^ (bits >> 32)) & mask);
    while (table_[slot] >= 0 && (nodes_[table_[slot]].parent != parent || nodes_[table_[slot]].token != token))
      slot = (slot + 1) & (slots_ - 1);
    return slot;
  }
  std::int64_t find(std::int64_t parent, std::int64_t token) const { return table_[slot_of(parent, token)]; }
  std::int64_t child(std::int64_t parent, std::int64_t token) {
    std::int64_t& found = table_[slot_of(parent, token)];
    if (found < 0) {
      found = node_count_++;
      nodes_[found] = {parent, token, -1};
    }
    return found;
  }

  std::int64_t classes_, width_, slots_, blank_;
  Node* nodes_;
  Beam* beams_;
  Candidate* heap_;
  std::int64_t *table_, *order_;  // order_: the classes but the blank, the most probable ones first
  double* logs_;
  std::int64_t node_count_ = 0, beam_count_ = 0, heap_count_ = 0, offered_ = 0;
};

}  // namespace

void ctc_beam_search(const core::CtcDecodeTask& task, TensorImpl& tokens, TensorImpl& lengths, TensorImpl& scores) {
  const TensorImpl& x = task.x;
  const std::int64_t paths = lengths.shape[1], time = x.shape[1];
  if (x.shape[0] == 0) return;
  const Room room(task);
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    for_lanes(x.shape[0], 1, room.bytes(), [&](std::byte* memory, std::int64_t begin, std::int64_t end) {
      Search search(room, task.blank, memory);
      for (std::int64_t b = begin; b < end; ++b) {
        search.begin();
        const T* const from = x.as<T>() + b * x.strides[0];
        for (std::int64_t t = 0; t < task.steps.as<std::int64_t>()[b]; ++t)
          search.step(from + t * x.strides[1], x.strides[2]);
        for (std::int64_t k = 0; k < paths; ++k) {
          const std::int64_t place = b * paths + k;
          const bool found = k < search.beam_count();
          auto* const to = tokens.as<std::int64_t>() + place * time;
          const std::int64_t count = found ? search.read(k, to) : 0;
          std::fill(to + count, to + time, std::int64_t{-1});
          lengths.as<std::int64_t>()[place] = count;
          scores.as<T>()[place] = static_cast<T>(found ? search.total(k) : kLogZero);
        }
      }
    });
  });
}

}  // namespace capstan::on_cpu
