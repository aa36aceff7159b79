// Autocast: the type that each operation of its table computes in, scopes within scopes, gradients, and training.
#include "tests/support.hpp"

#include <optional>
#include <sstream>
#include <thread>

using namespace capstan;
using namespace tests;

namespace {

constexpr DType kHalves[] = {DType::float16, DType::bfloat16};

Tensor of(const Shape& shape, DType dtype) { return full(shape, 0.5, {dtype}); }

/// An operation of operands that all have one type.
struct Use {
  const char* op;
  Tensor (*run)(DType t);
};

const Use products[] = {
    {"matmul",
     [](DType t) {
       return matmul(of({2, 3}, t), of({3, 4}, t));
     }},
    {"matmul of a batch",
     [](DType t) {
       return matmul(of({5, 2, 3}, t), of({5, 3, 4}, t));
     }},
    {"linear",
     [](DType t) {
       return linear(of({2, 3}, t), of({3, 4}, t), of({4}, t));
     }},
    {"linear of a batch",
     [](DType t) {
       return linear(of({5, 2, 3}, t), of({3, 4}, t), of({4}, t));
     }},
    {"linear without bias",
     [](DType t) {
       return linear(of({2, 3}, t), of({3, 4}, t), Tensor());
     }},
    {"addmm",
     [](DType t) {
       return addmm(of({4}, t), of({2, 3}, t), of({3, 4}, t));
     }},
    {"bilinear",
     [](DType t) {
       return bilinear(of({2, 3}, t), of({2, 4}, t), of({5, 3, 4}, t), of({5}, t));
     }},
    {"einsum",
     [](DType t) {
       return einsum("ij,jk->ik", {of({2, 3}, t), of({3, 4}, t)});
     }},
    {"tensordot",
     [](DType t) {
       return tensordot(of({2, 3}, t), of({3, 4}, t), 1);
     }},
    {"dot", [](DType t) { return dot(of({3}, t), of({3}, t)); }},
    {"conv1d",
     [](DType t) {
       return conv1d(of({1, 2, 5}, t), of({3, 2, 3}, t), of({3}, t));
     }},
    {"conv2d",
     [](DType t) {
       return conv2d(of({1, 2, 5, 5}, t), of({3, 2, 3, 3}, t), of({3}, t));
     }},
    {"conv2d of an image",
     [](DType t) {
       return conv2d(of({2, 5, 5}, t), of({3, 2, 3, 3}, t));
     }},
    {"conv3d",
     [](DType t) {
       return conv3d(of({1, 2, 3, 3, 3}, t), of({3, 2, 2, 2, 2}, t), of({3}, t));
     }},
    {"conv_transpose1d",
     [](DType t) {
       return conv_transpose1d(of({1, 2, 5}, t), of({2, 3, 3}, t), of({3}, t));
     }},
    {"conv_transpose2d",
     [](DType t) {
       return conv_transpose2d(of({1, 2, 3, 3}, t), of({2, 3, 2, 2}, t));
     }},
    {"conv_transpose3d",
     [](DType t) {
       return conv_transpose3d(of({1, 2, 2, 2, 2}, t), of({2, 3, 2, 2, 2}, t));
     }},
    {"depthwise_conv2d",
     [](DType t) {
       return depthwise_conv2d(of({1, 2, 4, 4}, t), of({2, 1, 3, 3}, t));
     }},
    {"separable_conv2d",
     [](DType t) {
       return separable_conv2d(of({1, 2, 4, 4}, t), of({2, 1, 3, 3}, t), of({3, 2, 1, 1}, t));
     }},
};

Tensor x_of(DType t) { return of({2, 3}, t); }
Tensor labels_of(const Shape& shape) { return zeros(shape, {DType::int64}); }

const Use with_range[] = {
    {"acos", [](DType t) { return acos(x_of(t)); }},
    {"asin", [](DType t) { return asin(x_of(t)); }},
    {"cosh", [](DType t) { return cosh(x_of(t)); }},
    {"erfinv", [](DType t) { return erfinv(x_of(t)); }},
    {"exp", [](DType t) { return exp(x_of(t)); }},
    {"exp2", [](DType t) { return exp2(x_of(t)); }},
    {"expm1", [](DType t) { return expm1(x_of(t)); }},
    {"log", [](DType t) { return log(x_of(t)); }},
    {"log10", [](DType t) { return log10(x_of(t)); }},
    {"log1p", [](DType t) { return log1p(x_of(t)); }},
    {"log2", [](DType t) { return log2(x_of(t)); }},
    {"pow", [](DType t) { return pow(x_of(t), x_of(t)); }},
    {"pow of a number", [](DType t) { return pow(x_of(t), 3); }},
    {"pow to a tensor", [](DType t) { return pow(3, x_of(t)); }},
    {"reciprocal", [](DType t) { return reciprocal(x_of(t)); }},
    {"rsqrt", [](DType t) { return rsqrt(x_of(t)); }},
    {"sinh", [](DType t) { return sinh(x_of(t)); }},
    {"softplus", [](DType t) { return softplus(x_of(t)); }},
    {"tan", [](DType t) { return tan(x_of(t)); }},

    {"sum", [](DType t) { return sum(x_of(t), 0); }},
    {"prod", [](DType t) { return prod(x_of(t)); }},
    {"mean", [](DType t) { return mean(x_of(t)); }},
    {"var", [](DType t) { return var(x_of(t)); }},
    {"std", [](DType t) { return capstan::std(x_of(t)); }},
    {"moments", [](DType t) { return moments(x_of(t), 0).variance; }},
    {"cumsum", [](DType t) { return cumsum(x_of(t), 0); }},
    {"cumprod", [](DType t) { return cumprod(x_of(t), 0); }},
    {"logcumsumexp", [](DType t) { return logcumsumexp(x_of(t), 0); }},
    {"logsumexp", [](DType t) { return logsumexp(x_of(t)); }},
    {"softmax", [](DType t) { return softmax(x_of(t)); }},
    {"softmax of columns", [](DType t) { return softmax(x_of(t), 0); }},
    {"log_softmax", [](DType t) { return log_softmax(x_of(t)); }},
    {"vector_norm", [](DType t) { return vector_norm(x_of(t), 3); }},
    {"matrix_norm", [](DType t) { return matrix_norm(x_of(t), MatrixNorm::infinity); }},

    {"layer_norm", [](DType t) { return layer_norm(x_of(t), 1, of({3}, t), of({3}, t)); }},
    {"rms_norm", [](DType t) { return rms_norm(x_of(t), 1, of({3}, t)); }},
    {"batch_norm", [](DType t) { return batch_norm(x_of(t), of({3}, t), of({3}, t), of({3}, t), of({3}, t)); }},
    {"batch_norm_training", [](DType t) { return batch_norm_training(x_of(t), of({3}, t), of({3}, t)).output; }},
    {"group_norm", [](DType t) { return group_norm(x_of(t), 1, of({3}, t), of({3}, t)); }},
    {"instance_norm",
     [](DType t) {
       return instance_norm(of({2, 3, 4}, t), of({3}, t), of({3}, t));
     }},
    {"local_response_norm",
     [](DType t) {
       return local_response_norm(of({2, 3, 4}, t), 2);
     }},
    {"normalize", [](DType t) { return normalize(x_of(t)); }},

    {"mse_loss", [](DType t) { return mse_loss(x_of(t), x_of(t)); }},
    {"l1_loss", [](DType t) { return l1_loss(x_of(t), x_of(t), {.reduction = Reduction::none}); }},
    {"smooth_l1_loss", [](DType t) { return smooth_l1_loss(x_of(t), x_of(t)); }},
    {"huber_loss", [](DType t) { return huber_loss(x_of(t), x_of(t), {.weight = x_of(t)}); }},
    {"log_cosh_loss", [](DType t) { return log_cosh_loss(x_of(t), x_of(t)); }},
    {"binary_cross_entropy", [](DType t) { return binary_cross_entropy(x_of(t), x_of(t)); }},
    {"sigmoid_cross_entropy", [](DType t) { return sigmoid_cross_entropy(x_of(t), x_of(t), {.pos_weight = x_of(t)}); }},
    {"kl_div", [](DType t) { return kl_div(x_of(t), x_of(t)); }},
    {"poisson_nll_loss", [](DType t) { return poisson_nll_loss(x_of(t), x_of(t), {.full = true}); }},
    {"gaussian_nll_loss", [](DType t) { return gaussian_nll_loss(x_of(t), x_of(t), x_of(t)); }},
    {"hinge_loss", [](DType t) { return hinge_loss(x_of(t), x_of(t)); }},
    {"squared_hinge_loss", [](DType t) { return squared_hinge_loss(x_of(t), x_of(t)); }},
    {"soft_margin_loss", [](DType t) { return soft_margin_loss(x_of(t), x_of(t)); }},
    {"hinge_embedding_loss",
     [](DType t) {
       return hinge_embedding_loss(x_of(t), ones({2, 3}, {t}));
     }},
    {"margin_ranking_loss",
     [](DType t) {
       return margin_ranking_loss(x_of(t), x_of(t), ones({2, 3}, {t}));
     }},
    {"multi_margin_loss", [](DType t) { return multi_margin_loss(x_of(t), labels_of({2})); }},
    {"multilabel_margin_loss",
     [](DType t) {
       return multilabel_margin_loss(x_of(t), labels_of({2, 3}));
     }},
    {"multilabel_soft_margin_loss", [](DType t) { return multilabel_soft_margin_loss(x_of(t), x_of(t)); }},
    {"cosine_embedding_loss", [](DType t) { return cosine_embedding_loss(x_of(t), x_of(t), ones({2}, {t})); }},
    {"cosine_similarity", [](DType t) { return cosine_similarity(x_of(t), x_of(t)); }},
    {"cosine_loss", [](DType t) { return cosine_loss(x_of(t), x_of(t)); }},
    {"pairwise_distance", [](DType t) { return pairwise_distance(x_of(t), x_of(t)); }},
    {"triplet_margin_loss", [](DType t) { return triplet_margin_loss(x_of(t), x_of(t), x_of(t)); }},
    {"sparse_softmax_cross_entropy", [](DType t) { return sparse_softmax_cross_entropy(x_of(t), labels_of({2})); }},
    {"softmax_cross_entropy", [](DType t) { return softmax_cross_entropy(x_of(t), x_of(t)); }},
    {"nll_loss", [](DType t) { return nll_loss(x_of(t), labels_of({2})); }},
    {"cross_entropy", [](DType t) { return cross_entropy(x_of(t), labels_of({2}), {.class_weight = of({3}, t)}); }},
    {"cross_entropy of probabilities", [](DType t) { return cross_entropy(x_of(t), x_of(t)); }},
    {"sequence_loss",
     [](DType t) {
       return sequence_loss(of({1, 2, 3}, t), labels_of({1, 2}));
     }},
    {"sequence_loss_by_example",
     [](DType t) {
       return sequence_loss_by_example(of({1, 2, 3}, t), labels_of({1, 2}));
     }},
    {"ctc_loss",
     [](DType t) {
       return ctc_loss(of({1, 3, 3}, t), ones({1, 1}, {DType::int64}));
     }},
    {"nce_loss",
     [](DType t) {
       return nce_loss(of({5, 3}, t), of({5}, t), labels_of({2, 1}), of({2, 3}, t), {.count = 2});
     }},
    {"sampled_softmax_loss",
     [](DType t) {
       return sampled_softmax_loss(of({5, 3}, t), Tensor(), labels_of({2, 1}), x_of(t), {.count = 2});
     }},

    {"rnn",
     [](DType t) {
       return rnn(of({2, 4, 3}, t), of({2, 2}, t), {of({3, 2}, t), of({2, 2}, t)}).outputs;
     }},
    {"rnn_cell",
     [](DType t) {
       return rnn_cell(x_of(t), of({2, 2}, t), {of({3, 2}, t), of({2, 2}, t)});
     }},
    {"gru",
     [](DType t) {
       return gru(of({2, 4, 3}, t), of({2, 2}, t), {of({3, 6}, t), of({2, 6}, t)}).last;
     }},
    {"gru_cell",
     [](DType t) {
       return gru_cell(x_of(t), of({2, 2}, t), {of({3, 6}, t), of({2, 6}, t)});
     }},
    {"lstm",
     [](DType t) {
       return lstm(of({2, 4, 3}, t), of({2, 2}, t), of({2, 2}, t), {of({3, 8}, t), of({2, 8}, t)}).last.c;
     }},
    {"lstm_cell",
     [](DType t) {
       return lstm_cell(x_of(t), of({2, 2}, t), of({2, 2}, t), {of({3, 8}, t), of({2, 8}, t)}).h;
     }},
};

// Among them operations that are made of products and sums.
const Use without_preference[] = {
    {"add", [](DType t) { return x_of(t) + x_of(t); }},
    {"mul", [](DType t) { return x_of(t) * 2; }},
    {"div", [](DType t) { return x_of(t) / x_of(t); }},
    {"relu", [](DType t) { return relu(x_of(t)); }},
    {"sigmoid", [](DType t) { return sigmoid(x_of(t)); }},
    {"sqrt", [](DType t) { return sqrt(x_of(t)); }},
    {"tanh", [](DType t) { return tanh(x_of(t)); }},
    {"max", [](DType t) { return max(x_of(t), 0); }},
    {"concat",
     [](DType t) {
       return concat({x_of(t), x_of(t)});
     }},
    {"transpose", [](DType t) { return transpose(x_of(t)); }},
    {"avg_pool2d",
     [](DType t) {
       return avg_pool2d(of({1, 1, 4, 4}, t), 2);
     }},
    {"lp_pool2d",
     [](DType t) {
       return lp_pool2d(of({1, 1, 4, 4}, t), 3, 2);
     }},
    {"median", [](DType t) { return median(x_of(t)); }},
    {"trace", [](DType t) { return trace(x_of(t)); }},
    {"outer", [](DType t) { return outer(of({3}, t), of({2}, t)); }},
    {"vecdot", [](DType t) { return vecdot(x_of(t), x_of(t)); }},
    {"matrix_power",
     [](DType t) {
       return matrix_power(of({2, 2}, t), 3);
     }},
    {"affine_grid",
     [](DType t) {
       return affine_grid(of({1, 2, 3}, t), {1, 1, 2, 2});
     }},
    {"einsum of one operand", [](DType t) { return einsum("ij->i", {x_of(t)}); }},
    {"scaled_dot_product_attention", [](DType t) { return scaled_dot_product_attention(x_of(t), x_of(t), x_of(t)); }},
    {"attention_with_weights", [](DType t) { return attention_with_weights(x_of(t), x_of(t), x_of(t)).weights; }},
};

/// Runs every use inside a scope with each type, and without.
template <class Expected>
void check_types(std::span<const Use> uses, Expected expected) {
  for (const Use& use : uses)
    for (const DType half : kHalves)
      for (const DType t : {DType::float32, DType::float16, DType::bfloat16, DType::float64}) {
        INFO(use.op << " of " << name(t) << " in " << name(half));
        CHECK(use.run(t).dtype() == t);
        const AutocastScope scope(half);
        CHECK(use.run(t).dtype() == (t == DType::float64 ? t : expected(t, half)));
      }
}

}  // namespace

