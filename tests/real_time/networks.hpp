#pragma once
// The networks that real_time_test makes plans of, from one neuron to layers whose eager form uses all threads.
#include <utility>

#include <capstan/capstan.hpp>

namespace tests {

namespace cs = capstan;

struct Mlp {
  cs::nn::Linear hidden, out;
  Mlp(std::int64_t inputs, std::int64_t units, std::int64_t outputs) : hidden(inputs, units), out(units, outputs) {}
  cs::Tensor operator()(const cs::Tensor& x) const { return out(cs::tanh(hidden(x))); }
};

/// Images [batch, 3, 64, 64] -> scores of ten classes.
struct Images {
  cs::nn::Conv2d first{{.in = 3, .out = 16, .kernel = 3, .padding = cs::nn::same}};
  cs::nn::BatchNorm2d norm{{.channels = 16}};
  cs::nn::Conv2d second{{.in = 16, .out = 32, .kernel = 3, .stride = 2}};
  cs::nn::Linear out{32 * 7 * 7, 10};

  Images() { norm.set_training(false); }
  cs::Tensor operator()(const cs::Tensor& x) {
    const cs::Tensor seen = cs::max_pool2d(cs::relu(norm(first(x))), 2);
    return out(cs::flatten(cs::avg_pool2d(cs::relu(second(seen)), 2), 1));
  }
};

/// Convolutions by minimal filtering over [batch, 16, 32, 32], forwards and the gradient's way.
struct Filtered {
  cs::nn::Conv2d out{{.in = 16, .out = 32, .kernel = 3, .padding = cs::nn::same}};
  cs::nn::ConvTranspose2d back{{.in = 32, .out = 32, .kernel = 3}};
  cs::Tensor operator()(const cs::Tensor& x) const { return back(out(x)); }
};

/// Convolutions of the other kinds over [batch, 8, 16, 16].
struct OddConvolutions {
  cs::nn::DepthwiseConv2d depthwise{{.in = 8, .kernel = 3, .padding = cs::nn::same}};
  cs::nn::Conv2d grouped{{.in = 8, .out = 8, .kernel = 3, .dilation = 2, .groups = 4}};
  cs::nn::ConvTranspose2d transposed{{.in = 8, .out = 4, .kernel = 4, .stride = 2}};
  cs::Tensor operator()(const cs::Tensor& x) const { return transposed(cs::elu(grouped(depthwise(x)))); }
};

/// Windows that do not overlap: patches, which are copied side by side, and back; over [batch, 3, 32, 32].
struct Patches {
  cs::nn::Conv2d patches{{.in = 3, .out = 256, .kernel = 4, .stride = 4}};
  cs::nn::ConvTranspose2d back{{.in = 256, .out = 8, .kernel = 2, .stride = 2}};
  cs::Tensor operator()(const cs::Tensor& x) const { return back(cs::relu(patches(x))); }
};

/// Every norm, over [batch, 8, 16].
struct Norms {
  cs::nn::LayerNorm layer{{.sizes = {16}}};
  cs::nn::RmsNorm square{{.sizes = {16}}};
  cs::Tensor operator()(const cs::Tensor& x) const {
    return cs::instance_norm(cs::group_norm(square(layer(x)), 2)) + cs::normalize(x);
  }
};

/// A recurrent layer, without its states.
template <class Layer>
struct Outputs {
  Layer layer;
  cs::Tensor operator()(const cs::Tensor& x) const { return layer(x).outputs; }
};
template <class Layer>
Outputs(Layer) -> Outputs<Layer>;

/// A causal transformer layer with positions.
struct Causal {
  cs::nn::TransformerEncoderLayer layer{{.embed = 64, .heads = 4, .feed_forward = 128}};
  Causal() { layer.set_training(false); }
  cs::Tensor operator()(const cs::Tensor& x) const {
    return layer(x + cs::sinusoidal_positions(x.size(1), 64), {.causal = true});
  }
};

/// The mean of the rows that indices [batch, length] name, and scores.
struct Words {
  cs::nn::Embedding table{100, 32};
  cs::nn::Linear out{32, 5};
  cs::Tensor operator()(const cs::Tensor& indices) const { return cs::softmax(out(cs::mean(table(indices), 1))); }
};

/// What sorts, looks up and adds up, over [rows, columns].
struct Orders {
  std::pair<cs::Tensor, cs::Tensor> operator()(const cs::Tensor& x) const {
    const cs::Tensor sorted = cs::take_along_axis(x, cs::argsort(x));
    return {cs::cumsum(sorted, 1), cs::topk(x, 3).values * cs::gather(x, cs::argmax(x, 0))[0][0]};
  }
};

/// Reductions large enough for all threads, over [rows, columns].
struct Reductions {
  cs::Tensor operator()(const cs::Tensor& x) const {
    return cs::einsum("ij,j->i", {cs::softmax(x), cs::sum(cs::exp(x), 0)}) + cs::logsumexp(x, 1);
  }
};

/// A network that writes to a tensor of its own: a running mean.
struct Running {
  cs::Tensor mean = cs::zeros({256});
  cs::Tensor operator()(const cs::Tensor& x) {
    mean.assign(mean * 0.9f + x * 0.1f);
    return cs::where(x > mean, x, 0);
  }
};

}  // namespace tests
