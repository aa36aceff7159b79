#pragma once
// The bytes of a file for readers of formats: in order, unpacked on the way if it is gzip, and with errors that name
// function, file and place. Nothing is believed: what a format declares is compared with most_left() first.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <capstan/error.hpp>

#include "io/byte_source.hpp"

namespace capstan::io {

class ByteReader final : public ByteSource {
 public:
  enum class Gzip { detect, off };
  /// Whether a file that begins like that is none of gzip, though its first bytes look so.
  using IsPlain = bool (*)(std::span<const unsigned char> beginning);
  /// IoError if it cannot be opened, or is a folder. `op` must live as long as the reader. A pipe without a writer is
  /// waited for, as everywhere.
  ByteReader(const char* op, const std::string& path, Where where, Gzip gzip = Gzip::detect,
             IsPlain is_plain = nullptr);
  ~ByteReader();
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;

  /// Up to `count` bytes; fewer only at the end.
  std::size_t read(unsigned char* to, std::size_t count) override;
  /// What there is, up to `count` bytes: at least one but for the end. What a pipe has given is not kept waiting for
  /// more, and what was unpacked before damage comes before its error.
  std::size_t read_some(unsigned char* to, std::size_t count);
  /// Passes over up to `count` bytes. How many there were.
  std::int64_t skip(std::int64_t count);
  /// Whether all is read. At the end of gzip its checksum is compared.
  bool at_end() override;
  /// Bytes handed out or passed over so far, of the unpacked data.
  std::int64_t position() const noexcept override { return position_; }
  /// No more bytes than this can follow: in a plain file as many as are left, in gzip 1032 times as many, which is the
  /// most that deflate can do; INT64_MAX in pipes.
  std::int64_t most_left() const noexcept override;
  /// Whether as many as most_left() do follow.
  bool most_left_is_exact() const noexcept override;
  /// Goes to that byte of the unpacked data; gzip starts over if it lies behind. IoError if the file ends before it, or
  /// is a pipe that has passed it; the reader of a file then stays where it is.
  void seek(std::int64_t position);

  /// "offset 12", or "offset 12 of the unpacked data".
  std::string place(std::int64_t offset) const override;
  const std::string& path() const noexcept { return path_; }
  Where where() const noexcept override { return where_; }
  /// The place that errors name from now on: of the call that reads on.
  void set_where(Where where) noexcept { where_ = where; }
  /// Throws the OutOfMemoryError that zlib has no room.
  [[noreturn]] void fail_for_memory() const;

 private:
  struct Inflater;
  struct Closer {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  [[noreturn]] void fail_with(const std::string& text) const override;
  void measure();
  std::size_t read_file(unsigned char* to, std::size_t count);
  bool fill(std::size_t wanted);
  std::size_t read_plain(unsigned char* to, std::size_t count);
  std::size_t read_gzip(unsigned char* to, std::size_t count);
  void inflate_piece(unsigned char*& to, std::size_t& left);
  void start_next_member();
  void jump(std::int64_t offset);
  void restart();
  void go_back_to_position();
  void move_to(std::int64_t position);
  bool gzip_starts() const noexcept { return buffer_[begin_] == 0x1f && buffer_[begin_ + 1] == 0x8b; }
  std::int64_t file_offset() const noexcept { return buffer_offset_ + static_cast<std::int64_t>(begin_); }
  std::int64_t file_left() const noexcept;

  const char* op_;
  std::string path_;
  Where where_;
  std::vector<unsigned char> buffer_;  // bytes begin_ .. end_-1 are read from the file and not yet used
  std::size_t begin_ = 0, end_ = 0;
  std::int64_t buffer_offset_ = 0;  // where buffer_[0] stands in the file
  std::int64_t position_ = 0;
  std::int64_t file_size_ = -1;  // -1: nobody knows it
  bool regular_ = false;         // can go back
  bool file_ended_ = false;      // nothing follows what is in the buffer
  bool gzip_ended_ = false, member_ended_ = false;
  bool beyond_position_ = false;  // an error may have kept back what was unpacked of gzip
  std::exception_ptr damage_;  // of gzip, for the next call: something before it could be handed out
  std::optional<unsigned char> ahead_;  // a byte of gzip that at_end() has unpacked
  std::unique_ptr<std::FILE, Closer> file_;
  std::unique_ptr<Inflater> inflater_;
};

}  // namespace capstan::io
