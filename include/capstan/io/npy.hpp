#pragma once
// NumPy's files: one array (.npy), or several with names in a zip archive (.npz).
#include <span>
#include <string>
#include <vector>

#include <capstan/parameter.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace io {

/// Reads one .npy file of format version 1.0, 2.0 or 3.0, plain or gzip: what `numpy.save` writes. The format is
/// described in numpy.lib.format and NEP 1.
///
/// Shapes  those of the file, 0 to 8 axes; complex numbers have one more, the last: [real, imaginary]. Fortran order
///         gives the same values, row-major
/// Types   in both byte orders: f2 f4 f8 i1 i2 i4 i8 u1 b1 as they are (a bool is true unless its byte is zero);
///         u2 -> int32; u4, u8 -> int64; c8 -> float32; c16 -> float64
/// Throws  IoError naming file, offset and reason: missing, truncated, trailing bytes, no .npy header or one of more
///         than 1 MiB, sizes whose product the file cannot hold, a u8 of 2^63 or more; Python objects, structured
///         types, text, dates, raw bytes and long double, which are not supported. Memory grows only as bytes are
///         really there, and stays within four times the file's declared size, since elements may have to be widened
///         and turned round.
Tensor read_npy(const std::string& path, Where where = Where::current());

/// Writes one .npy file, byte for byte as NumPy 2 does: version 1.0, row-major, in the machine's byte order. It is
/// written beside the file and then takes its place, so that an old file stays whole if this ends early.
///
/// Types   all but bfloat16, which NumPy does not have. Any device, any strides
/// Throws  DTypeError  bfloat16    IoError  the file cannot be made or written; it is then as it was
void write_npy(const std::string& path, const Tensor& x, Where where = Where::current());

/// Reads the arrays of an .npz file in the order of the archive; names without ".npy". What `numpy.savez` and
/// `numpy.savez_compressed` write: entries stored or deflated, ZIP64 or not (PKWARE, APPNOTE.TXT). Every entry is read
/// as read_npy reads files.
///
/// Throws  IoError naming file, entry, offset and reason: besides those of read_npy all that makes an archive ambiguous
///         or unsafe: bytes before, between or behind the entries, entries that overlap, local headers that disagree
///         with the directory, names twice or absolute, sizes that the packed bytes cannot give, wrong checksums,
///         encryption, other methods, several volumes, a second end record; and entries that are no .npy
std::vector<NamedTensor> read_npz(const std::string& path, Where where = Where::current());

struct NpzOptions {
  bool compress = false;  ///< deflate, as `numpy.savez_compressed`
};

/// Writes an .npz file that NumPy reads. As write_npy, the file is replaced in one step.
///
/// Throws  Error       a name that is empty, no UTF-8, absolute, leads out of its folder, is there twice, or is too
///                     long
///         DTypeError  bfloat16    IoError  the file cannot be made or written    MissingLibraryError  no minizip
void write_npz(const std::string& path, std::span<const NamedTensor> tensors, NpzOptions options = {},
               Where where = Where::current());

}  // namespace io
}  // namespace capstan