// --- the table -------------------------------------------------------------------------------------------------

TEST_CASE("autocast computes products in its own type, but for float64", "[autocast][half]") {
  check_types(products, [](DType, DType half) { return half; });
}

TEST_CASE("autocast computes what needs range in float32, but for float64", "[autocast][half]") {
  check_types(with_range, [](DType, DType) { return DType::float32; });
}

TEST_CASE("autocast leaves all other operations in the type that they get", "[autocast][half]") {
  check_types(without_preference, [](DType t, DType) { return t; });
}

TEST_CASE("a product in autocast is that of the converted operands, bit for bit", "[autocast][half]") {
  const Tensor a = random_in(-1, 1, {7, 5}, DType::float32, 701), b = random_in(-1, 1, {5, 6}, DType::float32, 702);
  const Tensor c = random_in(-1, 1, {6}, DType::float32, 703);
  const Tensor image = random_in(-1, 1, {2, 3, 6, 6}, DType::float32, 704);
  const Tensor kernel = random_in(-1, 1, {4, 3, 3, 3}, DType::float32, 705);
  for (const DType half : kHalves) {
    const auto narrow_down = [&](const Tensor& x) { return x.to(half); };
    const Tensor product = linear(narrow_down(a), narrow_down(b), narrow_down(c));
    const Tensor plane = conv2d(narrow_down(image), narrow_down(kernel));
    const Tensor both = bilinear(narrow_down(a), narrow_down(a), ones({2, 5, 5}, {half}), Tensor());
    const AutocastScope scope(half);
    CHECK(same(linear(a, b, c), product));
    CHECK(same(linear(narrow_down(a), b, c), product));  // types may be mixed
    CHECK(same(conv2d(image, narrow_down(kernel)), plane));
    CHECK(same(bilinear(a, narrow_down(a), ones({2, 5, 5}), Tensor()), both));
  }
}

