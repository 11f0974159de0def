// SPDX-License-Identifier: Apache-2.0
#include "calib/attention_metrics.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "lib/error.h"

namespace so4cal {
namespace {

using MatrixF = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixD = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Rows = Eigen::Map<const MatrixF, 0, Eigen::OuterStride<>>;
using Eigen::Index;

Rows View(const HeadView& view) {
  return {view.data, static_cast<Index>(view.num_tokens), view.channels,
          Eigen::OuterStride<>(static_cast<Index>(view.token_stride))};
}

// Query rows that are worked on together: row r of them is selected[begin + r], keys [key_begin, key_end).
struct Tile {
  std::size_t begin = 0, end = 0;
  std::uint64_t key_begin = 0, key_end = 0;
};
constexpr std::size_t kTileRows = 48;

class Measurement {
 public:
  Measurement(const AttentionHead& head, std::span<const StoredHead> variants, std::size_t num_runs)
      : head_(head), keys_(View(head.keys)), values_(View(head.values)) {
    SO4CAL_CHECK(num_runs > 0 && !head.queries.empty() && !head.sequence_starts.empty());
    for (const StoredHead& variant : variants) {
      key_errors_.push_back(Errors(keys_, variant.keys));
      value_errors_.push_back(Errors(values_, variant.values));
    }
    SelectRows();
    errors_.assign(variants.size(), std::vector<AttentionErrors>(num_runs));
  }

  std::vector<std::vector<AttentionErrors>> Run() {
    for (std::size_t begin = 0; begin < selected_.size();) {
      const Tile tile = TileAt(begin);
      MeasureTile(tile);
      begin = tile.end;
    }
    return std::move(errors_);
  }

 private:
  // Stored minus exact, zero at the sinks; without rows when exact.
  MatrixF Errors(const Rows& exact, std::span<const float> stored) const {
    if (stored.empty()) return {};
    SO4CAL_CHECK(stored.size() == static_cast<std::size_t>(exact.size()));
    MatrixF errors = Eigen::Map<const MatrixF>(stored.data(), exact.rows(), exact.cols()) - exact;
    for (const std::uint64_t start : head_.sequence_starts)
      for (std::uint64_t t = start; t < std::min(SequenceEnd(start), start + head_.skip_tokens); ++t)
        errors.row(static_cast<Index>(t)).setZero();
    return errors;
  }

  std::uint64_t SequenceStart(std::uint64_t token) const {
    return *(std::upper_bound(head_.sequence_starts.begin(), head_.sequence_starts.end(), token) - 1);
  }
  std::uint64_t SequenceEnd(std::uint64_t token) const {
    const auto next = std::upper_bound(head_.sequence_starts.begin(), head_.sequence_starts.end(), token);
    return next == head_.sequence_starts.end() ? head_.keys.num_tokens : *next;
  }
  std::uint64_t FirstKey(std::uint64_t token) const {
    const std::uint64_t start = SequenceStart(token);
    if (!head_.sliding_window) return start;
    const auto window = static_cast<std::uint64_t>(*head_.sliding_window);
    return token - start >= window ? token - window + 1 : start;
  }

  void SelectRows() {
    for (std::size_t r = 0; r < head_.positions.size(); ++r)
      for (const TokenRange& range : head_.tokens)
        if (head_.positions[r] >= range.begin && head_.positions[r] < range.end) selected_.push_back(r);
  }
  std::uint64_t TokenOf(std::size_t i) const { return head_.positions[selected_[i]]; }
  std::size_t RunOf(std::size_t i) const { return i * errors_.front().size() / selected_.size(); }

  Tile TileAt(std::size_t begin) const {
    Tile tile{begin, begin + 1, FirstKey(TokenOf(begin)), 0};
    const std::uint64_t sequence = SequenceStart(TokenOf(begin));
    while (tile.end < selected_.size() && tile.end - begin < kTileRows &&
           SequenceStart(TokenOf(tile.end)) == sequence)
      ++tile.end;
    tile.key_end = TokenOf(tile.end - 1) + 1;
    return tile;
  }

  void MeasureTile(const Tile& tile);
  void MeasureLogits(const Tile& tile, const MatrixD& exact, const MatrixD& p, const MatrixF* delta,
                     std::size_t variant, MatrixD& stored_p);
  MatrixD Softmax(const Tile& tile, const MatrixD& logits) const;
  template <class Row>
  double CentredEnergy(const Tile& tile, std::uint64_t token, const Row& row) const;
  template <class T>
  auto KeysOf(const Tile& tile, const T& rows) const {
    return rows.middleRows(static_cast<Index>(tile.key_begin),
                           static_cast<Index>(tile.key_end - tile.key_begin));
  }
  // Output errors of the group, [row][query head, channel].
  struct GroupOutput {
    MatrixF both, keys, values;
  };
  void AddOutputs(const Tile& tile, std::size_t query_head, const MatrixD& p, const MatrixD& stored_p,
                  std::size_t variant, GroupOutput& group) const;
  void AddOutputErrors(const Tile& tile, std::size_t variant, const GroupOutput& group, const MatrixF& exact);
  template <class Add>
  void ForRows(const Tile& tile, std::size_t variant, const MatrixF& group, const Add& add);

