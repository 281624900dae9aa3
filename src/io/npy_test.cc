// Tests of .npy reading: the three versions, every type, and headers that lie.
// SPDX-FileCopyrightText: ops-transformer authors
// SPDX-License-Identifier: Apache-2.0
#include "io/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/testing/errors.h"
#include "base/testing/temp_folder.h"

namespace opst {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NpyTest : public ::testing::Test {
 protected:
  std::string Write(std::string_view header, size_t data_bytes, char version = 1) {
    std::string file("\x93NUMPY");
    file += {version, 0};
    const auto length = static_cast<uint32_t>(header.size());
    file.append(reinterpret_cast<const char*>(&length), version == 1 ? 2 : 4);
    file += header;
    file.append(data_bytes, '\1');
    std::ofstream(path_, std::ios::binary) << file;
    return path_;
  }
  std::string ErrorOf(std::string_view header, size_t data_bytes = 0) {
    return IoError([&] { NpyFile::Open(Write(header, data_bytes)); });
  }

  TempFolder folder_;
  std::string path_ = folder_.File("a.npy");
};

TEST_F(NpyTest, ReadsEveryVersionShapeAndOrderOfKeys) {
  for (const char version : {'\1', '\2', '\3'}) {
    const NpyFile file = NpyFile::Open(
        Write("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }      \n", 24, version));
    EXPECT_EQ(file.dtype(), DType::kF32);
    EXPECT_THAT(file.shape(), ElementsAre(2, 3));
    EXPECT_EQ(file.bytes().size(), 24u);
  }
  EXPECT_THAT(NpyFile::Open(Write("{'shape':(5,),'descr':'|b1','fortran_order':False}", 5)).shape(),
              ElementsAre(5));
  EXPECT_TRUE(
      NpyFile::Open(Write("{'descr':'<f8','fortran_order':False,'shape':()}", 8)).shape().empty());
  EXPECT_THAT(
      NpyFile::Open(Write("{'descr':'<i8','fortran_order':False,'shape':(0,7)}", 0)).shape(),
      ElementsAre(0, 7));
}

TEST_F(NpyTest, HeadersThatLieAreRefused) {
  const char* const incomplete[] = {
      "",
      "{",
      "{}",
      "{'descr': '<f4', 'fortran_order': False}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
      "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<f4",
  };
  for (const char* header : incomplete) {
    EXPECT_THAT(ErrorOf(header, 4), HasSubstr("descr, fortran_order and shape")) << header;
  }
  EXPECT_THAT(ErrorOf("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", 4),
              HasSubstr("little-endian floats, integers or booleans; got \">f4\""));
  EXPECT_THAT(ErrorOf("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", 4),
              HasSubstr("got \"|O\""));
  EXPECT_THAT(ErrorOf("{'descr': '<f4', 'fortran_order': True, 'shape': (1,)}", 4),
              HasSubstr("must be row-major"));
}

TEST_F(NpyTest, DataMustBeWhatTheShapeSays) {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}";
  EXPECT_THAT(ErrorOf(header, 23), HasSubstr("the data must be [2,3] f32; got 23 bytes"));
  EXPECT_THAT(ErrorOf(header, 25), HasSubstr("got 25 bytes"));
  EXPECT_THAT(
      ErrorOf("{'descr':'<f4','fortran_order':False,'shape':(4294967296,4294967296,16)}", 4),
      HasSubstr("the data must be"));
}

TEST_F(NpyTest, OtherFilesAndCutHeadersAreRefused) {
  for (const std::string& text :
       {std::string(), std::string("\x93NUMP"), std::string("\x93NUMPY\4\0\0\0\0\0", 12),
        std::string("\x93NUMPY\1\0\xff\xff{}", 12),
        std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12)}) {
    std::ofstream(path_, std::ios::binary) << text;
    EXPECT_THAT(IoError([&] { NpyFile::Open(path_); }), HasSubstr("a.npy]"));
  }
}

}  // namespace
}  // namespace opst