TEST_CASE("autocast keeps what would not fit into 16 bits", "[autocast][half]") {
  const Tensor many = ones({70000}, {DType::float16}), x = full({1}, 12, {DType::float16});
  CHECK(number(sum(many)) == kInfinity);  // the largest float16 is 65504
  CHECK(number(exp(x)) == kInfinity);     // exp(12) is 162755
  const AutocastScope scope;
  CHECK(number(sum(many)) == 70000);
  CHECK(close(exp(x), exp(full({1}, 12)), tolerance::roundings32));
  CHECK(number(cumsum(many, 0)[-1]) == 70000);
}

TEST_CASE("operations that want one type get it in autocast", "[autocast][half]") {
  const Tensor x = x_of(DType::float32), y = x_of(DType::float16), z = x_of(DType::float64);
  const Tensor image = of({1, 1, 4, 4}, DType::bfloat16), grid = of({1, 2, 2, 2}, DType::float32);
  CHECK_THROWS_AS(scaled_dot_product_attention(y, x, y), DTypeError);
  CHECK_THROWS_AS(grid_sample(image, grid), DTypeError);
  const AutocastScope scope;
  CHECK(scaled_dot_product_attention(y, x, y).dtype() == DType::float32);
  CHECK(attention_with_weights(y, y, x).output.dtype() == DType::float32);
  CHECK(grid_sample(image, grid).dtype() == DType::float32);
  CHECK((x + y).dtype() == DType::float32);  // promoted, as ever
  CHECK_THROWS_AS(scaled_dot_product_attention(y, z, y), DTypeError);
}

