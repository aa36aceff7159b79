#pragma once
// Data sets by name: files as their publishers have them, plain or gzip, in a folder. scripts/get-data fetches them.
//
//     const data::LabelledImages train = data::mnist("data/mnist", data::Split::train);
//
// Every file is compared with the published one: its length and its SHA-256, of what is in it once it is unpacked. A
// folder may also be what an archive was unpacked to: that which has cifar-10-batches-bin, simple-examples or
// CaliforniaHousing in it. Tensors are made on the default device. They all throw
//
//     IoError  files are missing, which says where the publisher has them and how to fetch them; a file is damaged, or
//              is another one than was published     Error  a split that the set does not have
//
// Defined in data/sets.cpp; lengths, sums and addresses stand in data/set_tables.cpp.
#include <cstdint>
#include <string>
#include <vector>

#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace data {

enum class Split : std::uint8_t { train, test, validation };

struct LabelledImages {
  Tensor images;  ///< [count, channels, height, width]: float32 from 0 to 1, or uint8
  Tensor labels;  ///< int64 [count]
  std::int64_t size(Where where = Where::current()) const { return labels.size(0, where); }
};
struct LabelledImagesOptions {
  bool as_bytes = false;  ///< images stay uint8, 0 to 255: a quarter of the memory
};

/// Handwritten digits: 60,000 to train, 10,000 to test; [count, 1, 28, 28], 0 the background. LeCun, Cortes and Burges.
LabelledImages mnist(const std::string& folder, Split split, LabelledImagesOptions options = {},
                     Where where = Where::current());
/// Clothing in the same numbers and sizes: T-shirt, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle
/// boot. Xiao, Rasul and Vollgraf, 2017.
LabelledImages fashion_mnist(const std::string& folder, Split split, LabelledImagesOptions options = {},
                             Where where = Where::current());
/// Photographs: 50,000 to train, 10,000 to test; [count, 3, 32, 32], red, green, blue: airplane, automobile, bird, cat,
/// deer, dog, frog, horse, ship, truck. Krizhevsky, 2009.
LabelledImages cifar10(const std::string& folder, Split split, LabelledImagesOptions options = {},
                       Where where = Where::current());

/// The Penn Treebank in Mikolov's version: one sentence a line, 10,000 different words with "<unk>" and the ends of
/// lines; 929,589 words with them to train, 73,760 to validate, 82,430 to test.
std::string ptb(const std::string& folder, Split split, Where where = Where::current());
/// Mahoney's text8: 100,000,000 bytes of English Wikipedia of 2006, a to z and spaces.
std::string text8(const std::string& folder, Where where = Where::current());

struct NumberTable {
  Tensor inputs;                   ///< float32 [rows, columns]
  Tensor targets;                  ///< float32 [rows]
  std::vector<std::string> names;  ///< of the columns
};
struct ClassTable {
  Tensor inputs;                     ///< float32 [rows, columns]
  Tensor labels;                     ///< int64 [rows]
  std::vector<std::string> names;    ///< of the columns
  std::vector<std::string> classes;  ///< by label
};

/// 20,640 block groups of the 1990 census of California, [20640, 8] as published, unscaled; targets are median house
/// values in dollars. Pace and Barry, 1997, by way of Torgo's cal_housing.data.
NumberTable california_housing(const std::string& folder, Where where = Where::current());
/// 150 iris flowers of three species, [150, 4] in centimetres. Fisher, 1936, in scikit-learn's iris.csv.
ClassTable iris(const std::string& folder, Where where = Where::current());

}  // namespace data
}  // namespace capstan
