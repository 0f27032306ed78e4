extern "C" __global__ void __launch_bounds__(1) main_kernel(
    const float* __restrict__ A,
    const float* __restrict__ W,
    float* __restrict__ depthwise_conv
) {
  const int blockIdx_x = blockIdx.x;
  const int blockIdx_y = blockIdx.y;
  for (int h = 0; h < 16; ++h) {
    for (int w = 0; w < 32; ++w) {
      depthwise_conv[blockIdx_x * 2048 + blockIdx_y * 512 + h * 32 + w] = 0.0f;
      for (int ry = 0; ry < 7; ++ry) {
        for (int rx = 0; rx < 7; ++rx) {
          depthwise_conv[blockIdx_x * 2048 + blockIdx_y * 512 + h * 32 + w] = depthwise_conv[blockIdx_x * 2048 + blockIdx_y * 512 + h * 32 + w] + (3 <= h + ry && h + ry < 19 && 3 <= w + rx && w + rx < 35 ? A[blockIdx_x * 2048 + blockIdx_y * 512 + h * 32 + ry * 32 + w + rx - 99] : 0.0f) * W[blockIdx_y * 49 + ry * 7 + rx];
        }
      }
    }
  }
}