TEST_CASE("autocast does not touch an operation with an operand of float64, or integers", "[autocast]") {
  const Tensor a = random_in(-1, 1, {3, 4}, DType::float32, 711), b = random_in(-1, 1, {4, 2}, DType::float64, 712);
  const Tensor product = matmul(a, b), integers = {1, 2, 3};
  const AutocastScope scope;
  CHECK(same(matmul(a, b), product));  // a was not rounded on its way to float64
  CHECK(same(mse_loss(a.to(DType::float16), a.to(DType::float64)),
             mse_loss(a.to(DType::float16).to(DType::float64), a.to(DType::float64))));
  CHECK(sum(integers).dtype() == DType::int64);
  CHECK((integers * 2).dtype() == DType::int32);
}

// --- scopes ----------------------------------------------------------------------------------------------------

TEST_CASE("the innermost scope of a thread counts, and one that is off switches autocast off", "[autocast]") {
  const Tensor x = ones({2, 2});
  const auto type = [&] { return matmul(x, x).dtype(); };
  CHECK_FALSE(autocast_dtype().has_value());
  {
    const AutocastScope outer;
    CHECK(autocast_dtype() == DType::float16);
    CHECK(type() == DType::float16);
    {
      const AutocastScope inner(DType::bfloat16);
      CHECK(autocast_dtype() == DType::bfloat16);
      CHECK(type() == DType::bfloat16);
      {
        const AutocastScope off(DType::float16, false);
        CHECK_FALSE(autocast_dtype().has_value());
        CHECK(type() == DType::float32);
        CHECK(exp(x.to(DType::float16)).dtype() == DType::float16);
      }
      CHECK(type() == DType::bfloat16);
    }
    CHECK(type() == DType::float16);
  }
  CHECK_FALSE(autocast_dtype().has_value());
  CHECK(type() == DType::float32);
}

