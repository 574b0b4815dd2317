// written_pages.h - what a large file that was just written leaves in memory. Stage: file.
#pragma once

#include <string>

namespace pith {

// Lets go of the file's pages in memory. Written piece by piece it lies in small ones, and weights that are mapped from there
// can be read several times slower, above all in virtual machines; who reads the file anew gets large pages where the file
// system has them. Nothing is lost where that cannot be done.
void drop_written_pages(int file);                  // REQUIRES: it is on disk (fsync)
void drop_written_pages(const std::string & path);  // waits until it is

}  // namespace pith
