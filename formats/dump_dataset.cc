// SPDX-License-Identifier: Apache-2.0
#include "formats/dump_dataset.h"

#include <algorithm>
#include <numeric>

#include "formats/content_hash.h"
#include "formats/hdf5_read.h"

namespace so4cal {
namespace {

constexpr std::size_t kSlabBytes = std::size_t{4} << 20;
constexpr double kMaxElements = 0x1p48;  // beyond any memory, and far below where sizes wrap

std::size_t Product(std::span<const hsize_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), std::size_t{1}, std::multiplies<>());
}

// Extents of the pieces in which an array is read: contiguous in file order and made of whole chunks. The
// first axis whose chunks are longer than 1 is cut in chunk lengths, the axes inside it are taken whole;
// then the piece grows from inside out while it stays below kSlabBytes.
std::vector<hsize_t> SlabExtents(const StoredArray& array) {
  std::vector<hsize_t> slab = array.extents;
  std::size_t axis = 0;
  while (axis + 1 < slab.size() && std::min(array.chunks[axis], array.extents[axis]) == 1) slab[axis++] = 1;
  if (axis + 1 < slab.size()) slab[axis] = std::min(array.chunks[axis], array.extents[axis]);
  for (std::size_t d = axis + 1; d-- > 0;) {
    const hsize_t times = kSlabBytes / (Product(slab) * array.type.size);
    slab[d] = std::min(array.extents[d], slab[d] * std::max<hsize_t>(times, 1));
    if (slab[d] < array.extents[d]) break;
  }
  return slab;
}

// An open dataset with its file's own type: reading with it converts nothing.
class OpenArray {
 public:
  OpenArray(hid_t file, const StoredArray& array)
      : array_(array),
        dataset_(H5Check(H5Dopen2(file, array.path.c_str(), H5P_DEFAULT), Failed()), H5Dclose),
        type_(H5Check(H5Dget_type(dataset_.get()), Failed()), H5Tclose),
        space_(H5Check(H5Dget_space(dataset_.get()), Failed()), H5Sclose) {}

  void Read(std::vector<hsize_t> start, std::vector<hsize_t> count, std::span<std::byte> out) const {
    if (array_.layer_index) {
      start.insert(start.begin(), *array_.layer_index);
      count.insert(count.begin(), 1);
    }
    H5Check(H5Sselect_hyperslab(space_.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
            Failed());
    // The same rank in memory: with any other, HDF5 maps chunks element by element, which is far slower.
    const Hid memory(
        H5Check(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), Failed()), H5Sclose);
    H5Check(H5Dread(dataset_.get(), type_.get(), memory.get(), space_.get(), H5P_DEFAULT, out.data()),
            Failed());
  }

 private:
  std::string Failed() const { return array_.where + ": can't be read; copy the file or write it again"; }

  const StoredArray& array_;
  Hid dataset_, type_, space_;
};

// Moves to the next piece; false after the last. Axes outside the cut one advance by their slab of 1.
bool Advance(std::vector<hsize_t>& start, const std::vector<hsize_t>& slab,
             const std::vector<hsize_t>& extents) {
  for (std::size_t d = start.size(); d-- > 0;) {
    start[d] += slab[d];
    if (start[d] < extents[d]) return true;
    start[d] = 0;
  }
  return false;
}

}  // namespace

std::size_t StoredArray::size() const { return Product(extents); }

