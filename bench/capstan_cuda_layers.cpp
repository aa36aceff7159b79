// Layers on a GPU, forward alone and with their gradients, and a step of Adam.
#include <memory>

#include "bench/cuda_rows.hpp"

namespace cs = capstan;

namespace bench {
namespace {

using Tensors = std::vector<cs::Tensor>;

/// What a layer is given, and what its rows cost: the forward pass, and with the gradients.
struct Work {
  std::vector<cs::Shape> shapes = {};
  Cost forward = {}, both = {};
};

double bytes_of(const cs::Shape& shape) { return 4 * static_cast<double>(shape.numel()); }

Tensors inputs_of(const std::vector<cs::Shape>& shapes) {
  Tensors inputs;
  for (const cs::Shape& shape : shapes) inputs.push_back(values(shape, inputs.size() + 1));
  return inputs;
}

/// The row name_forward, not recorded, and the rows of the name with the gradients for all inputs.
template <class WorkOf, class Function>
void work_rows(Bench& bench, const std::string& name, const Growing& workload, WorkOf work_of, Function function) {
  const Work unrecorded = work_of(workload.base);
  bench.row(name + "_forward", unrecorded.forward,
            [&] { return [inputs = inputs_of(unrecorded.shapes), function] { function(inputs); }; });
  each_size(name, workload, [&](const std::string& row, const Sizes& sizes) {
    const Work work = work_of(sizes);
    bench.row(row, work.both, [&] {
      Tensors inputs = inputs_of(work.shapes);
      const cs::Tensor grad = values(function(inputs).shape(), 9);
      return [inputs, grad, function] {
        cs::GradientTape tape;
        for (const cs::Tensor& input : inputs) tape.watch(input);
        tape.gradient(function(inputs), inputs, {.output_gradient = grad});
      };
    });
  });
}

// --- normalization -----------------------------------------------------------------------------------------------

cs::Tensor softmax(const Tensors& in) { return cs::softmax(in[0]); }
cs::Tensor layer_norm(const Tensors& in) { return cs::layer_norm(in[0], 1, in[1], in[2]); }
cs::Tensor batch_norm(const Tensors& in) { return cs::batch_norm_training(in[0], in[1], in[2]).output; }

/// x, and weights and biases where there are any. With `twice`, x is read for the statistics before all else, and it
/// and the output's gradient for sums before x's gradient.
Work normalizing(const cs::Shape& x, std::int64_t weights, bool twice) {
  Work work{.shapes = {x}};
  if (weights > 0) work.shapes.insert(work.shapes.end(), 2, cs::Shape{weights});
  const double bytes = bytes_of(x);
  work.forward.bytes = (twice ? 3 : 2) * bytes;  // x and the output
  work.both.bytes = (twice ? 8 : 5) * bytes;     // and the output's gradient, one tensor of x's size, x's gradient
  return work;
}

void normalizing_rows(Bench& bench) {
  const Growing widths{{.batch = 8192, .width = 4096}, {{"width", &Sizes::width, 128, 16384}}};
  const Growing batches{{.batch = 8192, .width = 4096}, {{"batch", &Sizes::batch, 128, 32768}}};
  const auto plain = [](const Sizes& s) { return normalizing({s.batch, s.width}, 0, false); };
  const auto weighted = [](const Sizes& s) { return normalizing({s.batch, s.width}, s.width, false); };
  const auto twice = [](const Sizes& s) { return normalizing({s.batch, s.width}, s.width, true); };
  work_rows(bench, "softmax", widths, plain, softmax);
  work_rows(bench, "layer_norm", widths, weighted, layer_norm);
  work_rows(bench, "batch_norm", batches, twice, batch_norm);

  const Growing images = along_batch(32, 4, 256);
  const auto columns = [](const Sizes& s) { return normalizing({s.batch, 64, 56, 56}, 0, false); };
  const auto weighted_columns = [](const Sizes& s) { return normalizing({s.batch, 64, 56, 56}, 56, false); };
  const auto channels = [](const Sizes& s) { return normalizing({s.batch, 64, 56, 56}, 64, true); };
  work_rows(bench, "softmax_images", images, columns, softmax);
  work_rows(bench, "layer_norm_images", images, weighted_columns, layer_norm);
  work_rows(bench, "batch_norm_images", images, channels, batch_norm);
}

// --- windows -----------------------------------------------------------------------------------------------------

/// Square kernels over images of `in` channels that keep their size.
Work convolution(std::int64_t batch, std::int64_t in, std::int64_t out, std::int64_t image, std::int64_t kernel) {
  Work work{.shapes = {{batch, in, image, image}, {out, in, kernel, kernel}, {out}}};
  work.forward.flops = 2 * static_cast<double>(batch * out * image * image) * static_cast<double>(in * kernel * kernel);
  work.both.flops = 3 * work.forward.flops;
  return work;
}

Work conv3x3_work(const Sizes& sizes) { return convolution(sizes.batch, sizes.width, sizes.width, 56, 3); }
Work conv5x5_work(const Sizes& sizes) { return convolution(sizes.batch, 32, 64, 28, 5); }

void convolution_rows(Bench& bench) {
  const auto conv3x3 = [](const Tensors& in) { return cs::conv2d(in[0], in[1], in[2], {.padding = 1}); };
  const auto conv5x5 = [](const Tensors& in) { return cs::conv2d(in[0], in[1], in[2], {.padding = 2}); };
  const Growing sizes3{{.batch = 32, .width = 64},
                       {{"batch", &Sizes::batch, 4, 256}, {"width", &Sizes::width, 16, 256}}};
  const Growing sizes5 = along_batch(50, 5, 400);
  work_rows(bench, "conv3x3", sizes3, conv3x3_work, conv3x3);
  work_rows(bench, "conv5x5", sizes5, conv5x5_work, conv5x5);
  cs::cuda::allow_tf32(true);
  work_rows(bench, "conv3x3_tf32", without_growth(sizes3), conv3x3_work, conv3x3);
  work_rows(bench, "conv5x5_tf32", without_growth(sizes5), conv5x5_work, conv5x5);
  cs::cuda::allow_tf32(false);
}

void window_rows(Bench& bench) {
  const auto depthwise = [](const Sizes& sizes) {
    Work work{.shapes = {{sizes.batch, 128, 56, 56}, {128, 1, 3, 3}, {128}}};
    const double bytes = bytes_of(work.shapes[0]);
    work.forward.bytes = 2 * bytes;
    work.both.bytes = 5 * bytes;  // the output's gradient, x once more, and x's gradient
    return work;
  };
  work_rows(bench, "depthwise", along_batch(16, 2, 128), depthwise,
            [](const Tensors& in) { return cs::depthwise_conv2d(in[0], in[1], in[2], {.padding = 1}); });
  const auto pooling = [](const Sizes& sizes) {
    Work work{.shapes = {cs::Shape{sizes.batch, 64, 28, 28}}};
    const double bytes = bytes_of(work.shapes[0]);
    work.forward.bytes = 1.25 * bytes;
    work.both.bytes = 2.5 * bytes;  // without what tells the winners
    return work;
  };
  work_rows(bench, "max_pool2d", along_batch(50, 5, 400), pooling,
            [](const Tensors& in) { return cs::max_pool2d(in[0], 2); });
}

// --- attention, Adam ---------------------------------------------------------------------------------------------

void attention_rows(Bench& bench) {
  const Growing sizes{{.batch = 8, .steps = 128},
                      {{"positions", &Sizes::steps, 32, 1024}, {"batch", &Sizes::batch, 1, 64}}};
  const auto work_of = [](const Sizes& s) {
    const cs::Shape heads{s.batch, 8, s.steps, 64};
    Work work{.shapes = {heads, heads, heads}};
    work.forward.flops = 4 * static_cast<double>(heads.numel()) * static_cast<double>(s.steps);
    work.both.flops = 3 * work.forward.flops;
    return work;
  };
  work_rows(bench, "attention", sizes, work_of,
            [](const Tensors& in) { return cs::scaled_dot_product_attention(in[0], in[1], in[2]); });
}

/// One step over 20 parameters that have `size` numbers together.
struct AdamStep {
  Tensors parameters, gradients;
  cs::optim::Adam adam;

