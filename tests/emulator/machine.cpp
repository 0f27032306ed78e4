// A block of a CUDA grid on one core of a CPU: threads are fibers, which run in random order up to the next barrier.
//
// What it checks, beside the results: every access lies in an array (of the grid, of shared memory, of the thread), 16
// bytes of ldmatrix, stmatrix and copies are aligned, no thread reads or overwrites shared memory that another one of its
// block has written or read since the last barrier, all lanes of a warp come to the same collective instruction, and
// all living threads come to a barrier. Shared memory is NaN at first, and so is what a copy that is not awaited fills.
//
// Fragments are written down from the PTX ISA, sections "Matrix Fragments for mma.m16n8k16" and its kin.

#include "machine.hpp"

#include <immintrin.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

Index3 threadIdx, blockIdx, blockDim, gridDim;

namespace {

constexpr size_t STACK = 256 << 10;

enum State { RUNNABLE, AT_BARRIER, IN_WARP, DONE };

struct Copy {
  char* to;
  const char* from;
  int size, given;
};

struct Thread {
  void* stack_pointer = nullptr;
  char* stack = nullptr;
  Index3 index;
  State state = RUNNABLE;
  void* operands = nullptr;
  const char* instruction = nullptr;
  std::vector<Copy> issued;
  std::deque<std::vector<Copy>> groups;
  std::vector<GroupProduct> multiplied;
  std::deque<std::vector<GroupProduct>> products;
  std::vector<bool*> unfenced;
  bool may_multiply = false;
};

struct Touch {  // who accessed a byte of shared memory last, and when
  int thread = -1;
  unsigned block_epoch = 0, warp_epoch = 0;
  bool by_several = false;
};

struct Region {
  char* begin;
  size_t size;
  unsigned address;
  std::vector<Touch> written, read;
  bool* unfenced;  // bytes that threads have written, which wgmma does not see yet
};

struct Range {
  const char *begin, *end;
};

std::vector<Thread> threads;
std::vector<Region> regions;
std::vector<Range> arrays;
std::vector<unsigned> warp_epochs;
std::vector<char> pool;
std::vector<char*> stacks;
Thread* current = nullptr;
void* scheduler = nullptr;
unsigned block_epoch = 1;
unsigned long long random_state = 1;
bool failed = false;
std::string message;
void (*kernel)(void**) = nullptr;
void** arguments = nullptr;

unsigned random_below(unsigned count) {
  random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
  return (unsigned)((random_state >> 33) % count);
}

int number(const Thread* t) { return (int)(t - threads.data()); }

}  // namespace