TEST_CASE("a scope is its own thread's alone", "[autocast][threads]") {
  const AutocastScope scope;
  std::optional<DType> seen = DType::float16;
  std::thread([&] { seen = autocast_dtype(); }).join();
  CHECK_FALSE(seen.has_value());
}

TEST_CASE("an operation that throws in a scope leaves the scope and the tape as they were", "[autocast][tape]") {
  const Parameter w(ones({2, 3})), half(ones({2, 3}, {DType::float16}));
  GradientTape tape;
  const AutocastScope scope;
  CHECK_THROWS_AS(matmul(w, ones({2, 3})), ShapeError);
  CHECK_THROWS_AS(conv2d(w, ones({2, 3})), ShapeError);
  CHECK_THROWS_AS(bilinear(w, w, w, Tensor()), ShapeError);
  CHECK_THROWS_AS(softmax(half, 2), IndexError);
  CHECK_THROWS_AS(pow(half, ones({5})), ShapeError);
  CHECK_THROWS_AS(mse_loss(half, ones({5})), ShapeError);
  CHECK_THROWS_AS(scaled_dot_product_attention(half, ones({5, 5}), half), ShapeError);
  CHECK(tape.size() == 0);
  CHECK(autocast_dtype() == DType::float16);
}

// --- gradients -------------------------------------------------------------------------------------------------