  const AttentionHead& head_;
  Rows keys_, values_;
  std::vector<MatrixF> key_errors_, value_errors_;  // per variant
  std::vector<std::size_t> selected_;               // query rows that count
  std::vector<std::vector<AttentionErrors>> errors_;
};

// Over the keys of `tokens` that this row sees: sum of (x - mean)^2.
template <class Row>
double Measurement::CentredEnergy(const Tile& tile, std::uint64_t token, const Row& row) const {
  const std::uint64_t first = FirstKey(token);
  double sum = 0, n = 0, energy = 0;
  const auto for_segments = [&](const auto& work) {
    for (const TokenRange& range : head_.tokens) {
      const std::uint64_t begin = std::max(range.begin, first), end = std::min(range.end, token + 1);
      if (begin < end)
        work(row.segment(static_cast<Index>(begin - tile.key_begin), static_cast<Index>(end - begin)));
    }
  };
  for_segments([&](const auto& x) {
    sum += x.sum();
    n += static_cast<double>(x.size());
  });
  if (n > 0) for_segments([&](const auto& x) { energy += (x.array() - sum / n).square().sum(); });
  return energy;
}

// Of softmax_scale * logits, zero at the keys that a row does not see.
MatrixD Measurement::Softmax(const Tile& tile, const MatrixD& logits) const {
  MatrixD p = MatrixD::Zero(logits.rows(), logits.cols());
  for (Index r = 0; r < logits.rows(); ++r) {
    const std::uint64_t token = TokenOf(tile.begin + static_cast<std::size_t>(r));
    const auto first = static_cast<Index>(FirstKey(token) - tile.key_begin);
    const auto n = static_cast<Index>(token - tile.key_begin) + 1 - first;
    const auto x = logits.row(r).segment(first, n).array();
    auto out = p.row(r).segment(first, n).array();
    out = (head_.softmax_scale * (x - x.maxCoeff())).exp();
    out /= out.sum();
  }
  return p;
}

// Logit error, KL and top-1 of one query head. `exact`: logits before softmax_scale, delta: stored minus
// exact, null when keys are exact.
void Measurement::MeasureLogits(const Tile& tile, const MatrixD& exact, const MatrixD& p,
                                const MatrixF* delta, std::size_t variant, MatrixD& stored_p) {
  MatrixD change = MatrixD::Zero(exact.rows(), exact.cols());
  if (delta != nullptr) change = delta->cast<double>();
  const MatrixD stored = exact + change;
  stored_p = delta == nullptr ? p : Softmax(tile, stored);
  for (std::size_t i = tile.begin; i < tile.end; ++i) {
    AttentionErrors& sums = errors_[variant][RunOf(i)];
    const auto r = static_cast<Index>(i - tile.begin);
    const std::uint64_t token = TokenOf(i);
    const auto first = static_cast<Index>(FirstKey(token) - tile.key_begin);
    const auto n = static_cast<Index>(token - tile.key_begin) + 1 - first;
    const auto x = exact.row(r).segment(first, n).array();
    const auto y = stored.row(r).segment(first, n).array();
    const auto d = change.row(r).segment(first, n).array();
    const auto probability = p.row(r).segment(first, n).array();
    ++sums.num_rows;
    sums.logit_energy += CentredEnergy(tile, token, exact.row(r));
    Index top = 0, stored_top = 0;
    const double shift = x.maxCoeff(&top), stored_shift = y.maxCoeff(&stored_top);
    sums.top1_same += top == stored_top ? 1 : 0;
    if (delta == nullptr) continue;
    sums.logit_error += CentredEnergy(tile, token, change.row(r));
    // KL = log Z' - log Z - sum p (l' - l), with l the scaled logits.
    const double scale = head_.softmax_scale;
    const double log_z = std::log((scale * (x - shift)).exp().sum()) + scale * shift;
    const double stored_log_z = std::log((scale * (y - stored_shift)).exp().sum()) + scale * stored_shift;
    sums.kl += std::max(0.0, stored_log_z - log_z - scale * (probability * d).sum());
  }
}

void Measurement::AddOutputs(const Tile& tile, std::size_t query_head, const MatrixD& p,
                             const MatrixD& stored_p, std::size_t variant, GroupOutput& group) const {
  const Index channels = values_.cols(), first = static_cast<Index>(query_head) * channels;
  const bool keys = key_errors_[variant].size() > 0, values = value_errors_[variant].size() > 0;
  if (keys) {
    const MatrixF change = (stored_p - p).cast<float>();
    group.keys.middleCols(first, channels).noalias() = change * KeysOf(tile, values_);
    group.both.middleCols(first, channels) = group.keys.middleCols(first, channels);
  }
  if (!values) return;
  const auto value_errors = KeysOf(tile, value_errors_[variant]);
  const MatrixF exact_p = p.cast<float>();
  group.values.middleCols(first, channels).noalias() = exact_p * value_errors;
  if (keys) {
    const MatrixF stored = stored_p.cast<float>();
    group.both.middleCols(first, channels).noalias() += stored * value_errors;
  } else {
    group.both.middleCols(first, channels) = group.values.middleCols(first, channels);
  }
}

// add(sums of the row's run, energy of the row before W_O, energy after it).
template <class Add>
void Measurement::ForRows(const Tile& tile, std::size_t variant, const MatrixF& group, const Add& add) {
  const MatrixD wide = group.cast<double>();
  MatrixD projected;
  if (!head_.output_gram.empty()) {
    SO4CAL_CHECK(head_.output_gram.size() == static_cast<std::size_t>(wide.cols() * wide.cols()));
    projected = wide * Eigen::Map<const MatrixD>(head_.output_gram.data(), wide.cols(), wide.cols());
  }
  for (std::size_t i = tile.begin; i < tile.end; ++i) {
    const auto r = static_cast<Index>(i - tile.begin);
    const double after = projected.size() == 0 ? 0 : std::max(0.0, projected.row(r).dot(wide.row(r)));
    add(errors_[variant][RunOf(i)], wide.row(r).squaredNorm(), after);
  }
}

void Measurement::AddOutputErrors(const Tile& tile, std::size_t variant, const GroupOutput& group,
                                  const MatrixF& exact) {
  using Part = double AttentionErrors::Output::*;
  const auto add = [&](const MatrixF& errors, Part part) {
    ForRows(tile, variant, errors, [&](AttentionErrors& sums, double before, double after) {
      sums.head.*part += before;
      sums.output.*part += after;
    });
  };
  add(exact, &AttentionErrors::Output::energy);
  add(group.both, &AttentionErrors::Output::both);
  if (key_errors_[variant].size() > 0) add(group.keys, &AttentionErrors::Output::keys);
  if (value_errors_[variant].size() > 0) add(group.values, &AttentionErrors::Output::values);
}

void Measurement::MeasureTile(const Tile& tile) {
  const auto rows = static_cast<Index>(tile.end - tile.begin);
  const std::size_t num_heads = head_.queries.size(), num_variants = key_errors_.size();
  const bool outputs = head_.values.data != nullptr;
  const MatrixF none = MatrixF::Zero(rows, outputs ? values_.cols() * static_cast<Index>(num_heads) : 0);
  MatrixF exact_output = none;
  std::vector<GroupOutput> groups(num_variants, {none, none, none});
  MatrixF q(rows, keys_.cols());
  for (std::size_t j = 0; j < num_heads; ++j) {
    for (Index r = 0; r < rows; ++r)
      q.row(r) =
          View(head_.queries[j]).row(static_cast<Index>(selected_[tile.begin + static_cast<std::size_t>(r)]));
    const MatrixF products = q * KeysOf(tile, keys_).transpose();
    const MatrixD exact = products.cast<double>();
    const MatrixD p = Softmax(tile, exact);
    if (outputs)
      exact_output.middleCols(static_cast<Index>(j) * values_.cols(), values_.cols()).noalias() =
          MatrixF(p.cast<float>()) * KeysOf(tile, values_);
    for (std::size_t v = 0; v < num_variants; ++v) {
      MatrixF delta;
      if (key_errors_[v].size() > 0) delta.noalias() = q * KeysOf(tile, key_errors_[v]).transpose();
      MatrixD stored_p;
      MeasureLogits(tile, exact, p, delta.size() > 0 ? &delta : nullptr, v, stored_p);
      if (outputs) AddOutputs(tile, j, p, stored_p, v, groups[v]);
    }
  }
  if (!outputs) return;
  for (std::size_t v = 0; v < num_variants; ++v) AddOutputErrors(tile, v, groups[v], exact_output);
}

void MergeOutput(AttentionErrors::Output& sum, const AttentionErrors::Output& other) {
  sum.both += other.both;
  sum.keys += other.keys;
  sum.values += other.values;
  sum.energy += other.energy;
}

}  // namespace

void AttentionErrors::Merge(const AttentionErrors& other) {
  num_rows += other.num_rows;
  logit_error += other.logit_error;
  logit_energy += other.logit_energy;
  kl += other.kl;
  top1_same += other.top1_same;
  MergeOutput(head, other.head);
  MergeOutput(output, other.output);
}

std::vector<std::vector<AttentionErrors>> MeasureAttention(const AttentionHead& head,
                                                           std::span<const StoredHead> variants,
                                                           std::size_t num_runs) {
  return Measurement(head, variants, num_runs).Run();
}

std::vector<double> OutputGram(std::span<const float> w_o, std::size_t cols, std::size_t first,
                               std::size_t count) {
  const auto rows = static_cast<Index>(w_o.size() / cols);
  const MatrixD w = Eigen::Map<const MatrixF>(w_o.data(), rows, static_cast<Index>(cols))
                        .middleCols(static_cast<Index>(first), static_cast<Index>(count))
                        .cast<double>();
  std::vector<double> gram(count * count);
  Eigen::Map<MatrixD>(gram.data(), w.cols(), w.cols()).noalias() = w.transpose() * w;
  return gram;
}

}  // namespace so4cal
