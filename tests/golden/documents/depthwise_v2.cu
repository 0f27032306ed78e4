extern "C" __global__ void __launch_bounds__(1) main_kernel(
    const float* __restrict__ A,
    const float* __restrict__ W,
    float* __restrict__ depthwise_conv
) {
  const int blockIdx_x = blockIdx.x;
  const int blockIdx_y = blockIdx.y;
  for (int w = 0; w < 32; ++w) {
    depthwise_conv[blockIdx_x * 512 + blockIdx_y * 32 + w] = 0.0f;
    for (int ry = 0; ry < 7; ++ry) {
      for (int rx = 0; rx < 7; ++rx) {
        depthwise_conv[blockIdx_x * 512 + blockIdx_y * 32 + w] = depthwise_conv[blockIdx_x * 512 + blockIdx_y * 32 + w] + (3 <= blockIdx_y + ry && blockIdx_y + ry < 19 && 3 <= w + rx && w + rx < 35 ? A[blockIdx_x * 512 + blockIdx_y * 32 + ry * 32 + w + rx - 99] : 0.0f) * W[blockIdx_x % 4 * 49 + ry * 7 + rx];
      }
    }
  }
}
