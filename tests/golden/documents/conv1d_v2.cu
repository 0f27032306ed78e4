extern "C" __global__ void __launch_bounds__(8) main_kernel(
    const float* __restrict__ A,
    const float* __restrict__ W,
    float* __restrict__ B
) {
  const int blockIdx_x = blockIdx.x;
  const int threadIdx_x = threadIdx.x;
  if (blockIdx_x * 8 + threadIdx_x < 16415) {
    B[blockIdx_x * 8 + threadIdx_x] = 0.0f;
  }
  for (int r = 0; r < 32; ++r) {
    if (blockIdx_x * 8 + threadIdx_x < 16415) {
      B[blockIdx_x * 8 + threadIdx_x] = B[blockIdx_x * 8 + threadIdx_x] + (0 <= blockIdx_x * 8 + threadIdx_x - r && blockIdx_x * 8 + threadIdx_x - r < 16384 ? A[blockIdx_x * 8 + threadIdx_x - r] : 0.0f) * W[r];
    }
  }
}
