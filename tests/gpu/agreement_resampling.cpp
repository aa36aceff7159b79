// Resampling and samples at the places of a grid on a GPU and on the CPU.
#include "tests/gpu/agreement.hpp"

using namespace capstan;

namespace tests {

namespace {

void add_sizes(AgreementCases& cases) {
  struct Mode {
    const char* text;
    InterpolateOptions options;
  };
  const Mode modes[] = {{"nearest", {.mode = InterpolateMode::nearest}},
                        {"nearest, exact", {.mode = InterpolateMode::nearest_exact}},
                        {"linear", {.mode = InterpolateMode::linear}},
                        {"linear, corners aligned", {.mode = InterpolateMode::linear, .align_corners = true}},
                        {"linear, antialiased", {.mode = InterpolateMode::linear, .antialias = true}},
                        {"area", {.mode = InterpolateMode::area}}};
  for (const Mode& mode : modes)
    cases.push_back({std::string("other sizes, ") + mode.text,
                     {"resample"},
                     {noise({2, 3, 11}, 1), noise({2, 3, 6, 9}, 2), noise({1, 2, 4, 5, 6}, 3)},
                     [o = mode.options](const Tensors& in) {
                       const auto to = [o](const Tensor& x, const Sizes& size) {
                         InterpolateOptions options = o;
                         options.size = size;
                         return interpolate(x, options);
                       };
                       return Tensors{to(in[0], 4),
                                      to(in[0], 25),
                                      to(in[0], 11),
                                      to(in[1], {9, 4}),
                                      to(in[1], {1, 20}),
                                      to(in[2], {3, 7, 6}),
                                      to(transpose(in[1], 2, 3), {5, 5})};
                     },
                     Nearness::summed});
  for (const bool antialias : {false, true})
    for (const bool corners : {false, true})
      cases.push_back(
          {std::string("other sizes, cubic") + (antialias ? ", antialiased" : "") +
               (corners ? ", corners aligned" : ""),
           {"resample"},
           {noise({2, 3, 6, 9}, 4)},
           [=](const Tensors& in) {
             const auto to = [=](const Sizes& size) {
               return interpolate(
                   in[0],
                   {.size = size, .mode = InterpolateMode::cubic, .align_corners = corners, .antialias = antialias});
             };
             return Tensors{to({9, 4}), to({13, 20}), to({1, 2}), to({6, 9})};
           },
           Nearness::summed});
  cases.push_back(
      {"other sizes by factors",
       {"resample"},
       {noise({2, 3, 10, 7}, 5)},
       [](const Tensors& in) {
         return Tensors{
             interpolate(in[0], {.scale_factor = 0.3}),
             interpolate(in[0], {.scale_factor = {1.7, 2.0}, .mode = InterpolateMode::linear}),
             interpolate(in[0], {.scale_factor = 1.5, .mode = InterpolateMode::cubic, .recompute_scale_factor = true})};
       },
       Nearness::summed});
  cases.push_back({"nearest elements of any type",
                   {"resample"},
                   {random_in(-60, 60, {2, 3, 6, 9}, DType::float64, 6)},
                   [](const Tensors& in) {
                     return Tensors{interpolate(in[0], {.size = {9, 4}}),
                                    interpolate(transpose(in[0], 2, 3), {.scale_factor = 2}),
                                    interpolate(in[0], {.size = {13, 5}, .mode = InterpolateMode::nearest_exact}),
                                    interpolate(narrow(in[0], 0, 0, 0), {.size = 3})};
                   },
                   Nearness::exact,
                   Types::every});
}

void add_grids(AgreementCases& cases) {
  for (const SampleMode mode : {SampleMode::linear, SampleMode::nearest, SampleMode::cubic})
    for (const SamplePadding padding : {SamplePadding::zeros, SamplePadding::border, SamplePadding::reflection})
      for (const bool corners : {false, true}) {
        const GridSampleOptions options{.mode = mode, .padding = padding, .align_corners = corners};
        const std::string text = "mode " + std::to_string(static_cast<int>(mode)) + ", padding " +
                                 std::to_string(static_cast<int>(padding)) + (corners ? ", corners aligned" : "");
        cases.push_back({"samples of images, " + text,
                         {"grid_sample", "grid_spread", "grid_slopes"},
                         {noise({2, 3, 6, 7}, 7), noise({2, 5, 4, 2}, 8) * 1.4},
                         [options](const Tensors& in) { return Tensors{grid_sample(in[0], in[1], options)}; },
                         Nearness::summed,
                         Types::wide});
        if (mode == SampleMode::cubic) continue;
        cases.push_back({"samples of volumes, " + text,
                         {"grid_sample", "grid_spread", "grid_slopes"},
                         {noise({2, 2, 4, 5, 3}, 9), noise({2, 3, 2, 4, 3}, 10) * 1.4},
                         [options](const Tensors& in) { return Tensors{grid_sample(in[0], in[1], options)}; },
                         Nearness::summed,
                         Types::wide});
      }
  cases.push_back({"samples in 16 bits, of views, and at places that are not finite",
                   {"grid_sample", "grid_spread", "grid_slopes"},
                   {noise({2, 3, 6, 7}, 11), noise({2, 5, 4, 2}, 12), with_specials({2, 3, 4, 2}, 13)},
                   [](const Tensors& in) {
                     return Tensors{grid_sample(in[0], in[1]),
                                    grid_sample(transpose(in[0], 2, 3), transpose(in[1], 1, 2)),
                                    grid_sample(stop_gradient(in[0]), stop_gradient(in[2]))};
                   },
                   Nearness::summed});
  cases.push_back({"grids of affine maps",
                   {"matmul"},
                   {noise({2, 2, 3}, 14), noise({2, 3, 4}, 15), noise({2, 3, 6, 7}, 16)},
                   [](const Tensors& in) {
                     return Tensors{affine_grid(in[0], {2, 3, 4, 5}),
                                    affine_grid(in[1], {2, 1, 3, 2, 4}, {.align_corners = true}),
                                    grid_sample(in[2], affine_grid(in[0], {2, 3, 5, 4}))};
                   },
                   Nearness::summed,
                   Types::wide});
}

}  // namespace

AgreementCases resampling_agreement_cases() {
  AgreementCases cases;
  add_sizes(cases);
  add_grids(cases);
  return cases;
}

}  // namespace tests

TEST_CASE("GPU and CPU agree on resampling", "[gpu][agreement]") {
  tests::check_agreement(&tests::resampling_agreement_cases);
}
