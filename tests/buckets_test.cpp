// Padding of token sequences and buckets of lengths.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tokens = std::vector<std::int64_t>;

const std::string file = "buckets_test.cpp";

const nn::TokenLists sources = {{11, 12}, {21, 22, 23, 24}, {}, {41, 42, 43, 44, 45, 46, 47}, {51}};
const nn::TokenLists targets = {{61}, {71, 72, 73}, {81, 82}, {91, 92, 93, 94, 95}, {}};

Tensor integers(const Tensor& x) { return x.to(DType::int64); }

nn::Buckets buckets_with(const nn::BucketsOptions& options) { return nn::Buckets({{2, 3}, {4, 4}, {4, 6}}, options); }

}  // namespace

TEST_CASE("sequences are padded to the longest, or to a length", "[nn][buckets]") {
  const nn::PaddedTokens longest = nn::pad_tokens({{5, 6, 7}, {}, {8}});
  CHECK(same(longest.tokens, integers({{5, 6, 7}, {0, 0, 0}, {8, 0, 0}})));
  CHECK(same(longest.lengths, integers({3, 0, 1})));
  const nn::PaddedTokens wide = nn::pad_tokens({{5, 6}, {7}}, 3, -1);
  CHECK(same(wide.tokens, integers({{5, 6, -1}, {7, -1, -1}})));
  CHECK(nn::pad_tokens({}).tokens.shape() == Shape({0, 0}));
  CHECK(nn::pad_tokens({}).lengths.shape() == Shape({0}));
}

TEST_CASE("an example goes into the first bucket with room for it, its end token counted", "[nn][buckets]") {
  const nn::Buckets buckets = buckets_with({.too_long = nn::TooLong::drop});
  CHECK(buckets.count() == 3);
  CHECK(buckets.size(1).target == 4);
  CHECK(buckets.find(0, 0) == 0);
  CHECK(buckets.find(2, 2) == 0);
  CHECK(buckets.find(2, 3) == 1);  // 3 tokens and the end token need 4 steps
  CHECK(buckets.find(3, 2) == 1);
  CHECK(buckets.find(4, 4) == 2);
  CHECK(buckets.find(4, 5) == 2);
  CHECK(buckets.find(4, 6) == -1);
  CHECK(buckets.find(5, 1) == -1);
  CHECK(buckets.group(sources, targets) == std::vector<Tokens>{{0, 2, 4}, {1}, {}});
  CHECK(buckets_with({.too_long = nn::TooLong::truncate}).group(sources, targets) ==
        std::vector<Tokens>{{0, 2, 4}, {1}, {3}});
}

TEST_CASE("a batch of a bucket has inputs behind a go token, and targets before an end token", "[nn][buckets]") {
  const nn::BucketBatch batch = buckets_with({}).batch(0, sources, targets, Tokens{4, 0, 2});
  CHECK(same(batch.source, integers({{51, 0}, {11, 12}, {0, 0}})));
  CHECK(same(batch.source_lengths, integers({1, 2, 0})));
  CHECK(same(batch.decoder_inputs, integers({{1, 0, 0}, {1, 61, 0}, {1, 81, 82}})));
  CHECK(same(batch.targets, integers({{2, 0, 0}, {61, 2, 0}, {81, 82, 2}})));
  CHECK(same(batch.target_lengths, integers({1, 2, 3})));
  CHECK(same(batch.weights, {{1.0f, 0.0f, 0.0f}, {1.0f, 1.0f, 0.0f}, {1.0f, 1.0f, 1.0f}}));
  CHECK(same(batch.weights, sequence_mask(batch.target_lengths, 3, DType::float32)));
  const nn::BucketBatch none = buckets_with({}).batch(2, sources, targets, Tokens{});
  CHECK(none.source.shape() == Shape({0, 4}));
  CHECK(none.weights.shape() == Shape({0, 6}));
}

