// What the tests of the debugger scripts look at: tensors of every kind, alive while stop_here() runs.
#include <capstan/capstan.hpp>
#include <capstan/sparse.hpp>

#include <cstddef>
#include <cstring>
#include <new>
#include <vector>

namespace cs = capstan;

struct Scene {
  cs::Tensor matrix = {{6.0f, 12.0f}, {12.0f, 26.0f}};
  cs::Tensor undefined;
  cs::Tensor number = cs::Tensor(2.5f);
  cs::Tensor row = cs::arange(5);
  cs::Tensor backwards = row.index({cs::from(-1, -1)});
  cs::Tensor columns = cs::transpose(cs::Tensor{{1, 2, 3}, {4, 5, 6}});
  cs::Tensor stretched = cs::broadcast_to(cs::Tensor{1.5, 2.5}, {2, 2});
  cs::Tensor no_rows = cs::zeros({0, 3});
  cs::Tensor large = cs::reshape(cs::arange(1400), {7, 200});
  cs::Tensor half = cs::Tensor{0.1f, 0.2f}.to(cs::DType::float16);
  cs::Tensor brain = cs::Tensor{1.0f, -2.0f}.to(cs::DType::bfloat16);
  cs::Tensor small = cs::Tensor{1, -2}.to(cs::DType::int8);
  cs::Tensor bytes = cs::Tensor{1, 20, 255}.to(cs::DType::uint8);
  cs::Tensor flags = {true, false};
  cs::Tensor slices =
      cs::from_row_slices({cs::arange(3, 1, -1), cs::Tensor{{1.0f, 2.0f}, {3.0f, 4.0f}}}, cs::Shape{5, 2});
  cs::Parameter weight = cs::Parameter(cs::Tensor{1.0f, 2.0f});
  cs::Parameter frozen = cs::Parameter(cs::Tensor{3.0f});
  std::vector<cs::Tensor> pair = {cs::Tensor(7), cs::Tensor()};

  cs::Shape shape = {2, 3, 4};
  cs::Shape no_axes;
  cs::DType dtype = cs::DType::bfloat16;
  cs::Device host = cs::cpu(), gpu = cs::cuda(1);
  cs::Scalar whole = 7, real = 0.5, truth = true;
  cs::float16 sixteen = cs::float16(0.1f);

  const cs::Tensor* freed = nullptr;
  const cs::Tensor* wild = nullptr;
};

/// Never inlined, and from elsewhere it could be called with any scene: so its argument can be seen at -O2.
__attribute__((noinline)) void stop_here(const Scene& scene) { asm volatile("" : : "r"(&scene) : "memory"); }

int main() {
  Scene scene;
  const cs::Tensor h = scene.matrix;
  scene.frozen.set_trainable(false);
  alignas(cs::Tensor) std::byte places[2][sizeof(cs::Tensor)];
  auto* freed = new (places[0]) cs::Tensor(cs::zeros({2}));
  freed->~Tensor();  // the last allocation: nobody takes its place
  scene.freed = freed;
  std::memset(places[1], 0x11, sizeof places[1]);
  scene.wild = reinterpret_cast<const cs::Tensor*>(places[1]);
  stop_here(scene);
  return h.defined() ? 0 : 1;
}
