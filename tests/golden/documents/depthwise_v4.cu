extern "C" __global__ void __launch_bounds__(256) main_kernel(
    const float* __restrict__ A,
    const float* __restrict__ W,
    float* __restrict__ depthwise_conv
) {
  const int blockIdx_x = blockIdx.x;
  const int blockIdx_y = blockIdx.y;
  const int threadIdx_x = threadIdx.x;
  const int threadIdx_y = threadIdx.y;
  depthwise_conv[blockIdx_x * 512 + threadIdx_y * 32 + blockIdx_y * 16 + threadIdx_x] = 0.0f;
  for (int ry = 0; ry < 7; ++ry) {
    for (int rx = 0; rx < 7; ++rx) {
      depthwise_conv[blockIdx_x * 512 + threadIdx_y * 32 + blockIdx_y * 16 + threadIdx_x] = depthwise_conv[blockIdx_x * 512 + threadIdx_y * 32 + blockIdx_y * 16 + threadIdx_x] + (3 <= threadIdx_y + ry && threadIdx_y + ry < 19 && 3 <= blockIdx_y * 16 + threadIdx_x + rx && blockIdx_y * 16 + threadIdx_x + rx < 35 ? A[blockIdx_x * 512 + threadIdx_y * 32 + ry * 32 + blockIdx_y * 16 + threadIdx_x + rx - 99] : 0.0f) * W[blockIdx_x % 4 * 49 + ry * 7 + rx];
    }
  }
}
