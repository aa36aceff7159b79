#include <stdexcept>

#include "tests/fuzz/programs.hpp"

namespace fuzz {

void Program::run(int steps) {
  using Step = bool (Program::*)();
  static constexpr Step all[] = {&Program::create,    &Program::unary,   &Program::binary,  &Program::compare,
                                 &Program::choose,    &Program::convert, &Program::reduce,  &Program::scan,
                                 &Program::multiply,  &Program::view,    &Program::reshape, &Program::join,
                                 &Program::rearrange, &Program::look_up, &Program::write,   &Program::binary,
                                 &Program::unary,     &Program::view};
  try {
    for (int i = 0; i < 4; ++i) create();
    for (int done = 0; done < steps;) done += (this->*all[below(static_cast<int>(std::size(all)))])();
  } catch (const std::exception& error) {
    std::string text = error.what();
    for (const std::string& line : history_) text += "\n  " + line;
    throw std::runtime_error(text);
  }
}

}  // namespace fuzz
