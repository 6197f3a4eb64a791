// Which instruction set the kernels use.
//
// Every kernel is compiled for SSE4, AVX2 and AVX-512 (x86) or NEON (Arm); the best one this CPU has is chosen once, at
// the first use. REEL_CPU=sse4|avx2|avx512|neon forces one, for tests and comparisons; it throws Error where the CPU
// lacks it.
#pragma once

#include <string>
#include <vector>

namespace reel::kernels {

std::string target();                          // the one in use, e.g. "avx2"
std::vector<std::string> available_targets();  // compiled in and supported by this CPU, best first
void set_target(const std::string& name);      // tests only: not while kernels run
int vector_floats();                           // f32 lanes of the target in use

// AMX: found by trying, not by CPUID alone, because some virtual machines hide its leaves although the tiles work.
bool amx_works();

// Chooses the target if nobody did yet.
void choose_target_once();

}  // namespace reel::kernels

// Calls FUNCTION of the chosen target: REEL_DISPATCH(Function)(arguments). Needs HWY_EXPORT(Function) in the same
// namespace.
#define REEL_DISPATCH(FUNCTION) (::reel::kernels::choose_target_once(), HWY_DYNAMIC_DISPATCH(FUNCTION))
