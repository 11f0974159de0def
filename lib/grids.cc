// SPDX-License-Identifier: Apache-2.0
#include "lib/grids.h"

#include "lib/error.h"

namespace so4cal {
namespace {

constexpr Named<GridKind> kGridKinds[] = {
    {GridKind::kSymmetric, "symmetric", "2^bits - 1 evenly spaced levels around 0"},
    {GridKind::kFull, "full", "2^bits evenly spaced levels, the largest value exact by a signed scale"},
    {GridKind::kLloyd, "lloyd", "2^bits Lloyd-Max levels of a normal distribution"},
};
constexpr Named<ScaleRule> kScaleRules[] = {
    {ScaleRule::kAbsmax, "absmax", "the largest magnitude meets the outermost level"},
    {ScaleRule::kMse, "mse", "least squares after a search over 13 smaller and larger scales"},
};

constexpr float kSymmetric2[] = {-1, 0, 1};
constexpr float kSymmetric2Mid[] = {-0.5f, 0.5f};
constexpr float kSymmetric3[] = {-3, -2, -1, 0, 1, 2, 3};
constexpr float kSymmetric3Mid[] = {-2.5f, -1.5f, -0.5f, 0.5f, 1.5f, 2.5f};
constexpr float kSymmetric4[] = {-7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
constexpr float kSymmetric4Mid[] = {-6.5f, -5.5f, -4.5f, -3.5f, -2.5f, -1.5f, -0.5f,
                                    0.5f,  1.5f,  2.5f,  3.5f,  4.5f,  5.5f,  6.5f};

constexpr float kFull2[] = {-2, -1, 0, 1};
constexpr float kFull2Mid[] = {-1.5f, -0.5f, 0.5f};
constexpr float kFull3[] = {-4, -3, -2, -1, 0, 1, 2, 3};
constexpr float kFull3Mid[] = {-3.5f, -2.5f, -1.5f, -0.5f, 0.5f, 1.5f, 2.5f};
constexpr float kFull4[] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
constexpr float kFull4Mid[] = {-7.5f, -6.5f, -5.5f, -4.5f, -3.5f, -2.5f, -1.5f, -0.5f,
                               0.5f,  1.5f,  2.5f,  3.5f,  4.5f,  5.5f,  6.5f};

// Lloyd-Max levels of N(0,1); midpoints are the decimal means of neighbours.
constexpr float kLloyd2[] = {-1.51041f, -0.45277f, 0.45277f, 1.51041f};
constexpr float kLloyd2Mid[] = {-0.98159f, 0.0f, 0.98159f};
constexpr float kLloyd3[] = {-2.15180f, -1.34376f, -0.75588f, -0.24505f,
                             0.24505f,  0.75588f,  1.34376f,  2.15180f};
constexpr float kLloyd3Mid[] = {-1.74778f, -1.04982f, -0.500465f, 0.0f, 0.500465f, 1.04982f, 1.74778f};
constexpr float kLloyd4[] = {-2.73205f, -2.06840f, -1.61741f, -1.25561f, -0.94178f, -0.65630f,
                             -0.38773f, -0.12828f, 0.12828f,  0.38773f,  0.65630f,  0.94178f,
                             1.25561f,  1.61741f,  2.06840f,  2.73205f};
constexpr float kLloyd4Mid[] = {-2.400225f, -1.842905f, -1.43651f, -1.098695f, -0.79904f,
                                -0.522015f, -0.258005f, 0.0f,      0.258005f,  0.522015f,
                                0.79904f,   1.098695f,  1.43651f,  1.842905f,  2.400225f};

// Rungs first + step * k, k = 0..12, written out. How they were measured: lib/CODEC.md, "Scale rules".
constexpr float kSymmetric2Ratios[] = {0.30f, 0.34f, 0.38f, 0.42f, 0.46f, 0.50f, 0.54f,
                                       0.58f, 0.62f, 0.66f, 0.70f, 0.74f, 0.78f};
constexpr float kSymmetric3Ratios[] = {0.52f, 0.56f, 0.60f, 0.64f, 0.68f, 0.72f, 0.76f,
                                       0.80f, 0.84f, 0.88f, 0.92f, 0.96f, 1.00f};
constexpr float kSymmetric4Ratios[] = {0.78f, 0.81f, 0.84f, 0.87f, 0.90f, 0.93f, 0.96f,
                                       0.99f, 1.02f, 1.05f, 1.08f, 1.11f, 1.14f};
constexpr float kFull2Ratios[] = {0.52f, 0.57f, 0.62f, 0.67f, 0.72f, 0.77f, 0.82f,
                                  0.87f, 0.92f, 0.97f, 1.02f, 1.07f, 1.12f};
constexpr float kFull3Ratios[] = {0.68f, 0.73f, 0.78f, 0.83f, 0.88f, 0.93f, 0.98f,
                                  1.03f, 1.08f, 1.13f, 1.18f, 1.23f, 1.28f};
constexpr float kFull4Ratios[] = {0.84f, 0.87f, 0.90f, 0.93f, 0.96f, 0.99f, 1.02f,
                                  1.05f, 1.08f, 1.11f, 1.14f, 1.17f, 1.20f};
constexpr float kLloyd2Ratios[] = {0.36f, 0.40f, 0.44f, 0.48f, 0.52f, 0.56f, 0.60f,
                                   0.64f, 0.68f, 0.72f, 0.76f, 0.80f, 0.84f};
constexpr float kLloyd3Ratios[] = {0.60f, 0.65f, 0.70f, 0.75f, 0.80f, 0.85f, 0.90f,
                                   0.95f, 1.00f, 1.05f, 1.10f, 1.15f, 1.20f};
constexpr float kLloyd4Ratios[] = {0.80f, 0.84f, 0.88f, 0.92f, 0.96f, 1.00f, 1.04f,
                                   1.08f, 1.12f, 1.16f, 1.20f, 1.24f, 1.28f};

constexpr Grid kGrids[] = {
    {GridKind::kSymmetric, 2, kSymmetric2, kSymmetric2Mid, 1, 1, kSymmetric2Ratios},
    {GridKind::kSymmetric, 3, kSymmetric3, kSymmetric3Mid, 3, 3, kSymmetric3Ratios},
    {GridKind::kSymmetric, 4, kSymmetric4, kSymmetric4Mid, 7, 7, kSymmetric4Ratios},
    {GridKind::kFull, 2, kFull2, kFull2Mid, 2, 2, kFull2Ratios},
    {GridKind::kFull, 3, kFull3, kFull3Mid, 4, 4, kFull3Ratios},
    {GridKind::kFull, 4, kFull4, kFull4Mid, 8, 8, kFull4Ratios},
    {GridKind::kLloyd, 2, kLloyd2, kLloyd2Mid, 1.51041f, 2, kLloyd2Ratios},
    {GridKind::kLloyd, 3, kLloyd3, kLloyd3Mid, 2.15180f, 4, kLloyd3Ratios},
    {GridKind::kLloyd, 4, kLloyd4, kLloyd4Mid, 2.73205f, 8, kLloyd4Ratios},
};

}  // namespace

std::span<const Named<GridKind>> GridKinds() { return kGridKinds; }
std::span<const Named<ScaleRule>> ScaleRules() { return kScaleRules; }

const Grid& GridFor(GridKind kind, int bits) {
  for (const Grid& grid : kGrids)
    if (grid.kind == kind && grid.bits == bits) return grid;
  SO4CAL_CHECK(!"no such grid");
  return kGrids[0];
}

}  // namespace so4cal