extern "C" void emulated_switch(void** save, void* load);
asm(R"(
.text
.globl emulated_switch
.type emulated_switch, @function
emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

static void yield_now() { emulated_switch(&current->stack_pointer, scheduler); }

void fail(const char* format, ...) {
  if (!failed) {
    char text[500], full[800];
    va_list rest;
    va_start(rest, format);
    vsnprintf(text, sizeof text, format, rest);
    va_end(rest);
    snprintf(full, sizeof full, "%s (block %u, %u, %u, thread %u, %u, %u)", text, blockIdx.x, blockIdx.y, blockIdx.z,
             threadIdx.x, threadIdx.y, threadIdx.z);
    message = full;
  }
  failed = true;
  if (current) {
    current->state = DONE;
    yield_now();
    abort();  // a thread that failed never runs again
  }
}

static void body() {
  kernel(arguments);
  current->state = DONE;
  yield_now();
  abort();
}

// Barriers and warps

void __syncthreads() {
  current->state = AT_BARRIER;
  yield_now();
}

static int warp_of(const Thread* t) { return number(t) / 32; }

/// Wait until all lanes of the warp, or of a warpgroup, are here; the last one computes for all of them.
static void together(const char* instruction, void* operands, void (*compute)(void**, int), int size = 32) {
  int first = number(current) / size * size, count = (int)threads.size() - first;
  if (count > size) count = size;
  current->operands = operands;
  current->instruction = instruction;
  current->state = IN_WARP;
  void* all[128];
  for (int i = 0; i < count; ++i) {
    Thread& lane = threads[first + i];
    if (lane.state != IN_WARP) {
      if (lane.state == DONE) fail("%s: lane %d has left the kernel", instruction, i);
      if (lane.state == AT_BARRIER) fail("%s: lane %d is at a barrier", instruction, i);
      yield_now();
      return;
    }
    if (strcmp(lane.instruction, instruction)) fail("%s: lane %d is at %s", instruction, i, lane.instruction);
    all[i] = lane.operands;
  }
  compute(all, count);
  for (int i = 0; i < count; ++i) threads[first + i].state = RUNNABLE;
}

void __syncwarp(unsigned) {
  together("__syncwarp", nullptr, [](void**, int) { ++warp_epochs[warp_of(current)]; });
}

struct Shuffle {
  unsigned long long value, found;
  int argument, width;
};

static void shuffled(void** all, int count, bool down) {
  for (int i = 0; i < count; ++i) {
    Shuffle* mine = (Shuffle*)all[i];
    int width = mine->width, start = i / width * width;
    int from = down ? i + mine->argument : start + mine->argument % width;
    if (from >= start + width || from >= count) from = i;
    mine->found = ((Shuffle*)all[from])->value;
  }
}

unsigned long long emulated_shuffle(unsigned long long value, int argument, int width, bool down) {
  Shuffle mine{value, 0, argument, width};
  if (down)
    together("shfl.down", &mine, [](void** all, int count) { shuffled(all, count, true); });
  else
    together("shfl.idx", &mine, [](void** all, int count) { shuffled(all, count, false); });
  return mine.found;
}

struct Vote {
  bool holds, all;
};

int __all_sync(unsigned, int holds) {
  Vote mine{(bool)holds, true};
  together("vote.all", &mine, [](void** all, int count) {
    bool every = true;
    for (int i = 0; i < count; ++i) every &= ((Vote*)all[i])->holds;
    for (int i = 0; i < count; ++i) ((Vote*)all[i])->all = every;
  });
  return mine.all;
}

// Shared memory

void emulated_shared(void* begin, size_t size) {
  for (Region& region : regions)
    if (region.begin == begin) return;
  unsigned address = regions.empty() ? 1024 : (regions.back().address + (unsigned)regions.back().size + 1023) / 1024 * 1024;
  regions.push_back({(char*)begin, size, address, std::vector<Touch>(size), std::vector<Touch>(size), new bool[size]()});
  memset(begin, 0xff, size);
}

void* emulated_dynamic_shared() {
  size_t start = (1024 - (size_t)pool.data() % 1024) % 1024;
  emulated_shared(pool.data() + start, pool.size() - 1024);
  return pool.data() + start;
}

static Region* region_at(const void* p, size_t size) {
  for (Region& region : regions)
    if ((char*)p >= region.begin && (char*)p + size <= region.begin + region.size) return &region;
  return nullptr;
}

size_t __cvta_generic_to_shared(const void* p) {
  Region* nearest = nullptr;  // lanes whose address is not used may point beyond an array
  for (Region& region : regions)
    if ((char*)p >= region.begin && (!nearest || region.begin > nearest->begin)) nearest = &region;
  if (!nearest) fail("an address that is not one of shared memory is taken for one");
  return nearest->address + ((char*)p - nearest->begin);
}

static char* at_shared(unsigned address, size_t size, const char* what) {
  for (Region& region : regions)
    if (address >= region.address && address + size <= region.address + region.size)
      return region.begin + (address - region.address);
  fail("%s beyond shared memory", what);
  return nullptr;
}

/// Whether another thread's access was made since the last barrier that both have passed.
static bool unordered(const Touch& touch) {
  if (touch.thread < 0 || touch.block_epoch != block_epoch || touch.thread == number(current)) return false;
  int warp = warp_of(current);
  return touch.thread / 32 != warp || touch.warp_epoch == warp_epochs[warp];
}

static void touch(Region& region, size_t at, bool writes) {
  Touch &written = region.written[at], &read = region.read[at];
  Touch now{number(current), block_epoch, warp_epochs[warp_of(current)], false};
  if (writes) {
    // Several may write the same value, as several threads that load one element do; what differs shows in results.
    if (unordered(read) || (read.by_several && read.block_epoch == block_epoch))
      fail("a race: byte %zu of shared memory is written, which thread %d reads", at, read.thread);
    now.by_several = unordered(written) || (written.by_several && written.block_epoch == block_epoch);
    written = now;
    region.unfenced[at] = true;
    current->unfenced.push_back(&region.unfenced[at]);
  } else {
    if (unordered(written) && !written.by_several)
      fail("a race: byte %zu of shared memory is read, which thread %d writes", at, written.thread);
    now.by_several = read.block_epoch == block_epoch && (read.by_several || read.thread != now.thread) && unordered(read);
    read = now;
  }
}

static void access(const void* p, size_t size, bool writes) {
  if (!current || failed) return;
  char* at = (char*)p;
  if (at >= current->stack && at + size <= current->stack + STACK) return;
  if (Region* region = region_at(p, size)) {
    size_t first = at - region->begin;
    for (size_t i = 0; i < size; ++i) touch(*region, first + i, writes);
    return;
  }
  for (const Range& array : arrays)
    if (at >= array.begin && at + size <= array.end) return;
  for (const Range& array : arrays)
    if (at + size > array.begin - 4096 && at < array.end + 4096)
      fail("%s of %zu bytes at byte %td of an array of %td bytes", writes ? "a store" : "a load", size,
           at - array.begin, array.end - array.begin);
  fail("%s of %zu bytes that lie in no array", writes ? "a store" : "a load", size);
}

void emulated_access(const void* p, size_t size, bool writes) { access(p, size, writes); }

// What -fsanitize=kernel-address and -fsanitize=alignment call
#define ACCESSES(size)                                                                        \
  extern "C" void __asan_load##size##_noabort(const void* p) { access(p, size, false); } \
  extern "C" void __asan_store##size##_noabort(const void* p) { access(p, size, true); }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
extern "C" void __asan_loadN_noabort(const void* p, size_t size) { access(p, size, false); }
extern "C" void __asan_storeN_noabort(const void* p, size_t size) { access(p, size, true); }
extern "C" void __asan_handle_no_return() {}
extern "C" void __ubsan_handle_type_mismatch_v1(void*, unsigned long long at) {
  fail("an access at %#llx is not aligned", at);
}

// Asynchronous copies

static Region* region_at(const void* p, size_t size);

static void complete(const std::vector<Copy>& group) {
  for (const Copy& copy : group) {
    Region* region = region_at(copy.to, copy.size);
    for (int i = 0; i < copy.size; ++i) {
      bool* byte = &region->unfenced[copy.to - region->begin + i];
      *byte = true;
      current->unfenced.push_back(byte);
    }
    memset(copy.to, 0, copy.size);
    memcpy(copy.to, copy.from, copy.given);
  }
}

void emulated_copy(size_t to, const void* from, int size, int given) {
  if (to % size || (size_t)from % size) fail("a copy of %d bytes is not aligned", size);
  if (given < 0 || given > size) fail("a copy of %d bytes takes %d", size, given);
  char* place = at_shared((unsigned)to, size, "a copy");
  access(place, size, true);
  if (given) access(from, given, false);
  memset(place, 0xff, size);
  current->issued.push_back({place, (const char*)from, size, given});
}

void emulated_commit() {
  current->groups.push_back(std::move(current->issued));
  current->issued.clear();
}

void emulated_wait(int pending) {
  while ((int)current->groups.size() > pending) {
    complete(current->groups.front());
    current->groups.pop_front();
  }
}

// Matrices

struct LoadMatrix {
  int count;
  bool transposed;
  unsigned at;
  unsigned* words[4];
};

/// Row r of matrix q are the 16 bytes that lane 8 q + r points to; a lane gets elements 2 (lane % 4) of row lane / 4.
static void load_matrices(void** all, int count) {
  if (count != 32) fail("ldmatrix in a warp of %d lanes", count);
  for (int q = 0; q < ((LoadMatrix*)all[0])->count; ++q) {
    unsigned short tile[8][8];
    for (int r = 0; r < 8; ++r) {
      unsigned at = ((LoadMatrix*)all[8 * q + r])->at;
      if (at % 16) fail("ldmatrix at byte %u", at);
      memcpy(tile[r], at_shared(at, 16, "ldmatrix"), 16);
    }
    for (int lane = 0; lane < 32; ++lane) {
      LoadMatrix* into = (LoadMatrix*)all[lane];
      int row = lane / 4, column = lane % 4 * 2;
      unsigned low = into->transposed ? tile[column][row] : tile[row][column];
      unsigned high = into->transposed ? tile[column + 1][row] : tile[row][column + 1];
      *into->words[q] = low | high << 16;
    }
  }
}

void emulated_ldmatrix(int count, bool transposed, unsigned* const* words, unsigned at) {
  LoadMatrix mine{count, transposed, at, {}};
  for (int i = 0; i < count; ++i) mine.words[i] = words[i];
  int lane = number(current) % 32;
  if (lane < 8 * count) access(at_shared(at, 16, "ldmatrix"), 16, false);
  together(transposed ? "ldmatrix.trans" : "ldmatrix", &mine, load_matrices);
}

struct StoreMatrix {
  int count;
  bool transposed;
  unsigned at;
  unsigned words[4];
};

/// The inverse of `load_matrices`.
static void store_matrices(void** all, int count) {
  if (count != 32) fail("stmatrix in a warp of %d lanes", count);
  for (int q = 0; q < ((StoreMatrix*)all[0])->count; ++q) {
    unsigned short tile[8][8];
    for (int lane = 0; lane < 32; ++lane) {
      StoreMatrix* from = (StoreMatrix*)all[lane];
      for (int i = 0; i < 2; ++i) {
        int row = lane / 4, column = lane % 4 * 2 + i;
        (from->transposed ? tile[column][row] : tile[row][column]) = (unsigned short)(from->words[q] >> 16 * i);
      }
    }
    for (int r = 0; r < 8; ++r) memcpy(at_shared(((StoreMatrix*)all[8 * q + r])->at, 16, "stmatrix"), tile[r], 16);
  }
}

void emulated_stmatrix(int count, bool transposed, const unsigned* words, unsigned at) {
  StoreMatrix mine{count, transposed, at, {}};
  for (int i = 0; i < count; ++i) mine.words[i] = words[i];
  if (number(current) % 32 < 8 * count) {
    if (at % 16) fail("stmatrix at byte %u", at);
    access(at_shared(at, 16, "stmatrix"), 16, true);
  }
  together(transposed ? "stmatrix.trans" : "stmatrix", &mine, store_matrices);
}

float emulated_half(unsigned short bits) { return _cvtsh_ss(bits); }
unsigned short emulated_half_bits(float x) { return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }

static float from_bits(unsigned bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

unsigned emulated_bits(float x) {
  unsigned bits;
  memcpy(&bits, &x, 4);
  return bits;
}

unsigned short emulated_bfloat_bits(float x, bool to_zero) {
  unsigned bits = emulated_bits(x);
  if (x != x) return 0x7fff;
  return (unsigned short)((to_zero ? bits : bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// The float32 nearest to x that is not further from zero: so tensor cores add.
static float truncated(double x) {
  float near = (float)x;
  if (near == near && fabs((double)near) > fabs(x) && !isinf(near)) near = nextafterf(near, 0.0f);
  return near;
}

static double element(Type type, unsigned long long word, int i) {
  double x;
  switch (type) {
    case F16: return emulated_half((unsigned short)(word >> 16 * i));
    case BF16: return from_bits((unsigned)(word >> 16 * i) << 16);
    case TF32: return from_bits((unsigned)word & 0xffffe000u);
    case S8: return (signed char)(word >> 8 * i);
    case U8: return (unsigned char)(word >> 8 * i);
    default: memcpy(&x, &word, 8); return x;
  }
}

static void multiply(void** all, int count) {
  const Product& what = *(Product*)all[0];
  if (count != 32) fail("mma.sync in a warp of %d lanes", count);
  int per = what.k / (what.m == 8 ? 4 : 8);
  double a[16][32], b[32][8];
  for (int lane = 0; lane < 32; ++lane) {
    const Product& mine = *(Product*)all[lane];
    int group = lane / 4, member = lane % 4;
    for (int r = 0; r < mine.a_count; ++r)
      for (int i = 0; i < per; ++i)
        a[group + 8 * (r % 2)][member * per + i + r / 2 * (what.k / 2)] = element(what.type, mine.a[r], i);
    for (int r = 0; r < mine.b_count; ++r)
      for (int i = 0; i < per; ++i)
        b[member * per + i + r * (what.k / 2)][group] = element(what.type, mine.b[r], i);
  }
  for (int lane = 0; lane < 32; ++lane) {
    const Product& mine = *(Product*)all[lane];
    for (int i = 0; i < what.m / 4; ++i) {
      int row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
      double sum = 0;
      for (int x = 0; x < what.k; ++x) sum += a[row][x] * b[x][column];
      if (what.sums == SUM_S32) {
        int* d = (int*)mine.d[i];
        *d = (int)((unsigned)*d + (unsigned)(long long)sum);
      } else if (what.sums == SUM_F64) {
        *(double*)mine.d[i] += sum;
      } else if (what.sums == SUM_F32) {
        *(float*)mine.d[i] = truncated(*(float*)mine.d[i] + sum);
      } else {
        unsigned short* d = (unsigned short*)mine.d[i / 2] + i % 2;
        *d = emulated_half_bits((float)(emulated_half(*d) + sum));
      }
    }
  }
}

void emulated_mma(Product* mine) { together("mma.sync", mine, multiply); }

// Warpgroups

/// Row r of a matrix is 128 bytes behind row r - 1, and 8 rows so far behind the 8 before as the matrix says. Of 128
/// bytes, piece p of 16 lies at p xor the number of the 128 bytes.
static char* byte_of(unsigned long long matrix, int row, int byte) {
  if (matrix >> 62 != 1) fail("wgmma: the matrix is not swizzled by 128 bytes");
  if (matrix >> 49 & 7) fail("wgmma: the matrix has a base offset");
  unsigned start = (unsigned)(matrix & 0x3fff) << 4, apart = (unsigned)(matrix >> 32 & 0x3fff) << 4;
  if (start >> 7 & 7) fail("wgmma: a matrix begins within 1,024 bytes");
  unsigned at = start + row / 8 * apart + row % 8 * 128 + byte;
  return at_shared(at ^ (at >> 7 & 7) << 4, 1, "wgmma");
}

static int bytes_of(Type type) { return type == TF32 ? 4 : type == S8 || type == U8 ? 1 : 2; }

/// The place of a byte of a column's term: lines of 64 columns, groups of 8 terms, and groups of 64 columns apart.
static char* byte_of_turned(unsigned long long matrix, int column, int term, int byte) {
  unsigned groups = (unsigned)(matrix >> 16 & 0x3fff) << 4, terms = (unsigned)(matrix >> 32 & 0x3fff) << 4;
  unsigned long long from = matrix & ~(0x3fffull << 16) & ~(0x3fffull << 32);
  unsigned start = (unsigned)(matrix & 0x3fff) + (column / 64 * groups + term / 8 * terms >> 4);
  return byte_of((from & ~0x3fffull) | start, term % 8, column % 64 * 2 + byte);
}

static double element_at(const GroupProduct& what, unsigned long long matrix, int row, int x) {
  unsigned long long word = 0;
  int size = bytes_of(what.type);
  for (int i = 0; i < size; ++i) word |= (unsigned long long)(unsigned char)*byte_of(matrix, row, x * size + i) << 8 * i;
  return element(what.type, word, 0);
}

static double element_of_b(const GroupProduct& what, int column, int term) {
  if (!what.turned) return element_at(what, what.b, column, term);
  unsigned long long word = 0;
  for (int i = 0; i < 2; ++i)
    word |= (unsigned long long)(unsigned char)*byte_of_turned(what.b, column, term, i) << 8 * i;
  return element(what.type, word, 0);
}

static void read_matrix(const GroupProduct& what, unsigned long long matrix, int rows, bool turned) {
  for (int row = 0; row < rows; ++row)
    for (int byte = 0; byte < what.k * bytes_of(what.type); ++byte) {
      char* at = turned ? byte_of_turned(matrix, row, byte / 2, byte % 2) : byte_of(matrix, row, byte);
      Region* region = region_at(at, 1);
      touch(*region, at - region->begin, false);
      if (region->unfenced[at - region->begin]) fail("wgmma reads what no fence.proxy.async has made visible");
    }
}

static void issue(void** all, int count) {
  if (count != 128) fail("wgmma in a warpgroup of %d threads", count);
  const GroupProduct& what = *(GroupProduct*)all[0];
  for (int i = 0; i < 128; ++i) {
    const GroupProduct& mine = *(GroupProduct*)all[i];
    if (mine.a != what.a || mine.b != what.b) fail("wgmma: thread %d has another matrix", i);
  }
  read_matrix(what, what.a, 64, false);
  read_matrix(what, what.b, what.n, what.turned);
}

/// The sums of a lane: of row 16 w + lane / 4 for warp w and 8 rows on, two neighbours of every 8 columns.
static void multiply_group(const GroupProduct& what, int thread) {
  int warp = thread / 32 % 4, lane = thread % 32;
  for (int i = 0; i < what.n / 2; ++i) {
    int row = 16 * warp + lane / 4 + 8 * (i / 2 % 2), column = 8 * (i / 4) + lane % 4 * 2 + i % 2;
    double sum = 0;
    for (int x = 0; x < what.k; ++x) sum += element_at(what, what.a, row, x) * element_of_b(what, column, x);
    if (what.sums == SUM_S32) {
      int* d = (int*)what.d[i];
      *d = (int)((unsigned)*d + (unsigned)(long long)sum);
    } else if (what.sums == SUM_F32) {
      *(float*)what.d[i] = truncated(*(float*)what.d[i] + sum);
    } else {
      unsigned short* d = (unsigned short*)what.d[i / 2] + i % 2;
      *d = emulated_half_bits((float)(emulated_half(*d) + sum));
    }
  }
}

void emulated_wgmma(const GroupProduct& mine) {
  GroupProduct own = mine;
  if (!current->may_multiply) fail("wgmma without wgmma.fence");
  current->multiplied.push_back(mine);
  together("wgmma", &own, issue, 128);
}

static void nothing(void**, int) {}

void emulated_wgmma_fence() {
  current->may_multiply = true;
  together("wgmma.fence", nullptr, nothing, 128);
}

void emulated_wgmma_commit() {
  current->products.push_back(std::move(current->multiplied));
  current->multiplied.clear();
  together("wgmma.commit_group", nullptr, nothing, 128);
}

/// Products are computed only here, from what lies in memory then: sums that are read before are old ones.
void emulated_wgmma_wait(int pending) {
  together("wgmma.wait_group", nullptr, nothing, 128);
  while ((int)current->products.size() > pending) {
    for (const GroupProduct& what : current->products.front()) multiply_group(what, number(current));
    current->products.pop_front();
  }
  current->may_multiply = false;
}

void emulated_fence_async() {
  for (bool* byte : current->unfenced) *byte = false;
  current->unfenced.clear();
}

// Grids

static void start_thread(Thread& t, char* stack) {
  t.stack = stack;
  void** top = (void**)(stack + STACK - 64);
  *--top = nullptr;
  *--top = (void*)body;
  top -= 6;
  memset(top, 0, 48);
  t.stack_pointer = top;
}

static void run_block() {
  size_t count = (size_t)blockDim.x * blockDim.y * blockDim.z;
  threads.assign(count, Thread());
  warp_epochs.assign((count + 31) / 32, 0);
  for (Region& region : regions) {
    memset(region.begin, 0xff, region.size);
    memset(region.unfenced, 0, region.size);
  }
  while (stacks.size() < count) {
    void* made = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return fail("no memory for the stack of a thread");
    stacks.push_back((char*)made);
  }
  for (size_t i = 0; i < count; ++i) {
    threads[i].index = {(unsigned)(i % blockDim.x), (unsigned)(i / blockDim.x % blockDim.y),
                        (unsigned)(i / blockDim.x / blockDim.y)};
    start_thread(threads[i], stacks[i]);
  }
  ++block_epoch;
  std::vector<Thread*> ready;
  while (!failed) {
    ready.clear();
    for (Thread& t : threads)
      if (t.state == RUNNABLE) ready.push_back(&t);
    if (ready.empty()) {
      bool waiting = false;
      for (Thread& t : threads) {
        if (t.state == IN_WARP) {
          current = nullptr;
          threadIdx = t.index;
          return fail("%s: the other lanes do not come", t.instruction);
        }
        if (t.state == AT_BARRIER) {
          waiting = true;
          t.state = RUNNABLE;
        }
      }
      if (!waiting) break;
      ++block_epoch;
      continue;
    }
    while (!ready.empty() && !failed) {  // each of them once, in random order
      unsigned which = random_below((unsigned)ready.size());
      current = ready[which];
      ready[which] = ready.back();
      ready.pop_back();
      threadIdx = current->index;
      emulated_switch(&scheduler, current->stack_pointer);
      current = nullptr;
    }
  }
}

int emulated_run(void (*start)(void**), void** args, const unsigned* extents, size_t dynamic_bytes,
                 const size_t* ranges, int range_count, unsigned seed, char* text, size_t size) {
  kernel = start;
  arguments = args;
  failed = false;
  random_state = seed * 2 + 1;
  gridDim = {extents[0], extents[1], extents[2]};
  blockDim = {extents[3], extents[4], extents[5]};
  pool.resize(dynamic_bytes + 1024);
  arrays.clear();
  for (int i = 0; i < range_count; ++i) arrays.push_back({(char*)ranges[2 * i], (char*)ranges[2 * i + 1]});
  regions.clear();
  for (unsigned z = 0; z < gridDim.z && !failed; ++z)
    for (unsigned y = 0; y < gridDim.y && !failed; ++y)
      for (unsigned x = 0; x < gridDim.x && !failed; ++x) {
        blockIdx = {x, y, z};
        run_block();
      }
  if (failed) snprintf(text, size, "%s", message.c_str());
  return failed;
}