TEST_CASE("sources may be reversed, tokens numbered otherwise, and long examples cut", "[nn][buckets]") {
  const nn::Buckets buckets =
      buckets_with({.too_long = nn::TooLong::truncate, .reverse_source = true, .pad = 7, .go = 8, .end = 9});
  const nn::BucketBatch batch = buckets.batch(2, sources, targets, Tokens{0, 3});
  CHECK(same(batch.source, integers({{12, 11, 7, 7}, {44, 43, 42, 41}})));  // cut first, reversed then
  CHECK(same(batch.source_lengths, integers({2, 4})));
  CHECK(same(batch.targets, integers({{61, 9, 7, 7, 7, 7}, {91, 92, 93, 94, 95, 9}})));
  const nn::Buckets small({{4, 3}}, {.too_long = nn::TooLong::truncate});
  const nn::BucketBatch cut = small.batch(0, sources, targets, Tokens{1, 3});
  CHECK(same(cut.decoder_inputs, integers({{1, 71, 72}, {1, 91, 92}})));
  CHECK(same(cut.targets, integers({{71, 72, 73}, {91, 92, 93}})));  // no end token where there is no end
  CHECK(same(cut.target_lengths, integers({3, 3})));
}

// A row's __LINE__ must stand on the line of its call.
// clang-format off

TEST_CASE("buckets refuse what makes no sense, and examples that do not fit", "[errors][buckets]") {
  const nn::Buckets buckets = buckets_with({});
  const nn::TokenLists negative = {{1, -4}, {2}};
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { nn::pad_tokens({{1}, {2, 3, 4}}, 2); },
       "pad_tokens: sequence 1 has 3 tokens; there is room for 2."},
      {__LINE__, message_of<OutOfMemoryError>, [&] { nn::pad_tokens({{1}}, INT64_MAX); },
       "allocate: [1, 9223372036854775807] of int64 would take more than 2^63 bytes."},
      {__LINE__, message_of<OutOfMemoryError>, [&] { nn::Buckets(std::vector<nn::BucketSize>{{4, INT64_MAX}}).batch(0, {{1}}, {{2}}, Tokens{0}); },
       "allocate: [1, 9223372036854775807] of int64 would take more than 2^63 bytes."},
      {__LINE__, message_of<IndexError>, [&] { nn::pad_tokens(negative); },
       "pad_tokens: token 1 of sequence 0 is -4; it must be >= 0."},
      {__LINE__, message_of<Error>, [&] { nn::Buckets(std::vector<nn::BucketSize>{}); },
       "Buckets: no sizes were given; there must be one bucket at least."},
      {__LINE__, message_of<Error>, [&] { nn::Buckets({{1, 2}, {3, 0}}); },
       "Buckets: bucket 1 is (3, 0); both sizes must be >= 1."},
      {__LINE__, message_of<Error>, [&] { nn::Buckets({{5, 10}, {10, 8}}); },
       "Buckets: bucket 1 is (10, 8) after (5, 10); none may be smaller than the one before in any size."},
      {__LINE__, message_of<Error>, [&] { nn::Buckets({{5, 10}, {5, 10}}); },
       "Buckets: bucket 1 is (5, 10) after (5, 10); each must be larger than the one before."},
      {__LINE__, message_of<Error>, [&] { nn::Buckets({{5, 10}}, {.go = -1}); },
       "Buckets: the tokens for padding, begin and end are 0, -1 and 2; they must be >= 0."},
      {__LINE__, message_of<IndexError>, [&] { buckets.size(3); },
       "Buckets: bucket 3 is out of range; it must be in [0, 3)."},
      {__LINE__, message_of<ShapeError>, [&] { buckets.find(12, 7); },
       "Buckets: a source of 12 and a target of 7 tokens fit no bucket; the largest has room for 4 and 5."},
      {__LINE__, message_of<ShapeError>, [&] { buckets.group(sources, targets); },
       "Buckets: a source of 7 and a target of 5 tokens fit no bucket; the largest has room for 4 and 5."},
      {__LINE__, message_of<ShapeError>, [&] { buckets.group(sources, negative); },
       "Buckets: there are 5 sources and 2 targets; there must be one for each."},
      {__LINE__, message_of<ShapeError>, [&] { buckets.batch(0, sources, targets, Tokens{0, 1}); },
       "Buckets: example 1 has 4 and 3 tokens; bucket 0 has room for 2 and 2."},
      {__LINE__, message_of<IndexError>, [&] { buckets.batch(-1, sources, targets, Tokens{0}); },
       "Buckets: bucket -1 is out of range; it must be in [0, 3)."},
      {__LINE__, message_of<IndexError>, [&] { buckets.batch(0, sources, targets, Tokens{0, 5}); },
       "Buckets: example 5 is out of range; it must be in [0, 5)."},
      {__LINE__, message_of<IndexError>, [&] { buckets.batch(0, negative, negative, Tokens{0}); },
       "Buckets: token 1 of source 0 is -4; it must be >= 0."},
  }, file);
}