StoredArray DescribeArray(hid_t file, const std::string& file_name, const std::string& path,
                          std::optional<hsize_t> layer_index) {
  const QuietHdf5Errors quiet;
  StoredArray array;
  array.path = path;
  array.where = file_name + ": " + path;
  array.layer_index = layer_index;
  const Hid dataset(H5Check(H5Dopen2(file, path.c_str(), H5P_DEFAULT), array.where + ": can't be opened"),
                    H5Dclose);
  array.type = IdentifyElement(dataset.get(), array.where);
  array.filters = CheckFilters(dataset.get(), array.where);
  array.extents = ExtentsOf(dataset.get(), array.where);
  array.chunks = ChunksOf(dataset.get(), array.where);
  if (array.chunks.empty()) array.chunks.assign(array.extents.size(), 1);
  if (array.extents.size() < (layer_index ? 2u : 1u) || (layer_index && *layer_index >= array.extents[0]))
    throw Error(array.where + ": expected an array" +
                (layer_index ? " with the layer as its first axis" : "") + ", found extents " +
                ExtentsText(array.extents));
  double elements = 1;
  for (const hsize_t extent : array.extents) elements *= static_cast<double>(extent);
  if (elements > kMaxElements)
    throw Error(array.where + ": extents " + ExtentsText(array.extents) +
                " are more than can be read; correct them");
  if (layer_index) {
    array.extents.erase(array.extents.begin());
    array.chunks.erase(array.chunks.begin());
  }
  return array;
}

std::string VisitStored(hid_t file, const StoredArray& array,
                        const std::function<void(std::size_t, std::span<std::byte>)>& visit) {
  const QuietHdf5Errors quiet;
  ContentHasher hash;
  if (array.size() == 0) return hash.Hex();
  const OpenArray open(file, array);
  const std::vector<hsize_t> slab = SlabExtents(array);
  std::vector<std::byte> raw(Product(slab) * array.type.size);
  std::vector<hsize_t> start(slab.size(), 0);
  std::size_t first = 0;
  do {
    std::vector<hsize_t> count(slab.size());
    for (std::size_t d = 0; d < slab.size(); ++d) count[d] = std::min(slab[d], array.extents[d] - start[d]);
    const std::size_t elements = Product(count);
    const std::span<std::byte> bytes(raw.data(), elements * array.type.size);
    open.Read(start, count, bytes);
    hash.Update(bytes);
    visit(first, bytes);
    first += elements;
  } while (Advance(start, slab, array.extents));
  return hash.Hex();
}

std::vector<float> ReadFloats(hid_t file, const StoredArray& array, std::string* hash) {
  std::vector<float> values(array.size());
  const std::string content = VisitStored(file, array, [&](std::size_t first, std::span<std::byte> raw) {
    ToFloat(array.type, raw, std::span(values).subspan(first, raw.size() / array.type.size));
  });
  if (hash != nullptr) *hash = content;
  return values;
}

std::string ReadRows(hid_t file, const StoredArray& array, const Axes& axes, std::size_t first_token,
                     std::size_t num_tokens, std::span<float> out) {
  const RowShape shape = ShapeOf(axes, array.extents);
  const std::size_t channels = shape.channels;
  // Rows that follow each other in the file and in `out`: all tokens of a slab where tokens are innermost.
  const std::size_t innermost = axes.size() - 2;
  const std::size_t run_rows = axes[innermost] == Axis::kToken ? array.extents[innermost] : 1;
  const auto place = [&](std::size_t row) {
    hsize_t index[3] = {0, 0, 0};  // of batch, token, head
    for (std::size_t d = innermost + 1; d-- > 0; row /= array.extents[d])
      index[static_cast<int>(axes[d]) - static_cast<int>(Axis::kBatch)] = row % array.extents[d];
    return (index[2] * num_tokens + first_token + index[0] * shape.tokens_per_batch + index[1]) * channels;
  };
  return VisitStored(file, array, [&](std::size_t first, std::span<std::byte> raw) {
    const std::size_t row_bytes = channels * array.type.size;
    for (std::size_t row = first / channels; !raw.empty();) {
      const std::size_t rows = std::min(run_rows - row % run_rows, raw.size() / row_bytes);
      ToFloat(array.type, raw.first(rows * row_bytes), out.subspan(place(row), rows * channels));
      raw = raw.subspan(rows * row_bytes);
      row += rows;
    }
  });
}

}  // namespace so4cal
