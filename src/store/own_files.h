#pragma once

namespace pons::store {

// The name of SQLite's way to files, changed in one thing: it takes paths as they are. SQLite
// itself makes them absolute and looks at each folder on the way, which a role may not walk through
// when the state directory lies below folders of other users.
const char* own_files();

}  // namespace pons::store