  static Tensors make(std::int64_t size) { return inputs_of(std::vector<cs::Shape>(20, cs::Shape{size / 20})); }
  explicit AdamStep(std::int64_t size) : parameters(make(size)), gradients(make(size)), adam(parameters) {}
};

void adam_rows(Bench& bench) {
  each_size("adam_20m", kAdam, [&](const std::string& row, const Sizes& sizes) {
    // reads the gradient, reads and writes the parameter and both means
    bench.row(row, {.bytes = 7 * bytes_of({sizes.size})}, [&] {
      const auto step = std::make_shared<AdamStep>(sizes.size);
      return [step] { step->adam.apply(step->gradients); };
    });
  });
}

// --- recurrent layers --------------------------------------------------------------------------------------------

template <class Layer>
struct Sequence {
  Layer layer;
  cs::Tensor x, lengths;

  /// Lengths of rows are on the host, where they are read; with `mixed` uniform in 5..50, else all steps.
  Sequence(Layer made, const Sizes& sizes, bool mixed)
      : layer(on_gpu(std::move(made))), x(values({sizes.batch, sizes.steps, sizes.width})) {
    if (!mixed) return;
    std::vector<std::int64_t> steps;
    for (std::int64_t i = 0; i < sizes.batch; ++i) steps.push_back(5 + i * 29 % 46);
    lengths = cs::from_vector(steps);
  }
  cs::Tensor operator()() const {
    auto [outputs, last] = layer(x, {.lengths = lengths});
    return outputs;
  }
};

/// With the gradients for the inputs and all weights.
template <class Layer>
struct SequenceBoth : Sequence<Layer> {
  Tensors sources;
  cs::Tensor grad;

