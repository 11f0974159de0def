// SPDX-License-Identifier: Apache-2.0
#include "app/verification.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "app/parallel.h"
#include "app/table_match.h"
#include "calib/metrics.h"
#include "calib/split.h"
#include "lib/error.h"
#include "lib/half.h"
#include "lib/row_codec.h"

namespace so4cal {
namespace {

// Exported matrices and blocks are floats: entries up to 1, sums of up to 1024 products.
constexpr double kMatrixLimit = 1e-5;
// bf16 moves an entry by at most 2^-8 of itself, so a row's products by at most twice that.
constexpr double kBf16Limit = 0x1p-7;
// What OSCAR's tools allow (_ORTHOGONALITY_TOLERANCE), in f32 when they write a file.
constexpr double kOscarLimit = 5e-3;
// The codec rotates in f32. Relative to the length of the vector.
constexpr double kVectorLimit = 1e-5;
// Of an NMSE: room for codes at a decision threshold that float matrices tip over.
constexpr double kErrorLimit = 1e-3;
constexpr int kVectorsPerHead = 4;

struct HeadRef {
  const LayerTable* layer;
  Side side;
  std::size_t head;
  const SideTable& side_table() const { return layer->side(side); }
  const HeadTable& table() const { return side_table().heads[head]; }
  std::string name() const { return fmt::format("layer {} {} head {}", layer->layer, SideName(side), head); }
};

std::vector<HeadRef> AllHeads(const RotationTable& table) {
  std::vector<HeadRef> heads;
  for (const LayerTable& layer : table.layers)
    for (const Side side : kSides)
      for (std::size_t h = 0; h < layer.side(side).heads.size(); ++h) heads.push_back({&layer, side, h});
  return heads;
}

// The largest of measure(head) over all heads and where it is, held to the limit. NaN fails.
template <class Measure>
CheckResult Worst(const RotationTable& table, const std::string& what, double limit, const Measure& measure,
                  double* figure = nullptr) {
  const std::vector<HeadRef> heads = AllHeads(table);
  std::vector<double> found(heads.size());
  ParallelFor(heads.size(), [&](std::size_t i) { found[i] = measure(heads[i]); });
  std::size_t worst = 0;
  for (std::size_t i = 1; i < found.size(); ++i)
    if (!(found[i] <= found[worst])) worst = i;
  if (figure != nullptr) *figure = found[worst];
  return {found[worst] <= limit, fmt::format("{} of {} heads: at most {:.2g} (limit {:.2g}), at {}", what,
                                             heads.size(), found[worst], limit, heads[worst].name())};
}

// Entries of U U^T - I for row-major U.
double OrthogonalityError(std::span<const double> u, std::size_t d) {
  double worst = 0;
  for (std::size_t i = 0; i < d; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = i == j ? -1 : 0;
      for (std::size_t k = 0; k < d; ++k) sum += u[i * d + k] * u[j * d + k];
      worst = std::max(worst, std::isfinite(sum) ? std::abs(sum) : INFINITY);
    }
  return worst;
}

double OrthogonalityErrorOf(const HeadRef& head) {
  const HeadTransform transform = head.table().Effective();
  return OrthogonalityError(DenseMatrix(transform), static_cast<std::size_t>(transform.head_dim));
}

double OrthogonalityErrorInBf16(const HeadRef& head) {
  const HeadTransform transform = head.table().Effective();
  std::vector<double> u = DenseMatrix(transform);
  for (double& entry : u) entry = double{FloatFromBfloat(BfloatFromFloat(static_cast<float>(entry)))};
  return OrthogonalityError(u, static_cast<std::size_t>(transform.head_dim));
}

// The same vectors for every head with this head_dim; entries between -1 and 1.
std::vector<float> PlantedVectors(int head_dim) {
  std::mt19937 random(1);
  std::vector<float> x(static_cast<std::size_t>(head_dim) * kVectorsPerHead);
  for (float& v : x) v = static_cast<float>(random()) / 2147483648.0F - 1.0F;
  return x;
}

// U (x - offset) by hand from the dense matrix.
std::vector<double> MatrixTimes(const HeadTransform& transform, std::span<const float> x) {
  const std::vector<double> u = DenseMatrix(transform);
  std::vector<double> z(x.size(), 0.0);
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double offset = transform.offset.empty() ? 0.0 : double{transform.offset[k]};
      z[i] += u[i * x.size() + k] * (double{x[k]} - offset);
    }
  return z;
}

template <class A, class B>
double RelativeDistance(const A& a, const B& b) {
  double distance = 0, length = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    distance += difference * difference;
    length += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return length == 0 ? std::sqrt(distance) : std::sqrt(distance / length);
}

double ConventionError(const HeadRef& head) {
  const CodecSpec& spec = head.side_table().codec;
  const HeadTransform transform = head.table().Effective();
  const HeadCodec codec(spec, head.table());
  const auto d = static_cast<std::size_t>(spec.head_dim);
  std::vector<float> x = PlantedVectors(spec.head_dim), z = x;
  // Around the offset: a far offset would hide the vector behind its own rounding.
  for (std::size_t i = 0; i < z.size() && !transform.offset.empty(); ++i)
    x[i] = z[i] += transform.offset[i % d];
  codec.Rotate(z);
  std::vector<float> back = z;
  codec.Unrotate(back);
  double worst = RelativeDistance(back, x);
  for (std::size_t v = 0; v < kVectorsPerHead; ++v) {
    const auto by_hand = MatrixTimes(transform, std::span(x).subspan(v * d, d));
    worst = std::max(worst, RelativeDistance(std::span(z).subspan(v * d, d), by_hand));
  }
  return worst;
}

// The same head of another table. Throws Error when there is none or it is stored differently.
const HeadTable& SameHead(const HeadRef& head, const RotationTable& reference) {
  const LayerTable* layer = reference.FindLayer(head.layer->layer);
  if (layer == nullptr || layer->side(head.side).heads.size() != head.side_table().heads.size())
    throw Error(head.name() + ": the --against table has other layers or heads");
  if (layer->side(head.side).codec != head.side_table().codec)
    throw Error(head.name() +
                ": the --against table has another codec (bits, block, grid, scale or head_dim)");
  return layer->side(head.side).heads[head.head];
}

// The same head of the reference, rounded as `head` is: files of rotations alone hold no metric.
HeadTable ExpectedHead(const HeadRef& head, const RotationTable& reference) {
  HeadTable expected = SameHead(head, reference);
  if (head.table().rounding != Rounding::kNearest) return expected;
  expected.rounding = Rounding::kNearest;
  expected.damping = 0;
  expected.rounds = 0;
  expected.metric.clear();
  return expected;
}

double DifferenceTo(const HeadRef& head, const HeadTable& reference) {
  const HeadTransform a = head.table().Effective(), b = reference.Effective();
  const auto d = static_cast<std::size_t>(a.head_dim);
  const std::vector<float> x = PlantedVectors(a.head_dim);
  double worst = 0;
  for (std::size_t v = 0; v < kVectorsPerHead; ++v) {
    const auto vector = std::span(x).subspan(v * d, d);
    worst = std::max(worst, RelativeDistance(MatrixTimes(a, vector), MatrixTimes(b, vector)));
  }
  return worst;
}

}  // namespace

