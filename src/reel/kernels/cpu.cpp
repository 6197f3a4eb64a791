#include "reel/kernels/cpu.h"

#include <csetjmp>
#include <csignal>
#include <cstdlib>

#include "reel/base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reel/kernels/cpu.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/highway.h>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace reel::kernels::HWY_NAMESPACE {
int VectorFloats() { return static_cast<int>(hwy::HWY_NAMESPACE::Lanes(hwy::HWY_NAMESPACE::ScalableTag<float>())); }
}  // namespace reel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reel::kernels {

HWY_EXPORT(VectorFloats);

namespace {

struct Name {
  const char* name;
  std::int64_t target;
};
constexpr Name kNames[] = {{"avx512", HWY_AVX3}, {"avx2", HWY_AVX2}, {"sse4", HWY_SSE4}, {"neon", HWY_NEON}};

void use(std::int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(target);
}

std::int64_t available() {
  hwy::SetSupportedTargetsForTest(0);
  return hwy::SupportedTargets() & HWY_TARGETS;
}

std::int64_t& chosen() {
  static std::int64_t target = 0;
  return target;
}

}  // namespace

std::vector<std::string> available_targets() {
  const std::int64_t have = available();
  if (chosen() != 0) use(chosen());
  std::vector<std::string> names;
  for (const Name& entry : kNames) {
    if (have & entry.target) names.push_back(entry.name);
  }
  return names;
}

void set_target(const std::string& name) {
  const std::int64_t have = available();
  for (const Name& entry : kNames) {
    if (name == entry.name && (have & entry.target)) {
      chosen() = entry.target;
      use(entry.target);
      return;
    }
  }
  if (chosen() != 0) use(chosen());
  std::string list;
  for (const std::string& entry : available_targets()) list += (list.empty() ? "" : ", ") + entry;
  throw Error(fmt::format("instruction set '{}' is not available", name),
              list.empty() ? "this CPU is too old: reel needs at least SSE4.2" : "available here: " + list);
}

void choose_target_once() {
  static const bool done = [] {
    if (chosen() != 0) return true;
    const char* forced = std::getenv("REEL_CPU");
    if (forced != nullptr && *forced != '\0') {
      try {
        set_target(forced);
      } catch (const Error& error) {
        throw Error(fmt::format("REEL_CPU={}: {}", forced, error.what()), error.hint());
      }
      return true;
    }
    const auto names = available_targets();
    set_target(names.empty() ? "none" : names.front());
    return true;
  }();
  (void)done;
}

std::string target() {
  choose_target_once();
  for (const Name& entry : kNames) {
    if (entry.target == chosen()) return entry.name;
  }
  return "unknown";
}

int vector_floats() { return REEL_DISPATCH(VectorFloats)(); }

#if defined(__x86_64__) && defined(__linux__)
namespace {
sigjmp_buf amx_failed;
void on_illegal_instruction(int) { siglongjmp(amx_failed, 1); }

// One palette-1 configuration and one tile instruction, as bytes so that any assembler takes them.
bool try_tiles() {
  alignas(64) unsigned char config[64] = {1};  // palette 1
  config[16] = 64;                             // tile 0: 64 bytes a row
  config[48] = 16;                             // 16 rows
  if (sigsetjmp(amx_failed, 1) != 0) return false;
  asm volatile(".byte 0xc4,0xe2,0x78,0x49,0x00" ::"a"(config) : "memory");  // ldtilecfg [rax]
  asm volatile(".byte 0xc4,0xe2,0x7b,0x49,0xc0");                           // tilezero tmm0
  asm volatile(".byte 0xc4,0xe2,0x78,0x49,0xc0");                           // tilerelease
  return true;
}
}  // namespace

bool amx_works() {
  static const bool works = [] {
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) return false;
    struct sigaction action = {}, before = {};
    action.sa_handler = on_illegal_instruction;
    sigaction(SIGILL, &action, &before);
    const bool ok = try_tiles();
    sigaction(SIGILL, &before, nullptr);
    return ok;
  }();
  return works;
}
#else
bool amx_works() { return false; }
#endif

}  // namespace reel::kernels
#endif  // HWY_ONCE
