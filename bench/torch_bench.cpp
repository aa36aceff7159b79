// torch_bench: the rows of capstan_bench in LibTorch.
// TORCH_THREADS sets the threads of its kernels; BLAS reads its own variable, OPENBLAS_NUM_THREADS.
#include <torch/torch.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "bench/rows.hpp"

namespace bench {

constexpr std::int64_t kBatch = 1000, kSteps = 50, kUnits = 24, kClasses = 51;

/// Always the same numbers, uniform in [-2, 2).
torch::Tensor values(at::IntArrayRef shape, std::uint64_t seed = 1) {
  torch::manual_seed(seed);
  return torch::rand(shape) * 4 - 2;
}

/// The work of `prepare`, not recorded.
template <class Prepare>
auto unrecorded(Prepare prepare) {
  return [prepare] { return [work = prepare(), off = std::make_shared<torch::NoGradGuard>()] { return work(); }; };
}

/// Rows name_t1 and name_t2; "name/variant" gives name_t1/variant and name_t2/variant.
template <class Prepare>
void forward_rows(const std::string& name, Prepare prepare) {
  const std::size_t slash = std::min(name.find('/'), name.size());
  for (const std::string threads : {"_t1", "_t2"})
    row(name.substr(0, slash) + threads + name.substr(slash), unrecorded(prepare));
}

void add_row(std::int64_t n) {
  row("add_" + std::to_string(n),
      unrecorded([n] { return [a = values({n}, 1), b = values({n}, 2)] { return torch::add(a, b); }; }));
}

void matmul_rows(std::int64_t n) {
  forward_rows("matmul_" + std::to_string(n), [n] {
    return [a = values({n, n}, 1), b = values({n, n}, 2)] { return torch::mm(a, b); };
  });
}

/// int64, uniform in [0, high).
torch::Tensor indices(at::IntArrayRef shape, std::int64_t high) {
  torch::manual_seed(3);
  return torch::randint(high, shape, torch::kLong);
}

void index_rows() {
  forward_rows("gather_rows/index_select", [] {
    return [x = values({50000, 128}), i = indices({10000}, 50000)] { return x.index_select(0, i); };
  });
  forward_rows("gather_rows/embedding", [] {
    return [x = values({50000, 128}), i = indices({10000}, 50000)] { return torch::embedding(x, i); };
  });
  forward_rows("gather_elements", [] {
    return [x = values({1024, 1024}), i = indices({1024, 1024}, 1024)] { return x.gather(1, i); };
  });
  forward_rows("scatter_add_rows", [] {
    return [x = values({50000, 128}), i = indices({10000}, 50000), y = values({10000, 128}, 2)] {
      return x.index_add(0, i, y);
    };
  });
  forward_rows("scatter_add_elements", [] {
    return [x = values({1024, 1024}), i = indices({1024, 1024}, 1024), y = values({1024, 1024}, 2)] {
      return x.scatter_add(1, i, y);
    };
  });
  forward_rows("where", [] {
    return [x = values({1024, 1024}, 1), y = values({1024, 1024}, 2), c = values({1024, 1024}, 3) > 0] {
      return torch::where(c, x, y);
    };
  });
}

void order_rows() {
  forward_rows("sort_rows", [] { return [x = values({1024, 1024})] { return x.sort(-1); }; });
  forward_rows("sort_columns", [] { return [x = values({1024, 1024})] { return x.sort(0); }; });
  forward_rows("sort_long", [] { return [x = values({1 << 20})] { return x.sort(-1); }; });
  forward_rows("topk_rows", [] { return [x = values({1024, 1024})] { return x.topk(10); }; });
  forward_rows("topk_long", [] { return [x = values({1 << 20})] { return x.topk(100); }; });
  forward_rows("cumsum_rows", [] { return [x = values({1024, 1024})] { return x.cumsum(-1); }; });
  forward_rows("cumsum_columns", [] { return [x = values({1024, 1024})] { return x.cumsum(0); }; });
  forward_rows("cumsum_long", [] { return [x = values({1 << 20})] { return x.cumsum(-1); }; });
}

void product_rows() {
  forward_rows("batched_matmul_32", [] {
    return [a = values({256, 32, 32}, 1), b = values({256, 32, 32}, 2)] { return torch::bmm(a, b); };
  });
  forward_rows("batched_matmul_heads", [] {
    return [a = values({8, 12, 64, 64}, 1), b = values({8, 12, 64, 64}, 2)] { return torch::matmul(a, b); };
  });
  forward_rows("batched_matmul_broadcast", [] {
    return [a = values({64, 48, 64}, 1), b = values({64, 48}, 2)] { return torch::matmul(a, b); };
  });
  forward_rows("einsum_attention", [] {
    return [q = values({8, 128, 8, 64}, 1), k = values({8, 128, 8, 64}, 2)] {
      return torch::einsum("bqhd,bkhd->bhqk", {q, k});
    };
  });
  forward_rows("einsum_bilinear", [] {
    return [x = values({128, 64}, 1), w = values({64, 32, 64}, 2), y = values({128, 64}, 3)] {
      return torch::einsum("bi,ioj,bj->bo", {x, w, y});
    };
  });
}

void op_rows() {
  add_row(1);
  add_row(64);

  matmul_rows(256);
  matmul_rows(1024);

  forward_rows("exp", [] { return [x = values({1 << 20})] { return torch::exp(x); }; });
  forward_rows("tanh", [] { return [x = values({1 << 20})] { return torch::tanh(x); }; });
  forward_rows("sigmoid", [] { return [x = values({1 << 20})] { return torch::sigmoid(x); }; });

  forward_rows("softmax", [] { return [x = values({1024, 1024})] { return torch::softmax(x, -1); }; });
  forward_rows("sum_axis0", [] { return [x = values({1024, 1024})] { return x.sum(0); }; });
  forward_rows("sum_axis1", [] { return [x = values({1024, 1024})] { return x.sum(1); }; });
  forward_rows("sum_all", [] { return [x = values({1024, 1024})] { return x.sum(); }; });
  forward_rows("transposed_copy", [] { return [x = values({1024, 1024})] { return x.t().contiguous(); }; });
  index_rows();
  order_rows();
  product_rows();
}

/// 32 multiplications of 64 numbers and a sum, recorded.
struct Chain {
  torch::Tensor x = values({64}, 1).mul_(0.05).add_(1).requires_grad_();
  torch::Tensor w = values({64}, 2).mul_(0.05).add_(1);