TEST_CASE("a float32 parameter has a float32 gradient in autocast", "[autocast][tape]") {
  const Parameter w(Tensor{{1.0f, 2.0f}, {3.0f, 4.0f}});
  const Tensor x = {{1.0f, -1.0f}};
  for (const DType half : kHalves) {
    GradientTape tape;
    Tensor y, loss;
    {
      const AutocastScope scope(half);
      y = matmul(x, w);  // [-2, -2]
      loss = sum(square(y));
    }
    CHECK(y.dtype() == half);
    CHECK(loss.dtype() == DType::float32);
    CHECK(number(loss) == 8);
    CHECK(same(tape.gradient(loss, w), {{-4.0f, -4.0f}, {4.0f, 4.0f}}));  // x' * 2y, all of which 8 bits hold
  }
}

TEST_CASE("gradients in autocast are those without it, to the rounding of operands", "[autocast][tape]") {
  const Tensor images = random_in(-1, 1, {16, 1, 6, 6}, DType::float32, 721), labels = labels_of({16});
  const Parameter kernel(random_in(-1, 1, {3, 1, 3, 3}, DType::float32, 722));
  const Parameter weight(random_in(-0.5, 0.5, {48, 4}, DType::float32, 723)), bias(zeros({4}));
  const std::vector<Tensor> parameters = {kernel, weight, bias};
  const auto gradients = [&] {
    GradientTape tape;
    const Tensor features = flatten(tanh(conv2d(images, kernel)), 1);
    const Tensor loss = cross_entropy(linear(layer_norm(features), weight, bias), labels);
    return tape.gradient(loss, parameters);
  };
  const std::vector<Tensor> expected = gradients();
  for (const DType half : kHalves) {
    const AutocastScope scope(half);
    const std::vector<Tensor> found = gradients();
    for (std::size_t i = 0; i < found.size(); ++i) {
      INFO(name(half) << ", parameter " << i);
      CHECK(found[i].dtype() == DType::float32);
      CHECK(close(found[i], expected[i],
                  half == DType::float16 ? tolerance::autocast_float16 : tolerance::autocast_bfloat16));
    }
  }
}

