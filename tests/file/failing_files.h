// failing_files.h - makes the k-th call that writes files fail: write, fwrite, fclose, fsync, ftruncate, rename, symlink. As on
// a full disk half of what a failing call was to write is there. Only files that are written count, and only in one thread.
#pragma once

namespace pith::testing {

// The k-th from now on, from 1; and_all_after: as long as the disk stays full.
void fail_files_at(int k, bool and_all_after = false);
// Nothing fails any more. Whether something did.
bool stop_failing_files();

}  // namespace pith::testing