  SequenceBoth(Layer made, const Sizes& sizes, bool mixed)
      : Sequence<Layer>(std::move(made), sizes, mixed),
        sources(cs::nn::parameters(this->layer)),
        grad(values(Sequence<Layer>::operator()().shape(), 9)) {
    sources.push_back(this->x);
  }
  void operator()() const {
    cs::GradientTape tape;
    tape.watch(this->x);
    const cs::Tensor outputs = Sequence<Layer>::operator()();
    tape.gradient(outputs, sources, {.output_gradient = grad});
  }
};

template <class Made, class Make>
void sequence_row(Bench& bench, const std::string& name, const Sizes& sizes, bool mixed, Make make) {
  bench.row(name, {}, [&] {
    const auto work = std::make_shared<Made>(make(sizes.width), sizes, mixed);
    return [work] { (*work)(); };
  });
}

/// `make(width)` is the layer.
template <class Make>
void sequence_rows(Bench& bench, const std::string& name, const Growing& forward, const Growing& both, bool mixed,
                   Make make) {
  using Layer = decltype(make(1));
  each_size(name + "_forward", forward, [&](const std::string& row, const Sizes& sizes) {
    sequence_row<Sequence<Layer>>(bench, row, sizes, mixed, make);
  });
  each_size(name, both, [&](const std::string& row, const Sizes& sizes) {
    sequence_row<SequenceBoth<Layer>>(bench, row, sizes, mixed, make);
  });
}

void recurrent_rows(Bench& bench) {
  const auto gru = [](std::int64_t width) { return cs::nn::Gru({.inputs = width, .hidden = width}); };
  const auto lstm = [](std::int64_t width) { return cs::nn::Lstm({.inputs = width, .hidden = width}); };
  const auto bilstm = [](std::int64_t width) {
    return cs::nn::Lstm({.inputs = width, .hidden = width, .bidirectional = true});
  };
  sequence_rows(bench, "gru_256", kGruForward, kGru, false, gru);
  sequence_rows(bench, "bilstm_256", without_growth(kBilstm), kBilstm, false, bilstm);
  sequence_rows(bench, "lstm_variable_length", without_growth(kVariableLength), kVariableLength, true, lstm);
}

}  // namespace

void layer_rows(Bench& bench) {
  normalizing_rows(bench);
  convolution_rows(bench);
  window_rows(bench);
  attention_rows(bench);
  adam_rows(bench);
  recurrent_rows(bench);
}

}  // namespace bench