TEST_CASE("gradients are computed in the types of the results, outside autocast", "[autocast][tape]") {
  // 1 + 2^-12 is no number of 16 bits: a product in float16 would make it 1
  const Tensor x = full({1, 1}, 1 + 0x1p-12);
  const Parameter w(full({1, 1}, 2));
  GradientTape tape;
  const Tensor y = matmul(x, w);
  std::optional<DType> in_hook = DType::float16, in_backward = DType::float16;
  const Tensor z = custom_gradient(
      y, [](const Tensor& t) { return t * 1; },
      [&](const Tensor& g, const Tensor&, const Tensor&) {
        in_backward = autocast_dtype();
        return g;
      });
  tape.on_gradient(w, [&](const Tensor&) { in_hook = autocast_dtype(); });
  const AutocastScope scope;
  CHECK(same(tape.gradient(z, w), x));
  CHECK_FALSE(in_hook.has_value());
  CHECK_FALSE(in_backward.has_value());
  CHECK(autocast_dtype() == DType::float16);
}

TEST_CASE("conversions show on the tape, and operations keep their names", "[autocast][tape]") {
  const Parameter w(ones({2, 2}));
  GradientTape tape;
  const AutocastScope scope(DType::bfloat16);
  const Tensor y = softmax(matmul(w, w));
  std::ostringstream text;
  text << tape;
  CHECK(text.str().find("cast") == 0);
  CHECK(text.str().find("matmul") != std::string::npos);
  CHECK(text.str().find("softmax") != std::string::npos);
  CHECK(tape.size() == 5);  // both operands of the product, the product, its result, the softmax
}

TEST_CASE("recompute runs its function in the types of its first run", "[autocast][tape]") {
  const Parameter w(random_in(-1, 1, {3, 2}, DType::float32, 731));
  const Tensor x = random_in(-1, 1, {4, 3}, DType::float32, 732);
  const auto gradient = [&](bool again) {
    GradientTape tape;
    Tensor y;
    {
      const AutocastScope scope(DType::bfloat16);
      const auto function = [&](const Tensor& t) { return tanh(matmul(t, w)); };
      y = again ? recompute(function, x) : function(x);
    }
    CHECK(y.dtype() == DType::bfloat16);
    return tape.gradient(y, w);
  };
  CHECK(same(gradient(true), gradient(false)));
}

TEST_CASE("functions that are differentiated run in the caller's autocast", "[autocast][tape]") {
  const Tensor x = ones({2, 3}), w = ones({3, 2});
  const auto product = [&](const Tensor& t) { return matmul(t, w); };
  const AutocastScope scope;
  const Vjp found = vjp(product, x, ones({2, 2}, {DType::float16}));
  CHECK(found.value.dtype() == DType::float16);
  CHECK(same(found.gradient, full({2, 3}, 2)));
  CHECK(jvp(product, x, x).tangent.dtype() == DType::float16);
  CHECK(same(hvp([&](const Tensor& t) { return sum(square(product(t))); }, x, x), full({2, 3}, 12)));  // 2 w w' x
}

