#pragma once
// The messages in event files.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <capstan/error.hpp>
#include <capstan/io/events.hpp>

namespace capstan::io {

/// The plugins that show tags: only the first value of a tag has to name its plugin.
using TagPlugins = std::map<std::string, std::string, std::less<>>;

/// The Event whose bytes stand at that offset of the file. `op` is how errors begin: "read_events: PATH".
Event parse_event(std::string_view op, std::string_view bytes, std::int64_t offset, TagPlugins& plugins, Where where);

}  // namespace capstan::io
