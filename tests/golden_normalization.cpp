// Layers that normalize against PyTorch.
#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

/// An argument by its position or its name.
template <class T>
T argument(const GoldenCall& c, std::size_t position, const std::string& key, T otherwise) {
  if (position < c.count()) return c.arg(position).is_null() ? otherwise : c.arg(position).get<T>();
  return c.option(key, otherwise);
}
/// The same for a tensor, which may be missing.
Tensor tensor_argument(const GoldenCall& c, std::size_t position, const std::string& key) {
  if (position < c.count()) return c.is_tensor(position) ? c.tensor(position) : Tensor();
  return c.has(key) && !c.option(key).is_null() ? c.tensor_option(key) : Tensor();
}

Tensors batch_norm_case(const GoldenCall& c) {
  const Tensor weight = tensor_argument(c, 3, "weight"), bias = tensor_argument(c, 4, "bias");
  const double epsilon = argument(c, 7, "eps", 1e-5);
  if (argument(c, 5, "training", false)) return {batch_norm_training(c.tensor(0), weight, bias, epsilon).output};
  const Tensor mean = tensor_argument(c, 1, "running_mean"), variance = tensor_argument(c, 2, "running_var");
  return {batch_norm(c.tensor(0), mean, variance, weight, bias, epsilon)};
}

Tensors instance_norm_case(const GoldenCall& c) {
  const Tensor weight = tensor_argument(c, 3, "weight"), bias = tensor_argument(c, 4, "bias");
  const double epsilon = argument(c, 7, "eps", 1e-5);
  if (argument(c, 5, "use_input_stats", true)) return {instance_norm(c.tensor(0), weight, bias, epsilon)};
  const Tensor mean = tensor_argument(c, 1, "running_mean"), variance = tensor_argument(c, 2, "running_var");
  return {batch_norm(c.tensor(0), mean, variance, weight, bias, epsilon)};
}

const GoldenOps ops = {
    {"batch_norm", batch_norm_case},
    {"instance_norm", instance_norm_case},
    {"group_norm",
     [](const GoldenCall& c) {
       const std::int64_t groups = argument(c, 1, "num_groups", std::int64_t{1});
       return Tensors{group_norm(c.tensor(0), groups, tensor_argument(c, 2, "weight"), tensor_argument(c, 3, "bias"),
                                 argument(c, 4, "eps", 1e-5))};
     }},
    {"layer_norm",
     [](const GoldenCall& c) {
       const Json& sizes = c.count() > 1 ? c.arg(1) : c.option("normalized_shape");
       return Tensors{layer_norm(c.tensor(0), shape_of(sizes, 1), tensor_argument(c, 2, "weight"),
                                 tensor_argument(c, 3, "bias"), argument(c, 4, "eps", 1e-5))};
     }},
    {"local_response_norm",
     [](const GoldenCall& c) {
       const ResponseNormOptions options{
           .alpha = argument(c, 2, "alpha", 1e-4), .beta = argument(c, 3, "beta", 0.75), .k = argument(c, 4, "k", 1.0)};
       return Tensors{local_response_norm(c.tensor(0), argument(c, 1, "size", std::int64_t{1}), options)};
     }},
};

}  // namespace

TEST_CASE("layers that normalize give PyTorch's values and gradients", "[golden]") {
  run_goldens("layers that normalize",
              {"batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm"}, ops);
}

TEST_CASE("batch normalization moves running statistics as PyTorch does", "[golden][nn]") {
  if (golden_folder().empty()) return;
  const GoldenFile file = open_golden("batch_norm");
  int moved = 0;
  for (const Json& spec : file.cases()) {
    if (!spec.contains("after")) continue;
    INFO(spec.at("id").get<std::string>());
    const Json& args = spec.at("args");
    const auto name = [&](std::size_t i) { return args.at(i).at("t").get<std::string>(); };
    const auto after = [&](std::size_t i) {
      return file.tensor(spec.at("after").at(name(i)).get<std::string>(), DType::float64);
    };
    const Tensor x = file.tensor(name(0), DType::float64);
    nn::BatchNorm layer{{.channels = x.size(1),
                         .epsilon = args.at(7).get<double>(),
                         .momentum = args.at(6).get<double>(),
                         .dtype = DType::float64}};
    layer.running_mean.assign(file.tensor(name(1), DType::float64));
    layer.running_var.assign(file.tensor(name(2), DType::float64));
    layer(x);
    CHECK(close(layer.running_mean, after(1), tolerance::golden64));
    CHECK(close(layer.running_var, after(2), tolerance::golden64));
    CHECK(layer.num_batches_tracked.item<std::int64_t>() == 1);
    ++moved;
  }
  CHECK(moved > 0);
}