// --- models ----------------------------------------------------------------------------------------------------

TEST_CASE("recurrent layers take 16-bit sequences beside float32 weights in autocast", "[autocast][recurrent]") {
  const Tensor x = of({2, 4, 3}, DType::float16), step = of({2, 3}, DType::float16);
  const nn::Lstm layer({.inputs = 3, .hidden = 2, .layers = 2});
  const nn::GruCell cell(3, 2);
  const nn::LstmCell projected(3, 4, {.projection = 2, .layer_norm = true});
  CHECK_THROWS_AS(layer(x), DTypeError);
  CHECK_THROWS_AS(cell(step, cell.zero_state(2)), DTypeError);
  CHECK_THROWS_AS(projected(step, projected.zero_state(2)), DTypeError);
  const AutocastScope scope;
  CHECK(layer(x).outputs.dtype() == DType::float32);
  CHECK(cell(step, cell.zero_state(2)).first.dtype() == DType::float32);
  const auto first = projected(step, projected.zero_state(2));
  const auto second = projected(step, first.second);  // whose h is the 16-bit result of a projection
  CHECK(second.first.dtype() == DType::float16);
  CHECK(second.second.c.dtype() == DType::float32);
}

namespace {

struct Stripes {
  nn::Conv2d conv{{.in = 1, .out = 4, .kernel = 3, .padding = nn::same}};
  nn::BatchNorm2d norm{{.channels = 4}};
  nn::Linear head{4 * 8 * 8, 2};

  Tensor operator()(const Tensor& x) { return head(flatten(relu(norm(conv(x))), 1)); }
};

/// Upright stripes are class 0, stripes across class 1; with noise.
Tensor striped_images(std::int64_t count) {
  std::vector<double> pixels;
  for (std::int64_t i = 0; i < count; ++i)
    for (int row = 0; row < 8; ++row)
      for (int column = 0; column < 8; ++column) pixels.push_back((i % 2 == 0 ? column : row) % 2 == 0 ? 1 : -1);
  const Shape shape({count, 1, 8, 8});
  return from_doubles(pixels, shape, DType::float32) + random_in(-0.5, 0.5, shape, DType::float32, 741);
}

}  // namespace

TEST_CASE("a model learns in autocast with loss scaling, its parameters in float32", "[autocast][loss_scale]") {
  const std::int64_t count = 32;
  const Tensor images = striped_images(count), labels = remainder(arange(count), 2);
  for (const DType half : kHalves) {
    INFO(name(half));
    capstan::seed(7);
    Stripes net;
    optim::Adam adam(nn::parameters(net), {.learning_rate = 0.01});
    optim::LossScaler scaler;
    double first = 0, last = 0;
    for (int i = 0; i < 60; ++i) {
      GradientTape tape;
      Tensor loss;
      {
        const AutocastScope scope(half);
        const Tensor logits = net(images);
        CHECK(logits.dtype() == half);
        loss = cross_entropy(logits, labels);
      }
      auto [gradients, finite] = scaler.unscale(tape.gradient(scaler.scale(loss), adam.parameters()));
      for (const Tensor& gradient : gradients) CHECK(gradient.dtype() == DType::float32);
      if (finite) adam.apply(gradients);
      scaler.update();
      last = number(loss);
      if (i == 0) first = last;
    }
    CHECK(first > 0.3);  // about log(2)
    CHECK(last < 0.1);
    CHECK(scaler.skipped() < 20);
    for (const Tensor& parameter : adam.parameters()) CHECK(parameter.dtype() == DType::float32);
    CHECK(net.norm.running_mean.dtype() == DType::float32);
  }
}