CheckResult CheckOrthogonality(const RotationTable& table) {
  return Worst(table, "orthogonal: entries of U U^T - I", kMatrixLimit, OrthogonalityErrorOf);
}

CheckResult CheckOrthogonalityInBf16(const RotationTable& table) {
  double found = 0;
  CheckResult result =
      Worst(table, "orthogonal in bf16: entries of U U^T - I", kBf16Limit, OrthogonalityErrorInBf16, &found);
  if (result.passed && found > kOscarLimit)
    result.text +=
        fmt::format("; an engine that checks for {:.2g} after its cast would refuse it: --rotation butterfly",
                    kOscarLimit);
  return result;
}

CheckResult CheckConvention(const RotationTable& table) {
  return Worst(table, "convention: planted vectors through matrix, codec and back, relative difference",
               kVectorLimit, ConventionError);
}

CheckResult CheckAgainst(const RotationTable& table, const RotationTable& reference) {
  if (table.layers.size() != reference.layers.size())
    return {false, fmt::format("against: {} layers, the --against table has {}", table.layers.size(),
                               reference.layers.size())};
  try {
    return Worst(table, "against: planted vectors through both tables, relative difference", kVectorLimit,
                 [&](const HeadRef& head) { return DifferenceTo(head, SameHead(head, reference)); });
  } catch (const Error& e) {
    return {false, std::string("against: ") + e.what()};
  }
}

CheckResult CheckReconstruction(const RotationTable& table, const RotationTable* reference,
                                const KvDump& dump) {
  CheckTableFitsDump(table, dump);
  const RotationTable& provenance = reference != nullptr ? *reference : table;
  const bool known = !provenance.dumps.empty() && provenance.layers.size() == table.layers.size() &&
                     KnowsDump(provenance, HashTableLayers(provenance, dump));
  const std::vector<TokenRange> ranges = TokensToReport(provenance, dump, known).test;
  double worst = 0;
  Distortion total;
  for (const LayerTable& layer : table.layers)
    for (const Side side : kSides) {
      const Activations activations = dump.Read(layer.layer, side);
      for (std::size_t h = 0; h < layer.side(side).heads.size(); ++h) {
        const HeadRef head{&layer, side, h};
        const std::vector<float> rows = GatherRows(activations.head(static_cast<int>(h)), ranges);
        const HeadView tokens{rows.data(), NumTokens(ranges), static_cast<std::size_t>(activations.channels),
                              activations.channels};
        const CodecSpec& codec = layer.side(side).codec;
        const Distortion found = MeasureDistortion(codec, head.table(), tokens, {});
        total.Merge(found);
        if (found.energy == 0) continue;
        double expected = known ? layer.side(side).outcomes[h].errors.test_chosen : NAN;
        if (reference != nullptr)
          expected = MeasureDistortion(codec, ExpectedHead(head, *reference), tokens, {}).nmse();
        if (expected > 0) worst = std::max(worst, std::abs(found.nmse() / expected - 1));
      }
    }
  return {worst <= kErrorLimit && total.nmse() < 1,
          fmt::format(
              "reconstruction: NMSE {:.5f} over {} {} tokens, at most {:.2g} (limit {:.2g}) off {} per head",
              total.nmse(), NumTokens(ranges), known ? "test" : "non-sink", worst, kErrorLimit,
              reference != nullptr ? "the --against table's"
              : known              ? "the table's own record"
                                   : "(no record to compare with)")};
}

}  // namespace so4cal