  torch::Tensor operator()() const {
    torch::Tensor y = x;
    for (int i = 0; i < 32; ++i) y = y * w;
    return y.sum();
  }
};

struct LayerNet : torch::nn::Module {
  torch::nn::RNN rnn = register_module(
      "rnn", torch::nn::RNN(torch::nn::RNNOptions(1, kUnits).nonlinearity(torch::kReLU).batch_first(true)));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(kUnits, kClasses));

  torch::Tensor operator()(const torch::Tensor& bits) {
    const torch::Tensor last = std::get<1>(rnn->forward(bits));  // [1, batch, units]
    return out->forward(last[0]);
  }
};

struct HandNet : torch::nn::Module {
  torch::Tensor wx = register_parameter("wx", values({1, kUnits}, 1) * 0.1);
  torch::Tensor wh = register_parameter("wh", values({kUnits, kUnits}, 2) * 0.1);
  torch::Tensor b = register_parameter("b", torch::zeros({kUnits}));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(kUnits, kClasses));
};

/// Two products a step.
struct StepNet : HandNet {
  torch::Tensor operator()(const torch::Tensor& bits) {
    torch::Tensor h = torch::zeros({kBatch, kUnits});
    for (const torch::Tensor& bit : bits.unbind(1)) h = torch::relu(torch::addmm(torch::addmm(b, bit, wx), h, wh));
    return out->forward(h);
  }
};

/// The input's product for all steps at once, and one product a step.
struct HoistedNet : HandNet {
  torch::Tensor operator()(const torch::Tensor& bits) {
    const torch::Tensor by_time = bits.transpose(0, 1).reshape({kSteps * kBatch, 1});
    const torch::Tensor inputs = torch::addmm(b, by_time, wx).view({kSteps, kBatch, kUnits});
    torch::Tensor h = torch::zeros({kBatch, kUnits});
    for (const torch::Tensor& input : inputs.unbind(0)) h = torch::relu(torch::addmm(input, h, wh));
    return out->forward(h);
  }
};

/// One step of Adam on a fixed batch.
template <class Net>
struct TrainingStep {
  Net net;
  torch::optim::Adam adam{net.parameters(), torch::optim::AdamOptions(1e-3)};
  torch::Tensor bits = (values({kBatch, kSteps, 1}) > 0).to(torch::kFloat);
  torch::Tensor counts = bits.view({kBatch, kSteps}).sum(1).to(torch::kLong);

  void operator()() {
    adam.zero_grad();
    torch::cross_entropy_loss(net(bits), counts).backward();
    adam.step();
  }
};

void training_rows() {
  row("chain_32_backward/grad",
      [] { return [chain = Chain()] { return torch::autograd::grad({chain()}, {chain.x})[0]; }; });
  row("chain_32_backward/backward", [] {
    return [chain = Chain()] {
      chain.x.mutable_grad() = torch::Tensor();
      chain().backward();
    };
  });
  row("parity_step/layer", [] { return TrainingStep<LayerNet>(); });
  row("parity_step/hoisted", [] { return TrainingStep<HoistedNet>(); });
  row("parity_step_hand/steps", [] { return TrainingStep<StepNet>(); });
  row("parity_step_hand/hoisted", [] { return TrainingStep<HoistedNet>(); });
  for (const std::string suffix : {"_t1", "_t2"}) {
    row("parity_step" + suffix + "/layer", [] { return TrainingStep<LayerNet>(); });
    row("parity_step" + suffix + "/hoisted", [] { return TrainingStep<HoistedNet>(); });
  }
}

}  // namespace bench

int main(int argc, char** argv) {
  if (const char* threads = std::getenv("TORCH_THREADS")) at::set_num_threads(std::atoi(threads));
  bench::op_rows();
  bench::layer_rows();
  bench::recurrent_rows();
  bench::training_rows();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
