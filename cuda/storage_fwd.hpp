#pragma once
namespace capstan::on_cuda {
struct GpuStorage;
}
